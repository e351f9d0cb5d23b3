"""`compare --check 'length/wrong: dr_grpo < grpo'`: one stated difference, as an exit code for scripts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import InputError, nearest
from .effects import Values, effects, needed, shown
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
    if key not in by_key:
        raise InputError(
            f"--check '{text}': no measure is named {key}.{nearest(key, by_key)}\n  measures: {', '.join(by_key)}"
        )
    arms = find(left, comparison, text), find(right, comparison, text)
    if arms[0] is arms[1]:
        raise InputError(f"--check '{text}': both sides name the arm {arms[0].name}.")
    return by_key[key], arms[0], 1 if sign == ">" else -1, arms[1]


def find(name: str, comparison: Comparison, text: str) -> Arm:
    """The arm of a label, a name (key=value, …), one key=value or one value, if one arm alone has it; case aside."""
    known = {arm.name: _names(arm) for arm in comparison.arms}
    found = [arm for arm in comparison.arms if name.casefold() in known[arm.name]]
    whole = [arm for arm in found if name.casefold() in (arm.name.casefold(), arm.label.casefold())]
    if len(whole or found) == 1:
        return (whole or found)[0]
    if found:
        why = f"{name} names {len(found)} arms. Name one by what no other has:"
    else:
        every = {word for words in known.values() for word in words}
        why = f"no arm is named {name}.{nearest(name.casefold(), every)} The arms:"
    lines = [arm.name if arm.label == arm.name else f"{arm.label}: {arm.name}" for arm in found or comparison.arms]
    if len(lines) > 4:
        lines = [*lines[:3], f"… and {len(lines) - 3} more"]
    raise InputError("\n  ".join([f"--check '{text}': {why}", *lines]))


def _names(arm: Arm) -> set[str]:
    """All that may stand for an arm, in lower case; of a key also its last part."""
    found = {arm.name, arm.label}
    for key, value in arm.values.items():
        for form in _forms(value):
            found |= {form, f"{key}={form}", f"{key.rsplit('.', 1)[-1]}={form}"}
    return {name.casefold() for name in found}


def _forms(value: object) -> set[str]:
    """As Python and as YAML write a value, and a float without idle zeros."""
    forms = {str(value)}
    if value is None:
        forms.add("null")
    if isinstance(value, float):
        forms.add(f"{value:g}")
    return forms
