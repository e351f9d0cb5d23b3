"""Bias and scale of each estimator, exactly: sums over all groups of a bandit and of a two-step tree."""

import itertools
import math

import pytest
import torch

from grpo_runner import algorithm
from tests.proof import enumerated
from tests.proof.enumerated import (
    ANSWERS,
    BETA,
    BUDGET,
    REFERENCE,
    REWARDS,
    SAMPLER,
    THETA,
    bandit,
    distance,
    expected_gradient,
    expected_kl_gradient,
    less_the_penalty,
    true_gradient,
    true_regularised_gradient,
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
# the tree by hand: chance of each answer, its reward, and ∇log π in the two logits
CHANCES, REWARD = (1 - GO, GO * (1 - ONE), GO * ONE), REWARDS.tolist()
SLOPES = ((-GO, 0.0), (1 - GO, -ONE), (1 - GO, 1 - ONE))
SAMPLER_GO, SAMPLER_ONE = (1 / (1 + math.exp(-value)) for value in SAMPLER)
SAMPLER_CHANCES = (1 - SAMPLER_GO, SAMPLER_GO * (1 - SAMPLER_ONE), SAMPLER_GO * SAMPLER_ONE)


@pytest.mark.parametrize("baseline", algorithm.BASELINES)
@pytest.mark.parametrize("size", [2, 4, 8])
def test_bandit_without_a_scale(baseline, size):
    for p in (0.05, 0.3, 0.9):
        assert bandit(p, size, baseline) == pytest.approx(FACTORS[baseline](size), rel=1e-12)


@pytest.mark.parametrize(("size", "ddof", "ratio"), [(4, 0, 1.6346), (4, 1, 1.4156), (8, 0, 1.9627), (8, 1, 1.8360)])
def test_bandit_figures_under_the_std(size, ddof, ratio):
    """At p = .3; by algebra E[sqrt(k(G-k))] / (G p(1-p)), times sqrt((G-1)/G) for ddof 1."""
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


@pytest.mark.parametrize("baseline", algorithm.BASELINES)
@pytest.mark.parametrize("size", [2, 3])
def test_k1_in_the_reward_is_the_whole_gradient_of_the_kl(baseline, size):
    """E[r] - β KL(π‖π_ref) of whole answers, the part through the states visited included."""
    found = expected_gradient(size, baseline, "none", "constant", rewards=less_the_penalty("k1")) * BUDGET
    torch.testing.assert_close(found, FACTORS[baseline](size) * true_regularised_gradient(), rtol=1e-10, atol=1e-14)


PENALTIES = {
    "k1": lambda p, q: math.log(p / q),
    "k2": lambda p, q: math.log(p / q) ** 2 / 2,
    "k3": lambda p, q: q / p - 1 - math.log(q / p),
}


@pytest.mark.parametrize(("estimator", "size"), [("k1", 0.0), ("k2", 0.60), ("k3", 0.72)])
def test_no_other_estimator_in_the_reward_is_it(estimator, size):
    """By hand: Σ over answers of π (r - β Σ k) ∇log π. k2 and k3 weigh an answer by other numbers than log π/π_ref."""
    found = expected_gradient(3, "leave_one_out", "none", "constant", rewards=less_the_penalty(estimator)) * BUDGET
    go, one = (1 / (1 + math.exp(-value)) for value in REFERENCE)
    of_token = PENALTIES[estimator]
    taken = [of_token(1 - GO, 1 - go)] + [
        of_token(GO, go) + of_token(p, q) for p, q in ((1 - ONE, 1 - one), (ONE, one))
    ]
    by_hand = [
        sum(p * (r - BETA * k) * d[i] for p, r, k, d in zip(CHANCES, REWARD, taken, SLOPES, strict=True))
        for i in range(2)
    ]
    assert found.tolist() == pytest.approx(by_hand, rel=1e-10)
    assert distance(found, true_regularised_gradient()) == pytest.approx(size, abs=0.005)


@pytest.mark.parametrize(("estimator", "size"), [("k2", 0.10), ("k3", 0.16)])
def test_the_kl_in_the_loss_is_another_gradient(estimator, size):
    found = true_gradient() - BETA * expected_kl_gradient(estimator)
    assert distance(found, true_regularised_gradient()) == pytest.approx(size, abs=0.005)


def test_a_penalty_that_is_added_is_seen():
    """Negative control: β with the other sign."""
    found = expected_gradient(2, "none", "none", "constant", rewards=less_the_penalty("k1", -BETA)) * BUDGET
    assert distance(found, true_regularised_gradient()) > 0.5


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("baseline", ["leave_one_out", "none", "group_mean"])
def test_sequence_importance_under_another_sampler_is_the_true_gradient(baseline, size):
    found = expected_gradient(size, baseline, "none", "constant", sampler=SAMPLER, importance="sequence")
    torch.testing.assert_close(found * BUDGET, FACTORS[baseline](size) * true_gradient(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("baseline", ["leave_one_out", "none"])
def test_token_importance_leaves_the_states_to_the_sampler(baseline):
    """By hand. First token: what follows it is the sampler's. Second token: reached as often as the sampler goes on."""
    found = expected_gradient(3, baseline, "none", "constant", sampler=SAMPLER, importance="token") * BUDGET
    stop, zero, one = REWARD
    first = GO * (1 - GO) * (SAMPLER_ONE * one + (1 - SAMPLER_ONE) * zero - stop)
    second = SAMPLER_GO * ONE * (1 - ONE) * (one - zero)
    assert found.tolist() == pytest.approx([first, second], rel=1e-10)
    assert distance(found, true_gradient()) == pytest.approx(0.404, abs=0.0005)


def test_without_importance_weights_the_gradient_is_off_too():
    """By hand: Σ of μ (r - E_μ r) ∇log π. Here even by less than under token weights: those promise no order."""
    found = expected_gradient(3, "leave_one_out", "none", "constant", sampler=SAMPLER) * BUDGET
    assert found.tolist() == pytest.approx(under_the_sampler([1.0, 1.0, 1.0]), rel=1e-10)
    assert distance(found, true_gradient()) == pytest.approx(0.364, abs=0.0005)


def under_the_sampler(weights):
    """Σ over answers of μ · weight · (r - E_μ r) ∇log π: what leave-one-out gives on average."""
    middle = sum(m * r for m, r in zip(SAMPLER_CHANCES, REWARD, strict=True))
    each = list(zip(SAMPLER_CHANCES, weights, REWARD, SLOPES, strict=True))
    return [sum(m * w * (r - middle) * d[i] for m, w, r, d in each) for i in range(2)]


@pytest.mark.parametrize(("cap", "size"), [(2.0, 0.0), (1.0, 0.119), (0.5, 0.445)])
def test_a_cap_on_the_importance_biases_where_it_cuts(cap, size):
    """The ratios of the three answers are 1.61, 1.21 and 0.55."""
    found = expected_gradient(3, "leave_one_out", "none", "constant", sampler=SAMPLER, importance="sequence", cap=cap)
    weights = [min(p / m, cap) for p, m in zip(CHANCES, SAMPLER_CHANCES, strict=True)]
    assert (found * BUDGET).tolist() == pytest.approx(under_the_sampler(weights), rel=1e-10)
    assert distance(found * BUDGET, true_gradient()) == pytest.approx(size, abs=0.0005)


@pytest.mark.parametrize("broken", ["upside down", "of the policy itself"])
def test_broken_importance_is_seen(monkeypatch, broken):
    """Negative controls: μ/π in place of π/μ, and a sampler that is taken for the policy."""
    true = algorithm.importance_weights
    monkeypatch.setattr(
        algorithm,
        "importance_weights",
        lambda old, sampled, *rest: true(sampled, old, *rest) if broken == "upside down" else true(old, old, *rest),
    )
    found = expected_gradient(2, "none", "none", "constant", sampler=SAMPLER, importance="sequence") * BUDGET
    assert distance(found, true_gradient()) > 0.1


@pytest.mark.parametrize("questions", [1, 2])
def test_group_token_mean_stays_biased_however_many_groups(questions):
    """Each group by itself is a token mean, and the mean of them has the same expectation."""
    one = expected_gradient(2, "leave_one_out", "none", "token_mean")
    found = expected_gradient(2, "leave_one_out", "none", "group_token_mean", questions=questions)
    torch.testing.assert_close(found, one, rtol=1e-10, atol=0)
    factors = found / true_gradient()
    assert factors.tolist() == pytest.approx(by_hand_group_token_mean(2), rel=1e-10)


def by_hand_group_token_mean(size):
    """Factors of the true gradient, by a plain sum over groups: Σ A ∇log π over the group's tokens."""
    lengths, totals = [len(answer) for answer in ANSWERS], [0.0, 0.0]
    for group in itertools.product(range(3), repeat=size):
        chance, tokens = math.prod(CHANCES[i] for i in group), sum(lengths[i] for i in group)
        for place, i in enumerate(group):
            others = [REWARD[j] for at, j in enumerate(group) if at != place]
            advantage = REWARD[i] - sum(others) / len(others)
            for d in range(2):
                totals[d] += chance * advantage * SLOPES[i][d] / tokens
    return [total / float(true) for total, true in zip(totals, true_gradient(), strict=True)]


def test_token_mean_over_more_groups_loses_its_bias():
    """Σ|o| of a large optimizer batch hardly depends on one answer: the two parameters' factors draw together."""
    spread = []
    for questions in (1, 2, 3):
        first, second = (
            expected_gradient(2, "leave_one_out", "none", "token_mean", questions=questions) / true_gradient()
        )
        spread.append(float(first / second) - 1)
    assert spread == pytest.approx([0.176, 0.093, 0.062], abs=0.0005)
