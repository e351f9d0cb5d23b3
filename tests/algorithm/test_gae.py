"""GAE against sums over all later tokens, and the limits in which it is something simpler."""

from __future__ import annotations

import pytest
import torch

from grpo_runner import algorithm

LENGTHS = (1, 4, 7, 3)
MASK = torch.arange(7)[None, :] < torch.tensor(LENGTHS)[:, None]


def drawn(seed):
    draw = torch.Generator().manual_seed(seed)
    return (torch.randn(MASK.shape, generator=draw, dtype=torch.float64) for _ in range(2))


def by_definition(rewards, values, gamma, lam):
    """Σ_k (γλ)^k δ_{t+k}, every sum made anew: quadratic in the length."""
    found = torch.zeros(MASK.shape, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        r, v = rewards[row].tolist(), [*values[row].tolist()[:length], 0.0]
        for t in range(length):
            found[row, t] = sum((gamma * lam) ** (k - t) * (r[k] + gamma * v[k + 1] - v[k]) for k in range(t, length))
    return found


@pytest.mark.parametrize("gamma, lam", [(1.0, 1.0), (1.0, 0.95), (0.9, 0.95), (0.97, 0.0)])
def test_gae_is_the_sum_over_later_surprises(gamma, lam):
    for seed in range(50):
        rewards, values = drawn(seed)
        advantages, returns = algorithm.gae(rewards, values, MASK, gamma, lam)
        torch.testing.assert_close(advantages, by_definition(rewards, values, gamma, lam), rtol=0, atol=1e-12)
        torch.testing.assert_close(returns, advantages + values * MASK, rtol=0, atol=1e-12)


def test_what_lies_outside_the_mask_is_not_looked_at():
    rewards, values = drawn(0)
    clean = algorithm.gae(rewards * MASK, values * MASK, MASK, 0.9, 0.8)
    dirty = algorithm.gae(rewards.masked_fill(~MASK, 7.0), values.masked_fill(~MASK, torch.nan), MASK, 0.9, 0.8)
    assert all(one.equal(other) for one, other in zip(clean, dirty, strict=True))
    assert not clean[0][~MASK].any() and not clean[1][~MASK].any()


def test_with_lambda_1_and_values_of_the_group_mean_it_is_reinforce_with_that_baseline():
    """λ = γ = 1, one reward at the end: reward less value, at every token (and with a slip in λ it is not)."""
    outcome = torch.tensor([[1.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    rewards = algorithm.token_rewards(outcome.flatten(), None, MASK, 0.0)
    values = outcome.mean() * MASK
    advantages, returns = algorithm.gae(rewards, values, MASK, 1.0, 1.0)
    expected = algorithm.advantages(outcome, "group_mean", "none").view(4, 1) * MASK
    assert advantages.equal(expected)
    assert returns.equal(outcome.view(4, 1) * MASK)
    assert not algorithm.gae(rewards, values, MASK, 1.0, 0.9)[0].equal(expected)


def test_with_lambda_0_only_the_next_value_is_looked_at():
    rewards, values = drawn(3)
    advantages, _ = algorithm.gae(rewards, values, MASK, 0.5, 0.0)
    following = torch.cat([values[:, 1:] * MASK[:, 1:], torch.zeros(4, 1)], dim=1)
    torch.testing.assert_close(advantages, (rewards + 0.5 * following - values) * MASK, rtol=0, atol=1e-12)


def test_token_rewards_are_the_kl_of_each_token_and_the_outcome_at_the_last():
    """DeepSeekMath eq. 2; an excluded answer earns nothing."""
    mask = torch.tensor([[True, True, False], [True, True, True], [False, False, False]])
    penalty = torch.tensor([[0.5, -1.0, 9.0], [1.0, 2.0, 3.0], [torch.nan] * 3])
    found = algorithm.token_rewards(torch.tensor([1.0, 0.0, torch.nan]), penalty, mask, 0.1)
    assert found.tolist() == [
        pytest.approx([-0.05, 1.1, 0.0]),
        pytest.approx([-0.1, -0.2, -0.3]),
        [0.0, 0.0, 0.0],
    ]
    assert found.sum(dim=1)[:2].tolist() == pytest.approx([1.0 - 0.1 * -0.5, -0.1 * 6.0])  # the sequence's own reward


@pytest.mark.parametrize(
    "value, old, target, clip, loss, slope",
    [
        (1.0, 0.0, 3.0, None, 2.0, -2.0),
        (1.0, 0.0, 3.0, 0.2, 0.5 * 2.8**2, 0.0),  # far towards the target already: held, no gradient
        (0.1, 0.0, 3.0, 0.2, 0.5 * 2.9**2, -2.9),  # within the clip
        (-1.0, 0.0, 3.0, 0.2, 8.0, -4.0),  # away from the target: the larger loss, with its gradient
    ],
)
def test_the_value_loss_is_the_larger_of_two_squares(value, old, target, clip, loss, slope):
    leaf = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    others = (torch.tensor(number, dtype=torch.float64) for number in (old, target))
    found = algorithm.value_loss(leaf, *others, clip)
    (gradient,) = torch.autograd.grad(found, leaf)
    assert (float(found), float(gradient)) == pytest.approx((loss, slope))


def test_explained_variance():
    returns = torch.tensor([[1.0, 0.0, 3.0, 9.0]])
    mask = torch.tensor([[True, True, True, False]])
    assert algorithm.explained_variance(returns, returns, mask) == 1
    assert algorithm.explained_variance(returns + 5, returns, mask) == pytest.approx(
        1
    )  # a constant offset is variance 0
    assert algorithm.explained_variance(torch.zeros(1, 4), returns, mask) == pytest.approx(0)
    assert algorithm.explained_variance(-returns, returns, mask) == pytest.approx(-3)
    assert algorithm.explained_variance(returns, torch.ones(1, 4), mask) is None
    assert algorithm.explained_variance(returns, returns, torch.zeros(1, 4, dtype=torch.bool)) is None
