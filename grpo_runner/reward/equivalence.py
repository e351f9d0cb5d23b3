r"""Is this answer that gold? Exact rules first, structure next, computer algebra last and only through `Algebra`. Pure.

The rules, in the order in which they are tried:
1. identical strings; integers; then the tidied spelling;
2. exact values as fractions: 0.5 = 1/2, 50% = 0.5, and 0.333 is not 1/3. Only a decimal gold has a tolerance;
3. shapes: lists and sets unordered, tuples and intervals ordered and bracket-sensitive, `x=5` is 5, other equations are
   equations, words are words, two different units contradict;
4. what is left, one leaf at a time, goes to an Algebra (symbolic.py, in a worker). Without one, NeedsAlgebra is raised.

What the field disagrees on is a field of Policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from . import guards
from .expressions import expressions, rounds_to
from .judge import Algebra, Judge, NeedsAlgebra
from .labels import is_label
from .listings import collections, every, is_real_line, matrices, regions
from .normalize import squeeze, tidy
from .notation import by_spelling, number, numbers_agree
from .policy import DEFAULT, Policy
from .reading import enclosed, shape
from .regions import holds
from .relations import equations, relations
from .shapes import Chained, Items, Matrix, Named, Relation, Rounded, Shape, Union, Value, Words
from .units import conversions

EXACT = Policy(percent="strict", decimal_tolerance=0.0, rounded_golds=False)
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_SEVERAL = re.compile(r"[,;\[]|\\(?:pm|mp|cup|in|le|ge|text)(?![a-zA-Z])|[<>]|\bor\b|\band\b|\(")


def same(answer: str, gold: str, algebra: Algebra | None = None, policy: Policy = DEFAULT) -> tuple[bool, str]:
    """(is the answer right, the rule that decided). Raises NeedsAlgebra where only an Algebra could tell."""
    answer, gold = answer.strip(), gold.strip()
    if answer == gold:
        return bool(answer), "identical" if answer else "empty"
    if (
        not policy.numeric_tolerance
        and len(answer) <= guards.MAX_LENGTH
        and _INTEGER.fullmatch(answer)
        and _INTEGER.fullmatch(gold)
    ):
        return False, "integer"
    if len(answer) > 20 * guards.MAX_LENGTH:
        return False, f"refused: longer than {guards.MAX_LENGTH} characters"
    answer, gold = tidy(answer), tidy(gold)
    if not re.search(r"[^\s{}$?]", re.sub(r"\\text\s*\{\s*\}|\\(?:square|Box|ldots)", "", answer)):
        return False, "empty"
    if squeeze(gold) in map(squeeze, _bare(answer)):
        return True, "same spelling"
    if why := guards.refusal(answer):
        return False, f"refused: {why}"
    try:
        if (decided := by_spelling(answer, gold, policy)) is not None:
            return decided
        shapes = shape(answer), shape(gold)
        return _equal(*shapes, Judge(policy, algebra, _equal)), _rule(*shapes)
    except ZeroDivisionError:
        return False, "division by zero"


def _bare(answer: str) -> Iterator[str]:
    """An answer, what it is without a name before it, and without one pair of round brackets around it."""
    yield answer
    name, _, value = answer.partition("=")
    if value and is_label(name.strip()):
        yield value.strip()
    if answer.startswith("(") and len(answer) <= guards.MAX_LENGTH and "," not in answer:
        pair = enclosed(answer)
        if pair is not None and pair[0] == "()":
            yield pair[1]


def hedges(answer: str, gold: str, policy: Policy = DEFAULT) -> bool:
    """Does a wrong answer hold the gold among others ("42 or 43", an interval around 42)? Decided without algebra."""
    if len(answer) > guards.MAX_LENGTH or not _SEVERAL.search(answer) or guards.refusal(answer):
        return False
    try:
        answer = tidy(answer)
        if number(answer) is not None:  # 1,000 is no list
            return False
        gold = tidy(gold)
        offered, wanted = shape(answer), Value(gold) if number(gold) is not None else shape(gold)
        if isinstance(offered, Named):
            offered = offered.shape
        if not isinstance(wanted, Value):
            return False
        if isinstance(offered, Items) and offered.brackets in ("", "{}"):
            judge = Judge(policy, None, _equal)
            return any(_or_false(judge, item, wanted) for item in offered.items)
        value = number(wanted.text)
        return value is not None and holds(offered, value.value)
    except ZeroDivisionError:
        return False


def _or_false(judge: Judge, answer: Shape, gold: Shape) -> bool:
    try:
        return judge.equal(answer, gold)
    except NeedsAlgebra:
        return False


def _rule(answer: Shape, gold: Shape) -> str:
    """The name of the rule that compares two shapes, as `_equal` chooses it."""
    for kinds, name in (
        ((Named, Relation), "relation"),
        ((Matrix,), "matrix"),
        ((Union,), "region"),
        ((Items,), "list"),
        ((Words,), "words"),
    ):
        if isinstance(answer, kinds) or isinstance(gold, kinds):
            return name
    return "value"


def _equal(answer: Shape, gold: Shape, judge: Judge) -> bool:
    if isinstance(answer, Named) and isinstance(gold, Named):
        labels = {squeeze(answer.label), squeeze(gold.label)}
        if len(labels) == 1 or labels == {"y", "f(x)"}:
            return judge.equal(answer.shape, gold.shape)
        if isinstance(answer.shape, Value) and isinstance(gold.shape, Value):
            return equations(("=", answer.label, answer.shape.text), ("=", gold.label, gold.shape.text), judge)
        return False
    if isinstance(answer, Named | Relation) or isinstance(gold, Named | Relation):
        return relations(answer, gold, judge)
    if isinstance(answer, Chained):
        *others, last = answer.parts
        # turned round, since a side may be left undone (2 + 3 = 5) where the last may not
        exactly = replace(judge, policy=EXACT)  # 5% = 5 and 0.33 = 1/3 are no equalities
        return judge.equal(last, gold) and every([(last, other) for other in others], exactly)
    if isinstance(gold, Chained):
        return judge.equal(answer, gold.parts[-1])
    if isinstance(answer, Rounded):
        exact = isinstance(answer.shape, Value) and rounds_to(answer.shape.text, answer.about, judge)
        return exact and judge.equal(answer.shape, gold)
    if isinstance(gold, Rounded):
        return judge.equal(answer, gold.shape)
    if isinstance(answer, Matrix) or isinstance(gold, Matrix):
        return matrices(answer, gold, judge)
    if isinstance(answer, Union) or isinstance(gold, Union) or is_real_line(answer) or is_real_line(gold):
        return regions(answer, gold, judge)
    if isinstance(answer, Items) or isinstance(gold, Items):
        return collections(answer, gold, judge)
    if isinstance(answer, Words) or isinstance(gold, Words):
        texts = [
            re.sub(r"^(?:an?|the) (?=\w)| only$", "", re.sub(r"[\s.]+", " ", one.text.lower()).strip())
            for one in (answer, gold)
            if isinstance(one, Words | Value)
        ]
        return texts[0] == texts[1]
    return _values(answer, gold, judge)


def _values(answer: Value, gold: Value, judge: Judge) -> bool:
    factors = conversions(answer.unit, gold.unit, judge.policy.units)
    if not factors or not answer.text:
        return False
    answer_number, gold_number = number(answer.text), number(gold.text)
    if answer_number is not None and gold_number is not None:
        return any(numbers_agree(answer_number, gold_number, judge.policy, factor) for factor in factors)
    scaled = [
        answer.text if factor == 1 else f"\\frac{{{factor.numerator}}}{{{factor.denominator}}} \\cdot ({answer.text})"
        for factor in factors
    ]
    return any(expressions(text, gold.text, judge, gold_number) for text in scaled)
