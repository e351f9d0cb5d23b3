"""A step on the screen: a table a question, then its answers' texts, each token coloured by its coefficient."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from .show import clean, compact, fits, one_line, put
from .step import StepRecord
from .step_table import EXPLAINED, RECORDED, Block, blocks, scale, state

_UP, _DOWN = (70, 140, 255), (255, 140, 40)  # blue and orange: told apart by colour-blind readers too


MOST_QUESTIONS, MOST_CHARACTERS = 1, 300  # of a step and of an answer, where not all was asked for


def show(console: Console, step: StepRecord, question: str | None, everything: bool = False) -> None:
    """Print the step, or one question of it. Raises InputError for an id that the step does not have.

    everything: all questions with whole answers. Left out: the question of the largest weight, and of each answer
    the beginning; of one question that is asked for, whole answers.
    """
    slots = step.slots(question)
    shown = slots if everything or question is not None else _weightiest(step, slots)
    longest = None if everything or question is not None else MOST_CHARACTERS
    console.print(Text(f"step {step.number} (counted from 0) · {step.method}", style="bold"))
    for note in step.notes:
        console.print(Text.assemble(("note: ", "bold yellow"), note))
    most = scale(step)
    coloured = console.is_terminal and bool(console.color_system) and not console.no_color
    console.print(_legend(step, most, coloured))
    for slot in shown:
        _question(console, step, slot, most, longest)
    if len(shown) < len(slots):
        left = len(slots) - len(shown)
        said = f"{left} more question{'s' * (left > 1)} of smaller or no weight: --all, --question ID, or the page."
        console.print()
        console.print(Text(said, style="dim"))


def _weightiest(step: StepRecord, slots: Sequence[int]) -> list[int]:
    return sorted(slots, key=lambda slot: -_weight(step, slot))[:MOST_QUESTIONS]


def _weight(step: StepRecord, slot: int) -> float:
    rows = step.of(slot)
    return float(step.columns[0].total_N[rows.start : rows.stop].abs().sum())


def _legend(step: StepRecord, most: float, coloured: bool) -> Text:
    """What the columns say, and the colours where there are any: they are of the run's own objective."""
    legend = Text(EXPLAINED, style="dim")
    if step.has_tokens:
        legend.append(f" {RECORDED}")
    if not coloured:
        return legend
    what = "Each token is coloured by its coefficient" if step.has_tokens else "Each text is coloured by that weight"
    legend.append(f" {what}:\n")
    for part in (1.0, 0.4, 0.0, -0.4, -1.0):
        legend.append(f" {compact(part * most, 3)} ", style=shade(part * most, most))
        legend.append(" ")
    legend.append("up … down", style="dim")
    if step.has_tokens:
        legend.append("  ").append("clipped", style="underline")
    return legend


def _question(console: Console, step: StepRecord, slot: int, most: float, longest: int | None) -> None:
    rows = step.of(slot)
    head = step.rows[rows[0]]
    weight = compact(_weight(step, slot)).lstrip("+")
    recorded = step.question_weights.get(slot)
    said = f" (as recorded: {compact(recorded).lstrip('+')})" if recorded is not None else ""
    console.print()
    console.print(
        Text.assemble(
            (f"question {one_line(head['question_id'])}: ", "bold"),
            f"{one_line(head['question'])}  ",
            (f"gold answer {one_line(str(head.get('gold')))}, weight {weight}{said}", "dim"),
        )
    )
    for made in _tables(console, blocks(step, slot)):
        put(console, made)
    for place, row in enumerate(rows):
        status = one_line(step.rows[row]["status"])
        console.print(Text(f"answer {place + 1}, {status}, {state(step, row)}", style="dim"))
        text = _text(step, row, most)
        cut = longest is not None and len(text) > longest
        console.print(Text.assemble(text[:longest], (" … (--all has all)", "dim")) if cut else text)


def _text(step: StepRecord, row: int, most: float) -> Text:
    """The answer, token by token where the run recorded them."""
    tokens = step.tokens[row]
    if tokens is None or not tokens.coefficient:
        whole = clean("".join(tokens.texts) if tokens else step.rows[row]["completion"])
        # an answer of a run with tokens that was not computed got nothing
        weight = 0.0 if step.has_tokens else float(step.columns[0].token_N[row])
        return Text(whole or "(no text)", style=shade(weight, most))
    made = Text()
    clipped = tokens.clipped or (False,) * len(tokens.texts)
    for text, coefficient, cut in zip(tokens.texts, tokens.coefficient, clipped, strict=True):
        made.append(clean(text), style=shade(coefficient, most) + Style(underline=cut or None))
    return made


def _tables(console: Console, parts: Sequence[Block]) -> list[Table]:
    """As few tables, one below the other, as show every block with no figure cut."""
    first, *others = parts
    for many in range(1, len(others) + 1):
        size = -(-len(others) // many)
        cut = [others[start : start + size] for start in range(0, len(others), size)]
        for gap in (2, 1):
            made = [_table([first, *some], gap) for some in cut]
            if all(fits(console, one) for one in made):
                return made
    return made


def _table(parts: Sequence[Block], gap: int) -> Table:
    made = Table(box=None, header_style="dim", padding=(0, gap, 0, 0), pad_edge=False)
    for upper, lower in (head for part in parts for head in part.heads):
        made.add_column(f"{upper}\n{lower}", justify="right", no_wrap=True)
    for cells in zip(*(part.cells for part in parts), strict=True):
        made.add_row(*(cell for some in cells for cell in some))
    return made


def shade(weight: float, most: float) -> Style:
    """Blue where an answer is made likelier, orange where less likely, the fuller the larger; none at weight 0."""
    part = min(1.0, abs(weight) / most) if most > 0 else 0.0
    if part == 0:
        return Style()
    full = _UP if weight > 0 else _DOWN
    mixed = [round(245 + (channel - 245) * (0.15 + 0.85 * part)) for channel in full]
    return Style(color="#000000", bgcolor=f"rgb({mixed[0]},{mixed[1]},{mixed[2]})")
