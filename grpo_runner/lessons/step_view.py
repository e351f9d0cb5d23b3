"""A step on the screen: a table a question, then its answers' texts coloured by their weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ..errors import InputError, nearest
from .show import clean, compact, fits, one_line, put, signed
from .step import RUN, Column, StepRecord

_UP, _DOWN = (70, 140, 255), (255, 140, 40)  # blue and orange: told apart by colour-blind readers too


def show(console: Console, step: StepRecord, question: str | None) -> None:
    """Print the step, or one question of it. Raises InputError for an id that the step does not have."""
    size = step.group_size
    heads = step.rows[::size]
    slots = [slot for slot, row in enumerate(heads) if question in (None, row["question_id"])]
    if not slots:
        ids = list(dict.fromkeys(one_line(row["question_id"]) for row in heads))
        shown = ", ".join(ids[:8]) + (f", … ({len(ids)} in all)" if len(ids) > 8 else "")
        raise InputError(
            f'Step {step.number} has no question "{question}". It has: {shown}.{nearest(question or "", ids)}'
        )
    console.print(Text(f"step {step.number} (counted from 0) · {step.method}", style="bold"))
    for note in step.notes:
        console.print(Text.assemble(("note: ", "bold yellow"), note))
    most = max(float(step.columns[0].token_N.abs().max()), 0.0)
    console.print(_legend(most, coloured=console.is_terminal and bool(console.color_system) and not console.no_color))
    for slot in slots:
        _question(console, step, slot, most)


def _legend(most: float, coloured: bool) -> Text:
    """What the columns say, and the colours where there are any: they are of the run's own objective."""
    legend = Text(
        "A is the advantage of an answer (RLOO: leave-one-out), and beside it stands the weight of ", style="dim"
    )
    legend.append("a token, the same for all tokens of an answer before clipping and KL.")
    if not coloured:
        return legend
    legend.append(" Each text is coloured by that weight:\n")
    for part in (1.0, 0.4, 0.0, -0.4, -1.0):
        legend.append(f" {compact(part * most, 3)} ", style=shade(part * most, most))
        legend.append(" ")
    return legend.append("up … down", style="dim")


def _question(console: Console, step: StepRecord, slot: int, most: float) -> None:
    rows = step.rows[slot * step.group_size : (slot + 1) * step.group_size]
    own = step.columns[0]
    mine = slice(slot * step.group_size, (slot + 1) * step.group_size)
    weight = compact(float(own.total_N[mine].abs().sum())).lstrip("+")
    recorded = step.question_weights.get(slot)
    said = f" (questions.parquet: {compact(recorded).lstrip('+')})" if recorded is not None else ""
    console.print()
    console.print(
        Text.assemble(
            (f"question {one_line(rows[0]['question_id'])}: ", "bold"),
            f"{one_line(rows[0]['question'])}  ",
            (f"answer {one_line(str(rows[0].get('gold')))}, weight {weight}{said}", "dim"),
        )
    )
    for made in _tables(console, step, rows, mine):
        put(console, made)
    for place, row in enumerate(rows):
        token = float(own.token_N[mine][place])
        console.print(Text(f"answer {place + 1}, {one_line(row['status'])}, {compact(token)} a token", style="dim"))
        console.print(Text(clean(row["completion"]) or "(no text)", style=shade(token, most)))


def _tables(console: Console, step: StepRecord, rows: Sequence[Mapping[str, Any]], mine: slice) -> list[Table]:
    """As few tables, one below the other, as show every objective with no figure cut."""
    count = len(step.columns)
    for many in range(1, count + 1):
        size = -(-count // many)
        parts = [step.columns[start : start + size] for start in range(0, count, size)]
        for gap in (2, 1):
            made = [_table(part, rows, mine, gap) for part in parts]
            if all(fits(console, one) for one in made):
                return made
    return made


def _table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], mine: slice, gap: int) -> Table:
    made = Table(box=None, header_style="dim", padding=(0, gap, 0, 0), pad_edge=False)
    for name in ("answer", "reward", "tokens"):
        made.add_column(f"\n{name}", justify="right", no_wrap=True)
    for column in columns:
        label = column.objective.label
        ours = column.of_the_run and label != RUN
        made.add_column(f"{label}\nA", justify="right", no_wrap=True)
        made.add_column(f"{f'= {RUN}' if ours else ''}\na token", justify="right", no_wrap=True)
    for place, row in enumerate(rows):
        cells = [
            text
            for column in columns
            for text in (
                signed(float(column.advantages_N[mine][place])),
                compact(float(column.token_N[mine][place]), 3),
            )
        ]
        made.add_row(str(place + 1), f"{row['reward']:g}", str(row["tokens"]), *cells)
    return made


def shade(weight: float, most: float) -> Style:
    """Blue where an answer is made likelier, orange where less likely, the fuller the larger; none at weight 0."""
    part = min(1.0, abs(weight) / most) if most > 0 else 0.0
    if part == 0:
        return Style()
    full = _UP if weight > 0 else _DOWN
    mixed = [round(245 + (channel - 245) * (0.15 + 0.85 * part)) for channel in full]
    return Style(color="#000000", bgcolor=f"rgb({mixed[0]},{mixed[1]},{mixed[2]})")
