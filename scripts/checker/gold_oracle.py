r"""Are two written golds the same answer? An oracle of its own, which shares no code with the checker that it judges.

It reads the LaTeX of real golds (numbers, radicals, polynomials, lists, tuples, intervals, matrices, equations) with a
small grammar and compares values with 40 digits at fixed points. `same` is None where it cannot tell. It is no checker:
it has no guards, and it follows the policy only where golds differ in a unit, a percent sign or a name (x = 5, 5).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from gold_values import Unreadable, evaluate
from mpmath import mpf

_CLOSE = mpf(10) ** -28
_UNIT = re.compile(
    r"\\(?:text|mbox|textnormal|mathrm)\s*\{([^{}]*[a-zA-Z][^{}]*)\}\s*(\^\s*\{?[0-9]\}?)?\s*\.?$|\\degree$"
)
_ANGLE_OF = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")
_RELATIONS = re.compile(r"=|<|>|\\leq?(?![a-z])|\\geq?(?![a-z])|\\in(?![a-z])|\\approx")

Node = tuple[Any, ...]


def clean(text: str) -> str:
    """Without layout: sizes, spaces, delimiters, thousands separators; fractions and text commands under one name."""
    text = re.sub(
        r",\s*\\!\s*|\{,\}|(?<=[0-9])\\,(?=[0-9]{3}(?![0-9]))", "", re.sub(r"\\phantom\s*(?:\{[^{}]*\}|.)", "", text)
    )
    text = re.sub(
        r"\\(?:left|right|displaystyle)(?![a-zA-Z])|\\[!,;:~]|\\q?quad(?![a-zA-Z])|~|(?<!\\)\$|(?<!\\)\\ ", " ", text
    )
    text = re.sub(r"\^\s*\{?\s*\\circ(?![a-z])\s*\}?", r"\\degree ", text)
    text = re.sub(r"\\[dtc]frac", r"\\frac", text)
    text = re.sub(r"\\(?:mathbf|mathrm|boldsymbol)\{([0-9a-zA-Z]|[0-9]+)\}", r"\1", text)
    text = re.sub(r"\\frac\s*([0-9])\s*([0-9a-zA-Z])", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*([0-9])\s*\{", r"\\frac{\1}{", text)
    text = re.sub(r"\\frac\s*(\{[^{}]*\}|\\pi)\s*([0-9])", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\sqrt\s*([0-9a-zA-Z])", r"\\sqrt{\1}", text)
    text = re.sub(r"(?<![0-9.])([0-9]{1,3}(?:,[0-9]{3})+)(?![0-9,])", lambda found: _thousands(found, text), text)
    return re.sub(r"\s+", " ", text).strip().rstrip(".,").strip()


def _thousands(found: re.Match[str], text: str) -> str:
    """1,234 is a number where nothing else stands beside it; inside brackets it is two entries."""
    around = (text[: found.start()] + text[found.end() :]).strip()
    alone = not re.search(r"[,()\[\]]", around)
    return found[0].replace(",", "") if alone else found[0]


def split(text: str, separators: str) -> list[str]:
    """Cut at a regular expression outside brackets."""
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        if depth == 0 and (found := re.compile(separators).match(text, position)) is not None and found[0]:
            parts.append(text[start:position].strip())
            position = start = found.end()
            continue
        step = 2 if text[position] == "\\" and position + 1 < len(text) else 1
        mark = text[position + step - 1]
        depth += (mark in "([{") - (mark in ")]}")
        position += step
    return [*parts, text[start:].strip()]


@cache
def read(text: str) -> Node:
    """(kind, content) of a written gold. Raises Unreadable."""
    return _node(clean(text))


def _node(text: str) -> Node:
    if found := re.fullmatch(r"\\begin\{[pb]matrix\}(.*)\\end\{[pb]matrix\}", text):
        rows = [row for row in found[1].split("\\\\") if row.strip()]
        return "matrix", [[_node(cell.strip()) for cell in row.split("&")] for row in rows]
    if found := re.fullmatch(r"\\?(?:text|mbox|textbf)\s*\{([^{}]*)\}|([A-Z][a-zA-Z ]{2,})", text.strip("() ")):
        return "words", " ".join((found[1] or found[2]).lower().strip("() .").split())
    parts = split(text, r",?\s*\\text\s*\{\s*,?\s*(?:and|or)\s*\}|[,;]")
    if len(parts) > 1:
        return "list", [node for part in parts if part for node in _plus_minus(part)]
    if len(sides := split(text, _RELATIONS.pattern)) > 1:
        return _relation(text, sides)
    if len(parts := split(text, r"\\cup(?![a-z])")) > 1:
        return "union", [_node(part) for part in parts]
    if found := re.fullmatch(r"(\\\{|[(\[])(.*)(\\\}|[)\]])", text):
        inner = split(found[2], "[,;]")
        if len(inner) > 1 or found[1] == "\\{":
            entries = [_node(part) for part in inner]
            return ("list", entries) if found[1] == "\\{" else (found[1] + found[3], entries)
    if "\\pm" in text:
        return "list", _plus_minus(text)
    if found := re.fullmatch(r"(-?)\(?([0-9A-F]+)\)?_\{?([0-9]+)\}?", text):
        return "base", (found[1] + found[2], found[3])
    if found := re.fullmatch(r"(-?)\s*\\?infty", text.lstrip("+")):
        return "infinity", found[1]
    return _quantity(text)


def _plus_minus(text: str) -> list[Node]:
    if "\\pm" not in text:
        return [_node(text)]
    return [_node(re.sub(r"^\s*\+", "", text.replace("\\pm", sign))) for sign in "+-"]


def _relation(text: str, sides: list[str]) -> Node:
    signs = [found[0] for found in _RELATIONS.finditer(text)]
    named = re.fullmatch(r"[a-zA-Z]{1,2}|[fgh]\([a-z]\)|\\theta", sides[0])
    if len(sides) == 2 and signs[0] in ("=", "\\in") and named:
        return "named", (sides[0], _node(sides[1])), (("=",), tuple(sides))
    return "relation", (tuple(sign.replace("eq", "e") for sign in signs), tuple(sides))


def _quantity(text: str) -> Node:
    unit = ""
    if found := re.match(r"-?\s*\\\$", text):
        text, unit = text.replace("\\$", ""), "dollar"
    while (found := _UNIT.search(text)) and not (found[0] == "\\degree" and _ANGLE_OF.search(text)):
        if not text[: found.start()].strip():
            raise Unreadable(text)
        unit = re.sub(r"\s+|[{}]", " ", (found[1] or "degree") + (found[2] or "")).strip(" .")
        unit = unit.replace("^ ", "^")
        text = text[: found.start()].strip()
    percent = text.endswith("%")
    core = re.sub(r"\\?%$", "", text).strip()
    return "value", (tuple(evaluate(core, point) for point in range(3)), unit, percent)


def same(one: str, other: str) -> bool | None:
    """Do two texts write the same answer? None where this oracle cannot read one of them."""
    try:
        return _same(read(one), read(other))
    except (Unreadable, RecursionError):
        return None


def _same(one: Node, other: Node) -> bool:
    if "named" in (one[0], other[0]):
        if one[0] == other[0]:
            return bool(one[1][0] == other[1][0]) and _same(one[1][1], other[1][1])
        if "relation" in (one[0], other[0]):
            one, other = (("relation", node[2]) if node[0] == "named" else node for node in (one, other))
            return _same_relations(one[1], other[1])
        return _same(one[1][1], other) if one[0] == "named" else _same(one, other[1][1])
    if one[0] != other[0]:
        return _single_digit(one, other) or _single_digit(other, one)
    left, right = one[1], other[1]
    if one[0] == "value":
        return _same_values(left, right)
    if one[0] in ("list", "union"):
        return all(any(_same(a, b) for b in right) for a in left) and all(any(_same(a, b) for a in left) for b in right)
    if one[0] == "matrix":
        return [len(row) for row in left] == [len(row) for row in right] and all(
            _same(a, b) for rows in zip(left, right, strict=True) for a, b in zip(*rows, strict=True)
        )
    if one[0] == "relation":
        return _same_relations(left, right)
    if isinstance(left, list):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def _single_digit(one: Node, other: Node) -> bool:
    """8 in base nine is 8."""
    return (
        one[0] == "base"
        and len(one[1][0]) == 1
        and other[0] == "value"
        and one[1][0].isdigit()
        and other[1][0][0] == int(one[1][0])
    )


def _near(one: Any, other: Any) -> bool:
    return bool(abs(one - other) <= _CLOSE * max(abs(one), abs(other)))


def _same_values(one: Any, other: Any) -> bool:
    if one[1] and other[1] and one[1].rstrip("s") != other[1].rstrip("s"):
        return False
    factor = (mpf(1) / 100 if one[2] else 1, mpf(1) / 100 if other[2] else 1)
    # the sign of a percent may be dropped, and added to what can only be one
    if (
        one[2] != other[2]
        and (other[2] or abs(other[0][0]) > 1)
        and all(_near(a, b) for a, b in zip(one[0], other[0], strict=True))
    ):
        return True
    return all(_near(a * factor[0], b * factor[1]) for a, b in zip(one[0], other[0], strict=True))


def _same_relations(one: Any, other: Any) -> bool:
    if one[0] != other[0] or len(one[1]) != 2:
        return bool(one == other) or (one[0] == other[0] and _sides(one[1]) == _sides(other[1]))
    differences = [
        [evaluate(side[0], point) - evaluate(side[1], point) for point in range(3)] for side in (one[1], other[1])
    ]
    if any(abs(value) < _CLOSE for values in differences for value in values):
        return False
    ratios = [a / b for a, b in zip(*differences, strict=True)]
    return all(_near(ratio, ratios[0]) for ratio in ratios)


def _sides(sides: tuple[str, ...]) -> list[str]:
    return [re.sub(r"\s+", "", side) for side in sides]
