r"""The kinds of answers: what can be meant, how it is spelled, and what is easily taken for it.

Two answers of one kind are equal exactly when the values are that their texts were written from (spellings.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reward import spellings as spell
from tests.reward import spellings_of_parts as parts
from tests.reward.spellings import Text, decimal_places, pick
from tests.reward.spellings_of_parts import Interval


@dataclass(frozen=True)
class Kind:
    """values: what can be meant. spell: texts that mean a value. near: values that are easily taken for it.

    family: kinds of other families are never equal to this one.
    """

    family: str
    values: SearchStrategy[Any]
    spell: Callable[..., Text]
    near: Callable[[Any], list[Any]]


@dataclass(frozen=True)
class Typed:
    """An answer or a gold: its kind, the value that it was written from, and the text."""

    kind: str
    value: Hashable
    text: str


RATIONALS = st.builds(Fraction, st.integers(-60, 60), pick(1, 1, 2, 3, 4, 5, 7, 8, 12, 25, 100))
_SMALL = st.integers(-9, 9)
_NONZERO = _SMALL.filter(bool)
_FINITE = st.frozensets(RATIONALS, min_size=2, max_size=4)


# ------------------------------------------------------------------------------------------------- near values


def _near_number(q: Fraction) -> list[Fraction]:
    turned = Fraction(int(str(abs(q.numerator))[::-1]), q.denominator)
    return [q + 1, -q, q * 10, q / 10, turned, q + Fraction(1, 1000), *([1 / q] if q else [])]


def _near_decimal(q: Fraction) -> list[Fraction]:
    return [near for near in _near_number(q) if decimal_places(near) is not None]


def _near_radical(v: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    a, b, c = v
    return [(-a, b, c), (a, b, c + 1), (a * 2, b, c), (a, 3 if b == 2 else 2, c), (a, b, -c)]


def _each(value: tuple[Any, ...], change: Callable[[Any], Any]) -> list[Any]:
    return [(*value[:n], change(part), *value[n + 1 :]) for n, part in enumerate(value)]


def _near_polynomial(v: tuple[str, tuple[int, ...]]) -> list[tuple[str, tuple[int, ...]]]:
    others = [*_each(v[1], lambda c: -c if c else 1), tuple(2 * c for c in v[1]), (0, *v[1])]
    return [(v[0].swapcase(), v[1]), *((v[0], other) for other in others)]


def _near_half_plane(v: tuple[str, int, int]) -> list[tuple[str, int, int]]:
    op, slope, at = v
    return [({"<": ">", ">": ">=", "<=": "<", ">=": "<="}[op], slope, at), (op, -slope, at), (op, slope, at + 1)]


def _near_interval(one: Interval) -> list[Interval]:
    low, a, high, b = one
    toggled: list[Interval] = [(low, not a and low is not None, high, b), (low, a, high, not b and high is not None)]
    return [*toggled, (low, a, None, False), (None, False, high, b)]


def _near_union(v: tuple[Interval, Interval]) -> list[tuple[Interval, Interval]]:
    return [(v[0], near) for near in _near_interval(v[1])[:2]] + [(near, v[1]) for near in _near_interval(v[0])[:2]]


def _near_set(value: frozenset[Fraction]) -> list[frozenset[Fraction]]:
    one = min(value)
    return [
        value - {one} if len(value) > 2 else value | {one + 61},
        value - {one} | {-one, Fraction(61)},
        value | {max(value) + 1},
    ]


def _near_scalars(v: tuple[tuple[str, Any], ...]) -> list[tuple[tuple[str, Any], ...]]:
    return [v[::-1], v[:-1] if len(v) > 2 else (*v, v[0]), (*v[:-1], (v[-1][0], KINDS[v[-1][0]].near(v[-1][1])[0]))]


def _near_scalar_set(v: frozenset[tuple[str, Any]]) -> list[frozenset[tuple[str, Any]]]:
    kind, value = one = min(v, key=repr)
    return [v - {one} | {("fraction", Fraction(61))}, v - {one} | {(kind, KINDS[kind].near(value)[0])}]


# ------------------------------------------------------------------------------------------------- values


def _interval(ends: list[Fraction], a: bool, b: bool, infinite: str) -> Interval:
    low, high = sorted(ends)
    if infinite:
        return (None, False, high, b) if infinite == "low" else (low, a, None, False)
    return (low, a, high, b)


def _union(ends: list[Fraction], flags: list[bool]) -> tuple[Interval, Interval]:
    one, two, three, four = sorted(ends)
    return (one, flags[0], two, flags[1]), (three, flags[2], four, flags[3])


def _ends(count: int) -> SearchStrategy[list[Fraction]]:
    return st.lists(RATIONALS, min_size=count, max_size=count, unique=True)


_INTEGERS = st.one_of(st.integers(-20, 20), st.integers(-(10**7), 10**7), st.integers(10**18, 10**20)).map(Fraction)
_DECIMALS = st.builds(lambda n, places: Fraction(n, 10**places), st.integers(-99999, 99999), st.integers(1, 4))
_SHARES = st.builds(Fraction, st.integers(1, 2500), pick(10, 100, 1000))
_LENGTHS = st.builds(Fraction, st.integers(1, 500), pick(1, 2, 10, 100))
_COEFFICIENTS = st.lists(_SMALL, min_size=2, max_size=4).map(tuple).filter(lambda c: c[-1] != 0)
_INTERVALS = st.builds(_interval, _ends(2), st.booleans(), st.booleans(), pick("", "", "low", "high"))
_UNIONS = st.builds(_union, _ends(4), st.lists(st.booleans(), min_size=4, max_size=4))
_SCALAR = st.sampled_from(tuple(parts.SCALARS)).flatmap(
    lambda kind: st.tuples(st.just(kind), KINDS[kind].values)  # of the kinds below
)
_ROW = st.tuples(RATIONALS, RATIONALS)
_TIMES = st.tuples(st.integers(1, 12), st.integers(0, 59), pick("a", "p"))
_NUMERALS = st.integers(2, 9).flatmap(
    lambda base: st.tuples(st.text("0123456789"[:base], min_size=2, max_size=6).map("1".__add__), st.just(base))
)

KINDS: Mapping[str, Kind] = {
    "integer": Kind("number", _INTEGERS, spell.rational, _near_number),
    "fraction": Kind("number", RATIONALS, spell.rational, _near_number),
    "decimal": Kind("number", _DECIMALS, spell.decimal, _near_decimal),
    "percent": Kind("number", _SHARES, spell.percent, lambda q: [q * 100, q / 100, q + Fraction(1, 100)]),
    "radical": Kind("irrational", st.tuples(_NONZERO, pick(2, 3, 5, 6, 7, 10), _SMALL), spell.radical, _near_radical),
    "pi": Kind("irrational", RATIONALS.filter(bool), spell.pi_multiple, lambda q: [-q, 1 / q, q + 61, 2 * q]),
    "complex": Kind(
        "complex",
        st.tuples(_SMALL, _NONZERO),
        spell.complex_number,
        lambda v: [(v[0], -v[1]), (-v[0], v[1]), (v[1], v[0] or 1), (v[0] + 1, v[1])],
    ),
    "polynomial": Kind(
        "expression", st.tuples(pick("x", "n", "t", "X"), _COEFFICIENTS), spell.polynomial, _near_polynomial
    ),
    "line": Kind(
        "equation",
        st.tuples(_NONZERO, _SMALL),
        spell.line,
        lambda v: [(-v[0], v[1]), (v[0], v[1] + 1), (v[0], -v[1]), (v[0] * 2, v[1])],
    ),
    "half-plane": Kind(
        "equation", st.tuples(pick("<", ">", "<=", ">="), _NONZERO, _SMALL), spell.half_plane, _near_half_plane
    ),
    "tuple": Kind(
        "ordered",
        st.lists(RATIONALS, min_size=2, max_size=3).map(tuple),
        parts.tuple_of,
        lambda v: [v[::-1], (*v[:-1], v[-1] + 1), (*v, v[0]), *_each(v, lambda q: -q)],
    ),
    "list": Kind("listing", _FINITE, parts.list_of, _near_set),
    "set": Kind("listing", _FINITE, parts.set_of, _near_set),
    "interval": Kind("ordered", _INTERVALS, parts.interval, _near_interval),
    "union": Kind("union", _UNIONS, parts.union, _near_union),
    "matrix": Kind(
        "matrix",
        st.tuples(_ROW, _ROW),
        parts.matrix,
        lambda v: [v[::-1], tuple(zip(*v, strict=True)), ((v[0][0], -v[0][1]), v[1])],
    ),
    "scalars": Kind("ordered", st.lists(_SCALAR, min_size=2, max_size=3).map(tuple), parts.scalars, _near_scalars),
    "scalar set": Kind("listing", st.frozensets(_SCALAR, min_size=2, max_size=3), parts.scalar_set, _near_scalar_set),
    "choice": Kind("choice", st.sampled_from("ABCDE"), spell.choice, lambda v: list("ABCDE")),
    "length": Kind("length", _LENGTHS, spell.length, lambda q: [q * 10, q / 100, q + 1, q * 1000]),
    "numeral": Kind(
        "numeral",
        _NUMERALS,
        spell.numeral,
        lambda v: [(v[0][::-1].lstrip("0"), v[1]), (v[0], v[1] + 1 if v[1] < 9 else 8), (v[0] + "0", v[1])],
    ),
    "time": Kind(
        "time",
        _TIMES,
        spell.time_of_day,
        lambda v: [(*v[:2], "p" if v[2] == "a" else "a"), (v[0] % 12 + 1, *v[1:]), (v[0], (v[1] + 1) % 60, v[2])],
    ),
}
