"""Files: written so that a kill or a full disk leaves the old one or the new one, never a torn one; where conf/ is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import InputError, MachineError


def fsync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, content: bytes) -> None:
    """Write beside the target, fsync, rename over it; a link is followed. Raises MachineError where the disk refuses.

    So it does where the target is no file: a rename would put one in place of a device or a pipe.
    """
    target = path.resolve()
    aside = target.with_name(f".{target.name}.tmp")
    with disk_errors(path):
        if target.exists() and not target.is_file():
            raise OSError("it is no regular file")
        try:
            aside.write_bytes(content)
            fsync(aside)
            aside.replace(target)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        fsync(target.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """`write_atomic` of indented JSON; refuses NaN, which is not JSON."""
    write_atomic(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def json_file(text: str) -> Path:
    """The file of --json. Raises InputError where nothing can be written there, before any work is done."""
    file = Path(text)
    if not text.strip():
        raise InputError("--json needs the name of a file.")
    if file.is_dir() or not file.parent.is_dir():
        wrong = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise InputError(f"--json {file}: {wrong}.")
    return file


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals (disk full, no permission) into one message that names the file."""
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"{path}: cannot be written ({error.strerror or error}).\n"
            "What was saved before is kept; after making room or changing permissions, the same command goes on."
        ) from error


def conf_folder() -> Path:
    """The folder conf/, without Hydra: inside an installed package, or beside it in a checkout. Raises InputError."""
    package = Path(__file__).resolve().parent
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise InputError(f"conf/config.yaml is missing beside {package}: install the package again.")
