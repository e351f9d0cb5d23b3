"""The rows of a file: graded batch by batch, written with their verdicts, and summed up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..lessons.show import one_line
from ..reward import Grader, Policy, unreadable
from ..types import Status, Verdict
from .output import check_output, opened
from .policies import changed
from .progress import Bar, bar
from .rows import Batch, Row, batches, check_file, extent, place
from .summary import show
from .tally import Tally
from .words import ADDED, Rows

if TYPE_CHECKING:
    from rich.console import Console

MOST_REPORTED = 10


def grade(wanted: Rows, console: Console) -> int:
    """Grade a file; 0 when every row could be graded, 1 when some could not.

    Raises InputError, and leaves no output, where none could.
    """
    check_file(wanted.file)
    if wanted.output is not None:
        check_output(wanted.output, wanted.file, wanted.overwrite)
    policy = changed(Policy(), wanted.overrides)
    tally, report, since = Tally(), Report(wanted.file), time.monotonic()
    with (
        bar(extent(wanted.file)) as shown,
        Grader(wanted.workers, wanted.deadline_s, policy) as grader,
        opened(wanted.output) as output,
    ):
        for batch in batches(wanted.file, wanted.response_field, wanted.gold_field):
            rows, verdicts = graded(batch.rows, grader)
            output.write(Batch(rows, batch.done, batch.arrow), verdicts)
            for row, verdict in zip(rows, verdicts, strict=True):
                if row.fault is not None:
                    tally.bad += 1
                    report.bad(row, shown)
                elif row.cells is not None:
                    tally.add(row.number, row.cells, verdict)
            report.replaced(rows, wanted, shown)
            shown.at(batch.done, tally.graded + tally.bad)
        report.rest(tally.bad, shown)
        if not tally.graded:
            why = "holds no rows" if not tally.bad else f"no row could be graded, of {tally.bad}"
            raise InputError(f"--file {wanted.file}: {why}.")
    show(console, tally, time.monotonic() - since, wanted)
    return 1 if tally.bad else 0


def graded(rows: Sequence[Row], grader: Grader) -> tuple[list[Row], list[Verdict]]:
    """The rows, those with a gold that cannot be read marked as faulty, and a verdict for each of them."""
    checked = [_checked(row) for row in rows]
    found = iter(grader.grade([(row.response, row.golds) for row in checked if row.fault is None]))
    return checked, [next(found) if row.fault is None else _no_verdict(row.fault) for row in checked]


def _checked(row: Row) -> Row:
    if row.fault is not None:
        return row
    for gold in row.golds:
        if why := unreadable(gold):
            fault = f'unreadable gold: {why}: "{one_line(gold[:200])[:60]}"'
            return Row(row.number, row.cells, row.response, row.golds, fault)
    return row


def _no_verdict(fault: str) -> Verdict:
    return Verdict(Status.ERROR, rule=fault)


class Report:
    """Lines on stderr about rows: the first faults, how many more there were, and fields that are replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._said = 0
        self._replaced = False

    def bad(self, row: Row, shown: Bar) -> None:
        """A row that cannot be graded."""
        if self._said < MOST_REPORTED:
            self._said += 1
            left_out = " (left out of the output)" if row.cells is None else ""
            shown.say(one_line(f"{place(self._path, row)}: {row.fault}{left_out}"))

    def replaced(self, rows: Sequence[Row], wanted: Rows, shown: Bar) -> None:
        """Once, where the output has a verdict in place of fields of the same names."""
        names = [name for name in ADDED if any(row.cells is not None and name in row.cells for row in rows)]
        if names and wanted.output is not None and not self._replaced:
            self._replaced = True
            shown.say(f"note: {', '.join(names)} of the rows: replaced in the output by what was found now")

    def rest(self, bad: int, shown: Bar) -> None:
        """How many faults were not told."""
        if bad > self._said:
            shown.say(f"… and {bad - self._said:,} more rows that cannot be graded")
