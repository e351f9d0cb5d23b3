"""Answers that their spelling decides: numbers, choice letters, times, ratios, numerals in a base. Pure and exact."""

from __future__ import annotations

import re
from fractions import Fraction

from .numbers import WORDS, Exact, exact
from .policy import DEFAULT, Policy

# A gold written as a decimal may be a rounding of the exact value: at most half a unit in its last place, and at most
# Policy.decimal_tolerance relative for an answer that is itself a decimal, or this much for a fraction that no decimal
# can write.
ROUNDING_TOLERANCE = Fraction(11, 1000)
_SPACED_COMMAS = re.compile(r"-?[1-9][0-9]{0,2}(?:, ?[0-9]{3})+")
_CHOICE = re.compile(r"\(?([A-J])\)?\.?")
_CHOICE_WITH_TEXT = re.compile(
    r"(?:\(([A-J])\)|([A-J])[.):])(?:\s+|(?=[\w$]|\\(?:text|frac|sqrt|\$)))(\S.*)", re.DOTALL
)
_DENIES = re.compile(
    r"(?:is|are|was)\b.*\b(?:not|wrong|incorrect|false)\b|(?:is|are)n't\b|cannot be (?:true|right|correct|the answer)\b"
    r"|(?:not|wrong|incorrect)$",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(\d{1,2})(?:\s*:\s*(\d{2})(?:\s*:\s*(\d{2}))?|(?=\s*(?:\\text\s*\{)?\s*[ap]\.?\s*m\.?\s*\}?$))"
    r"\s*(?:\\text\s*\{)?\s*([ap]\.?\s*m\.?)?\s*\}?",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[-/]\d{1,2}[-/]\d{4}|\d{4}/\d{1,2}/\d{1,2}")
_BASE_TEN = re.compile(r"(-?\d+)\s*_\s*(?:10|\{\s*(?:10|ten|\\text\s*\{\s*ten\s*\})\s*\})")
_RATIO = re.compile(r"\d+(?:\.\d+)?(?:\s*:\s*\d+(?:\.\d+)?)+")
_TO = re.compile(r"(?<=\d)\s+to\s+(?=\d)")
_BASED = re.compile(r"\(?([-+]?[0-9A-F.]+)\)?\s*_\s*\{?\s*(\d+|[a-z]+)\s*\}?")


def by_spelling(answer: str, gold: str, policy: Policy = DEFAULT) -> tuple[bool, str] | None:
    """(right or not, rule) for a gold that is a number, choice letter, time, ratio or based numeral; else None.

    Both texts are tidied.
    """
    if (dates := [_date(text) for text in (answer, gold)]) != [None, None]:
        return dates[0] == dates[1], "notation"
    gold_number = number(gold)
    if gold_number is not None and _RATIO.fullmatch(answer):  # 1:2 is 1/2, but 0:54 is not 0
        parts = [Fraction(part.strip()) for part in answer.split(":")]
        alike = len(parts) == 2 and parts[1] != 0 and parts[0] / parts[1] == gold_number.value
        return alike and gold_number.value.denominator != 1, "notation"
    if gold_number is not None and (ten := _BASE_TEN.fullmatch(answer)):
        answer = ten[1]
    if gold_number is not None and "," in gold and _SPACED_COMMAS.fullmatch(answer):
        answer = answer.replace(" ", "")  # 12, 500 beside a gold that is a number
    answer_number = number(answer)
    if gold_number is not None and answer_number is not None:
        return numbers_agree(answer_number, gold_number, policy), "number"
    bare_gold = _unwrap(gold)
    if choice := _CHOICE.fullmatch(bare_gold):
        return _choice(_unwrap(answer), choice[1], policy)
    for pattern in (_BASED, _TIME, _RATIO):
        if found := pattern.fullmatch(bare_gold):
            plain = _TO.sub(":", re.sub(r"^.*=\s*", "", _unwrap(answer)))
            other = pattern.fullmatch(plain)
            # the base may be left to the question: 1011 for 1011_2
            based = pattern is _BASED and plain == found[1]
            return based or (other is not None and _notation(pattern, other, found)), "notation"
    return None


def _date(text: str) -> tuple[int, ...] | None:
    """2024-01-05 is no subtraction, and 5/1/2024 no division."""
    found = _DATE.fullmatch(_unwrap(text))
    return tuple(int(part) for part in re.split("[-/]", found[0])) if found else None


def _unwrap(text: str) -> str:
    """Without text commands and without one pair of round brackets around a single letter."""
    return re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).strip().rstrip(".,;").strip()


def _choice(answer: str, gold: str, policy: Policy) -> tuple[bool, str] | None:
    answer = re.sub(r"^(?:option|choice|answer)\s+", "", answer, flags=re.IGNORECASE)
    if re.fullmatch(r"\(?[A-Ja-j]\)?\.?", answer):
        return answer.strip("().").upper() == gold, "choice"
    if policy.letters == "with_text" and (found := _CHOICE_WITH_TEXT.fullmatch(answer)):
        others = re.search(r"\b[A-J]\b|\b(?:or|and)\b", found[3]) or _DENIES.match(found[3])
        return (found[1] or found[2]) == gold and not others, "choice"
    return None


def _notation(pattern: re.Pattern[str], answer: re.Match[str], gold: re.Match[str]) -> bool:
    if pattern is _BASED:
        base = [str(WORDS.get(found[2], found[2])) for found in (answer, gold)]
        return answer[1].lstrip("+") == gold[1].lstrip("+") and base[0] == base[1]
    if pattern is _TIME:
        halves = [re.sub(r"[.\s]", "", found[4] or "").lower() for found in (answer, gold)]
        clocks = [tuple(int(part or 0) for part in found.group(1, 2, 3)) for found in (answer, gold)]
        return clocks[0] == clocks[1] and (not all(halves) or halves[0] == halves[1])
    ratios = [[Fraction(part.strip()) for part in found[0].split(":")] for found in (answer, gold)]
    return len(ratios[0]) == len(ratios[1]) and all(
        a * ratios[1][0] == g * ratios[0][0] for a, g in zip(ratios[0], ratios[1], strict=True)
    )


def number(text: str) -> Exact | None:
    """The exact value of a tidied text, also of a number word."""
    found = _unwrap(text) if "\\text" in text else text
    if found.startswith("(") and "," in found:  # (1,234) is a pair
        return None
    return exact(found.lower() if found.isalpha() else found)


def numbers_agree(answer: Exact, gold: Exact, policy: Policy = DEFAULT, factor: Fraction = Fraction(1)) -> bool:
    """Equal as values. A sum or product left undone is no result, unless the gold is one too."""
    if gold.plain and not answer.plain:
        return False
    if policy.percent == "any_scale":
        scales = (Fraction(1), Fraction(100), Fraction(1, 100))
        return any(close(answer.value * factor * scale, gold, answer, policy) for scale in scales)
    if answer.percent != gold.percent and policy.percent == "sign_optional":
        written = answer.value * 100 if answer.percent else gold.value * 100
        bare = gold.value if answer.percent else answer.value
        # the sign may be dropped or added (50 for 50%, and 50% for 50), but 0.5% is not 0.5
        if written == bare and (gold.percent or abs(bare) > 1):
            return True
    return close(answer.value * factor, gold, answer, policy)


def close(value: Fraction, gold: Exact, answer: Exact, policy: Policy) -> bool:
    """Is `value` the gold, or near enough under the policy's tolerances? answer: how the value was written."""
    difference, size = abs(value - gold.value), abs(gold.value)
    if difference <= Fraction(policy.numeric_tolerance) * size:
        return True
    if gold.places is None or gold.percent or difference > Fraction(1, 2 * 10**gold.places):
        return False
    denominator = value.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator == 1 or answer.places is not None:
        return difference <= Fraction(policy.decimal_tolerance) * size
    two_figures = len(str(abs(gold.value.numerator))) > 1 and size * 10**gold.places >= 10
    return policy.rounded_golds and two_figures and difference <= ROUNDING_TOLERANCE * size
