"""The stop-only model, against autograd over every group, against draws, and against the figures it was found with."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from grpo_runner.algorithm import LOSS_NORMS, STOP_NORMS, StopModel, stop_push, weigh
from grpo_runner.algorithm.stop_model import tail_chances
from grpo_runner.objectives import Objective

SHORT = StopModel(right=0.35, size=2, stop=0.6, body_right=3, body_wrong=5)
LONGEST = 24  # tails that the sum over all groups goes to: .4^24 is 3e-10
KNOWN = StopModel(right=0.3, size=8, stop=0.15, body_right=6, body_wrong=6)


def objective(scale, norm, budget, ddof=0):
    return Objective("", "group_mean", scale, ddof, 0.0, norm, budget)


def by_autograd(model, made_of):
    """(right, wrong) mean push over answers: the derivative of E[Σ weight · log π] by two logits, over all groups of 2."""
    logits = torch.full((2,), math.log(model.stop / (1 - model.stop)), dtype=torch.float64, requires_grad=True)
    answers = [(ok, tail) for ok in (True, False) for tail in range(1, LONGEST + 1)]
    groups = list(itertools.product(answers, repeat=model.size))
    chance = {True: model.right, False: 1 - model.right}
    weight_Q = torch.tensor(
        [math.prod(chance[ok] * model.stop * (1 - model.stop) ** (tail - 1) for ok, tail in group) for group in groups],
        dtype=torch.float64,
    )
    rewards_QG = torch.tensor([[float(ok) for ok, _ in group] for group in groups], dtype=torch.float64)
    tails_QG = torch.tensor([[tail for _, tail in group] for group in groups])
    lengths_N = (tails_QG + torch.where(rewards_QG > 0, model.body_right, model.body_wrong)).flatten()
    mask_NT = torch.arange(int(lengths_N.max()))[None, :] < lengths_N[:, None]
    weights_NT = weigh(rewards_QG, mask_NT, [torch.arange(len(lengths_N))], made_of).weights_NT * len(lengths_N)
    # every token of an answer weighs the same here, so that the first one's weight stands for all
    go, stop = torch.nn.functional.logsigmoid(-logits), torch.nn.functional.logsigmoid(logits)
    place_QG = (rewards_QG == 0).long()
    logprob_QG = (tails_QG - 1) * go[place_QG] + stop[place_QG]
    mean_Q = (weights_NT[:, 0].view_as(logprob_QG) * logprob_QG).mean(dim=1)
    return torch.autograd.grad((weight_Q * mean_Q).sum(), logits)[0].tolist()


@pytest.mark.parametrize("scale", ["group_std", "none"])
@pytest.mark.parametrize("norm", STOP_NORMS)
def test_the_push_is_autograds_over_all_groups(norm, scale):
    found = stop_push(SHORT, "group_mean", scale, norm, 7.0)
    assert list(found) == pytest.approx(by_autograd(SHORT, objective(scale, norm, 7.0)), abs=1e-8)


def test_of_a_batch_of_groups_the_norms_are_those_that_train():
    """N · norm is a function of the answer's, or of the group's, tokens alone: all but the mean over a whole batch."""
    assert set(LOSS_NORMS) - set(STOP_NORMS) == {"token_mean"}


@pytest.mark.parametrize(
    ("scale", "norm", "right", "wrong"),
    [
        ("group_std", "sequence_mean", 0.0111, -0.0111),
        ("none", "sequence_mean", 0.0050, -0.0050),
        ("group_std", "constant", 0, 0),
        ("none", "constant", 0, 0),
        ("none", "sequence_sum", 0, 0),
    ],
)
def test_wrong_answers_are_pushed_to_go_on_under_one_over_length_alone(scale, norm, right, wrong):
    found = stop_push(KNOWN, "group_mean", scale, norm, 40.0)
    assert found.right == pytest.approx(right, abs=5e-5) and found.wrong == pytest.approx(wrong, abs=5e-5)
    if not right:
        assert max(map(abs, found)) < 1e-15


def test_closed_form_of_the_push_without_the_std():
    """E[A of wrong] is -p(1-p)(G-1)/G, and E[(1 - s·t)/(b + t)] a sum that needs no tensor."""
    mean = sum(0.15 * 0.85 ** (t - 1) * (1 - 0.15 * t) / (6 + t) for t in range(1, 400))
    found = stop_push(KNOWN, "group_mean", "none", "sequence_mean")
    assert found.wrong == pytest.approx(-0.3 * 0.7 * 7 / 8 * mean, rel=1e-10)


def test_one_rule_for_both_cancels_unless_the_bodies_differ():
    def both(body_right, body_wrong, norm="sequence_mean"):
        model = KNOWN._replace(body_right=body_right, body_wrong=body_wrong)
        return sum(stop_push(model, "group_mean", "group_std", norm))

    assert abs(both(6, 6)) < 1e-15
    assert both(6, 12) == pytest.approx(0.0061, abs=5e-5) and both(12, 6) == pytest.approx(-0.0061, abs=5e-5)
    # over the tokens of the group, all answers of a group share one divisor, and advantages sum to 0
    assert abs(both(6, 12, "group_token_mean")) < 1e-15


def test_the_push_is_what_drawn_groups_get():
    """20,000 groups drawn, weighed by the function that trains; ddof 1 and different bodies."""
    model, draw = KNOWN._replace(body_wrong=9), torch.Generator().manual_seed(0)
    rewards_QG = (torch.rand(20_000, 8, generator=draw, dtype=torch.float64) < model.right).double()
    tails_QG = 1 + (torch.rand(20_000, 8, generator=draw, dtype=torch.float64).log() / math.log(0.85)).floor()
    lengths_N = (tails_QG + torch.where(rewards_QG > 0, 6, 9)).flatten()
    mask_NT = torch.arange(int(lengths_N.max()))[None, :] < lengths_N[:, None]
    made = weigh(rewards_QG, mask_NT, [torch.arange(160_000)], objective("group_std", "sequence_mean", 1.0, ddof=1))
    push_QG = made.weights_NT[:, 0].view_as(tails_QG) * 160_000 * (1 - model.stop * tails_QG)
    found = stop_push(model, "group_mean", "group_std", "sequence_mean", ddof=1)
    for exact, part_QG in ((found.right, push_QG * rewards_QG), (found.wrong, push_QG * (1 - rewards_QG))):
        mean_Q = part_QG.mean(dim=1)
        assert abs(float(mean_Q.mean()) - exact) < 4 * float(mean_Q.std()) / 20_000**0.5
        assert abs(exact) > 20 * float(mean_Q.std()) / 20_000**0.5  # so that the bound above says something


@pytest.mark.parametrize(("stop", "answers"), [(0.15, 1), (0.15, 8), (0.006, 3), (0.9, 64)])
def test_the_chances_of_tails_sum_to_one_and_have_their_mean(stop, answers):
    lengths_T, chance_T = tail_chances(stop, answers)
    assert float(chance_T.sum()) == pytest.approx(1, abs=1e-10)
    assert float((lengths_T * chance_T).sum()) == pytest.approx(answers / stop, rel=1e-9)
