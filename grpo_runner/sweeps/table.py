"""The tables of a sweep: what will happen to each run before the first starts, and how all of them stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ..lessons.show import one_line
from ..tracking.report import duration
from .states import RunState

STYLES = {"done": "green", "failed": "bold red", "running": "cyan", "unfinished": "yellow", "new": "dim"}
_ORDER = ("running", "failed", "unfinished", "new", "done")  # what a table that is cut keeps
_NAME = 16  # the least width of a run's name
_GAP = 2  # between two columns


def plan(states: Sequence[RunState], width: int) -> Table:
    """Run, state and what will be done with it."""
    rows = [(state.name, Text(_words(state), STYLES[state.state]), _next(state)) for state in states]
    return _table(width, ("state", "now"), rows, left=2)


def counts(states: Sequence[RunState]) -> str:
    """3 done, 1 failed, 4 new"""
    found = Counter(state.state for state in states)
    return ", ".join(
        f"{found[state]} {state}" for state in ("done", "running", "unfinished", "failed", "new") if found[state]
    )


def status(states: Sequence[RunState], width: int, most: int | None = None) -> Table:
    """Run, state, step, reward, accuracy, lengths of right and wrong answers, time left; at most so many rows.

    Rows that are left out are of runs that are done, then of new ones: they are counted below the table.
    """
    rows: list[tuple[Text | str, ...]] = []
    for state in shown(states, most):
        row = state.row or {}
        figures = [
            "-" if row.get(key) is None else f"{row[key]:.{digits}f}"
            for key, digits in (("reward/mean", 3), ("length/correct", 1), ("length/wrong", 1))
        ]
        steps = f"{state.made}/{state.steps if state.steps is not None else '?'}"
        time = seconds_left(state)
        time_left = "-" if time is None or state.state == "done" else duration(time)
        rows.append((state.name, Text(_short(state), STYLES[state.state]), steps, *figures, time_left))
    return _table(width, ("state", "step", "reward", "right", "wrong", "left"), rows, left=1)


def shown(states: Sequence[RunState], rows: int | None) -> list[RunState]:
    """The runs that so many rows have room for, in their order: those that run or failed before others."""
    if rows is None or len(states) <= rows:
        return list(states)
    kept = sorted(range(len(states)), key=lambda index: (_ORDER.index(states[index].state), index))[: max(rows, 1)]
    return [states[index] for index in sorted(kept)]


def seconds_left(state: RunState) -> float | None:
    """Of a run, at the pace of its last step; None before its first one."""
    pace = (state.row or {}).get("time/step_s")
    return None if pace is None or state.steps is None else float(pace) * max(0, state.steps - state.made)


def sweep_left(states: Sequence[RunState]) -> float | None:
    """Of the whole sweep: all steps to make, at the mean pace of the last steps, over the runs side by side."""
    paces = [float(pace) for state in states if state.row and (pace := state.row.get("time/step_s")) is not None]
    side_by_side = sum(state.state == "running" for state in states)
    if not paces or not side_by_side:
        return None
    steps = sum((state.steps or 0) - state.made for state in states if state.state in ("running", "new", "unfinished"))
    return sum(paces) / len(paces) * max(0, steps) / side_by_side


def _words(state: RunState) -> str:
    if state.state == "unfinished":
        return f"unfinished, {state.saved} of {state.steps} steps"
    if state.state == "failed" and state.failure:
        return f"failed (exit {state.failure.code})"
    return state.state


def _short(state: RunState) -> str:
    return f"failed ({state.failure.code})" if state.failure and state.state == "failed" else state.state


def _next(state: RunState) -> str:
    if state.state == "running":
        return f"left to {state.place}"
    from_step = f"from step {state.saved}" if state.saved else "from the start"
    told = {"done": "skipped", "new": "starts", "unfinished": "resumes", "failed": "runs again"}[state.state]
    return told if state.state in ("done", "new") else f"{told} {from_step}"


def _table(width: int, columns: Sequence[str], rows: Sequence[Sequence[Text | str]], left: int) -> Table:
    """A table whose first column, the run's name, is cut in its middle to what the others leave.

    left: so many columns after it are words, to the left; the others are figures.
    """
    made = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
    made.add_column("run", no_wrap=True)
    room = width
    for place, column in enumerate(columns):
        made.add_column(column, no_wrap=True, justify="left" if place < left else "right")
        room -= max([len(column), *(len(str(row[place + 1])) for row in rows)]) + _GAP
    for name, *cells in rows:
        made.add_row(_cut(str(name), max(_NAME, room)), *cells)
    return made


def _cut(name: str, room: int) -> str:
    """A name of at most so many characters: its begin and its end, where the seed stands."""
    if len(name) <= room:
        return name
    tail = room // 2
    return f"{name[: room - tail - 1]}…{name[-tail:]}"


def first_line(text: str) -> str:
    """The first line of what a run said, safe to print."""
    return one_line((text.strip().splitlines() or [""])[0])
