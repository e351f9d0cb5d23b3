"""sweep.json in a sweep's folder: the command and the runs that it stands for, started or not."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml
from filelock import FileLock

from ..errors import InputError, nearest
from ..files import write_json
from ..schema import RunConfig
from .states import FAILURE, RunState, is_run, read

RECORD, LOCK = "sweep.json", ".sweep.lock"
HOME = Path("outputs/sweeps")


@dataclass(frozen=True)
class Record:
    """A sweep as it was typed. steps: of each run by its folder in the sweep's, in the order of the runs."""

    command: str
    metric: str
    steps: dict[str, int]


def remember(folder: Path, command: str, configs: Sequence[RunConfig], metric: str) -> None:
    """Write the record; runs that an earlier command put into the same folder stay in it.

    Raises InputError for a run that would lie outside the folder, and OSError.
    """
    for config in configs:
        if not _inside(os.path.relpath(config.run_dir, folder)):
            raise InputError(f"hydra.sweep.subdir: {config.run_dir} is not in the sweep's folder {folder}.")
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / LOCK):
        before = recall(folder)
        steps = {os.path.relpath(config.run_dir, folder): config.steps for config in configs}
        steps = {**({} if before is None else before.steps), **steps}
        write_json(folder / RECORD, {"command": command, "metric": metric, "steps": steps})


def forget(folder: Path) -> None:
    """Take away what a sweep has left before its first run; nothing where a run has a folder."""
    if not any(path.is_dir() for path in folder.glob("*")):
        for name in (RECORD, LOCK, "multirun.yaml"):  # the last is Hydra's own
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # something else lies in it
            folder.rmdir()


def recall(folder: Path) -> Record | None:
    """The record of a sweep's folder; None where there is none. Raises InputError for a file that is none, and for one
    that names a run outside of the folder.
    """
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        steps = {str(name): int(count) for name, count in found["steps"].items()}
        kept = Record(str(found["command"]), str(found["metric"]), steps)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{folder / RECORD} cannot be read. Remove it; the sweep's command writes it again.") from None
    if outside := [name for name in steps if not _inside(name)]:
        raise InputError(f'{folder / RECORD}: "{outside[0]}" is no folder of this sweep. Take it out of "steps".')
    return kept


def _inside(name: str) -> bool:
    """Whether a run's name is that of a folder below the sweep's: not absolute, and without a way out."""
    path = Path(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def runs(folder: Path) -> list[RunState]:
    """The runs of a sweep: those of its record in their order, then what else lies in the folder; links to runs too."""
    record = recall(folder)
    steps = record.steps if record else {}
    found = {path.parent for name in ("config.yaml", FAILURE) for path in folder.glob(f"*/{name}")}
    beside = sorted(path.name for path in found if is_run(path))
    return [read(folder / name, steps.get(name)) for name in dict.fromkeys([*steps, *beside])]


def best(folder: Path) -> str:
    """What a search found best, and its value: `0.25 with optim.lr=0.0005`; "" where it left no such file."""
    try:
        found = yaml.safe_load((folder / "optimization_results.yaml").read_text(encoding="utf-8"))
        chosen = " ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
                          for key, value in found["best_params"].items())  # fmt: skip
        return f"{found['best_value']:.4g} with {chosen}"
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError):
        return ""


def find(name: str) -> Path:
    """The folder that a sweep's name, or its path, stands for. Raises InputError, with the nearest that there is."""
    if not name.strip():
        raise InputError(f'sweep: the name is empty (""). Give that of a folder in {HOME}, or a path.')
    for folder in (Path(name), HOME / name):
        if folder.is_dir() and ((folder / RECORD).exists() or any(map(is_run, folder.glob("*")))):
            return folder
    for folder in (Path(name), HOME / name):
        if folder.is_symlink() and not folder.exists():
            raise InputError(f"{folder}: a link to {os.readlink(folder)}, which is not there.")
    there = [path.name for path in sorted(HOME.glob("*")) if path.is_dir()]
    close = nearest(Path(name).name, there)
    some = f" There are: {', '.join(there[:5])}{', …' if there[5:] else ''}." if there and not close else ""
    raise InputError(f"{name}: no sweep in {HOME}, nor a folder of one.{close}{some}")
