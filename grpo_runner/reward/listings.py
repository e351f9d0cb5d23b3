"""Lists, sets, tuples, matrices and regions: several parts compared in the order that counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from .judge import Judge, NeedsAlgebra
from .regions import as_unions, region
from .shapes import Items, Matrix, Named, Relation, Shape, Union, Value, Words


def collections(answer: Shape, gold: Shape, judge: Judge) -> bool:
    """Two shapes of which at least one is a list, set, tuple or interval."""
    if _conditions(answer) != _conditions(gold) and (conditions := region(answer)) is not None:
        return conditions == region(gold)  # x > 2 and x < 5 beside (2, 5)
    if isinstance(gold, Items) and _conditions(answer) and gold.brackets not in ("", "{}"):
        return _same_unions(answer, gold, judge)
    if not isinstance(gold, Items):
        # a set of one element is that element; a list that only contains the gold is a hedge
        if not isinstance(answer, Items):
            return False
        if answer.either and not answer.brackets:  # 1/2 or 0.5, where each is the gold
            return every([(item, gold) for item in answer.items], judge)
        return answer.brackets == "{}" and len(answer.items) == 1 and judge.equal(answer.items[0], gold)
    if not isinstance(answer, Items):
        if isinstance(answer, Value) and (listed := _as_list(answer.text)) is not None and gold.brackets in ("", "{}"):
            return collections(listed, gold, judge)
        return gold.brackets == "{}" and len(gold.items) == 1 and judge.equal(answer, gold.items[0])
    if gold.brackets == "()" and (named := _by_name(answer)) is not None:
        answer = named
    loose = ("", "{}")
    if answer.brackets in loose and gold.brackets in loose:
        if judge.policy.lists == "unordered":
            if answer.either != gold.either and any(isinstance(item, Words) for item in answer.items):
                return False  # John or Mary are not John and Mary
            lists = not answer.brackets and not gold.brackets  # in a list each value counts, in a set once
            return unordered(answer.items, gold.items, judge) and not (
                lists and _counts_differ(answer.items, gold.items, judge)
            )
    elif answer.brackets != gold.brackets and not (answer.brackets == "" and gold.brackets == "()"):
        return False
    return len(answer.items) == len(gold.items) and every(zip(answer.items, gold.items, strict=True), judge)


def _by_name(one: Items) -> Items | None:
    """y = 3, x = 2 as the point (2, 3); None for what is no list of values of different names."""
    names = [item.label for item in one.items if isinstance(item, Named)]
    if one.brackets or len(set(names)) < len(one.items):
        return None
    return Items("", tuple(sorted(one.items, key=lambda item: item.label if isinstance(item, Named) else "")))


def _conditions(one: Shape) -> bool:
    """A bare list of inequalities."""
    return isinstance(one, Items) and not one.brackets and any(isinstance(item, Relation) for item in one.items)


def _as_list(text: str) -> Items | None:
    """ "100,200" reads as a number with a thousands separator, and as a list where the other side is one."""
    parts = text.split(",")
    return (
        Items("", tuple(Value(part) for part in parts))
        if len(parts) > 1 and all(p.strip().isdigit() for p in parts)
        else None
    )


def every(pairs: Iterable[tuple[Shape, Shape]], judge: Judge) -> bool:
    """All pairs equal. Cheap ones first: a wrong one among them decides without algebra."""
    cheap, undecided = judge.cheap(), []
    for pair in pairs:
        try:
            if not cheap.equal(*pair):
                return False
        except NeedsAlgebra:
            undecided.append(pair)
    if undecided and judge.algebra is None:
        raise NeedsAlgebra
    return all(judge.equal(*pair) for pair in undecided)


def unordered(answer: tuple[Shape, ...], gold: tuple[Shape, ...], judge: Judge) -> bool:
    """Equal as sets: each element of one is in the other. Elements that two exact rules settle need no algebra."""
    if max(len(answer), len(gold)) > 60 or ((not answer or not gold) and answer != gold):
        return False

    cheap = judge.cheap()

    def covered(left: tuple[Shape, ...], right: tuple[Shape, ...], swap: bool) -> bool:
        for one in left:
            found, unsure = False, []
            for other in right:
                pair = (other, one) if swap else (one, other)
                try:
                    found = found or cheap.equal(*pair)
                except NeedsAlgebra:
                    unsure.append(pair)
            if not found:
                if not unsure:
                    return False
                if judge.algebra is None:
                    raise NeedsAlgebra
                if not any(judge.equal(*pair) for pair in unsure):
                    return False
        return True

    return covered(gold, answer, True) and covered(answer, gold, False)


def _counts_differ(answer: tuple[Shape, ...], gold: tuple[Shape, ...], judge: Judge) -> bool:
    """Of two lists with the same values: does one come more often in one of them? 2, 2, 3 are not 2, 3, 3."""
    if len(answer) != len(gold):
        return True
    left = list(answer)
    for one in gold:
        found = next((index for index, other in enumerate(left) if judge.equal(other, one)), None)
        if found is None:
            return True
        del left[found]
    return False


def matrices(answer: Shape, gold: Shape, judge: Judge) -> bool:
    """Cell by cell; a tuple is a column."""
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
    return every(cells, judge)


def is_real_line(one: Shape) -> bool:
    """Is it the set of the real numbers, possibly without some points?"""
    return isinstance(one, Value) and one.text.startswith("\\mathbb{R}")


def regions(answer: Shape, gold: Shape, judge: Judge) -> bool:
    """Unions and the real line, as sets of numbers."""
    if isinstance(answer, Union | Items) and isinstance(gold, Union | Items):
        merged = [_merged(one) for one in (answer, gold)]
        if merged[0] is not None and merged[1] is not None:
            return judge.equal(merged[0], merged[1])
    first, second = region(answer), region(gold)
    if first is not None and second is not None:
        return first == second
    if isinstance(answer, Union) and isinstance(gold, Union):
        return unordered(answer.parts, gold.parts, judge)
    return _same_unions(answer, gold, judge)


def _same_unions(answer: Shape, gold: Shape, judge: Judge) -> bool:
    pairs = [(first, second) for first in as_unions(answer) for second in as_unions(gold)]
    return any(unordered(first, second, judge) for first, second in pairs if len(first) == len(second))


def _merged(one: Union | Items) -> Items | None:
    """A union of sets as one set."""
    if isinstance(one, Items):
        return one if one.brackets in ("", "{}") else None
    sets = [part for part in one.parts if isinstance(part, Items) and part.brackets == "{}"]
    return Items("{}", tuple(item for part in sets for item in part.items)) if len(sets) == len(one.parts) else None
