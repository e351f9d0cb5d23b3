"""What the rows of a file came to, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from ..lessons.show import one_line, put, section, share, table
from ..types import Status
from .tally import MOST_NAMED, Agreement, Tally
from .words import Rows

if TYPE_CHECKING:
    from rich.console import Console

MOST_KINDS, LONGEST_KIND = 60, 32


def show(console: Console, tally: Tally, seconds: float, wanted: Rows) -> None:
    """Print them: by status, and against `expected` where rows have it."""
    whole = tally.graded + tally.bad
    made = table("status", "rows", "share")
    for status in Status:
        if tally.statuses[status] or status in (Status.CORRECT, Status.WRONG, Status.NO_ANSWER):
            made.add_row(status.value, f"{tally.statuses[status]:,}", share(tally.statuses[status] / whole))
    if tally.bad:
        made.add_row(Text("not graded", style="bold red"), f"{tally.bad:,}", share(tally.bad / whole))
    put(console, made)
    if tally.agreement.rows:
        _agreement(console, tally)
    if tally.unclear:
        console.print(f"{_rows_have(tally.unclear)} an `expected` that is neither true nor false: not counted")
    console.print()
    speed = f"{whole / max(seconds, 1e-9):,.0f} rows a second" if seconds >= 1 else f"{seconds:.2f} s"
    to = "" if wanted.output is None else f" -> {wanted.output}"
    console.print(
        Text(f"{whole:,} row{'' if whole == 1 else 's'} of {wanted.file}, {speed}{to}", style="dim"), soft_wrap=True
    )


def _agreement(console: Console, tally: Tally) -> None:
    made = table("kind" if tally.kinds else "", "rows", "accuracy", "recall", "false positives")
    ranked = sorted(tally.kinds.items(), key=lambda pair: (-pair[1].disagreements, pair[0]))
    for kind, found in ranked[:MOST_KINDS]:
        made.add_row(_short(kind), *_figures(found))
    if len(ranked) > MOST_KINDS:
        made.add_row(f"… {len(ranked) - MOST_KINDS:,} kinds more", "", "", "", "")
    made.add_row(Text("all rows", style="bold"), *_figures(tally.agreement))
    section(console, "Against `expected`", "false positives: share of the wrong answers that were accepted", made)
    if count := tally.agreement.disagreements:
        numbers = ", ".join(map(str, tally.disagreeing)) + (", …" if count > MOST_NAMED else "")
        console.print(f"{_rows_have(count)} another verdict than expected: {numbers}", soft_wrap=True)


def _rows_have(count: int) -> str:
    return f"{count:,} row{'s have' if count != 1 else ' has'}"


def _figures(found: Agreement) -> tuple[str, str, str, str]:
    return (f"{found.rows:,}", share(found.accuracy), share(found.recall), share(found.false_positive_rate))


def _short(kind: str) -> str:
    line = one_line(kind)
    return line if len(line) <= LONGEST_KIND else line[: LONGEST_KIND - 1] + "…"
