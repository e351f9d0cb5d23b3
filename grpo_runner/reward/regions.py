"""Sets of real numbers as unions of intervals with exact ends: x>3, (3,∞), 1<x<2, x≠2, ℝ. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

from .numbers import exact
from .shapes import Items, Named, Relation, Shape, Union, Value, is_label

# An end is (0, value), or (-1, 0) and (1, 0) for the two infinities, so that ends sort.
# A piece is (low, low end belongs to it, high, high end belongs to it).
End = tuple[int, Fraction]
Piece = tuple[End, bool, End, bool]

_PUNCTURED = re.compile(r"\\mathbb\{R\}\s*(?:\\setminus|\\backslash|-)\s*\\\{(.+)\\\}")
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
        # "x<1 or x>2" is read as a list of relations
        if one.brackets == "" and all(isinstance(item, Relation) for item in one.items):
            return _gather(one.items)
        return None
    return _from_relation(one) if isinstance(one, Relation) else None


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
