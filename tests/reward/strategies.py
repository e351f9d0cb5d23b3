r"""Hypothesis strategies for graded cases: pairs of equal and of different answers, prose, and LaTeX soup."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reward.kinds import KINDS, Typed
from tests.reward.spellings import pick

Pair = tuple[Typed, Typed]  # an answer and a gold

# ------------------------------------------------------------------------------------------------- answers and golds

# What a spelling may be put into without a change of meaning
_DRESSES = ("@",) * 8 + ("$@$", r"\(@\)", "{@}", r"\displaystyle @", "@.", r"\ @\,", r"{\color{red}@}", r"\large @")
DRESSES = pick(*_DRESSES)


def _typed(name: str, value: Any, gold: bool = False) -> SearchStrategy[Typed]:
    return KINDS[name].spell(value, gold=gold).map(lambda text: Typed(name, value, text))


def _dressed(name: str, value: Any, gold: bool = False) -> SearchStrategy[Typed]:
    spelled = KINDS[name].spell(value, gold=gold)
    return st.builds(lambda text, dress: Typed(name, value, dress.replace("@", text)), spelled, DRESSES)


def one(*names: str, gold: bool = True) -> SearchStrategy[Typed]:
    """One answer of one of the kinds, of any kind without names."""
    kinds = st.sampled_from(names or tuple(KINDS))
    return kinds.flatmap(lambda name: KINDS[name].values.flatmap(lambda value: _typed(name, value, gold)))


def equal_pair(name: str, gold: bool = False) -> SearchStrategy[Pair]:
    """Two spellings of one value. gold: the answer too is spelled as golds are."""
    return KINDS[name].values.flatmap(lambda v: st.tuples(_dressed(name, v, gold), _typed(name, v, True)))


def other_pair(name: str, gold: bool = False) -> SearchStrategy[Pair]:
    """Two different values of one kind, near ones more often than not."""

    def beside(value: Any) -> SearchStrategy[Pair]:
        near = [v for v in KINDS[name].near(value) if v != value]
        drawn = st.sampled_from(near) if near else KINDS[name].values
        others = st.one_of(drawn, drawn, KINDS[name].values).filter(
            lambda other: other != value and not (name == "decimal" and _within_tolerance(other, value))
        )
        return st.tuples(others.flatmap(lambda other: _dressed(name, other, gold)), _typed(name, value, True))

    return KINDS[name].values.flatmap(beside)


def _within_tolerance(answer: Fraction, gold: Fraction) -> bool:
    """A gold that is written as a decimal has a relative tolerance of 1e-4."""
    return abs(answer - gold) <= abs(gold) / 10_000


def any_pair(*names: str) -> SearchStrategy[Pair]:
    """Equal or not, of one of the kinds; without names also of two kinds."""
    kinds = st.sampled_from(names or tuple(KINDS))
    same = kinds.flatmap(lambda name: st.one_of(equal_pair(name), other_pair(name)))
    return same if names else st.one_of(same, same, same, st.tuples(one(gold=False), one()))


def never_equal(answer: Typed, gold: Typed) -> bool:
    """Are these of kinds that no rule brings together (a unit, a base or a `y =` may be left out)?"""
    families = frozenset((KINDS[answer.kind].family, KINDS[gold.kind].family))
    loose = ({"number", "length"}, {"number", "numeral"}, {"expression", "equation"})
    return len(families) == 2 and families not in loose


# ------------------------------------------------------------------------------------------------- texts

TEXT = st.text(st.characters(exclude_categories=()), max_size=60)  # surrogates and control characters too
_TOKENS = [
    r"\frac",
    r"{",
    r"}",
    r"(",
    r")",
    r"[",
    r"]",
    r"\{",
    r"\}",
    r"1",
    r"2",
    r"10",
    r"0",
    r".",
    r",",
    r";",
    r"^",
    r"_",
    r"\sqrt",
    r"\text{",
    r"\left(",
    r"\right)",
    r"\begin{pmatrix}",
    r"\end{pmatrix}",
    r"&",
    r"\\",
    r"\sum_",
    r"!",
    r"=",
    r"<",
    r">",
    r"\le",
    r"x",
    r"y",
    r"\pi",
    r"\infty",
    r"\cup",
    r"\pm",
    r"\%",
    r"%",
    r"$",
    r"\in",
    r"\lim",
    r"\int",
    r"\log",
    r"\sin",
    r"|",
    r"-",
    r"+",
    r"/",
    r"\cdot",
    r"\binom",
    r"\boxed{",
    r"\boxed{7}",
    r"\fbox{",
    r"####",
    r"<answer>",
    r"</answer>",
    r"<think>",
    r"</think>",
    r"<!--",
    r"-->",
    r"a",
    r"i",
    r"e",
    r"cm",
    r":",
    r"'",
    r'"',
    r"~",
    r"√",
    r"½",
    r"²",
    r"−",
    r"\color{red}",
    r"\phantom",
    r"\over",
    r"\mathbb{R}",
    r"\overline{3}",
    r"answer",
    r"or",
    r"and",
    r"not",
]
SOUP = st.lists(st.sampled_from([*_TOKENS, " ", "\n", "The answer is "]), max_size=14).map("".join)
APART = re.compile(r"boxed|fbox|think>|<!--|-->")  # what the extraction reads besides the last box
# Without a lone "not" or "or": it is not [7], and [7] or 8, are another offer than [7]. Arbitrary text may draw them too
HEDGES = re.compile(r"n['\u2019]t\b|\b(not|or|nor|either|neither|never|no|cannot|and)\b", re.IGNORECASE)
_WORDS = (
    "we have", "so", "42", "$x^2 = 4$", "(1, 2)", r"50\%", r"\frac{1}{2}", "let $n$ be", "the answer is 7.", "Answer: 3", "{",
    "}", "#### 9", "\n\n", "because", r"$$\int_0^1 x\,dx$$", "A)", "hence", r"\[y = 3x + 1\]", "<answer>5</answer>",
    "1,000 cm", "!", "**bold**", "`code`", r"\begin{align}", "\\", "$", "maybe",
)  # fmt: skip
PROSE = st.one_of(st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join), TEXT).filter(
    lambda text: not APART.search(text) and not HEDGES.search(text)
)
# Between an earlier box and the last one: a step or a correction, with no word that offers both
BRIDGES = pick(
    ". Wait, that is wrong. The correct value is ",
    " is the first part. Adding the second part gives ",
    ", so the total is ",
    ". Actually I made a mistake, so it should be ",
    " for the first case.\n\nTherefore the total is ",
    "$ and hence $y = $ ",
)
BOXES = (
    r"\boxed{@}", r"$\boxed{@}$", r"\fbox{@}", r"\boxed {@}", r"**\boxed{@}**", r"\[\boxed{@}\]", r"\boxed{$@$}",
    r"\boxed{ @ }", r"\boxed{{@}}", r"\boxed{\displaystyle @}", r"\boxed{@.}", r"\boxed{\boxed{@}}",
)  # fmt: skip
MARKERS = ("The answer is $@$.", "#### @", "<answer>@</answer>", r"Final answer: \(@\)", "**Answer:** $@$")
