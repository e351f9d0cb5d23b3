r"""Properties of the checker on generated answers, and checkers with a known fault that they catch.

What an answer is worth is known from the structure that its text was written from, never from a parser of the package.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from grpo_runner.reward import Grader, Policy, check, unreadable
from grpo_runner.reward.normalize import tidy
from grpo_runner.types import Status, Verdict
from tests.reward.claims import (
    Check,
    Claim,
    accepts_equal,
    box,
    holds,
    ignores_earlier_boxes,
    ignores_prose,
    is_reflexive,
    is_symmetric,
    never_raises,
    refuses_others,
)
from tests.reward.kinds import KINDS, Typed
from tests.reward.spellings import pick
from tests.reward.strategies import (
    APART,
    BOXES,
    BRIDGES,
    DRESSES,
    MARKERS,
    PROSE,
    SOUP,
    TEXT,
    any_pair,
    equal_pair,
    never_equal,
    one,
    other_pair,
)

# Decimals, percentages and lengths are left out: see test_policy_properties.py
SYMMETRIC = [kind for kind in KINDS if kind not in ("decimal", "percent", "length")]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_values_are_accepted_however_they_are_spelled(kind: str) -> None:
    holds(accepts_equal, equal_pair(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_other_values_are_refused(kind: str) -> None:
    holds(refuses_others, other_pair(kind))


def test_another_kind_of_thing_is_refused() -> None:
    holds(refuses_others, st.tuples(one(gold=False), one()).filter(lambda pair: never_equal(*pair)), examples=80)


@pytest.mark.parametrize("kind", KINDS)
def test_every_gold_is_itself_in_any_wrapper(kind: str) -> None:
    holds(is_reflexive, st.tuples(one(kind), pick(*BOXES, *MARKERS)))


def test_a_readable_gold_is_itself_whatever_its_text() -> None:
    readable = st.one_of(TEXT, SOUP).filter(lambda text: unreadable(text) is None and not APART.search(text))
    holds(is_reflexive, st.tuples(readable.map(lambda text: Typed("", text, text)), st.just(BOXES[0])), examples=100)


@pytest.mark.parametrize("kind", SYMMETRIC)
def test_answer_and_gold_may_change_places(kind: str) -> None:
    holds(is_symmetric, st.one_of(other_pair(kind, gold=True), equal_pair(kind, gold=True)))


def test_arbitrary_text_gets_a_verdict() -> None:
    soup = st.one_of(TEXT, SOUP, SOUP)
    holds(never_raises, st.tuples(soup, st.one_of(one().map(lambda gold: gold.text), soup)), examples=100)


def test_prose_around_a_box_changes_nothing() -> None:
    holds(ignores_prose, st.tuples(any_pair(), PROSE, PROSE), examples=60)


@pytest.mark.parametrize("response", [r"It is not \boxed{7}.", r"\boxed{7} or 8"])
def test_prose_that_denies_or_hedges_the_box_does_change_it(response: str) -> None:
    assert not check(response, "7").correct


def test_earlier_boxes_that_are_no_alternatives_change_nothing() -> None:
    earlier = one(gold=False).map(lambda answer: answer.text)
    holds(ignores_earlier_boxes, st.tuples(any_pair(), PROSE, earlier, BRIDGES), examples=60)


def test_any_of_several_golds_is_enough() -> None:
    def is_any(checker: Check, case: tuple[tuple[Typed, Typed], list[Typed]]) -> None:
        (answer, gold), others = case
        golds = sorted([gold.text, *(other.text for other in others)])
        assert checker(box(answer.text), golds).correct == any(checker(box(answer.text), one).correct for one in golds)

    holds(is_any, st.tuples(any_pair(), st.lists(one(), max_size=2)), examples=40)


def test_workers_give_the_verdicts_of_check() -> None:
    def agree(checker: Check, rows: list[tuple[str, str]]) -> None:
        verdicts = grader.grade(rows)
        assert [replace(verdict, seconds=0.0) for verdict in verdicts] == [checker(*row) for row in rows]

    typed = any_pair().map(lambda pair: (box(pair[0].text), pair[1].text))
    rows = st.one_of(typed, typed, st.tuples(SOUP.map(box), one().map(lambda gold: gold.text)))
    with Grader(workers=1, deadline_s=60.0) as grader:
        holds(agree, st.lists(rows, min_size=1, max_size=6))


def test_tidying_twice_is_tidying_once() -> None:
    def is_stable(_: Check, text: str) -> None:
        assert tidy(tidy(text)) == tidy(text)

    dresses = st.one_of(DRESSES, pick("x = @", r"\text{Answer: }@", "**@**", "The answer is: @"))
    holds(is_stable, st.builds(lambda answer, dress: dress.replace("@", answer.text), one(gold=False), dresses), examples=100)  # fmt: skip


# ------------------------------------------------------------------------------------------------- negative controls


def _under(**changes: str) -> Check:
    return lambda response, gold: check(response, gold, Policy(**changes))  # type: ignore[arg-type]


def _rewritten(rewrite: Callable[[str], str]) -> Check:
    return lambda response, gold: check(box(rewrite(response[7:-1])), rewrite(gold))


def _unordered(text: str) -> str:
    return re.sub(r"(?:\\left|\\bigl)?\((.*?)(?:\\right|\\bigr)?\)", r"\{\1\}", text)


def _first_number(response: str, gold: str) -> Verdict:
    found = re.search(r"-?\d+", response)
    return check(box(found[0]) if found else response, gold)


def _as_floats(response: str, gold: str) -> Verdict:
    try:
        near = abs(float(response[7:-1]) - float(gold)) <= 1e-6 * abs(float(gold))
    except ValueError:
        near = False
    return Verdict(Status.CORRECT, response[7:-1], gold) if near else check(response, gold)


def _fragile(response: str, gold: str) -> Verdict:
    assert r"\frac" not in response
    return check(response, gold)


def _by_length(response: str, gold: str) -> Verdict:
    verdict = check(response, gold)
    return replace(verdict, status=Status.WRONG) if len(response) > len(gold) + 12 else verdict


BROKEN: dict[str, tuple[Check, Claim, SearchStrategy]] = {
    "case is ignored": (_rewritten(str.lower), refuses_others, other_pair("polynomial")),
    "the first number in the text": (_first_number, ignores_prose, st.tuples(any_pair("integer"), PROSE, PROSE)),
    "the first box": (_under(boxes="first"), ignores_earlier_boxes, st.tuples(any_pair("pi"), PROSE, pick("1", "2"), BRIDGES)),
    "strings only": (_under(equality="string"), accepts_equal, equal_pair("fraction")),
    "floats": (_as_floats, refuses_others, other_pair("integer")),
    "lists in order": (_under(lists="ordered"), accepts_equal, equal_pair("set")),
    "tuples in any order": (_rewritten(_unordered), refuses_others, other_pair("tuple")),
    "any bracket": (_rewritten(lambda text: text.translate({91: "(", 93: ")"})), refuses_others, other_pair("interval")),
    "units are ignored": (_under(units="ignored"), refuses_others, other_pair("length")),
    "percent by any scale": (_under(percent="any_scale"), refuses_others, other_pair("percent")),
    "a gold that stands in the answer": (lambda r, g: Verdict(Status.CORRECT if g in r else Status.WRONG), refuses_others, other_pair("integer")),
    "the right side of an equation": (_rewritten(lambda text: text.split("=")[-1]), refuses_others, other_pair("line")),
    "no base": (_rewritten(lambda text: text.split("_")[0]), refuses_others, other_pair("numeral")),
    "no half of the day": (_rewritten(lambda text: text[:5].strip("\\ ")), refuses_others, other_pair("time")),
    "everything is right": (lambda response, gold: Verdict(Status.CORRECT), refuses_others, other_pair("matrix")),
    "everything is wrong": (lambda response, gold: Verdict(Status.WRONG), is_reflexive, st.tuples(one(), pick(*BOXES))),
    "it raises": (_fragile, never_raises, st.tuples(SOUP, SOUP)),
    "long answers are wrong": (_by_length, is_symmetric, equal_pair("union", gold=True)),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_checker_is_caught(fault: str) -> None:
    checker, claim, cases = BROKEN[fault]
    with pytest.raises(AssertionError):
        holds(claim, cases, checker, examples=300, shrink=False)
