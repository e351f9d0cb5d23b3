"""The three kinds of ratio and the switches beside them, against closed forms."""

from __future__ import annotations

import math

import pytest
import torch

from grpo_runner.algorithm import SURROGATES, Range, advantages, clipped_surrogate, loss_norm, sequence_ratio

MASK = torch.tensor([[True, True, True], [True, True, False]])


def gradient(kind, logprobs, old, weights, clip):
    logprobs = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    found = SURROGATES[kind](
        logprobs, torch.tensor(old, dtype=torch.float64), torch.tensor(weights, dtype=torch.float64), MASK, clip
    )
    found.value_NT.sum().backward()
    return found, logprobs.grad


@pytest.mark.parametrize("kind", list(SURROGATES))
def test_at_the_old_policy_every_kind_is_the_policy_gradient(kind):
    """w · ∇log π per token; for the sequence ratio the tokens of a response share their weights' mean."""
    logprobs = [[-1.0, -0.5, -2.0], [-0.3, -0.7, 0.0]]
    weights = [[0.2, 0.2, 0.2], [-0.5, -0.5, 0.0]]
    found, slope = gradient(kind, logprobs, logprobs, weights, Range(0.2, 0.2))
    torch.testing.assert_close(slope, torch.tensor(weights, dtype=torch.float64))
    assert (found.ratio_NT[MASK] == 1).all() and not found.clipped_NT.any()


def test_pb038_the_sequence_ratio_is_the_mean_never_the_product():
    ratio = sequence_ratio(torch.full((1, 3), -0.9), torch.full((1, 3), -1.0), torch.ones(1, 3, dtype=torch.bool))
    assert ratio.tolist()[0] == pytest.approx([math.exp(0.1)] * 3)
    assert ratio[0, 0].item() != pytest.approx(math.exp(0.3))  # negative control


def test_padding_does_not_reach_the_sequence_ratio():
    logprobs, old = torch.tensor([[-0.5, -0.7, 99.0]]), torch.tensor([[-0.7, -0.9, 0.0]])
    assert sequence_ratio(logprobs, old, torch.tensor([[True, True, False]]))[0, 0].item() == pytest.approx(
        math.exp(0.2)
    )


def test_gspo_clips_a_response_as_a_whole():
    """One token moved far, two not: the token ratio clips one token, the sequence ratio all of them or none."""
    logprobs, old = [[-0.4, -1.0, -1.0], [0.0, 0.0, 0.0]], [[-1.0, -1.0, -1.0], [0.0, 0.0, 0.0]]
    weights = [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    by_token, slope = gradient("token", logprobs, old, weights, Range(0.2, 0.2))
    assert by_token.clipped_NT[0].tolist() == [True, False, False] and slope[0].tolist() == [0.0, 1.0, 1.0]
    whole, slope = gradient("sequence", logprobs, old, weights, Range(0.2, 0.2))
    assert whole.clipped_NT[0].tolist() == [True] * 3 and slope[0].tolist() == [0.0] * 3
    inside, slope = gradient("sequence", logprobs, old, weights, Range(0.2, 0.3))
    assert not inside.clipped_NT.any() and slope[0].tolist() == pytest.approx([math.exp(0.2)] * 3)


def test_cispo_keeps_the_gradient_of_a_clipped_token():
    logprobs, old = [[-0.4, -1.0, -1.6], [0.0, 0.0, 0.0]], [[-1.0, -1.0, -1.0], [0.0, 0.0, 0.0]]
    found, slope = gradient("cispo", logprobs, old, [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], Range(0.2, 0.2))
    assert slope[0].tolist() == pytest.approx([1.2, 1.0, 0.8])  # the clipped ratio is the weight
    assert found.clipped_NT[0].tolist() == [True, False, True]
    _, cut = gradient("token", logprobs, old, [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], Range(0.2, 0.2))
    assert cut[0, 0] == 0  # negative control: PPO's clip does take it


def test_pb034_dual_clip_bounds_what_a_large_ratio_takes_away():
    ratio, weight = torch.tensor([10.0, 2.0], requires_grad=True), torch.tensor([-1.0, -1.0])
    value = clipped_surrogate(ratio, weight, 0.2, 0.2, dual=3.0)
    value.sum().backward()
    assert value.tolist() == [-3.0, -2.0] and ratio.grad.tolist() == [0.0, -1.0]
    assert clipped_surrogate(ratio, weight, 0.2, 0.2).tolist() == [-10.0, -2.0]  # off unless asked


def test_pb016_batch_std_is_one_scalar_over_all_answers():
    rewards = torch.tensor([[1.0, 0, 0, 0], [1, 1, 1, 0]])
    found = advantages(rewards, "group_mean", "batch_std", ddof=1)
    assert found[0, 0].item() == pytest.approx(0.75 / 0.534522, abs=1e-5)
    assert found[1, 3].item() == pytest.approx(-0.75 / 0.534522, abs=1e-5)
    own = advantages(rewards, "group_mean", "group_std", ddof=1)
    assert own[0, 0].item() == pytest.approx(1.5)  # negative control: the group's own std is another one


def test_a_batch_of_equal_rewards_weighs_nothing_and_a_constant_group_neither():
    assert (advantages(torch.full((2, 4), 0.1), "group_mean", "batch_std") == 0).all()
    found = advantages(torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 0]]), "group_mean", "batch_std")
    assert (found[0] == 0).all() and found[1, 0] > 0


@pytest.mark.parametrize("reward", [0.1, 0.3, 0.95])
def test_a_step_of_equal_rewards_is_exactly_zero_under_the_batch_mean(reward):
    """Rounding residue of the mean would make an optimizer step of a step that has nothing to say (PB032)."""
    rewards = torch.full((1, 7), reward, dtype=torch.float64)
    assert (advantages(rewards, "batch_mean", "none") == 0).all()


def test_the_batch_mean_knows_no_questions():
    found = advantages(torch.tensor([[1.0, 1, 1, 1], [0, 0, 0, 0]]), "batch_mean", "none")
    assert found.tolist() == [[0.5] * 4, [-0.5] * 4]


def test_sequence_sum_divides_by_responses_alone():
    norm = loss_norm(MASK, torch.arange(len(MASK)), "sequence_sum", 100)
    assert norm.tolist() == [[0.5, 0.5, 0.5], [0.5, 0.5, 0.0]]


def test_what_counts_as_clipped_under_a_dual_clip():
    """Weight -1, range [0.8, 1.2], dual 3: below 0.8 by the plain clip, above 3 by the dual one, nothing between."""
    ratios, minus = torch.tensor([[0.5, 1.0, 2.0, 5.0]]), -torch.ones(1, 4)
    nothing, mask = torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool)
    found = [
        SURROGATES["token"](ratios.log(), nothing, minus, mask, Range(0.2, 0.2, dual)).clipped_NT.tolist()
        for dual in (3.0, None)
    ]
    assert found == [[[True, False, False, True]], [[True, False, False, False]]]


def test_what_weighs_nothing_is_never_clipped():
    ratios, nothing = torch.tensor([[0.5, 5.0]]), torch.zeros(1, 2)
    mask = torch.ones(1, 2, dtype=torch.bool)
    made = SURROGATES["token"](ratios.log(), nothing, nothing, mask, Range(0.2, 0.2, 3.0))
    assert not made.clipped_NT.any()
