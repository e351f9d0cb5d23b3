"""Pairs of right and wrong answers: which, by hand; the coefficients, by the numbers of the formula."""

import math

import pytest
import torch

from grpo_runner.algorithm import (
    answer_log_ratios,
    kept,
    partners,
    preference_coefficients,
    preference_margins,
)

NAN = math.nan


def flags(*rows: str) -> torch.Tensor:
    return torch.tensor([[mark == "1" for mark in row] for row in rows])


def doubles(rows: list) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(
    ("right", "usable", "most", "expected"),
    [
        ("10110", "11111", None, [1, 0, 4, -1, 2]),  # the third right one finds no wrong one left
        ("10110", "11111", 1, [1, 0, -1, -1, -1]),
        ("10110", "01111", None, [-1, 2, 1, 4, 3]),  # the first has no reward
        ("00100", "11111", None, [2, -1, 0, -1, -1]),
        ("11111", "11111", None, [-1] * 5),
        ("00000", "11111", 2, [-1] * 5),
        ("11000", "00000", None, [-1] * 5),
    ],
)
def test_the_ith_right_one_is_paired_with_the_ith_wrong_one(right, usable, most, expected):
    assert partners(flags(right), flags(usable), most).tolist() == expected


def test_no_pair_is_of_two_questions_and_partners_are_rows_of_the_batch():
    found = partners(flags("10", "11", "01"), flags("11", "11", "11"))
    assert found.tolist() == [1, 0, -1, -1, 5, 4]


def test_every_pair_is_mutual_of_one_question_and_of_opposite_verdicts():
    """200 draws: as many pairs as the smaller side has, at most the limit, and no answer twice."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(200):
        size = int(torch.randint(1, 9, (), generator=draw))
        right, usable = (torch.rand(3, size, generator=draw) < p for p in (0.4, 0.8))
        most = [None, 1, 2][int(torch.randint(3, (), generator=draw))]
        found = partners(right, usable, most)
        paired = (found >= 0).nonzero().flatten().tolist()
        assert all(found[found[row]] == row and row // size == found[row] // size for row in paired)
        assert all(usable.flatten()[row] and right.flatten()[row] != right.flatten()[found[row]] for row in paired)
        for slot in range(3):
            sides = [int((usable[slot] & (right[slot] == side)).sum()) for side in (True, False)]
            assert sum(row // size == slot for row in paired) == 2 * min(*sides, most or size)


def test_kept_in_pairs_leaves_out_what_has_no_partner_repeats_and_what_has_no_reward():
    correct = flags("110100", "111111")
    answers = [["a", "a", "x", "b", "x", "y"], list("abcdef")]
    rewards = doubles([[1, 1, 0, 1, 0, NAN], [1] * 6])
    #                 a = a again; b is the second right one; x = x again and y has no reward: nothing is left for b
    found = kept(rewards, correct, answers, "pairs", None)
    assert found.isnan().tolist() == [[False, True, False, True, True, True], [True] * 6]
    rewards[0, 5] = 0.0
    assert kept(rewards, correct, answers, "pairs", None)[0].isnan().tolist() == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]
    assert kept(rewards, correct, answers, "pairs", 1)[0].isnan().tolist() == [False, True, False, True, True, True]


@pytest.mark.parametrize(
    ("keep", "most", "left"), [("right", None, [0, 3]), ("right", 1, [0]), ("all", None, [0, 1, 2, 3])]
)
def test_kept_otherwise_is_as_before(keep, most, left):
    found = kept(doubles([[1, 1, 0, 1]]), flags("1101"), [["a", "a", "x", "b"]], keep, most)
    assert (~found[0].isnan()).nonzero().flatten().tolist() == left


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("sequence_sum", [6.0, -1.0, 0.0]), ("sequence_mean", [2.0, -1.0, 0.0]), ("constant", [0.6, -0.1, 0.0])],
)
def test_an_answers_log_ratio_is_made_as_its_loss_is(kind, expected):
    """The sum over tokens, their mean, or the sum over the budget; whatever stands outside the mask, NaN as well."""
    mask = flags("111", "100", "000")
    found = answer_log_ratios(doubles([[1, 2, 3], [-1, NAN, 9], [NAN, NAN, NAN]]), mask, kind, 10.0)
    assert found.tolist() == pytest.approx(expected)


def test_the_coefficients_at_the_reference_and_far_from_it():
    """β = 0.1: ±β/2 where policy and reference agree (σ(0) = ½); σ(-2) where the pair is told apart by 20 nats."""
    right, partner = torch.tensor([True, False, True, False, True]), torch.tensor([1, 0, 3, 2, -1])
    found = preference_coefficients(doubles([0, 0, 15, -5, 99]), partner, right, 0.1)
    far = 0.1 / (1 + math.exp(2))
    assert found.tolist() == pytest.approx([0.05, -0.05, far, -far, 0])
    assert preference_margins(doubles([0, 0, 15, -5, 99]), partner, right, 0.1).tolist() == pytest.approx([0, 2])
    wrongly = preference_coefficients(doubles([-5, 15]), partner[:2], right[:2], 0.1)  # the wrong one is preferred
    assert wrongly.tolist() == pytest.approx([0.1 - far, far - 0.1])


def test_margins_beyond_what_exp_holds_are_finite():
    right, partner = torch.tensor([True, False]), torch.tensor([1, 0])
    for gap, expected in ((1e5, 0.0), (-1e5, 1.0)):
        found = preference_coefficients(doubles([gap, -gap]), partner, right, 1.0)
        assert found.tolist() == [expected, -expected]
