"""Which answers are kept, beside loops over plain lists. Pairs: test_pairs.py."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_runner.algorithm import kept

NAN = math.nan


def of(rewards, correct, answers, keep="right", most=None):
    made = kept(torch.tensor([rewards]), torch.tensor([correct]), [answers], keep, most)[0].tolist()
    return [None if math.isnan(value) else value for value in made]


def test_all_is_the_very_same():
    rewards = torch.tensor([[1.0, NAN, 0.0]])
    assert kept(rewards, torch.tensor([[True, True, False]]), [["a", "a", "b"]], "all", None) is rewards


def test_the_first_of_equal_right_answers_is_kept_and_no_wrong_one():
    assert of([1.0, 1.0, 0.0, 1.0], [True, True, False, True], ["a", "a", "b", "c"]) == [1.0, None, None, 1.0]
    assert of([1.0, 1.0, 0.0, 1.0], [True, True, False, True], ["a", "a", "b", "c"], most=1) == [1.0, None, None, None]
    # right is what the checker says, whatever was earned
    assert of([0.0, 2.0], [True, False], ["a", "b"]) == [0.0, None]


def test_an_equal_answer_stands_in_for_one_without_a_reward():
    assert of([NAN, 1.0], [True, True], ["a", "a"]) == [None, 1.0]


ANSWER = st.tuples(st.sampled_from([0.0, 1.0, 0.5, NAN]), st.booleans(), st.sampled_from("abc"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(ANSWER, min_size=4, max_size=4), min_size=1, max_size=3), st.sampled_from([None, 1, 2, 9]))
def test_against_a_plain_loop(groups, most):
    """Text decides alone whether the checker takes an answer for right, so that equal ones agree."""
    right_of = {"a": True, "b": False, "c": True}
    expected = []
    for group in groups:
        seen, row = set(), []
        for reward, _, answer in group:
            keeps = right_of[answer] and not math.isnan(reward) and answer not in seen
            keeps = keeps and (most is None or len(seen) < most)
            if keeps:
                seen.add(answer)
            row.append(reward if keeps else None)
        expected.append(row)
    rewards, answers = ([[cell[place] for cell in group] for group in groups] for place in (0, 2))
    correct = torch.tensor([[right_of[answer] for answer in row] for row in answers])
    found = kept(torch.tensor(rewards), correct, answers, "right", most)
    assert [[None if math.isnan(v) else v for v in row] for row in found.tolist()] == [
        [None if v is None else pytest.approx(v) for v in row] for row in expected
    ]
