r"""Wrong answers near real golds: other real golds of the same kind, and golds with one thing changed. Pure, seeded.

`wrong_pairs(golds)` yields (way, answer, gold). Pairs that the oracle of gold_oracle.py finds equal are left out; where
it can tell nothing, a pair counts as different when the two spellings differ in more than layout.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import gold_oracle as oracle
from gold_changes import CHANGES
from gold_values import Unreadable
from mpmath import mp

_KINDS = (
    ("matrix", r"\\begin"),
    ("base", r".*_\{?[0-9]+\}?\.?$"),
    ("interval", r".*(?:\\infty|\\cup)|[\[(].*\](?!.)|\[.*\)(?!.)"),
    ("relation", r".*(?:=|<|>|\\leq?\b|\\geq?\b|\\in\b)"),
    ("tuple", r"(?:\\left)?\s*\(.*,.*\)\.?$"),
    ("list", r".*,\s?[^0-9!]|.*(?:[^,],[0-9]{1,2}(?![0-9])|\\pm|\\text\s*\{\s*,?\s*(?:and|or))"),
    ("percent", r".*%"),
    ("money", r"-?\s*\\\$"),
    ("ratio or time", r".*:"),
    ("angle", r".*\\circ\}?\.?$"),
    ("text", r"\(?\\(?:text|mbox)\s*\{|[A-Z]{1,}(?:, [A-Z])*$"),
    ("quantity", r".*\\(?:text|mbox|textnormal)"),
    ("integer", r"-?[0-9]+(?:[,!\\{}]*[0-9]{3})*$"),
    ("decimal", r"-?[0-9]*\.[0-9]+$"),
    ("fraction", r"-?[0-9]*\s*(?:\\[dtc]?frac\s*(?:\{-?[0-9]+\}|[0-9])\s*(?:\{-?[0-9]+\}|[0-9])|/[0-9]+)$"),
    ("expression", r".*(?<![\\a-z])[a-hj-zA-Z](?![a-z]{2})|.*\\(?:sin|cos|tan|log)"),
    ("complex", r".*(?<![\\a-z])i(?![a-z])"),
    ("pi", r".*\\pi"),
    ("radical", r".*\\sqrt"),
)


def kind_of(gold: str) -> str:
    """What a gold is, for grouping: the first of _KINDS that its text matches."""
    plain = re.sub(r"\\[,;!:]|~", "", re.sub(r",\s*\\!\s*|\{,\}", "", gold)).strip()
    return next((name for name, pattern in _KINDS if re.match(pattern, plain, re.DOTALL)), "other")


def layout(text: str) -> str:
    """The text without what only sets type: two texts with one layout are one spelling."""
    text = re.sub(r"\\(?:left|right|[,;:!])|\\text\s*\{\s*\}|[\s$~]", "", re.sub(r"\\[dt]frac", r"\\frac", text))
    return text.replace("{", "").replace("}", "").rstrip(".,").lower()


def different(answer: str, gold: str) -> bool:
    """Are these two answers different, by the oracle, or by their spelling where it cannot tell?"""
    verdict = oracle.same(answer, gold)
    return layout(answer) != layout(gold) if verdict is None else not verdict


def wrong_pairs(
    golds: Sequence[str], seed: int = 0, each: int = 16, neighbours: int = 3
) -> Iterator[tuple[str, str, str]]:
    """(way, answer, gold): `each` ways of changing every gold at most (an integer: 6), and `neighbours` other golds."""
    golds = sorted({gold for gold in golds if gold.strip()})
    seen: set[tuple[str, str]] = set()
    for way, answer, gold in (*_real(golds, neighbours), *_changed(golds, seed, each)):
        if (answer, gold) not in seen and different(answer, gold):
            seen.add((answer, gold))
            yield way, answer, gold


def _real(golds: Sequence[str], neighbours: int) -> Iterator[tuple[str, str, str]]:
    """The next real golds of the same kind by value, and by edits among golds of one shape."""
    kinds: dict[str, list[str]] = defaultdict(list)
    shapes: dict[str, list[str]] = defaultdict(list)
    for gold in golds:
        kinds[kind_of(gold)].append(gold)
        shapes[re.sub(r"[0-9]+", "9", layout(gold))].append(gold)
    for group in kinds.values():
        ordered = sorted(group, key=lambda gold: (_size(gold), gold))
        for index, gold in enumerate(ordered):
            for other in ordered[index + 1 : index + 1 + neighbours]:
                yield "next real gold by value", other, gold
    for group in shapes.values():
        numbers = {gold: re.findall(r"[0-9]+", gold) for gold in group}
        for gold in group:
            nearest = sorted(group, key=lambda other: (_edits(numbers[other], numbers[gold]), other))
            for other in nearest[1 : 1 + neighbours]:
                yield "nearest real gold by edits", other, gold


def _size(gold: str) -> float:
    try:
        node = oracle.read(gold)
        while node[0] != "value":
            node = node[1][1] if node[0] == "named" else node[1][0]
        return float(mp.re(node[1][0][0]))
    except (Unreadable, TypeError, ValueError, IndexError, OverflowError, AttributeError):
        return float("inf")


def _edits(one: list[str], other: list[str]) -> int:
    return sum(
        1 + (len(a) != len(b)) + sum(x != y for x, y in zip(a, b, strict=False))
        for a, b in zip(one, other, strict=False)
        if a != b
    )


def _changed(golds: Sequence[str], seed: int, each: int) -> Iterator[tuple[str, str, str]]:
    for gold in golds:
        draw = random.Random(f"{seed} {gold}")
        options = [(way, answer) for way, change in CHANGES.items() for answer in change(gold, draw)]
        options = [(way, answer) for way, answer in dict.fromkeys(options) if answer.strip() and answer != gold]
        draw.shuffle(options)
        most = min(each, 6) if gold.isdigit() else each
        ways: dict[str, int] = defaultdict(int)
        for way, answer in options:
            ways[way] += 1
            first = ways[way] == 1 and sum(ways.values()) <= most
            if first or (way in ("hedged", "undone") and ways[way] <= 2):
                yield way, answer, gold
