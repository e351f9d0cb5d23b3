"""`sweep status|failures|clean NAME`: how its runs stand, what failed ones said, removing what is not finished."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from rich.text import Text

from ..errors import InputError, nearest
from ..files import disk_errors
from ..lessons.show import Screen, clean, one_line
from ..tracking.report import duration
from . import record, table
from .states import FAILURE, LOG, RUNNING, RunState, is_run

USAGE = """\
Usage: python -m grpo_runner sweep status [NAME]               how its runs stand; without a name, all sweeps
       python -m grpo_runner sweep failures NAME               what the runs that failed said
       python -m grpo_runner sweep clean NAME [--finished] [--yes]
                                                               remove what is not finished; --finished: all of it
NAME: of a folder in outputs/sweeps, or the path of any other."""
_LINES = 8  # of what a failed run said
_FLAGS = {"clean": {"--yes", "--finished"}}


def sweep(words: Sequence[str]) -> int:
    """The verb. Exit codes: 0; of `status` and `failures` 1 where a run failed; 2 for what is not understood."""
    if not words or {"-h", "--help"} & set(words):
        print(USAGE)
        return 0
    screen, (action, *rest) = Screen(), words
    if action not in ACTIONS:
        raise InputError(f'sweep: there is no "{action}".{nearest(action, ACTIONS)} There are: {", ".join(ACTIONS)}.')
    flags, given = {word for word in rest if word.startswith("-")}, [word for word in rest if not word.startswith("-")]
    known = _FLAGS.get(action, set())
    if unknown := sorted(flags - known):
        raise InputError(f'sweep {action}: no flag "{unknown[0]}".{nearest(unknown[0], known)}\n{USAGE}')
    if action == "status" and not given:
        return _all(screen)
    if len(given) != 1:
        raise InputError(f"sweep {action}: give the name of one sweep.\n{USAGE}")
    return ACTIONS[action](screen, record.find(given[0]), flags)


def _all(screen: Console) -> int:
    """Every sweep of outputs/sweeps in a line; 1 where a run of any failed, 2 where one's record cannot be read."""
    lines, code = [], 0
    for folder in (path for path in sorted(record.HOME.glob("*")) if path.is_dir()):
        try:
            states = record.runs(folder)
        except InputError as error:
            lines.append((folder.name, one_line(str(error)), "red"))
            code = error.exit_code
            continue
        if states:
            lines.append((folder.name, table.counts(states), ""))
            code = max(code, int(any(state.state == "failed" for state in states)))
    if not lines:
        raise InputError(f"{record.HOME}: no sweep here. One is started with -m: python -m grpo_runner -m seed=0,1")
    for name, text, style in lines:
        screen.print(Text.assemble((name, "bold"), "  ", (text, style)), soft_wrap=True)
    return code


def _status(screen: Console, folder: Path, flags: set[str]) -> int:
    states, known = record.runs(folder), record.recall(folder)
    screen.print(table.status(states, screen.width))
    left = table.sweep_left(states)
    time = f"; about {duration(left)} left" if left is not None else ""
    screen.print(Text(f"{folder}: {table.counts(states)}{time}", "bold"), soft_wrap=True)
    if known and any(state.state in ("new", "unfinished", "failed") for state in states):
        screen.print(Text(f"To go on: {known.command}", "dim"), soft_wrap=True)
    return int(any(state.state == "failed" for state in states))


def _failures(screen: Console, folder: Path, flags: set[str]) -> int:
    failed = [state for state in record.runs(folder) if state.failure and state.state == "failed"]
    for state in failed:
        assert state.failure is not None
        screen.print(
            Text(f"{state.name}: exit {state.failure.code}, after {state.made} of {state.steps or '?'} steps", "bold")
        )
        for line in clean(state.failure.said).splitlines()[:_LINES]:
            screen.print(Text(f"  {line}"), soft_wrap=True)
        if (state.folder / LOG).exists():
            screen.print(Text(f"  all that it wrote: {state.folder / LOG}", "dim"), soft_wrap=True)
    if not failed:
        screen.print(f"{folder}: no run failed ({table.counts(record.runs(folder))})", soft_wrap=True)
    return int(bool(failed))


def _clean(screen: Console, folder: Path, flags: set[str]) -> int:
    """Remove runs that are unfinished or failed, and with --finished those that are done; never a running one.

    Nor a folder without the marks of a run, nor what a link leads to. Raises InputError where no sweep was recorded.
    """
    if not (folder / record.RECORD).exists():
        raise InputError(
            f"{folder}: no {record.RECORD} in it, so nothing says that it is a sweep's. Nothing was removed.\n"
            "Remove by hand what is not needed; the sweep's command, typed again, writes the file."
        )
    kinds = ("unfinished", "failed", "new", *(("done",) if "--finished" in flags else ()))
    there = [state for state in record.runs(folder) if state.state in kinds and state.folder.is_dir()]
    going = []
    for state in there:
        if why := _kept(folder, state):
            screen.print(f"{state.name}: left, {why}", soft_wrap=True)
        else:
            going.append(state)
    if not going:
        screen.print(f"{folder}: nothing to remove ({table.counts(record.runs(folder))})", soft_wrap=True)
        return 0
    for state in going:
        steps = f", {state.made} steps" if state.made else ""
        screen.print(Text(f"  {state.folder.name}  ({state.state}{steps})"), soft_wrap=True)
    if "--yes" not in flags and not _agreed(f"Remove {len(going)} of {len(record.runs(folder))} runs? [y/N] "):
        screen.print("Nothing was removed.")
        return 0
    removed = sum(_remove(screen, state) for state in going)
    if "--finished" in flags:
        record.forget(folder)
    screen.print(f"{removed} run{'s' * (removed != 1)} removed from {folder}", soft_wrap=True)
    return 0


def _kept(folder: Path, state: RunState) -> str:
    """Why a run's folder is not removed; "" where it may be."""
    if state.folder.resolve() != folder.resolve() / state.folder.relative_to(folder):
        return "it is a link"
    started = any(path.name not in (LOG, RUNNING, FAILURE, ".lock") for path in state.folder.iterdir())
    return "it has not the marks of a run" if started and not is_run(state.folder) else ""


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise InputError("sweep clean: nobody to ask here. Add --yes to remove them.")
    return input(question).strip().lower() in ("y", "yes")


def _remove(screen: Console, state: RunState) -> bool:
    """Whether the run's folder is gone; one that a process took in the meantime stays."""
    lock = FileLock(state.folder / ".lock", timeout=0)
    with disk_errors(state.folder):
        try:
            lock.acquire()
        except Timeout:
            screen.print(f"{state.folder.name}: left, another process is writing to it", soft_wrap=True)
            return False
        try:
            shutil.rmtree(state.folder)
        finally:
            lock.release()
    return True


ACTIONS: dict[str, Callable[[Console, Path, set[str]], int]] = {
    "status": _status,
    "failures": _failures,
    "clean": _clean,
}
