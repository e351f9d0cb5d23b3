"""The state of a sweep's runs, read from their folders: whatever launcher started them, and on whatever machine.

A run's own files say how far it is. Two more are written by what starts the runs of a sweep: `.running` while a process
works on it, and failure.json when it ended with an error. A process that was killed leaves the first.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..errors import BusyError, Interrupted, RunnerError, in_a_line
from ..files import write_json

RUNNING, FAILURE, LOG = ".running", "failure.json", "log.txt"
State = Literal["new", "unfinished", "running", "failed", "done"]
_TAIL = 20_000  # bytes of a file that hold its last rows


@dataclass(frozen=True)
class Failure:
    """How a run ended: the exit code of errors.py, or minus the signal's number, and what was said, in lines."""

    code: int
    said: str


@dataclass(frozen=True)
class RunState:
    """One run of a sweep. steps: planned (None where it is not known); made: logged; saved: the newest checkpoint.

    row: the last line of metrics.jsonl; place: host and process that work on it, "" on none.
    """

    name: str
    folder: Path
    state: State
    steps: int | None = None
    made: int = 0
    saved: int = 0
    row: Mapping[str, Any] | None = None
    failure: Failure | None = None
    place: str = ""


def read(folder: Path, steps: int | None = None) -> RunState:
    """What a run's folder says. steps: as planned now; by default what the folder itself says. Writes nothing."""
    steps = steps if steps is not None else _planned(folder)
    row = last_row(folder / "metrics.jsonl")
    made = row["step"] + 1 if row else 0
    found = partial(RunState, folder.name, folder, steps=steps, made=made, saved=_saved(folder), row=row)
    summary = _json(folder / "summary.json")
    if (folder / "DONE").exists() and summary and summary.get("steps", 0) >= (steps or 0):
        return found("done")
    if place := _place(folder):
        return found("running", place=place)
    if failure := _failure(folder):
        return found("failed", failure=failure)
    return found("unfinished" if made or (folder / "config.yaml").exists() else "new")


_KEYS = (re.compile(r"^seed: \d+$", re.MULTILINE), re.compile(r"^steps: \d+$", re.MULTILINE))
_TRACES = ("metrics.jsonl", "data.json", ".lock", "DONE", "checkpoints", FAILURE, RUNNING, LOG)


def is_run(folder: Path) -> bool:
    """Whether a folder has the marks of a run: a config.yaml as a run writes it, and another file of a run beside it.

    Of a run that ended before its first step failure.json alone. conf/, whose config.yaml composes runs, is none.
    """
    try:
        text = (folder / "config.yaml").read_text(encoding="utf-8")
    except FileNotFoundError:
        found = _json(folder / FAILURE)
        return found is not None and {"code", "said"} <= found.keys()
    except (OSError, ValueError):
        return False
    own = all(key.search(text) for key in _KEYS) and not re.search(r"^defaults:", text, re.MULTILINE)
    return own and any((folder / name).exists() for name in _TRACES)


@contextmanager
def working(folder: Path) -> Iterator[None]:
    """Mark the folder as one that this process works on. What ends it with an error is kept in failure.json."""
    (folder / FAILURE).unlink(missing_ok=True)
    write_json(folder / RUNNING, {"host": socket.gethostname(), "pid": os.getpid(), "began": _began(os.getpid())})
    try:
        yield
    except (Interrupted, BusyError):  # Ctrl-C: it is to be gone on with; and what another process does is no failure
        raise
    except Exception as error:
        fail(folder, error)
        raise
    finally:
        (folder / RUNNING).unlink(missing_ok=True)


def fail(folder: Path, error: Exception) -> None:
    """Keep how a run ended."""
    if isinstance(error, RunnerError):
        write_failure(folder, Failure(error.exit_code, str(error)))
    else:
        write_failure(folder, Failure(1, in_a_line(error)))


def write_failure(folder: Path, failure: Failure) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FAILURE, asdict(failure))


def last_row(path: Path) -> dict[str, Any] | None:
    """The last whole line of a JSONL file with a step; None where there is none. Reads the file's end alone."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    for line in reversed(lines):
        try:
            row = json.loads(line)
            if isinstance(row, dict) and type(row.get("step")) is int:
                return row
        except ValueError:
            continue
    return None


def _planned(folder: Path) -> int | None:
    """`steps` of config.yaml, without reading the rest of it."""
    try:
        found = re.search(r"^steps: (\d+)$", (folder / "config.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def _saved(folder: Path) -> int:
    names = [path.name for path in folder.glob("checkpoints/step_*")]
    return max((int(found[1]) for name in names if (found := re.fullmatch(r"step_(\d+)", name))), default=0)


def _failure(folder: Path) -> Failure | None:
    found = _json(folder / FAILURE)
    if found is None:
        return None
    return Failure(int(found.get("code", 1)), str(found.get("said", "")))


def _place(folder: Path) -> str:
    """`host:pid` of the process that works on the folder; "" when none does. Of another host the mark is believed."""
    found = _json(folder / RUNNING)
    if found is None:
        return ""
    host, pid = str(found.get("host")), found.get("pid")
    if host == socket.gethostname():
        try:
            os.kill(int(pid), 0)  # type: ignore[arg-type]
        except (ProcessLookupError, TypeError, ValueError):
            return ""
        except PermissionError:
            pass
        if found.get("began") != _began(int(pid)):  # type: ignore[arg-type]  # the number of a process that is gone
            return ""
    return f"{host}:{pid}"


def _began(pid: int) -> str | None:
    """What tells a process from a later one of the same number; None where the system is silent. A zombie is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "gone" if fields[0] == "Z" else fields[19]


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
