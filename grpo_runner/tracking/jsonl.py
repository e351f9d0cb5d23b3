"""Rows in JSONL files that survive a kill: appended and synced, a torn last line left out, dropped from a step on."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from ..errors import InputError, NonFiniteError
from ..files import disk_errors, write_atomic
from .base import Row


def number(value: object, name: str, step: int) -> int | float | None:
    """A plain Python number of any scalar (numpy and zero-dimensional tensors too); None stays None.

    Raises NonFiniteError for NaN and infinities (JSON has neither, and no metric may be either), TypeError for others.
    """
    if value is None:
        return None
    item = getattr(value, "item", None)  # numpy scalars, one-element arrays and tensors
    value = item() if callable(item) else value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} at step {step} must be a number or None, not {value!r}")
    if isinstance(value, Integral):
        return int(value)
    value = float(value)
    if not math.isfinite(value):
        raise NonFiniteError(f"{name} at step {step} is {value}; it was not written. The last checkpoint is kept.")
    return value


def plain(value: object, name: str, step: int) -> object:
    """Nested mappings and sequences with every number as `number` has it; strings, bools and None as they are."""
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{name}.{key}", step) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, name, step) for item in value]
    return value if isinstance(value, str | bool) else number(value, name, step)


def encode(rows: Sequence[Row]) -> bytes:
    """One JSON line a row, in UTF-8; a lone surrogate, which UTF-8 cannot hold, becomes `?`."""
    lines = [json.dumps(dict(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
    return "".join(lines).encode("utf-8", "replace")


def append(path: Path, data: bytes) -> None:
    """Appends and syncs, so that what a checkpoint counts as done is on disk before that checkpoint.

    Raises MachineError where the disk refuses.
    """
    with disk_errors(path), open(path, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def whole_lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """(line, parsed) of a JSONL file; a last line without its newline was torn by a kill and is left out.

    Raises InputError, naming file and line, when an earlier line is not a JSON object with an integer `step`, or holds
    NaN or an infinity, which no run writes.
    """
    if not path.exists():
        return []
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    found = []
    for i, line in enumerate(lines):
        try:
            row = json.loads(line, parse_constant=_refused)
            if type(row["step"]) is not int:
                raise ValueError("no step")
        except _NotFinite as error:
            raise not_a_row(path, i, f"it holds {error}, which no run writes") from error
        except UnicodeDecodeError as error:
            raise not_a_row(path, i, "it is not UTF-8") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise not_a_row(path, i, "a JSON object with a step") from error
        found.append((line + b"\n", row))
    return found


def rows(path: Path) -> list[dict[str, Any]]:
    """What `whole_lines` parses."""
    return [row for _, row in whole_lines(path)]


def not_a_row(path: Path, place: int, wanted: str) -> InputError:
    """The error of a line (counted from 0) that no run wrote; wanted: what a row is, or what this one holds."""
    return InputError(
        f"{path}, line {place + 1} is not a row of this run ({wanted}).\n"
        "The file was changed from outside: mend the line, or put the file back as it was."
    )


class _NotFinite(ValueError):
    """NaN or an infinity, which is no JSON."""


def _refused(constant: str) -> None:
    raise _NotFinite(constant)


def keep_before(path: Path, step: int) -> None:
    """Drops rows with step >= `step`, and a torn last line; the kept lines stay byte for byte as they are.

    Step 0 keeps nothing, so the file is not read.
    """
    if path.exists():
        kept = b"".join(line for line, row in whole_lines(path) if row["step"] < step) if step else b""
        if len(kept) != path.stat().st_size:
            write_atomic(path, kept)
