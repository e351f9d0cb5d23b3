"""The family view as tables of text: for the terminal, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..lessons.show import fits, one_line, put, table
from .family import KINDS
from .table import difference, fewer, seeds, tests
from .types import Analysis, Change, Family, Measure, Row
from .verdict import number

TO_GOAL = "tokens_to"
_SHORT = {
    "accuracy": "accuracy", "accuracy/greedy": "greedy", "length/right": "right", "length/wrong": "wrong",
    "memory": "MB", "seconds": "s", TO_GOAL: "tokens",
}  # fmt: skip
_LENGTHS = ("length/right", "length/wrong")


def show(console: Console, analysis: Analysis, family: Family) -> None:
    """The rows in one table, or in two where the screen is narrow; then each method against itself before step 0."""
    names = [_SHORT.get(one.key, one.title) for one in family.measures]
    cells = [_narrow(family, row) for row in family.rows]
    whole = _table(["method", "seeds", *names], cells)
    if fits(console, whole):
        put(console, whole)
    else:
        first = 2 + sum(one.unit == "points" for one in family.measures)
        put(console, _table(["method", "seeds", *names[: first - 2]], [row[:first] for row in cells]))
        console.print()
        put(console, _table(["method", *names[first - 2 :]], [[row[0], *row[first:]] for row in cells]))
    if any(one.majority is not None for one in family.changes):
        console.print()
        console.print(Text("Against its own evaluation before step 0, in points", style="bold"))
        put(console, _table(*changes_table(family)))
    console.print()
    console.print(Text(foot(family), style="dim"))
    for row in family.rows:
        if _plain(row.name) != _plain(row.arm.label):
            console.print(Text(f"{row.name}: {one_line(row.arm.label)}", style="dim"))
    console.print(Text("Each method against the baseline, in every measure: --view pairs", style="dim"))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    made = table(*head)
    for row in rows:
        made.add_row(*(Text(one_line(cell)) for cell in row))
    return made


def _plain(name: str) -> str:
    """Letters and figures alone: dr_grpo says what Dr. GRPO says."""
    return "".join(filter(str.isalnum, name.casefold()))


def _narrow(family: Family, row: Row) -> list[str]:
    """Of the terminal: intervals of the accuracy and of the way to the target alone."""
    wide = ("accuracy", TO_GOAL)
    return [row.name, seeds(row.seeds), *(cell(family, row, one, one.key in wide) for one in family.measures)]


def rows_table(family: Family) -> tuple[list[str], list[list[str]]]:
    """Head and rows, all with their intervals."""
    head = ["method", "seeds", *(titled(one) for one in family.measures)]
    return head, [
        [row.name, seeds(row.seeds), *(cell(family, row, one) for one in family.measures)] for row in family.rows
    ]


def titled(measure: Measure) -> str:
    """With its unit."""
    return f"{measure.title} ({measure.unit})" if measure.unit else measure.title


def cell(family: Family, row: Row, measure: Measure, with_interval: bool = True) -> str:
    """`89.9 [87.9, 91.8]`, `(n 5)` behind it where seeds lack it; of the way to the target, how many came there."""
    found = row.estimates.get(measure.key)
    if measure.key == TO_GOAL:
        count = found.count if found else 0
        short = f" ({count} of {row.goal})" if count < row.goal or not count else ""
    else:
        short = fewer(found.count, len(row.seeds)) if found else ""
    if found is None:
        return f"-{short}" if row.goal and measure.key == TO_GOAL else "-"
    text = number(found.mean, measure.digits)
    if with_interval and found.low is not None and found.high is not None:
        text += f" [{number(found.low, measure.digits)}, {number(found.high, measure.digits)}]"
    return text + short


def changes_table(family: Family) -> tuple[list[str], list[list[str]]]:
    """Head and rows: the changes of maj@k and pass@k since before step 0, with intervals and corrected p."""
    known = next(one for one in family.changes if one.majority is not None and one.passed is not None)
    assert known.majority is not None and known.passed is not None
    k, of = known.majority.measure.title, known.passed.measure.title
    return ["method", "pairs", k, "p Holm", of, "p Holm", "so it"], [_change(one) for one in family.changes]


def _change(one: Change) -> list[str]:
    if one.majority is None or one.passed is None:
        return [one.row.name, "-", "-", "-", "-", "-", KINDS[one.kind]]
    both = [text for effect in (one.majority, one.passed) for text in (difference(effect), tests(effect)[1])]
    return [one.row.name, str(len(one.passed.seeds)), *both, KINDS[one.kind]]


def foot(family: Family) -> str:
    """What the columns are, in words."""
    lengths = "right, wrong: tokens of such answers; " if any(one.key in _LENGTHS for one in family.measures) else ""
    return (
        f"Accuracies in %, means over seeds; in brackets Student's {100 * family.level:g} % interval. {lengths}"
        f"MB: the most that a run took; s: of its steps and of answers made before them; tokens: sampled until "
        f"{100 * family.target:g} % of held-out answers were right, of the seeds that came there. {_RULES}"
    )


_RULES = (
    "Only sharpens: maj@k is shown to be up (exact sign-flip test, Holm's correction over both, and the interval), and "
    "pass@k is not, by test and interval."
)
