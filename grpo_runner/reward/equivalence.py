r"""Is this answer that gold? Exact rules first, structure next, computer algebra last and only through `Algebra`. Pure.

The rules, in the order in which they are tried:
1. identical strings; integers; then the tidied spelling;
2. exact values as fractions: 0.5 = 1/2, 50% = 0.5, and 0.333 is not 1/3. Only a decimal gold has a tolerance;
3. shapes: lists and sets unordered, tuples and intervals ordered and bracket-sensitive, `x=5` is 5, other equations are
   equations, words are words, two different units contradict;
4. what is left, one leaf at a time, goes to an Algebra (symbolic.py, in a worker). Without one, NeedsAlgebra is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Protocol

from . import guards
from .normalize import squeeze, tidy
from .notation import ROUNDING_TOLERANCE, by_spelling, number, numbers_agree
from .numbers import Exact
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


# Operators that restate a question when left standing; allowed only where the gold has them too
_UNDONE = re.compile(r"\\(?:sum|prod|int|lim|binom)(?![a-zA-Z])|!")
_SUBSCRIPTED = re.compile(r"[0-9)]\s*_")
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def same(answer: str, gold: str, algebra: Algebra | None = None) -> tuple[bool, str]:
    """(is the answer right, the rule that decided). Raises NeedsAlgebra where only an Algebra could tell."""
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
        decided = by_spelling(answer, gold)
        return decided if decided is not None else (_equal(shape(answer), shape(gold), algebra), "structure")
    except ZeroDivisionError:
        return False, "division by zero"


def _equal(answer: Shape, gold: Shape, algebra: Algebra | None) -> bool:
    if isinstance(answer, Named) and isinstance(gold, Named):
        labels = {squeeze(answer.label), squeeze(gold.label)}
        if len(labels) == 1 or labels == {"y", "f(x)"}:
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
        texts = [
            re.sub(r"[\s.]+", " ", one.text.lower()).strip() for one in (answer, gold) if isinstance(one, Words | Value)
        ]
        return texts[0] == texts[1]
    return _values(answer, gold, algebra)


def _values(answer: Value, gold: Value, algebra: Algebra | None) -> bool:
    factor = conversion(answer.unit, gold.unit)
    if factor is None or not answer.text:
        return False
    answer_number, gold_number = number(answer.text), number(gold.text)
    if answer_number is not None and gold_number is not None:
        return numbers_agree(answer_number, gold_number, factor)
    text = answer.text
    if factor != 1:
        text = f"\\frac{{{factor.numerator}}}{{{factor.denominator}}} \\cdot ({text})"
    return expressions(text, gold.text, algebra, gold_number)


def expressions(answer: str, gold: str, algebra: Algebra | None, gold_number: Exact | None = None) -> bool:
    """Two leaves that are not both numbers: same spelling, or the Algebra's word after the cheap refusals."""
    if squeeze(answer) == squeeze(gold):
        return True
    if _hopeless(answer, gold):
        return False
    if algebra is None:
        raise NeedsAlgebra
    tolerance = 0.0
    if (
        gold_number is not None
        and gold_number.places is not None
        and abs(gold_number.value) * 10**gold_number.places >= 10
    ):
        half_place = Fraction(1, 2 * 10**gold_number.places) / abs(gold_number.value)
        tolerance = float(min(ROUNDING_TOLERANCE, half_place))
    return algebra.equal(answer, gold, tolerance)


def _hopeless(answer: str, gold: str) -> bool:
    """Are these two unequal whatever algebra says? Undone operators, other variables, signs that are not maths."""
    if (
        guards.refusal(answer)
        or guards.refusal(gold)
        or not answer.isascii()
        or not gold.isascii()
        or re.search(r"[#@&;'\"`?=<>]|__", answer)
    ):
        return True
    if set(_UNDONE.findall(answer)) - set(_UNDONE.findall(gold)):
        return True
    if re.match(r"[-+]\s*[-+]", answer) or bool(_SUBSCRIPTED.search(answer)) != bool(_SUBSCRIPTED.search(gold)):
        return True
    if ("\\infty" in answer or "\\infty" in gold) or ("\\ldots" in answer) != ("\\ldots" in gold):
        return True
    # the gold is a constant and the answer is not: sin^2 x + cos^2 x is not the result 1
    return bool(_variables(answer)) and not _variables(gold)


def _variables(text: str) -> set[str]:
    """Letters that stand for unknowns; e and i are constants."""
    text = re.sub(
        r"\\(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|frac|cdot|times|pi|circ|arc\w+|div|infty|text|overline)(?![a-zA-Z])",
        " ",
        text,
    )
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
    return (
        Items("", tuple(Value(part) for part in parts))
        if len(parts) > 1 and all(p.strip().isdigit() for p in parts)
        else None
    )


def _every(pairs: Iterable[tuple[Shape, Shape]], algebra: Algebra | None) -> bool:
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
    if max(len(answer), len(gold)) > 60 or ((not answer or not gold) and answer != gold):
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
    if (
        isinstance(gold, Matrix)
        and isinstance(answer, Items)
        and answer.brackets == "()"
        and all(len(row) == 1 for row in gold.rows)
    ):
        answer = Matrix(tuple((item,) for item in answer.items))
    if not (isinstance(answer, Matrix) and isinstance(gold, Matrix)) or answer.kind != gold.kind:
        return False
    if [len(row) for row in answer.rows] != [len(row) for row in gold.rows]:
        return False
    cells = [pair for rows in zip(answer.rows, gold.rows, strict=True) for pair in zip(*rows, strict=True)]
    return _every(cells, algebra)


def _real_line(one: Shape) -> bool:
    return isinstance(one, Value) and one.text.startswith("\\mathbb{R}")


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
    names = [
        {squeeze(side) for side in one.sides if re.search(r"[a-zA-Z]", side.replace("\\infty", ""))}
        for one in (answer, gold)
    ]
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
