"""Bias and scale of each estimator, exactly: sums over all groups of a bandit and of a two-step tree."""

import math

import pytest
import torch

from grpo_runner import algorithm
from tests.proof import enumerated
from tests.proof.enumerated import (
    REFERENCE,
    THETA,
    bandit,
    expected_gradient,
    expected_kl_gradient,
    true_gradient,
    two_way,
)

# what the baseline does to the expected gradient: a constant factor, by its own algebra
FACTORS = {
    "group_mean": lambda size: (size - 1) / size,
    "leave_one_out": lambda size: 1.0,
    "batch_mean": lambda size: (size - 1) / size,  # of a step of one question: the group's mean
    "none": lambda size: 1.0,
}
GO, ONE = (1 / (1 + math.exp(-value)) for value in THETA)


@pytest.mark.parametrize("baseline", algorithm.BASELINES)
@pytest.mark.parametrize("size", [2, 4, 8])
def test_bandit_without_a_scale(baseline, size):
    for p in (0.05, 0.3, 0.9):
        assert bandit(p, size, baseline) == pytest.approx(FACTORS[baseline](size), rel=1e-12)


@pytest.mark.parametrize(("size", "ddof", "ratio"), [(4, 0, 1.6346), (4, 1, 1.4156), (8, 0, 1.9627), (8, 1, 1.8360)])
def test_bandit_figures_under_the_std(size, ddof, ratio):
    """PAPER_SETTINGS §6, p = .3; by algebra E[sqrt(k(G-k))] / (G p(1-p)), times sqrt((G-1)/G) for ddof 1."""
    found = bandit(0.3, size, "group_mean", "group_std", ddof)
    assert found == pytest.approx(ratio, abs=5e-5)
    mean = sum(math.comb(size, k) * 0.3**k * 0.7 ** (size - k) * math.sqrt(k * (size - k)) for k in range(size + 1))
    assert found == pytest.approx(mean / (size * 0.3 * 0.7) * (((size - 1) / size) ** 0.5 if ddof else 1), rel=1e-12)


def test_the_std_is_not_a_constant_factor():
    """From p = .5 to p = .02 the factor grows for G = 8: hard and easy questions are weighed up."""
    factors = [bandit(p, 8, "group_mean", "group_std") for p in (0.5, 0.3, 0.1, 0.02)]
    assert factors == sorted(factors) and factors[-1] / factors[0] > 1.3
    assert bandit(0.1, 8, "group_mean", "group_std") == pytest.approx(bandit(0.9, 8, "group_mean", "group_std"))


def test_a_broken_baseline_is_seen_on_the_bandit():
    """Negative control: leave-one-out that counts itself, and a ddof that is swapped."""

    def broken(rewards, baseline, scale, ddof, eps):
        return algorithm.advantages(rewards, "group_mean", scale, 1 - ddof, eps)

    assert abs(bandit(0.3, 4, "leave_one_out", advantages=broken) - 1) > 0.2
    assert abs(bandit(0.3, 4, "group_mean", "group_std", advantages=broken) - 1.6346) > 0.2


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("baseline", algorithm.BASELINES)
@pytest.mark.parametrize(("kind", "divisor"), [("constant", enumerated.BUDGET), ("sequence_sum", 1)])
def test_tree_without_a_length_in_the_norm_is_the_true_gradient(size, baseline, kind, divisor):
    found = expected_gradient(size, baseline, "none", kind) * divisor
    torch.testing.assert_close(found, FACTORS[baseline](size) * true_gradient(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out"])
def test_tree_under_one_over_length_is_biased(size, baseline):
    """1/|o|: by algebra (1+q)/2 of the true gradient in the first token's parameter and 1/2 in the second's.

    q is the chance to go on. No learning rate makes up for two different factors.
    """
    found = expected_gradient(size, baseline, "none", "sequence_mean") / true_gradient()
    expected = torch.tensor([(1 + GO) / 2, 0.5], dtype=torch.float64) * FACTORS[baseline](size)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


def test_tree_without_a_baseline_one_over_length_climbs_another_objective():
    """E[r/|o|] is what REINFORCE with 1/|o| climbs."""
    other = true_gradient(enumerated.REWARDS / enumerated.MASK.sum(1))
    torch.testing.assert_close(expected_gradient(3, "none", "none", "sequence_mean"), other, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("scale", "kind"), [("none", "token_mean"), ("group_std", "constant")])
def test_tree_token_mean_and_std_are_no_constant_factor_either(scale, kind):
    factors = expected_gradient(3, "leave_one_out", scale, kind) / true_gradient()
    assert abs(float(factors[0] / factors[1]) - 1) > 0.02


def test_tree_sees_a_broken_norm():
    """Negative control: a constant that is the row's own length is not the constant."""

    def broken(advantages_N, mask_NT, groups_N, minibatches, kind, budget):
        return algorithm.token_weights(advantages_N, mask_NT, groups_N, minibatches, "sequence_mean", budget)

    found = expected_gradient(3, "leave_one_out", "none", "constant", token_weights=broken)
    assert float((found / true_gradient()).max() / (found / true_gradient()).min()) > 1.1


@pytest.mark.parametrize("surrogate", algorithm.SURROGATES)
def test_at_ratio_one_every_surrogate_is_the_policy_gradient(surrogate):
    """GSPO's tokens too: each carries the mean of the response's ∇log π, which is the same sum over the response."""
    found = expected_gradient(3, "leave_one_out", "none", "constant", surrogate) * enumerated.BUDGET
    torch.testing.assert_close(found, true_gradient(), rtol=1e-10, atol=1e-14)


def tree_kl(parts):
    """∇ of Σ over the tree's two states of chance × KL; `held` chances carry no gradient."""
    theta, _, _ = enumerated.policy()
    reference = torch.tensor(REFERENCE, dtype=torch.float64)
    go = torch.sigmoid(theta[0])
    return enumerated.slope(parts(theta, reference, go), theta)


def test_the_kl_as_a_loss_on_the_tree():
    """k3: the *forward* KL at the states that the policy visits, k2: the reverse KL there, both with the visits held.

    On answers of more than one token neither is the gradient of the KL of whole answers: that of the reverse KL has
    ∇(chance to go on) × KL of the next state besides, which no term of a single token carries.
    """
    forward = tree_kl(lambda t, r, go: two_way(r[0], t[0]) + go.detach() * two_way(r[1], t[1]))
    reverse = tree_kl(lambda t, r, go: two_way(t[0], r[0]) + go.detach() * two_way(t[1], r[1]))
    whole = tree_kl(lambda t, r, go: two_way(t[0], r[0]) + go * two_way(t[1], r[1]))
    torch.testing.assert_close(expected_kl_gradient("k3"), forward, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(expected_kl_gradient("k2"), reverse, rtol=1e-10, atol=1e-14)
    theta = torch.tensor(THETA, dtype=torch.float64)
    missing = GO * (1 - GO) * float(two_way(theta[1], torch.tensor(REFERENCE[1], dtype=torch.float64)))
    torch.testing.assert_close(
        whole - reverse, torch.tensor([missing, 0.0], dtype=torch.float64), rtol=1e-9, atol=1e-12
    )
    assert missing / abs(float(whole[0])) > 0.05  # negative control: the size of the difference
    assert float((forward - reverse).abs().max()) > 0.01
