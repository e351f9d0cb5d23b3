"""The terminal: method line, plan, a live bar (plain lines where stdout is no terminal), and what came of it."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from ..schema import RunConfig
from . import report
from .base import Row, Tracker
from .questions import read_questions

_PLAIN_LINES = 10  # plain: a line for every tenth of the steps,
_PLAIN_SECONDS = 60.0  # and at the first step that ends a minute or more after the last line
_WINDOW = 50  # steps whose mean time gives the time left


class Terminal(Tracker):
    """Shows a run. Needs a LocalTracker before it: the closing tables are read from the run folder.

    console: a rich console; the default writes to stdout, in colour where that is a terminal and NO_COLOR is unset.
    A reader that goes away (`| head`) silences it and never stops the run.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._plain = not self._console.is_terminal or self._console.is_dumb_terminal
        self._live: Live | None = None
        self._gone = False
        self._console.on_broken_pipe = self._reader_gone  # type: ignore[method-assign]  # rich's own one ends the process

    def announce(self, method_line: str, plan: Mapping[str, str], warnings: Sequence[str] = ()) -> None:
        """The method in one line, the plan as a table, and each warning in its own line."""
        self._print(Text(method_line, style="bold"))
        width = max((len(name) for name in plan), default=0)
        for name, value in plan.items():
            self._print(Text.assemble((f"  {name:<{width}}  ", "dim"), value))
        for warning in warnings:
            self._print(Text.assemble(("note: ", "bold yellow"), warning))

    def say(self, text: str) -> None:
        """One message; above the bar while it runs."""
        self._print(Text(text))

    def start(self, config: RunConfig, resumed_at: int | None) -> None:
        self._steps, self._dir, self._first = config.steps, Path(config.run_dir), resumed_at or 0
        self._seconds: deque[float] = deque(maxlen=_WINDOW)
        self._since_line = 0.0
        if self._plain:
            return
        self._bar = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:3.0f} %  {task.fields[left]}"),
            console=self._console,
            expand=True,
        )
        self._task = self._bar.add_task("", total=config.steps, completed=resumed_at or 0, left="")
        self._stats = Text("  the first step is being made", style="dim")
        self._live = Live(get_renderable=self._renderable, console=self._console, refresh_per_second=4)
        self._live.start()

    def step(self, step: int, metrics: Row) -> None:
        seconds = metrics.get("time/step_s")
        self._seconds.append(float(str(seconds)) if seconds is not None else 0.0)
        self._since_line += self._seconds[-1]
        done = step + 1
        remaining = sum(self._seconds) / len(self._seconds) * (self._steps - done)
        left = f"{report.duration(remaining)} left"
        figures = report.step_figures(metrics)
        if self._live is not None:
            self._bar.update(self._task, completed=done, left=left)
            self._stats = Text("  " + "  ".join(figures), overflow="ellipsis", no_wrap=True)
        elif self._plain and self._line_is_due(done):
            self._since_line = 0.0
            self._print(Text("  ".join([f"step {done}/{self._steps}", *figures, left])))

    def evaluation(self, step: int, metrics: Row) -> None:
        self._print(Text.assemble((f"held-out at step {step}: ", "bold"), report.evaluation_line(metrics)))

    def alert(self, step: int, rule: str, text: str) -> None:
        if step >= self._first:  # it was said when it came
            self._print(Text.assemble((f"health, {rule} at step {step}: ", "bold yellow"), text))

    def finish(self, summary: Row) -> None:
        """Before and after, the three weightiest questions, the probe, the paths. Without a `start`, nothing."""
        self.close()
        if not hasattr(self, "_dir"):
            return
        before_after = report.before_after(self._dir)
        if before_after:
            first, last, lines = before_after
            table = self._table("held-out questions", f"step {first}", f"step {last}", "change")
            for line in lines:
                table.add_row(*line)
            self._print(table)
        questions = read_questions(self._dir)
        if lines := report.weightiest(questions, 3):
            table = self._table("largest weights of the run", "weight", "asked", "success, first -> last", wide=True)
            for line in lines:
                table.add_row(*line)
            self._print(table)
            self._print(Text(report.WEIGHTIEST, style="dim"))
        elif questions.num_rows:
            self._print(Text(report.no_weight(questions)))
        probes, pairs = report.probed(self._dir)
        if pairs:
            title = f"gradients on the same answers ({probes} probe{'s' * (probes != 1)})"
            table = self._table(title, "cosine", "within questions", "norm/norm")
            for pair in pairs:
                table.add_row(*pair)
            self._print(table)
        self._print(Text())
        for name, path in report.paths(self._dir):
            self._print(Text.assemble((f"{name:<10}", "dim"), path))

    def close(self) -> None:
        """Takes the bar down; safe to call twice, and after any failure."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _renderable(self) -> RenderableType:
        return Group(self._bar.get_renderable(), self._stats)

    def _line_is_due(self, done: int) -> bool:
        every = max(1, round(self._steps / _PLAIN_LINES))
        return done % every == 0 or done == self._steps or self._since_line >= _PLAIN_SECONDS

    def _table(self, first: str, *others: str, wide: bool = False) -> Table:
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        # text of questions is cut to one line in what the figures leave, so that the figures never are
        room = self._console.width - sum(len(name) + 2 for name in others) - 2
        width = max(12, min(60, room)) if wide else None
        table.add_column(first, no_wrap=wide, overflow="ellipsis" if wide else "fold", max_width=width)
        for name in others:
            table.add_column(name, justify="right", no_wrap=True)
        return table

    def _print(self, what: RenderableType) -> None:
        if self._gone:
            return
        if isinstance(what, Text):
            # in a log one line stays one line; on a screen it breaks between words
            self._console.print(what, soft_wrap=not self._console.is_terminal)
        else:
            self._console.print()
            self._console.print(what)

    def _reader_gone(self) -> None:
        """What `| head` leaves: writes nothing more, also not at the end of the process, and the run goes on."""
        self._gone = self._console.quiet = True
        if self._console.file is sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
