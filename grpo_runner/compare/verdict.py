"""Effects -> sentences. What is said follows from the figures by the rules below; docs/statistics.md explains them.

- Under MIN_PAIRS pairs, or fewer than the family's correction needs, there is no verdict: figures with their signs, and
  the difference that could not have been seen.
- "longer", "shorter" and the like are said of a difference that is shown (effects.shown), whose interval is then turned
  to that direction. Any other difference stands with its sign, then "no difference shown", why where test and interval
  disagree, and the difference that could not have been seen.
- Where all pairs differ alike there is no interval: "the same in all 12 pairs", "0.4 points higher in each of 8 pairs".
- What tells a difference from 0, its mean and an interval that leaves 0 out, is not printed as 0: digits are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from .effects import needed, shown
from .types import Effect, Measure


def verdict(effects: Sequence[Effect], paired: bool = False) -> list[str]:
    """One sentence for each arm, the primary measures; then one for its other measures, and the caveat of many arms.

    paired: whether some arm has a seed that the baseline has, which is said where there is no effect.
    """
    arms = list(dict.fromkeys(effect.arm.name for effect in effects))
    if not arms:
        why = (
            "has a seed in common with the baseline"
            if not paired
            else "shares a figure of the window with the baseline"
        )
        return [f"No verdict: no arm {why}, so there is no pair to compare."]
    said = []
    for name in arms:
        own = [effect for effect in effects if effect.arm.name == name]
        primary = [effect for effect in own if effect.primary]
        said += [_primary(primary or own)]
        if primary and len(own) > len(primary):
            of_which = f" of {own[0].arm.label}" if len(arms) > 1 else ""
            said += [_others([effect for effect in own if not effect.primary], of_which)]
    if len(arms) > 1 and any(_enough(effect) for effect in effects):
        said.append(_many(len(arms), effects[0]))
    return said


def _primary(effects: Sequence[Effect]) -> str:
    """What was stated beforehand; the shown differences first."""
    first, pairs = effects[0], max(len(effect.seeds) for effect in effects)
    head = f"{first.arm.label} against {first.baseline.label}, {_count(pairs, 'paired seed')}"
    enough = [effect for effect in effects if _enough(effect)]
    if not enough:
        head += f", no verdict ({_needs(effects)})"
    ordered = sorted(effects, key=lambda effect: not shown(effect))
    parts = [_part(effect, pairs, said=bool(enough)) for effect in ordered]
    return f"{head}: " + "; ".join([*parts, *_unseen(ordered)])


def _others(effects: Sequence[Effect], of_which: str = "") -> str:
    """What was not stated beforehand: only what is left after the correction, as something to test on fresh seeds."""
    count = len(effects)
    head = f"Not stated beforehand, {count} other {'measure' if count == 1 else 'measures'}{of_which}: "
    found = [effect for effect in effects if shown(effect)]
    if found:
        pairs = max(len(effect.seeds) for effect in effects)
        parts = "; ".join(_part(effect, pairs) for effect in found)
        rest = "" if len(found) == count else ", no difference shown in the others"
        return f"{head}{parts}{rest}; to be tested on fresh seeds."
    if not any(_enough(effect) for effect in effects):
        return f"{head}no verdict ({_needs(effects)})."
    return f"{head}no difference shown."


def _many(arms: int, effect: Effect) -> str:
    percent = 100 * (1 - effect.level)
    return (
        f"{arms} arms were compared with {effect.baseline.label}, each held to a chance of {percent:g} % of a false "
        f'"shown"; over all of them it can reach {min(100.0, arms * percent):g} %.'
    )


def _part(effect: Effect, pairs: int, said: bool = True) -> str:
    """One measure. pairs: what the sentence's head says; said: whether the head leaves the verdict to the parts."""
    count = len(effect.seeds)
    fewer = "" if count == pairs else f" ({_count(count, 'pair')})"
    if effect.low is None and count > 1:  # no spread
        if effect.mean == 0:
            return f"{effect.measure.subject} the same in all {count} pairs"
        fewer = f" in each of {count} pairs"
    if shown(effect):
        return f"{effect.measure.subject} {in_words(effect)}{fewer}{_questions(effect, turned=True)}"
    figures = signed(effect) + fewer + _questions(effect)
    why = (_why_not(effect) if _enough(effect) else f", no verdict ({_needs([effect])})") if said else ""
    return f"{effect.measure.subject} {figures}{why}"


def _questions(effect: Effect, turned: bool = False) -> str:
    """The interval over new questions as well as new seeds, which the test knows nothing of."""
    if effect.questions is None:
        return ""
    sign = -1 if turned and effect.mean < 0 else 1
    low, high = (number(end, digits_of(effect)) for end in sorted(sign * end for end in effect.questions))
    return f" (other questions too: [{low}, {high}])"


def _why_not(effect: Effect) -> str:
    """Why no difference is shown, where a reader of the interval or of p alone would think otherwise."""
    alpha = 1 - effect.level + 1e-12
    outside = effect.low is None or effect.high is None or effect.low > 0 or effect.high < 0
    if outside and effect.p is not None and effect.p_holm is not None:
        if effect.p <= alpha:
            many = f"{effect.family} measures: p {p_value(effect.p)}, corrected {p_value(effect.p_holm)}"
            return f", no difference shown after the correction for {many}"
        return f", no difference shown by the sign-flip test (p {p_value(effect.p)})"
    if effect.p_holm is not None and effect.p_holm <= alpha:
        return f", no difference shown: the interval holds 0, though the sign-flip test has p {p_value(effect.p_holm)}"
    return ", no difference shown"


def _unseen(effects: Sequence[Effect]) -> list[str]:
    """ "differences under 1.4 points could not have been seen", of all measures without a shown difference."""
    missed = [effect for effect in effects if not shown(effect) and effect.detectable is not None]
    if not missed:
        return []
    named = len(effects) > 1 and len(missed) > 1
    parts = [
        _with_unit(effect.measure, number(unseen, _digits(unseen, effect.measure.digits)))
        + (f" ({effect.measure.subject})" if named else "")
        for effect in missed
        for unseen in [effect.detectable or 0.0]
    ]
    either = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"
    return [f"differences under {either} could not have been seen"]


def _enough(effect: Effect) -> bool:
    return len(effect.seeds) >= needed(effect)


def _needs(effects: Sequence[Effect]) -> str:
    least, family = max((needed(effect), effect.family) for effect in effects)
    return f"it needs {least} pairs" + (f" for {family} measures" if family > 1 else "")


def in_words(effect: Effect) -> str:
    """`3.1 tokens shorter [0.4, 5.8]`: turned so that the words give the direction."""
    word = effect.measure.words[0 if effect.mean > 0 else 1]
    sign = 1 if effect.mean > 0 else -1
    digits = digits_of(effect)
    size = f"{_with_unit(effect.measure, number(abs(effect.mean), digits))} {word}"
    if effect.low is None or effect.high is None:
        return size
    low, high = sorted((sign * effect.low, sign * effect.high))
    return f"{size} [{number(low, digits)}, {number(high, digits)}]"


def signed(effect: Effect) -> str:
    """`+0.2 points [−0.9, 1.3]`."""
    digits = digits_of(effect)
    figure = number(effect.mean, digits)
    if effect.mean > 0 and any(digit in figure for digit in "123456789"):
        figure = f"+{figure}"
    size = _with_unit(effect.measure, figure)
    if effect.low is None or effect.high is None:
        return size
    return f"{size} [{number(effect.low, digits)}, {number(effect.high, digits)}]"


def digits_of(effect: Effect) -> int:
    """The measure's digits, or so many more that what tells the difference from 0 is not printed as 0.

    That is the mean and both ends where they leave out 0; else the end that is further off.
    """
    telling = [effect.mean]
    if effect.low is not None and effect.high is not None:
        outside = effect.low > 0 or effect.high < 0
        telling = [effect.mean, effect.low, effect.high] if outside else [max(-effect.low, effect.high)]
    return max(_digits(value, effect.measure.digits) for value in telling)


def number(value: float, digits: int) -> str:
    """`−1,234.5`; what is huge, or wants more than nine digits, as `3e−12`."""
    if abs(value) >= 1e15 or digits > 9:
        text = f"{value:.2g}"
    else:
        text = f"{value:,.{digits}f}"
        if float(text.replace(",", "")) == 0:
            text = text.lstrip("-")
    return text.replace("-", "−")


def p_value(p: float) -> str:
    """`.031`; `< .001`."""
    return "< .001" if p < 0.001 else f"{p:.3f}".replace("0.", ".", 1)


def _digits(value: float, digits: int) -> int:
    """The digits asked for, or so many that the first one of a value that is not 0 is printed."""
    if value == 0 or abs(round(value, digits)) > 0:
        return digits
    return -floor(log10(abs(value)))


def _with_unit(measure: Measure, figure: str) -> str:
    """`1 token`, `1.0 tokens`, `0.2`."""
    unit = measure.unit
    if figure.lstrip("−") == "1" and len(unit) > 2 and unit.endswith("s"):
        unit = unit[:-1]
    return f"{figure} {unit}" if unit else figure


def _count(number_of: int, noun: str) -> str:
    return f"{number_of} {noun}{'' if number_of == 1 else 's'}"
