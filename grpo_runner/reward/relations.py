"""Equations, inequalities and chains of them, and what `x = 5` is beside a bare 5. Pure."""

from __future__ import annotations

import re

from . import guards
from .expressions import UNDONE, variables
from .judge import Judge, NeedsAlgebra
from .listings import every
from .normalize import squeeze
from .regions import as_interval, region
from .shapes import Items, Named, Relation, Shape, Value
from .units import conversions, split_unit

# The grammar would drop these: y' is not y, and x_8 no x
_NO_EXPRESSION = re.compile(r"[#@&;'\"`?]|__|\\ldots|[-+]\s*[-+]|[0-9)]\s*_|\\text")
_NO_NAMES = re.compile(r"\\(?:infty|frac|sqrt|pi|cdot|times|text)(?![a-zA-Z])")
_WITHIN_BARS = re.compile(r"\|\s*([a-zA-Z])\b")


def relations(answer: Shape, gold: Shape, judge: Judge) -> bool:
    """Two shapes of which at least one is a relation or has a name."""
    if isinstance(answer, Relation) and isinstance(gold, Relation):
        answer_region, gold_region = region(answer), region(gold)
        if answer_region is not None and gold_region is not None and region_names(answer, gold):
            return answer_region == gold_region
        return equations(_two_sided(answer), _two_sided(gold), judge) or _chains(answer, gold, judge)
    for one, other in ((answer, gold), (gold, answer)):
        if isinstance(one, Named) and isinstance(other, Relation):
            if isinstance(one.shape, Value):
                pairs = (("=", one.label, one.shape.text), _two_sided(other))
                return equations(*(pairs if one is answer else pairs[::-1]), judge)
            first, second = region(one.shape), region(other)
            return first is not None and first == second
    for one, other in ((answer, gold), (gold, answer)):  # x = 2, y = 3 is not x = 2, x = 3
        if isinstance(one, Named) and isinstance(other, Items):
            labels = {squeeze(item.label) for item in other.items if isinstance(item, Named)}
            if labels - {squeeze(one.label)}:
                return False
    if isinstance(answer, Named):
        return judge.equal(answer.shape, gold)
    if isinstance(gold, Named):
        return judge.equal(answer, gold.shape)
    first, second = region(answer), region(gold)
    if first is not None and second is not None:
        return first == second
    # the ends are no rational numbers: end by end
    intervals = [as_interval(one) if isinstance(one, Relation) else one for one in (answer, gold)]
    pair = [one for one in intervals if isinstance(one, Items) and one.brackets]
    return len(pair) == 2 and judge.equal(pair[0], pair[1])


def region_names(answer: Relation, gold: Relation) -> bool:
    """Do two inequalities speak of the same unknown?"""
    names = [
        {
            found[1] if (found := _WITHIN_BARS.match(side)) else squeeze(side)
            for side in one.sides
            if re.search(r"[a-zA-Z]", _NO_NAMES.sub("", side))
        }
        for one in (answer, gold)
    ]
    return names[0] == names[1]


def _two_sided(relation: Relation) -> tuple[str, str, str]:
    """(operator, left, right) with > turned round; operator "" for a chain, which is compared side by side."""
    if len(relation.ops) != 1:
        return ("", "", "")
    op, left, right = relation.ops[0], relation.sides[0], relation.sides[1]
    return (op.replace(">", "<"), right, left) if ">" in op else (op, left, right)


def equations(answer: tuple[str, str, str], gold: tuple[str, str, str], judge: Judge) -> bool:
    """Equations and inequalities: the same relation between left minus right, up to a constant factor."""
    if answer[0] != gold[0] or not answer[0] or answer[0] == "in":
        return False
    if all(variables(side) == set() for side in answer[1:]):
        return False
    if [squeeze(side) for side in answer[1:]] == [squeeze(side) for side in gold[1:]]:
        return True
    split = [split_unit(side) for side in (*answer[1:], *gold[1:])]
    sides = [text for text, _ in split]
    if any(1 not in conversions(split[at][1], split[at + 2][1], judge.policy.units) for at in (0, 1)):
        return False  # 2x = 10 cm is not 2x = 10 m
    if any(_NO_EXPRESSION.search(side) for side in sides):
        return False
    if any(guards.refusal(side, guards.MAX_EXPRESSION) or not side.isascii() or UNDONE.search(side) for side in sides):
        return False
    if answer[0] == "mod":
        return False
    if judge.algebra is None:
        raise NeedsAlgebra
    return judge.algebra.proportional((sides[0], sides[1]), (sides[2], sides[3]), positive="<" in answer[0])


def _chains(answer: Relation, gold: Relation, judge: Judge) -> bool:
    """Chains such as -1 <= g(x) <= 1, read in either direction."""
    if len(gold.ops) < 2 or len(answer.ops) != len(gold.ops):
        return False
    turned = Relation(answer.sides[::-1], tuple(op.translate(str.maketrans("<>", "><")) for op in answer.ops[::-1]))
    for one in (answer, turned):
        if one.ops == gold.ops and every(
            ((Value(a), Value(g)) for a, g in zip(one.sides, gold.sides, strict=True)), judge
        ):
            return True
    return False
