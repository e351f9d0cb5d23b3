"""A bar on stderr while rows are graded or answered, where that is a terminal; and lines beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Bar:
    """What is on stderr."""

    def __init__(self, console: Console, progress: Progress | None, total: int | None) -> None:
        self._console, self._progress = console, progress
        self._task = progress.add_task("grading", total=total, rows=0) if progress is not None else None

    def at(self, done: int, rows: int) -> None:
        """How far it is: of the total, and in rows."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, rows=rows)

    def say(self, line: str) -> None:
        """A line, above the bar where there is one."""
        self._console.print(line, soft_wrap=True)


@contextmanager
def bar(total: int | None, doing: str = "grading", unit: str = "rows") -> Iterator[Bar]:
    """A bar that is gone at the end. total: None where it is not known; unit: of what `Bar.at` calls rows."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not sys.stderr.isatty():
        yield Bar(console, None, total)
        return
    columns = (
        TextColumn(doing),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} " + unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(console, progress, total)
