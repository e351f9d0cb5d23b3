r"""Is this answer that gold? Exact rules first, structure next, computer algebra last and only through `Algebra`. Pure.

The rules, in the order in which they are tried:
1. identical strings; integers; then the tidied spelling;
2. exact values as fractions: 0.5 = 1/2, 50% = 0.5, and 0.333 is not 1/3. Only a gold written as a decimal has a tolerance;
3. shapes: lists and sets unordered, tuples and intervals ordered and bracket-sensitive, `x=5` is 5, other equations are
   equations, words are words, two different units contradict;
4. what is left, one leaf at a time, goes to an Algebra (symbolic.py, in a worker). Without one, NeedsAlgebra is raised.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Protocol

from . import guards
from .normalize import tidy
from .numbers import WORDS, Exact, exact
from .regions import region
from .shapes import Items, Matrix, Named, Relation, Shape, Union, Value, Words, shape
from .units import conversion, split_unit


class NeedsAlgebra(Exception):
    """No exact rule decides this pair; it needs computer algebra."""


class Algebra(Protocol):
    """Decides about two expressions in tidied LaTeX. Every method may be slow, so it runs where it can be killed."""

    def equal(self, answer: str, gold: str, tolerance: float) -> bool:
        """Are they equal wherever both are defined? tolerance: relative, 0 for exact."""

    def proportional(self, answer: tuple[str, str], gold: tuple[str, str], positive: bool) -> bool:
        """Is answer[0]-answer[1] a constant (positive, if asked) multiple of gold[0]-gold[1]?"""


# A gold written as a decimal may be a rounding of the exact value: at most half a unit in its last place, and at most
# this much relative for an answer that is itself a decimal, or one per cent for a fraction that no decimal can write.
DECIMAL_TOLERANCE = Fraction(1, 10_000)
ROUNDING_TOLERANCE = Fraction(11, 1000)
# Operators that restate a question when left standing; allowed only where the gold has them too
_UNDONE = re.compile(r"\\(?:sum|prod|int|lim|binom)(?![a-zA-Z])|!")
_CHOICE = re.compile(r"\(?([A-J])\)?\.?")
_CHOICE_WITH_TEXT = re.compile(r"(?:\(([A-J])\)|([A-J])[.):])\s*(\S.*)", re.DOTALL)
_TIME = re.compile(r"(\d{1,2})\s*:\s*(\d{2})(?:\s*:\s*(\d{2}))?\s*(?:\\text\s*\{)?\s*([ap]\.?\s*m\.?)?\s*\}?", re.IGNORECASE)
_RATIO = re.compile(r"\d+(?:\.\d+)?(?:\s*:\s*\d+(?:\.\d+)?)+")
_BASED = re.compile(r"([-+]?[0-9A-F.]+)\s*_\s*\{?\s*(\d+|[a-z]+)\s*\}?")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")


def same(answer: str, gold: str, algebra: Algebra | None = None) -> tuple[bool, str]:
    """(is the answer right, the rule that decided). Raises NeedsAlgebra where only an Algebra could tell and none is given."""
    answer, gold = answer.strip(), gold.strip()
    if answer == gold:
        return bool(answer), "identical" if answer else "empty"
    if _INTEGER.fullmatch(answer) and _INTEGER.fullmatch(gold):
        return False, "integer"
    if len(answer) > 20 * guards.MAX_LENGTH:
        return False, f"refused: longer than {guards.MAX_LENGTH} characters"
    answer, gold = tidy(answer), tidy(gold)
    if not re.search(r"[^\s{}$?]", re.sub(r"\\text\s*\{\s*\}|\\(?:square|Box|ldots)", "", answer)):
        return False, "empty"
    if squeeze(answer) == squeeze(gold):
        return True, "same spelling"
    if why := guards.refusal(answer):
        return False, f"refused: {why}"
    try:
        decided = _special(answer, gold)
        return decided if decided is not None else (_equal(shape(answer), shape(gold), algebra), "structure")
    except ZeroDivisionError:
        return False, "division by zero"


def squeeze(text: str) -> str:
    """The spelling without what never matters: spaces outside words, and the case of words."""
    if "\\text" in text:
        text = re.sub(r"\\text\s*\{\s*([^{}]*?)\s*\}", lambda found: "\\text{" + found[1].lower() + "}", text)
    return re.sub(r"(?<![a-zA-Z]) | (?![a-zA-Z])", "", text)


def _special(answer: str, gold: str) -> tuple[bool, str] | None:
    """Numbers, choice letters, times, ratios and numerals in a base: decided from the spelling alone."""
    gold_number = number(gold)
    answer_number = number(answer)
    if gold_number is not None and answer_number is not None:
        return _numbers(answer_number, gold_number), "number"
    bare_gold = _unwrap(gold)
    if choice := _CHOICE.fullmatch(bare_gold):
        return _choice(_unwrap(answer), choice[1])
    for pattern in (_BASED, _TIME, _RATIO):
        if found := pattern.fullmatch(bare_gold):
            plain = re.sub(r"^.*=\s*", "", _unwrap(answer))
            other = pattern.fullmatch(plain)
            # the base may be left to the question: 1011 for 1011_2
            based = pattern is _BASED and plain == found[1]
            return based or (other is not None and _notation(pattern, other, found)), "notation"
    return None


def _unwrap(text: str) -> str:
    """Without text commands and without one pair of round brackets around a single letter."""
    return re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).strip().rstrip(".,;").strip()


def _choice(answer: str, gold: str) -> tuple[bool, str] | None:
    if re.fullmatch(r"\(?[A-Ja-j]\)?\.?", answer):
        return answer.strip("().").upper() == gold, "choice"
    if found := _CHOICE_WITH_TEXT.fullmatch(answer):
        others = re.search(r"\b[A-J]\b|\b(?:or|and)\b", found[3])
        return (found[1] or found[2]) == gold and not others, "choice"
    return None


def _notation(pattern: re.Pattern[str], answer: re.Match[str], gold: re.Match[str]) -> bool:
    if pattern is _BASED:
        base = [str(WORDS.get(found[2], found[2])) for found in (answer, gold)]
        return answer[1].lstrip("+") == gold[1].lstrip("+") and base[0] == base[1]
    if pattern is _TIME:
        halves = [re.sub(r"[.\s]", "", found[4] or "").lower() for found in (answer, gold)]
        clocks = [tuple(int(part) for part in found.group(1, 2, 3) if part) for found in (answer, gold)]
        return clocks[0] == clocks[1] and (not all(halves) or halves[0] == halves[1])
    ratios = [[Fraction(part.strip()) for part in found[0].split(":")] for found in (answer, gold)]
    return len(ratios[0]) == len(ratios[1]) and all(
        a * ratios[1][0] == g * ratios[0][0] for a, g in zip(ratios[0], ratios[1], strict=True)
    )


def number(text: str) -> Exact | None:
    """The exact value of a tidied text, also of a number word."""
    found = _unwrap(text) if "\\text" in text else text
    return exact(found.lower() if found.isalpha() else found)


def _numbers(answer: Exact, gold: Exact, factor: Fraction = Fraction(1)) -> bool:
    """Equal as values. A sum or product left undone is no result, unless the gold is one too."""
    if gold.plain and not answer.plain:
        return False
    if answer.percent != gold.percent:
        written = answer.value * 100 if answer.percent else gold.value * 100
        bare = gold.value if answer.percent else answer.value
        # the sign may be dropped or added (50 for 50%, and 50% for 50), but 0.5% is not 0.5
        if written == bare and (gold.percent or abs(bare) > 1):
            return True
    return close(answer.value * factor, gold, answer.places is not None)


def close(value: Fraction, gold: Exact, is_decimal: bool) -> bool:
    """Is `value` the gold exactly, or, for a gold written as a decimal, what that decimal rounds? See the constants."""
    if value == gold.value:
        return True
    if gold.places is None or gold.percent:
        return False
    difference, size = abs(value - gold.value), abs(gold.value)
    if difference > Fraction(1, 2 * 10**gold.places):
        return False
    denominator = value.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator == 1 or is_decimal:
        return difference <= DECIMAL_TOLERANCE * size
    two_figures = len(str(abs(gold.value.numerator))) > 1 and size * 10**gold.places >= 10
    return two_figures and difference <= ROUNDING_TOLERANCE * size


def _equal(answer: Shape, gold: Shape, algebra: Algebra | None) -> bool:
    if isinstance(answer, Named) and isinstance(gold, Named):
        if squeeze(answer.label) == squeeze(gold.label):
            return _equal(answer.shape, gold.shape, algebra)
        if isinstance(answer.shape, Value) and isinstance(gold.shape, Value):
            return _equations(("=", answer.label, answer.shape.text), ("=", gold.label, gold.shape.text), algebra)
        return False
    if isinstance(answer, Named | Relation) or isinstance(gold, Named | Relation):
        return _relations(answer, gold, algebra)
    if isinstance(answer, Matrix) or isinstance(gold, Matrix):
        return _matrices(answer, gold, algebra)
    if isinstance(answer, Union) or isinstance(gold, Union) or _real_line(answer) or _real_line(gold):
        return _regions(answer, gold, algebra)
    if isinstance(answer, Items) or isinstance(gold, Items):
        return _collections(answer, gold, algebra)
    if isinstance(answer, Words) or isinstance(gold, Words):
        texts = [re.sub(r"[\s.]+", " ", one.text.lower()).strip() for one in (answer, gold) if isinstance(one, Words | Value)]
        return texts[0] == texts[1]
    return _values(answer, gold, algebra)


def _values(answer: Value, gold: Value, algebra: Algebra | None) -> bool:
    factor = conversion(answer.unit, gold.unit)
    if factor is None or not answer.text:
        return False
    answer_number, gold_number = number(answer.text), number(gold.text)
    if answer_number is not None and gold_number is not None:
        return _numbers(answer_number, gold_number, factor)
    return expressions(answer.text, gold.text, algebra, gold_number)


def expressions(answer: str, gold: str, algebra: Algebra | None, gold_number: Exact | None = None) -> bool:
    """Two leaves that are not both numbers: same spelling, or the Algebra's word after the cheap refusals."""
    if squeeze(answer) == squeeze(gold):
        return True
    if _hopeless(answer, gold):
        return False
    if algebra is None:
        raise NeedsAlgebra
    tolerance = 0.0
    if gold_number is not None and gold_number.places is not None and abs(gold_number.value) * 10**gold_number.places >= 10:
        half_place = Fraction(1, 2 * 10**gold_number.places) / abs(gold_number.value)
        tolerance = float(min(ROUNDING_TOLERANCE, half_place))
    return algebra.equal(answer, gold, tolerance)


def _hopeless(answer: str, gold: str) -> bool:
    """Can these two not be equal, whatever algebra says? Undone operators, other variables, signs that are not maths."""
    if guards.refusal(answer) or not answer.isascii() or not gold.isascii() or re.search(r"[_'\"`]{2}|[#@&;'\"`?]", answer):
        return True
    if set(_UNDONE.findall(answer)) - set(_UNDONE.findall(gold)):
        return True
    if ("\\infty" in answer or "\\infty" in gold) or ("\\ldots" in answer) != ("\\ldots" in gold):
        return True
    # the gold is a constant and the answer is not: sin^2 x + cos^2 x is not the result 1
    return bool(_variables(answer)) and not _variables(gold)


def _variables(text: str) -> set[str]:
    """Letters that stand for unknowns; e and i are constants."""
    text = re.sub(r"\\(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|frac|cdot|times|pi|circ|arc\w+|div|infty|text|overline)(?![a-zA-Z])", " ", text)
    return set(re.findall(r"\\[a-zA-Z]+|[a-zA-Z]", text)) - {"e", "i"}


def _collections(answer: Shape, gold: Shape, algebra: Algebra | None) -> bool:
    if not isinstance(gold, Items):
        # a set of one element is that element; a list that only contains the gold is a hedge
        single = isinstance(answer, Items) and answer.brackets == "{}" and len(answer.items) == 1
        return single and isinstance(answer, Items) and _equal(answer.items[0], gold, algebra)
    if not isinstance(answer, Items):
        if isinstance(answer, Value) and (listed := _as_list(answer.text)) is not None and gold.brackets in ("", "{}"):
            return _collections(listed, gold, algebra)
        return gold.brackets == "{}" and len(gold.items) == 1 and _equal(answer, gold.items[0], algebra)
    unordered = ("", "{}")
    if answer.brackets in unordered and gold.brackets in unordered:
        return _unordered(answer.items, gold.items, algebra)
    if answer.brackets != gold.brackets and not (answer.brackets == "" and gold.brackets == "()"):
        return False
    return len(answer.items) == len(gold.items) and _every(zip(answer.items, gold.items, strict=True), algebra)


def _as_list(text: str) -> Items | None:
    """ "100,200" reads as a number with a thousands separator, and as a list where the other side is one."""
    parts = text.split(",")
    return Items("", tuple(Value(part) for part in parts)) if len(parts) > 1 and all(p.strip().isdigit() for p in parts) else None


def _every(pairs, algebra: Algebra | None) -> bool:  # type: ignore[no-untyped-def]
    """All pairs equal. Cheap ones first: a wrong one among them decides without algebra."""
    undecided = []
    for pair in pairs:
        try:
            if not _equal(*pair, None):
                return False
        except NeedsAlgebra:
            undecided.append(pair)
    if undecided and algebra is None:
        raise NeedsAlgebra
    return all(_equal(*pair, algebra) for pair in undecided)


def _unordered(answer: tuple[Shape, ...], gold: tuple[Shape, ...], algebra: Algebra | None) -> bool:
    """Equal as sets: each element of one is in the other. Elements that two exact rules settle need no algebra."""
    if max(len(answer), len(gold)) > 60 or (not answer or not gold) and answer != gold:
        return False

    def covered(left: tuple[Shape, ...], right: tuple[Shape, ...], swap: bool) -> bool:
        for one in left:
            found, unsure = False, []
            for other in right:
                pair = (other, one) if swap else (one, other)
                try:
                    found = found or _equal(*pair, None)
                except NeedsAlgebra:
                    unsure.append(pair)
            if not found:
                if not unsure:
                    return False
                if algebra is None:
                    raise NeedsAlgebra
                if not any(_equal(*pair, algebra) for pair in unsure):
                    return False
        return True

    return covered(gold, answer, True) and covered(answer, gold, False)


def _matrices(answer: Shape, gold: Shape, algebra: Algebra | None) -> bool:
    if isinstance(gold, Matrix) and isinstance(answer, Items) and answer.brackets == "()" and all(len(row) == 1 for row in gold.rows):
        answer = Matrix(tuple((item,) for item in answer.items))
    if not (isinstance(answer, Matrix) and isinstance(gold, Matrix)) or answer.kind != gold.kind:
        return False
    if [len(row) for row in answer.rows] != [len(row) for row in gold.rows]:
        return False
    cells = [pair for rows in zip(answer.rows, gold.rows, strict=True) for pair in zip(*rows, strict=True)]
    return _every(cells, algebra)


def _real_line(one: Shape) -> bool:
    return isinstance(one, Value) and one.text == "\\mathbb{R}"


def _regions(answer: Shape, gold: Shape, algebra: Algebra | None) -> bool:
    if isinstance(answer, Union | Items) and isinstance(gold, Union | Items):
        merged = [_merged(one) for one in (answer, gold)]
        if merged[0] is not None and merged[1] is not None:
            return _equal(merged[0], merged[1], algebra)
    first, second = region(answer), region(gold)
    if first is not None and second is not None:
        return first == second
    if isinstance(answer, Union) and isinstance(gold, Union):
        return _unordered(answer.parts, gold.parts, algebra)
    return False


def _merged(one: Union | Items) -> Items | None:
    """A union of sets as one set."""
    if isinstance(one, Items):
        return one if one.brackets == "{}" else None
    sets = [part for part in one.parts if isinstance(part, Items) and part.brackets == "{}"]
    return Items("{}", tuple(item for part in sets for item in part.items)) if len(sets) == len(one.parts) else None


def _relations(answer: Shape, gold: Shape, algebra: Algebra | None) -> bool:
    if isinstance(answer, Relation) and isinstance(gold, Relation):
        answer_region, gold_region = region(answer), region(gold)
        if answer_region is not None and gold_region is not None and region_names(answer, gold):
            return answer_region == gold_region
        return _equations(_two_sided(answer), _two_sided(gold), algebra) or _chains(answer, gold, algebra)
    for one, other in ((answer, gold), (gold, answer)):
        if isinstance(one, Named) and isinstance(other, Relation):
            if isinstance(one.shape, Value):
                pairs = (("=", one.label, one.shape.text), _two_sided(other))
                return _equations(*(pairs if one is answer else pairs[::-1]), algebra)
            first, second = region(one.shape), region(other)
            return first is not None and first == second
    if isinstance(answer, Named):
        return _equal(answer.shape, gold, algebra)
    if isinstance(gold, Named):
        return _equal(answer, gold.shape, algebra)
    first, second = region(answer), region(gold)
    return first is not None and first == second


def region_names(answer: Relation, gold: Relation) -> bool:
    """Do two inequalities speak of the same unknown?"""
    names = [{squeeze(side) for side in one.sides if re.search(r"[a-zA-Z]", side.replace("\\infty", ""))} for one in (answer, gold)]
    return names[0] == names[1]


def _two_sided(relation: Relation) -> tuple[str, str, str]:
    """(operator, left, right) with > turned round; operator "" for a chain, which is compared side by side."""
    if len(relation.ops) != 1:
        return ("", "", "")
    op, left, right = relation.ops[0], relation.sides[0], relation.sides[1]
    return (op.replace(">", "<"), right, left) if ">" in op else (op, left, right)


def _equations(answer: tuple[str, str, str], gold: tuple[str, str, str], algebra: Algebra | None) -> bool:
    """Equations and inequalities: the same relation between left minus right, up to a constant factor."""
    if answer[0] != gold[0] or not answer[0] or answer[0] == "in":
        return False
    if all(_variables(side) == set() for side in answer[1:]):
        return False
    if [squeeze(side) for side in answer[1:]] == [squeeze(side) for side in gold[1:]]:
        return True
    sides = [split_unit(side)[0] for side in (*answer[1:], *gold[1:])]
    if any(guards.refusal(side) or not side.isascii() or _UNDONE.search(side) for side in sides):
        return False
    if algebra is None:
        raise NeedsAlgebra
    return algebra.proportional((sides[0], sides[1]), (sides[2], sides[3]), positive="<" in answer[0])


def _chains(answer: Relation, gold: Relation, algebra: Algebra | None) -> bool:
    """Chains such as -1 <= g(x) <= 1, read in either direction."""
    if len(gold.ops) < 2 or len(answer.ops) != len(gold.ops):
        return False
    turned = Relation(answer.sides[::-1], tuple(op.translate(str.maketrans("<>", "><")) for op in answer.ops[::-1]))
    for one in (answer, turned):
        if one.ops == gold.ops and _every(
            ((Value(a), Value(g)) for a, g in zip(one.sides, gold.sides, strict=True)), algebra
        ):
            return True
    return False
