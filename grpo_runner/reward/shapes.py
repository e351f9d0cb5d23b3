r"""What kind of thing an answer is: a value, words, a list, a tuple or interval, a union, a matrix, a relation. Pure.

reading.py reads a text into one of these small trees; equivalence.py compares two of them. Nothing is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .units import Unit


@dataclass(frozen=True)
class Value:
    """One expression or number, with the unit written behind it."""

    text: str
    unit: Unit | None = None


@dataclass(frozen=True)
class Words:
    """Plain words, folded to lower case with single spaces."""

    text: str


@dataclass(frozen=True)
class Items:
    """Several things. brackets: "" for a bare list, "{}" for a set, else the written pair such as "()" or "[)".

    either: a bare list was joined by "or". Two conditions so joined are a union, otherwise both must hold.
    """

    brackets: str
    items: tuple[Shape, ...]
    either: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Union:
    """Parts joined by \\cup."""

    parts: tuple[Shape, ...]


@dataclass(frozen=True)
class Matrix:
    """Rows of cells; kind "" for a matrix, "|" for a determinant."""

    rows: tuple[tuple[Shape, ...], ...]
    kind: str = ""


@dataclass(frozen=True)
class Relation:
    """sides[0] ops[0] sides[1] ops[1] …: an equation or a chain of inequalities, each side its text."""

    sides: tuple[str, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True)
class Named:
    """label = shape, or label \\in shape: "x=5", "f(x)=2x", "D=(0,1)", "x=1,2"."""

    label: str
    shape: Shape


@dataclass(frozen=True)
class Rounded:
    """An exact value, and about how large it is: "72\\pi \\approx 226.19"."""

    shape: Shape
    about: str


@dataclass(frozen=True)
class Chained:
    """Numbers that are said to be equal, the last of which is the answer: 2 + 3 = 5."""

    parts: tuple[Shape, ...]


Shape = Value | Words | Items | Union | Matrix | Relation | Named | Rounded | Chained
