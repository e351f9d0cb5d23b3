"""How a sweep goes, while it goes: one live table on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..lessons.show import WIDTH, one_line
from ..tracking.report import duration, step_figures
from . import record, table
from .states import LOG, RunState, read

_EVERY = 1.0  # seconds between two looks at the folders
_TENTHS = 10  # plain lines of one run
_ROOM = 6  # lines of the screen beside the rows


class Watch:
    """Shows the runs of a sweep until it is closed; reads their folders alone, so that any launcher will do.

    planned: (folder, steps) of each run; of a search, which decides them as it goes, what its folder `home` holds.
    quiet: write nothing, where the runs themselves write their lines in this process.
    """

    def __init__(self, planned: Sequence[tuple[Path, int]], home: Path, file: TextIO | None = None) -> None:
        self._planned, self._home = planned, home
        self._console = Console(file=file or sys.stdout, highlight=False, markup=False, emoji=False)
        if not self._console.is_terminal:
            self._console.width = WIDTH
        self._stop = threading.Event()
        self._said: dict[str, tuple[str, int]] = {}
        self._live: Live | None = None
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Watch:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
            self._live.start()
        else:
            self._said = {state.name: (state.state, self._tenth(state)) for state in self.states()}
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self.look()
        if self._live is not None:
            self._live.stop()

    def states(self) -> list[RunState]:
        if self._planned:
            return [read(folder, steps) for folder, steps in self._planned]
        return record.runs(self._home)

    def look(self) -> None:
        """Read the folders once, and show what is new."""
        states = self.states()
        if self._live is not None:
            self._live.update(self.screen(states), refresh=True)
        else:
            for state in states:
                self._tell(state)

    def screen(self, states: Sequence[RunState]) -> RenderableType:
        """The table, what is not in it, and the last line that a run wrote."""
        rows = max(3, self._console.height - _ROOM)
        left = table.sweep_left(states)
        parts: list[RenderableType] = [table.status(states, self._console.width, rows)]
        hidden = len(states) - len(table.shown(states, rows))
        line = table.counts(states) + (f"; {hidden} not shown" if hidden else "")
        parts.append(Text(line + (f"; about {duration(left)} left" if left is not None else ""), style="bold"))
        running = [state for state in states if state.state == "running"]
        if running and (said := last_line(running[-1].folder / LOG)):
            parts.append(Text(f"{running[-1].name}: {said}", style="dim", overflow="ellipsis", no_wrap=True))
        return Group(*parts)

    def _loop(self) -> None:
        while not self._stop.wait(_EVERY):
            self.look()

    def _tell(self, state: RunState) -> None:
        """One line where the state has changed, or another tenth of the steps is made."""
        now = (state.state, self._tenth(state))
        if now == self._said.get(state.name, ("new", 0)):
            return
        self._said[state.name] = now
        words = [f"{state.name}:", state.state]
        if state.state == "failed" and state.failure:
            words.append(f"(exit {state.failure.code}) {table.first_line(state.failure.said)}")
        elif state.state == "running" and state.row:
            left = table.seconds_left(state)
            words = [words[0], f"step {state.made}/{state.steps}", *step_figures(state.row)[:3]]
            words += [f"{duration(left)} left"] if left is not None else []
        self._console.print(Text("  ".join(words)), soft_wrap=True)

    @staticmethod
    def _tenth(state: RunState) -> int:
        return state.made * _TENTHS // state.steps if state.steps and state.state == "running" else 0


def last_line(path: Path) -> str:
    """The last line of a file that says something, safe to print; "" where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - 2000))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((one_line(line) for line in reversed(lines) if line.strip()), "")
