r"""Properties of the checker's policy: where answer and gold may not change places, and what a looser policy accepts."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from grpo_runner.reward import Policy, check
from tests.reward.claims import Check, box, holds, looser_accepts_more
from tests.reward.kinds import RATIONALS
from tests.reward.spellings import percent, pick, rational
from tests.reward.strategies import BOXES, BRIDGES, MARKERS, PROSE, SOUP, Pair, any_pair, one

# ------------------------------------------------------------------------------------------------- where it is one-sided

# (answer, gold): right this way, and wrong the other way round
ONE_SIDED = [
    (r"\frac13", "0.3333"),  # a decimal gold may be a rounding; a decimal answer to 1/3 is not 1/3
    (r"\pi", "3.14"),
    ("0.5", r"0.5\%"),  # the sign may be left out; 0.5% is not 0.5
    ("51", "29+22"),  # arithmetic left undone is no result, unless the gold leaves it
    ("120", "5!"),
    ("1", r"\sin^2x+\cos^2x"),
    ("1011", "1011_2"),  # the base may be left to the question
    (r"\text{(A) }12\text{ cm}", "A"),  # a letter may bring its text along
    ("a", "A"),
    ("1,2", "(1,2)"),  # a bare list may stand for a tuple, which is stricter
    ("(1,2)", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    ("100,200", r"\{100,200\}"),  # as a gold, 100,200 is one number
]


@pytest.mark.parametrize(("answer", "gold"), ONE_SIDED)
def test_where_answer_and_gold_may_not_change_places(answer: str, gold: str) -> None:
    assert check(box(answer), gold).correct
    assert not check(box(gold), answer).correct


@pytest.mark.parametrize(("answer", "gold"), [("x=5", "5"), ("5", r"5\text{ cm}"), (r"50\%", "50"), (r"50\%", "0.5"), ("y=2x", "2x")])  # fmt: skip
def test_what_may_be_left_out_on_either_side(answer: str, gold: str) -> None:
    assert check(box(answer), gold).correct
    assert check(box(gold), answer).correct


Beside = tuple[Fraction, str, Fraction, str]  # a value and its text, another value and its text


@st.composite
def _share_and_number(draw: st.DrawFn) -> Beside:
    share = draw(st.builds(Fraction, st.integers(1, 400), pick(50, 100, 1000)))
    value = draw(pick(share, 100 * share, 10 * share, share / 100, abs(1 - share)))
    return share, draw(percent(share)), value, draw(rational(value, gold=True))


def test_a_percentage_beside_a_plain_number() -> None:
    def as_the_policy_says(checker: Check, case: Beside) -> None:
        share, percentage, value, plain = case
        assert checker(box(percentage), plain).correct == (value == share or (value == 100 * share and value > 1))
        assert checker(box(plain), percentage).correct == (value in (share, 100 * share))

    holds(as_the_policy_says, _share_and_number(), examples=60)


_UNITS = (r"@\text{ cm}", r"@\text{ m}^2", r"@\text{ km/h}", "@ dollars", r"\$@", r"@^\circ", r"@\text{ apples}", "@ kg", r"@\,\mathrm{s}")  # fmt: skip


@st.composite
def _number_and_quantity(draw: st.DrawFn) -> Beside:
    value = draw(RATIONALS.filter(lambda q: q > 0))
    measure = draw(pick(value, value, value + 1, value * 10))
    quantity = draw(pick(*_UNITS)).replace("@", draw(rational(measure, gold=True)))
    return value, draw(rational(value, gold=True)), measure, quantity


def test_a_unit_may_be_left_out_or_added() -> None:
    def as_the_number_says(checker: Check, case: Beside) -> None:
        value, plain, measure, quantity = case
        assert checker(box(plain), quantity).correct == (value == measure)
        assert checker(box(quantity), plain).correct == (value == measure)

    holds(as_the_number_says, _number_and_quantity(), examples=60)


# ------------------------------------------------------------------------------------------------- policies


def _responses(pairs: SearchStrategy[Pair]) -> SearchStrategy[tuple[str, str]]:
    return pairs.map(lambda pair: (box(pair[0].text), pair[1].text))


@st.composite
def _nearly(draw: st.DrawFn) -> tuple[str, str]:
    """Two numbers a little apart, the gold as a fraction, as a decimal, or in a tuple."""
    value = draw(RATIONALS)
    other = value + value * draw(pick(0, 1, -1, 3)) / draw(pick(30, 300, 3000, 10**5, 10**6))
    places = draw(st.integers(1, 6))
    rounded = f"{float(value):.{places}f}"
    frame = draw(pick("@", "@", "(@,1)", r"@\pi", r"\{@,-7\}"))
    gold = draw(st.one_of(st.just(rounded), rational(value, gold=True)))
    answer = draw(st.one_of(rational(other), st.just(f"{float(other):.{places + 2}f}"), rational(value)))
    return box(frame.replace("@", answer)), frame.replace("@", gold)


@st.composite
def _measured(draw: st.DrawFn) -> tuple[str, str]:
    """A length beside the same or another one, its unit left out or turned into a mass."""
    answer, gold = draw(any_pair("length"))
    unit = draw(pick(r"\1", "", r"\\text{ kg}"))
    return box(re.sub(r"((?:~|\\[ ,])?\\(?:text|mbox|mathrm)\{.*)", unit, answer.text)), gold.text


@st.composite
def _boxed_twice(draw: st.DrawFn) -> tuple[str, str]:
    """Two boxes, of which the gold is the last, the first, both as a list, or neither."""
    last, gold = draw(any_pair("integer", "choice", "fraction", "pi"))
    earlier = draw(st.one_of(one("integer"), st.just(gold), st.just(last)))
    wanted = draw(pick(gold.text, gold.text, earlier.text, f"{earlier.text}, {gold.text}"))
    return draw(PROSE) + box(earlier.text) + draw(BRIDGES) + box(last.text), wanted


@st.composite
def _lettered(draw: st.DrawFn) -> tuple[str, str]:
    """A letter with text behind it, or with another letter."""
    answer, gold = draw(any_pair("choice"))
    forms = ("@", r"\text{@. }12", r"\text{(@) blue}", r"(@)\ 3x+1", "@) 7", "@ or B", r"\text{@ and }7")
    return box(draw(pick(*forms)).replace("@", str(answer.value))), gold.text


@st.composite
def _shares(draw: st.DrawFn) -> tuple[str, str]:
    share = draw(st.builds(Fraction, st.integers(1, 400), pick(2, 50, 100)))
    answer = st.one_of(percent(share), *(rational(scale * share) for scale in (1, 100, Fraction(1, 100))))
    return box(draw(answer)), draw(st.one_of(percent(share), rational(share, gold=True)))


@st.composite
def _wrapped(draw: st.DrawFn) -> tuple[str, str]:
    answer, gold = draw(any_pair("integer", "tuple", "interval", "choice"))
    return draw(pick(*BOXES, *MARKERS)).replace("@", answer.text), gold.text


_TEXTS = st.one_of(
    _responses(any_pair()),
    st.tuples(SOUP, SOUP).map(lambda texts: (box(texts[0]), texts[0])),
    one().map(lambda answer: (box(f" {answer.text} "), answer.text)),
)

# (the stricter policy, the looser one, responses and golds on which they may differ)
LOOSER: dict[str, tuple[dict[str, Any], dict[str, Any], SearchStrategy[tuple[str, str]]]] = {
    "equality": ({"equality": "string"}, {}, _TEXTS),
    "numeric_tolerance": ({}, {"numeric_tolerance": 0.001}, _nearly()),
    "numeric_tolerance, larger": ({"numeric_tolerance": 0.001}, {"numeric_tolerance": 0.05}, _nearly()),
    "decimal_tolerance": ({"decimal_tolerance": 0.0}, {}, _nearly()),
    "decimal_tolerance, larger": ({}, {"decimal_tolerance": 0.01}, _nearly()),
    "rounded_golds": ({"rounded_golds": False}, {}, _nearly()),
    "units, ignored": ({}, {"units": "ignored"}, _measured()),
    "units, optional": ({"units": "required"}, {}, _measured()),
    "lists": ({"lists": "ordered"}, {}, _responses(any_pair("list", "set"))),
    "boxes": ({"boxes": "only"}, {"boxes": "last"}, _boxed_twice()),
    "percent, sign": ({"percent": "strict"}, {}, _shares()),
    "percent, scale": ({}, {"percent": "any_scale"}, _shares()),
    "letters": ({"letters": "alone"}, {}, _lettered()),
    "extract": ({"extract": "box"}, {}, _wrapped()),
}


@pytest.mark.parametrize("name", LOOSER)
def test_a_looser_policy_accepts_all_that_a_stricter_one_does(name: str) -> None:
    strict, loose, cases = LOOSER[name]
    holds(looser_accepts_more(strict, loose), cases, examples=60)
    with pytest.raises(AssertionError):  # and more: the cases can tell the two apart
        holds(looser_accepts_more(loose, strict), cases, examples=200, shrink=False)


def test_all_of_several_golds_are_needed() -> None:
    def is_all(checker: Check, case: tuple[list[int], list[int]]) -> None:
        answers, golds = case
        verdict = checker(box(", ".join(map(str, answers))), [str(gold) for gold in golds], Policy(several_golds="all"))
        assert verdict.correct == (set(answers) == set(golds)), verdict

    numbers = st.lists(st.integers(0, 3), min_size=2, max_size=4, unique=True)
    holds(is_all, st.tuples(numbers, numbers), examples=60)
