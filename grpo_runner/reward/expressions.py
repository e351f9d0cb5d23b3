r"""Two leaves that are not both numbers: refusals that need no algebra, then the Algebra's word. Pure."""

from __future__ import annotations

import re
from fractions import Fraction

from . import guards
from .judge import Judge, NeedsAlgebra
from .normalize import squeeze
from .notation import ROUNDING_TOLERANCE, number
from .numbers import Exact
from .units import split_unit

# Operators that restate a question when left standing; allowed only where the gold has them too
UNDONE = re.compile(
    r"\\(?:sum|prod|int|lim|binom)(?![a-zA-Z])|\\p?mod(?![a-zA-Z])|!"
    r"|\\frac\s*\{\s*d\s*\}\s*\{\s*d\s*[a-zA-Z]\s*\}"
)
_SCRIPTS = re.compile(r"[\^_]\s*(?:\{[^{}]*\}|-?\d+|\\?\w)")
_SIDE_BY_SIDE = re.compile(r"[\d}]\s+\d")  # two numbers are no product; two powers are, and pass as letters
_INVERSE = re.compile(r"[fgh]\s*\^\s*(?:\{\s*-1\s*\}|-1)\s*\(")  # f^{-1}(x) is not 1/f(x)
_SUBSCRIPTED = re.compile(r"[0-9)]\s*_")


def expressions(answer: str, gold: str, judge: Judge, gold_number: Exact | None = None) -> bool:
    """Two leaves that are not both numbers: same spelling, or the Algebra's word after the cheap refusals."""
    if squeeze(answer) == squeeze(gold):
        return True
    if _hopeless(answer, gold):
        return False
    if judge.algebra is None:
        raise NeedsAlgebra
    policy = judge.policy
    tolerance = 0.0 if variables(gold) else policy.numeric_tolerance
    if (
        policy.rounded_golds
        and gold_number is not None
        and gold_number.places is not None
        and abs(gold_number.value) * 10**gold_number.places >= 10
    ):
        half_place = Fraction(1, 2 * 10**gold_number.places) / abs(gold_number.value)
        tolerance = max(tolerance, float(min(ROUNDING_TOLERANCE, half_place)))
    return judge.algebra.equal(answer, gold, tolerance)


def rounds_to(value: str, about: str, judge: Judge) -> bool:
    """Is the written decimal `about` a rounding of an exact value, as in 72\\pi ≈ 226.19? Up to half its last unit."""
    first, second = number(value), number(split_unit(about)[0])
    if second is None or (second.places is None and second.value.denominator != 1):
        return False
    half = Fraction(1, 2 * 10 ** (second.places or 0))
    if first is not None:
        return abs(first.value - second.value) <= half
    if second.value == 0 or _hopeless(value, about):
        return False
    if judge.algebra is None:
        raise NeedsAlgebra
    return judge.algebra.equal(value, about, float(min(ROUNDING_TOLERANCE, half / abs(second.value))))


def _hopeless(answer: str, gold: str) -> bool:
    """Are these two unequal whatever algebra says? Undone operators, other variables, signs that are not maths."""
    if (
        guards.refusal(answer, guards.MAX_EXPRESSION)
        or guards.refusal(gold, guards.MAX_EXPRESSION)
        or "\\text" in answer + gold
        or not answer.isascii()
        or not gold.isascii()
        or _side_by_side(answer) != _side_by_side(gold)
        or bool(_INVERSE.search(answer)) != bool(_INVERSE.search(gold))
        or re.search(r"[#@&;'\"`?=<>]|__", answer)
    ):
        return True
    if set(UNDONE.findall(answer)) - set(UNDONE.findall(gold)):
        return True
    if re.match(r"[-+]\s*[-+]", answer) or bool(_SUBSCRIPTED.search(answer)) != bool(_SUBSCRIPTED.search(gold)):
        return True
    if ("\\infty" in answer or "\\infty" in gold) or ("\\ldots" in answer) != ("\\ldots" in gold):
        return True
    # the gold is a constant and the answer is not: sin^2 x + cos^2 x is not the result 1
    return bool(variables(answer)) and not variables(gold)


def _side_by_side(text: str) -> bool:
    return bool(_SIDE_BY_SIDE.search(_SCRIPTS.sub("v", text)))


def variables(text: str) -> set[str]:
    """The letters that stand for unknowns; e and i are constants."""
    text = re.sub(
        r"\\(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|frac|cdot|times|pi|circ|arc\w+|div|infty|text|overline)(?![a-zA-Z])",
        " ",
        text,
    )
    return set(re.findall(r"\\[a-zA-Z]+|[a-zA-Z]", text)) - {"e", "i"}
