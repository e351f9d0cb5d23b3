"""Sets of real numbers as unions of intervals with exact ends: x>3, (3,∞), 1<x<2, x≠2, ℝ. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import reduce
from itertools import pairwise

from .labels import is_label
from .numbers import exact
from .shapes import Items, Named, Relation, Shape, Union, Value

# An end is (0, value), or (-1, 0) and (1, 0) for the two infinities, so that ends sort.
# A piece is (low, low end belongs to it, high, high end belongs to it).
End = tuple[int, Fraction]
Piece = tuple[End, bool, End, bool]

_PUNCTURED = re.compile(r"\\mathbb\{R\}\s*(?:\\setminus|\\backslash|-)\s*\\\{(.+)\\\}")
_POSITIVE = re.compile(r"\\mathbb\{R\}(?:[\^_]\{?\+\}?|_\{>0\})")
_DISTANCE = re.compile(r"\|([a-zA-Z])([-+].+)?\|")
_LOWEST: End = (-1, Fraction(0))
_HIGHEST: End = (1, Fraction(0))


def region(one: Shape) -> tuple[Piece, ...] | None:
    """The intervals that a shape means, merged and sorted; None if it means none, or an end has no exact value."""
    pieces = _pieces(one)
    return None if pieces is None else _merge(pieces)


def holds(one: Shape, value: Fraction) -> bool:
    """Does a shape mean intervals, and one of them hold this number?"""
    at = (0, value)
    return any(
        (low < at or (low == at and low_closed)) and (at < high or (at == high and high_closed))
        for low, low_closed, high, high_closed in region(one) or ()
    )


def _pieces(one: Shape) -> list[Piece] | None:
    if isinstance(one, Value):
        if one.text == "\\mathbb{R}":
            return [(_LOWEST, False, _HIGHEST, False)]
        if _POSITIVE.fullmatch(one.text.replace(" ", "")):
            return [((0, Fraction(0)), False, _HIGHEST, False)]
        return _punctured(one.text)
    if isinstance(one, Named):
        return _pieces(one.shape)
    if isinstance(one, Union):
        return _gather(one.parts)
    if isinstance(one, Items):
        if one.brackets in ("()", "[]", "[)", "(]") and len(one.items) == 2:
            ends = [_end(item.text) if isinstance(item, Value) else None for item in one.items]
            if ends[0] is None or ends[1] is None or ends[0] > ends[1]:
                return None
            return [(ends[0], one.brackets[0] == "[", ends[1], one.brackets[1] == "]")]
        return _conditions(one) if one.brackets == "" else None
    return _from_relation(one) if isinstance(one, Relation) else None


def _conditions(listed: Items) -> list[Piece] | None:
    """ "x<1 or x>2" is a union; "x>1 and x<2", or with a comma, holds where both do, or else is a union as well."""
    unknowns = {_unknown(item) for item in listed.items}
    if len(unknowns) != 1 or None in unknowns:
        return None
    parts = [_pieces(item) for item in listed.items]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    united = [piece for part in known for piece in part]
    return united if listed.either else reduce(_meet, known) or united


def _unknown(one: Shape) -> str | None:
    """What a condition speaks of: x in x > 3, in 1 < x < 2 and in x \\in (1, 2)."""
    if isinstance(one, Named):
        return one.label
    sides = one.sides if isinstance(one, Relation) else ()
    return next((side for side in sides if _is_unknown(side) and "infty" not in side), None)


def _meet(first: list[Piece], second: list[Piece]) -> list[Piece]:
    met: list[Piece] = []
    for a_low, a_low_in, a_high, a_high_in in first:
        for b_low, b_low_in, b_high, b_high_in in second:
            low, low_in = max(a_low, b_low), (a_low_in or a_low < b_low) and (b_low_in or b_low < a_low)
            high, high_in = min(a_high, b_high), (a_high_in or a_high > b_high) and (b_high_in or b_high > a_high)
            if low < high or (low == high and low_in and high_in):
                met.append((low, low_in, high, high_in))
    return met


def _punctured(text: str) -> list[Piece] | None:
    """The real line without some points: \\mathbb{R} \\setminus \\{2, 3\\}."""
    found = _PUNCTURED.fullmatch(text)
    ends = [_end(part.strip()) for part in found[1].split(",")] if found else []
    points = sorted({end for end in ends if end is not None and end[0] == 0})
    if not found or len(points) != len(set(ends)):
        return None
    borders = [_LOWEST, *points, _HIGHEST]
    return [(low, False, high, False) for low, high in pairwise(borders)]


def _gather(parts: tuple[Shape, ...]) -> list[Piece] | None:
    gathered: list[Piece] = []
    for part in parts:
        pieces = _pieces(part)
        if pieces is None:
            return None
        gathered.extend(pieces)
    return gathered


def _end(text: str) -> End | None:
    plain = text.replace(" ", "")
    if plain in ("\\infty", "+\\infty"):
        return _HIGHEST
    if plain == "-\\infty":
        return _LOWEST
    value = exact(text)
    return None if value is None else (0, value.value)


def as_unions(one: Shape) -> list[tuple[Items, ...]]:
    """The intervals that a union, or conditions on one unknown, can mean, whatever the ends are.

    "or" joins conditions; with "and", or a comma, they hold together, or else are a union as well.
    """
    if isinstance(one, Relation):
        interval = as_interval(one)
        return [] if interval is None else [(interval,)]
    bare = isinstance(one, Items) and not one.brackets
    parts = one.parts if isinstance(one, Union) else one.items if bare and isinstance(one, Items) else (one,)
    if bare and len({_unknown(part) for part in parts}) != 1:
        return []
    made = [as_interval(part) if isinstance(part, Relation) else part for part in parts]
    intervals = tuple(part for part in made if isinstance(part, Items) and len(part.items) == 2 and part.brackets)
    if len(intervals) != len(parts):
        return []
    if bare and isinstance(one, Items) and not one.either and len(intervals) == 2:
        return [intervals, *_both(*intervals)]
    return [intervals]


def _both(first: Items, second: Items) -> list[tuple[Items, ...]]:
    """Where a lower and an upper bound both hold, as an interval between them."""
    for lower, upper in ((first, second), (second, first)):
        if lower.items[1] == Value("\\infty") and upper.items[0] == Value("-\\infty"):
            return [(Items(lower.brackets[0] + upper.brackets[1], (lower.items[0], upper.items[1])),)]
    return []


def _is_unknown(text: str) -> bool:
    return text not in ("e", "i") and is_label(text)


def as_interval(one: Relation) -> Items | None:
    """x > a and a < x <= b as intervals, whatever the ends are."""
    sides, ops = one.sides, one.ops
    if not all(op in ("<", "<=", ">", ">=") for op in ops):
        return None
    if all(op[0] == ">" for op in ops):
        sides, ops = sides[::-1], tuple(op.replace(">", "<") for op in ops[::-1])
    if len(ops) == 2 and _is_unknown(sides[1]):
        low, high, closed = sides[0], sides[2], (ops[0] == "<=", ops[1] == "<=")
    elif len(ops) == 1 and _is_unknown(sides[0]):
        low, high, closed = "-\\infty", sides[1], (False, ops[0] == "<=")
    elif len(ops) == 1 and _is_unknown(sides[1]):
        low, high, closed = sides[0], "\\infty", (ops[0] == "<=", False)
    else:
        return None
    return Items(("[" if closed[0] else "(") + ("]" if closed[1] else ")"), (Value(low), Value(high)))


def _from_relation(one: Relation) -> list[Piece] | None:
    if len(one.ops) == 1:
        op, left, right = one.ops[0], one.sides[0], one.sides[1]
        if "|" in left + right:
            return _around(op, left, right)
        if not is_label(left):
            op, left, right = op.translate(str.maketrans("<>", "><")), right, left
        end = _end(right)
        if not is_label(left) or end is None:
            return None
        if op == "!=":
            return [(_LOWEST, False, end, False), (end, False, _HIGHEST, False)]
        if op in ("<", "<="):
            return [(_LOWEST, False, end, op == "<=")]
        return [(end, op == ">=", _HIGHEST, False)] if op in (">", ">=") else None
    if len(one.ops) == 2 and is_label(one.sides[1]):
        sides, ops = one.sides, one.ops
        if all(re.match(">", op) for op in ops):
            sides, ops = sides[::-1], (ops[1].replace(">", "<"), ops[0].replace(">", "<"))
        low, high = _end(sides[0]), _end(sides[2])
        if low is None or high is None or not all(op in ("<", "<=") for op in ops):
            return None
        return [(low, ops[0] == "<=", high, ops[1] == "<=")]
    return None


def _around(op: str, left: str, right: str) -> list[Piece] | None:
    """|x - 2| < 3 as the interval (-1, 5), and |x - 2| > 3 as what lies outside it."""
    if "|" in right:
        op, left, right = op.translate(str.maketrans("<>", "><")), right, left
    found, radius = _DISTANCE.fullmatch(left.replace(" ", "")), exact(right)
    centre = exact(found[2] or "0") if found else None
    if found is None or radius is None or centre is None or radius.value <= 0 or op not in ("<", "<=", ">", ">="):
        return None
    low, high = (((0, -centre.value + sign * radius.value)) for sign in (-1, 1))
    closed = "=" in op
    if op[0] == "<":
        return [(low, closed, high, closed)]
    return [(_LOWEST, False, low, closed), (high, closed, _HIGHEST, False)]


def _merge(pieces: list[Piece]) -> tuple[Piece, ...]:
    merged: list[Piece] = []
    for piece in sorted(pieces, key=lambda one: (one[0], not one[1])):
        if merged:
            low, low_closed, high, high_closed = merged[-1]
            if piece[0] < high or (piece[0] == high and (piece[1] or high_closed)):
                if piece[2] > high:
                    high, high_closed = piece[2], piece[3]
                elif piece[2] == high:
                    high_closed = high_closed or piece[3]
                merged[-1] = (low, low_closed, high, high_closed)
                continue
        merged.append(piece)
    return tuple(merged)
