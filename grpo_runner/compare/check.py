"""`compare --check 'length/wrong: dr_grpo < grpo'`: one stated difference, as an exit code for scripts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import InputError, nearest
from .effects import Values, effects, needed, shown
from .measures import canonical, runs_of
from .naming import find
from .types import Arm, Comparison, Measure
from .verdict import verdict

SHOWN, NOT_SHOWN, TOO_FEW = 0, 1, 3
FORM = "MEASURE: ARM < ARM, or with >; for example 'length/wrong: dr_grpo < grpo'"


def check(
    text: str, comparison: Comparison, measures: Sequence[Measure], values: Values, level: float = 0.95
) -> tuple[int, str]:
    """(0 shown, 1 not shown, 3 too few pairs; the verdict in words). By the rule of `effects.shown`, of one measure.

    The test is two-sided as the verdict's is: a difference that is shown the other way round is not shown. Raises
    InputError where the text, the measure or an arm cannot be read.
    """
    measure, left, above, right = parse(text, comparison, measures)
    two = Comparison(comparison.title, comparison.by, (right, left), comparison.shared, comparison.warnings)
    found = effects(two, [measure], values, [measure.key], level)
    if not found:
        return TOO_FEW, f"too few pairs: {left.label} and {right.label} have no seed with {measure.title} in common"
    sentence = verdict(found)[0]
    effect = found[0]
    if len(effect.seeds) < needed(effect):
        return TOO_FEW, f"too few pairs: {sentence}"
    if shown(effect) == above:
        return SHOWN, f"shown: {sentence}"
    return NOT_SHOWN, f"not shown{', but the opposite' if shown(effect) else ''}: {sentence}"


def parse(text: str, comparison: Comparison, measures: Sequence[Measure]) -> tuple[Measure, Arm, int, Arm]:
    """The measure, the arm on the left, +1 where it is to be above (>) or -1 below (<), the arm on the right."""
    match = re.fullmatch(r"\s*([^\s:]+)\s*:\s*([^<>\s][^<>]*?)\s*([<>])\s*([^<>\s][^<>]*?)\s*", text)
    if not match:
        raise InputError(f"--check '{text}': cannot be read. Write {FORM}.")
    key, left, sign, right = match.groups()
    by_key = {measure.key: measure for measure in measures}
    key = key if key in by_key else canonical(key, runs_of(comparison))
    if key not in by_key:
        raise InputError(
            f"--check '{text}': no measure is named {key}.{nearest(key, by_key)}\n  measures: {', '.join(by_key)}"
        )
    where = f"--check '{text}'"
    arms = find(left, comparison.arms, where), find(right, comparison.arms, where)
    if arms[0] is arms[1]:
        raise InputError(f"--check '{text}': both sides name the arm {arms[0].name}.")
    return by_key[key], arms[0], 1 if sign == ">" else -1, arms[1]


def worst(codes: Sequence[int]) -> int:
    """Of several checks: 0 where all are shown, 1 where one is not, else 3 (too few pairs)."""
    return NOT_SHOWN if NOT_SHOWN in codes else max(codes)
