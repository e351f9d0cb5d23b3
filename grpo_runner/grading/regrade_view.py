"""The verdicts of a run that would change, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from ..lessons.show import one_line
from ..reward.rules import in_words
from ..types import Status
from .regrade import Change
from .words import Run

if TYPE_CHECKING:
    from rich.console import Console

MOST_SHOWN = 50
LONGEST = 200  # of a text; what a terminal has no room for is cut further


def show(console: Console, found: Sequence[Change], total: int, steps: Sequence[int], wanted: Run) -> None:
    """Print them, and how many stand."""
    listed = found if wanted.everything else found[:MOST_SHOWN]
    if listed:
        console.print(_table(listed, len(steps) > 1))
        for rule in dict.fromkeys(change.verdict.rule for change in listed):
            if (words := in_words(rule)) != rule:
                console.print(Text(f"{rule}: {words}", style="dim"), soft_wrap=True)
        console.print()
    if len(found) > len(listed):
        console.print(f"… and {len(found) - len(listed):,} more; --all shows them")
    where = f"step {steps[0]}" if len(steps) == 1 else f"{len(steps)} steps"
    stand = f"{total - len(found):,} of {total:,} verdicts of {where} stand"
    console.print(Text.assemble((stand, "bold"), f"; {_counted(found)}" if found else "; none would change"))
    if wanted.overrides:
        console.print(Text(f"under the run's policy with {' '.join(wanted.overrides)}", style="dim"), soft_wrap=True)


def _table(found: Sequence[Change], several: bool) -> Table:
    """Ids, texts and rules give way to what room there is; the figures and the verdicts never do."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    if several:
        made.add_column("step", justify="right", no_wrap=True)
    made.add_column("question", no_wrap=True, overflow="ellipsis", max_width=20)
    made.add_column("sample", justify="right", no_wrap=True)
    for name in ("extracted", "gold"):
        made.add_column(name, overflow="fold", max_width=28)
    made.add_column("before", no_wrap=True)
    made.add_column("now", no_wrap=True)
    made.add_column("rule", overflow="fold")
    for change in found:
        answer, verdict = change.answer, change.verdict
        extracted = Text("none", style="dim") if verdict.extracted is None else Text(_cut(verdict.extracted))
        made.add_row(
            *([str(answer.step)] if several else []),
            _cut(answer.question),
            str(answer.sample),
            extracted,
            _cut(" or ".join(answer.golds)),
            _cut(answer.status),
            Text(verdict.status.value, style="green" if verdict.correct else "red"),
            _cut(verdict.rule),
        )
    return made


def _counted(found: Sequence[Change]) -> str:
    """12 would change: 3 right before and not now, 9 right now."""
    kinds = Counter((change.answer.status == Status.CORRECT, change.verdict.correct) for change in found)
    words = {
        (True, False): "right before and not now",
        (False, True): "not right before and right now",
        (False, False): "not right before nor now",
    }
    told = [f"{kinds[kind]:,} {said}" for kind, said in words.items() if kinds[kind]]
    return f"{len(found):,} would change: {', '.join(told)}"


def _cut(text: str) -> str:
    line = one_line(text[: 4 * LONGEST])
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
