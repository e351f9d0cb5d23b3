"""PPO's gradient is the advantage of each token, by GAE, times ∇log π over |o| (DeepSeekMath eq. 15 to 18)."""

from __future__ import annotations

import pytest
import torch

from grpo_runner import algorithm

DRAWS, BOUND, V = 200, 1e-6, 5
BETA = 0.07


def drawn(seed):
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 7, (4,), generator=draw)
    mask = torch.arange(int(lengths.max()))[None, :] < lengths[:, None]

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    tokens = torch.randint(V, mask.shape, generator=draw)
    rewards = torch.randint(2, (4,), generator=draw).double()
    gamma, lam = (float(torch.rand((), generator=draw)) for _ in range(2))
    return mask, normal(*mask.shape, V), tokens, rewards, normal(*mask.shape), normal(*mask.shape), gamma, lam


def by_autograd(mask, logits, tokens, rewards, values, log_ratios, gamma, lam, gae=algorithm.gae):
    """∂J/∂logits of the clipped surrogate at π = π_old, with the package's functions in the order of the loop."""
    logits = logits.clone().requires_grad_()
    logprobs = logits.log_softmax(2).gather(2, tokens[..., None]).squeeze(2)
    earned = algorithm.token_rewards(rewards, log_ratios, mask, BETA)
    made, _ = gae(earned, values, mask, gamma, lam)
    rows = torch.arange(4)
    weights, _ = algorithm.token_weights(made, mask, rows // 2, [rows], "sequence_mean", 8.0)
    limits = algorithm.Range(0.2, 0.2)
    value = algorithm.SURROGATES["token"](logprobs, logprobs.detach(), weights, mask, limits).value_NT
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return gradient


def by_closed_form(mask, logits, tokens, rewards, values, log_ratios, gamma, lam):
    """Token by token in plain loops: A_t / (N |o|) · (1[v = o_t] - π(v))."""
    found, chances = torch.zeros_like(logits), logits.softmax(2)
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        r = [-BETA * float(log_ratios[row, t]) for t in range(length)]
        r[-1] += float(rewards[row])
        v = [*values[row, :length].tolist(), 0.0]
        for t in range(length):
            advantage = sum((gamma * lam) ** (k - t) * (r[k] + gamma * v[k + 1] - v[k]) for k in range(t, length))
            one = torch.zeros(V, dtype=torch.float64)
            one[tokens[row, t]] = 1
            found[row, t] = advantage / (4 * length) * (one - chances[row, t])
    return found


def worst(draws, **twin):
    errors = []
    for seed in range(draws):
        given = drawn(seed)
        expected = by_closed_form(*given)
        errors.append(float((by_autograd(*given, **twin) - expected).abs().max() / expected.abs().max()))
    return max(errors)


def test_autograd_is_the_closed_form():
    assert worst(DRAWS) <= BOUND


@pytest.mark.parametrize("slip", ["values shifted", "λ left out", "returns for advantages"])
def test_a_broken_twin_is_seen(slip):
    def broken(rewards, values, mask, gamma, lam):
        if slip == "values shifted":
            return algorithm.gae(rewards, values.roll(1, 1), mask, gamma, lam)
        if slip == "λ left out":
            return algorithm.gae(rewards, values, mask, gamma, 1.0)
        return algorithm.gae(rewards, values, mask, gamma, lam)[::-1]

    assert worst(10, gae=broken) > 100 * BOUND
