"""What the screen and the page of a step both show: figures as text, block by block, and the scale of the colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .show import compact, signed
from .step import RUN, StepRecord
from .tokens import Tokens, mean

EXPLAINED = (
    "Under each method: the advantage A of an answer, and what one of its tokens weighs, before the clip and the KL "
    "term (the same for all of its tokens). RLOO, leave-one-out, sums over an answer and divides by nothing."
)
RECORDED = (
    "The coefficient of a token is what its ∇log π was multiplied by when it was trained on: its weight with ratio, "
    "clip, importance weight and the KL term in it (of several optimizer steps, the last that used it)."
)
LEVELS = 20  # steps of a colour


class Block(NamedTuple):
    """Columns that stay together. heads: (upper, lower) of each on the screen; cells: of each answer.

    title, names: the heads where there is room, one over all columns and one over each.
    """

    title: str
    names: Sequence[str]
    heads: Sequence[tuple[str, str]]
    cells: Sequence[Sequence[str]]


def blocks(step: StepRecord, slot: int) -> list[Block]:
    """The answers; what each objective gives them; what was recorded as they were trained on, where that is there."""
    rows = step.of(slot)
    made = [
        Block(
            "",
            ("answer", "reward", "tokens"),
            (("", "answer"), ("", "reward"), ("", "tokens")),
            [(str(place + 1), reward(step, row), str(step.rows[row]["tokens"])) for place, row in enumerate(rows)],
        )
    ]
    for column in step.columns:
        label = column.objective.label
        ours = f"= {RUN}" if column.of_the_run and label != RUN else ""
        cells = [
            (signed(float(column.advantages_N[row])), compact(float(column.token_N[row]), 3))
            if step.included[row]
            else ("excluded", "-")
            for row in rows
        ]
        heads = ((label, "A"), (ours, "a token"))
        made.append(Block(f"{label} {ours}", ("A", "a token"), heads, cells))
    if step.has_tokens:
        trained_heads = (("ratio", "mean (range)"), ("KL part", "mean"), ("clipped", "tokens"))
        names = ("ratio, mean (range)", "KL part", "clipped")
        made.append(Block("as trained", names, trained_heads, [trained(step.tokens[row]) for row in rows]))
    return made


def reward(step: StepRecord, row: int) -> str:
    """The reward, a dash where there is none."""
    value = step.rows[row]["reward"]
    return "-" if value is None else f"{value:g}"


def trained(tokens: Tokens | None) -> tuple[str, str, str]:
    """(ratio, KL part of the coefficient, clipped tokens) of an answer; dashes for what was not computed."""
    if tokens is None:
        return "-", "-", "-"
    average = mean(tokens.ratio)
    ratio = "-"
    if tokens.ratio and average is not None:
        least, most = min(tokens.ratio), max(tokens.ratio)
        ratio = f"{average:.4g}" + (f" ({least:.4g}–{most:.4g})" if least < most else "")
    part = mean(tokens.kl_coefficient)
    clipped = "-" if tokens.clipped is None else str(sum(tokens.clipped))
    return ratio, "-" if part is None else compact(part, 3), clipped


def state(step: StepRecord, row: int) -> str:
    """An answer's weight, or the range of its tokens' coefficients, or why it has none."""
    if not step.included[row]:
        why = "no reward" if step.rows[row]["reward"] is None else "left out of baseline and loss"
        return f"excluded: {why}"
    weight = float(step.columns[0].token_N[row])
    tokens = step.tokens[row]
    if tokens is not None and tokens.coefficient:
        least, most = compact(min(tokens.coefficient), 3), compact(max(tokens.coefficient), 3)
        return f"coefficient {least}" + (f" to {most}" if least != most else "")
    return f"{compact(weight)} a token" + (", not computed" if step.has_tokens else "")


def scale(step: StepRecord) -> float:
    """The largest coefficient of a token, without its sign; of a run that recorded none, the largest weight."""
    found = [abs(value) for tokens in step.tokens if tokens for value in tokens.coefficient or ()]
    return max(found) if found else max(float(step.columns[0].token_N.abs().max()), 0.0)


def level(value: float, most: float) -> int:
    """How full a colour is: 0 for none at value 0, else 1 to LEVELS by size, with the sign of the value."""
    if value == 0 or most <= 0:
        return 0
    size = max(1, min(LEVELS, round(LEVELS * abs(value) / most)))
    return size if value > 0 else -size
