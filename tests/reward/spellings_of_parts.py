r"""Spellings of answers with several parts: tuples, lists, sets, intervals, unions and matrices. See spellings.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from tests.reward.spellings import Text, complex_number, pi_multiple, pick, polynomial, radical, rational

Interval = tuple[Fraction | None, bool, Fraction | None, bool]  # None: infinite; the flags: does the end belong to it

SCALARS: Mapping[str, Callable[..., Text]] = {
    "fraction": rational,
    "radical": radical,
    "pi": pi_multiple,
    "complex": complex_number,
    "polynomial": polynomial,
}


@composite
def scalars(draw: DrawFn, value: tuple[tuple[str, Any], ...], gold: bool = False) -> str:
    """A tuple of numbers and expressions: (name of its kind, value) each."""
    return draw(bracketed(", ".join(draw(SCALARS[kind](part, gold=gold)) for kind, part in value)))


@composite
def scalar_set(draw: DrawFn, value: frozenset[tuple[str, Any]], gold: bool = False) -> str:
    parts = draw(st.permutations(sorted(value, key=repr)))
    content = ", ".join(draw(SCALARS[kind](part, gold=gold)) for kind, part in parts)
    return draw(pick(r"\{%s\}", r"\left\{ %s \right\}", "%s")) % content


@composite
def joined(draw: DrawFn, parts: list[Fraction], gold: bool, separators: tuple[str, ...] = (",", ", ", r",\ ", " , ")) -> str:  # fmt: skip
    text = draw(pick(*separators)).join(draw(rational(part, gold)) for part in parts)
    return re.sub(r"(?<=\d),(?=\d{3})", ", ", text)  # 5,590/1000 would be read as one number


def bracketed(content: str, opening: str = "(", closing: str = ")") -> Text:
    forms = pick("%s%s%s", "%s %s %s", r"\left%s%s\right%s", r"\bigl%s %s\bigr%s")
    return forms.map(lambda form: form % (opening, content, closing))


@composite
def tuple_of(draw: DrawFn, value: tuple[Fraction, ...], gold: bool = False) -> str:
    return draw(bracketed(draw(joined(list(value), gold))))


@composite
def list_of(draw: DrawFn, value: frozenset[Fraction], gold: bool = False) -> str:
    words = (", ", r"\text{ and }", " and ", r"\text{ or }") if len(value) == 2 else (",", ", ", ";", ", ")
    return draw(joined(draw(st.permutations(sorted(value))), gold, (", ",) if gold else words))


@composite
def set_of(draw: DrawFn, value: frozenset[Fraction], gold: bool = False) -> str:
    content = draw(joined(draw(st.permutations(sorted(value))), gold))
    return draw(pick(r"\{%s\}", r"\left\{%s\right\}", r"\{ %s \}", r"\lbrace %s\rbrace", r"\big\{%s\big\}")) % content


@composite
def interval(
    draw: DrawFn,
    value: Interval,
    gold: bool = False,
    forms: tuple[str, ...] = ("brackets", "brackets", "in", "relation"),
) -> str:
    low, low_closed, high, high_closed = value
    infinite = (draw(pick(r"-\infty", "-∞")), draw(pick(r"\infty", "∞", r"+\infty")))
    ends = [sign if end is None else draw(rational(end, True)) for end, sign in zip((low, high), infinite, strict=True)]
    form = draw(pick(*forms))
    if form == "relation" and not (low is None and high is None):
        le, ge = draw(pick((r"\le ", r"\ge "), (r"\leq ", r"\geq "), ("≤", "≥")))
        up, down = (le if low_closed else "<", le if high_closed else "<"), (ge if high_closed else ">", ge if low_closed else ">")  # fmt: skip
        if high is None:
            return draw(pick(f"x{down[1]}{ends[0]}", f"{ends[0]}{up[0]}x"))
        if low is None:
            return draw(pick(f"x{up[1]}{ends[1]}", f"{ends[1]}{down[0]}x"))
        return draw(pick(f"{ends[0]}{up[0]}x{up[1]}{ends[1]}", f"{ends[1]}{down[0]}x{down[1]}{ends[0]}"))
    content = ends[0] + draw(pick(",", ", ")) + ends[1]
    content = re.sub(r"(?<=\d),(?=\d{3})", ", ", content)
    text = draw(bracketed(content, "[" if low_closed else "(", "]" if high_closed else ")"))
    return rf"x\in {text}" if form == "in" else text


@composite
def union(draw: DrawFn, value: tuple[Interval, ...], gold: bool = False) -> str:
    form = draw(pick("brackets", "brackets", "relation"))
    parts = [draw(interval(part, forms=(form,))) for part in draw(st.permutations(value))]
    return draw(pick(r"\text{ or }", " or ") if form == "relation" else pick(r"\cup", "∪", r" \cup ")).join(parts)


@composite
def matrix(draw: DrawFn, value: tuple[tuple[Fraction, ...], ...], gold: bool = False) -> str:
    frame = draw(pick(r"\begin{pmatrix}%s\end{pmatrix}", r"\begin{bmatrix} %s \end{bmatrix}", r"\left[\begin{array}{cc}%s\end{array}\right]", r"\left(\begin{matrix}%s\end{matrix}\right)"))  # fmt: skip
    rows = [draw(pick(" & ", "&")).join(draw(rational(cell, gold)) for cell in row) for row in value]
    return frame % draw(pick(r"\\", r" \\ ", "\\\\\n")).join(rows)
