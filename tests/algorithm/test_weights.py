"""Loss normalisers, KL, the clipped surrogate and question weights, against closed forms."""

import math

import pytest
import torch

from grpo_runner.algorithm import (
    ESTIMATORS,
    advantages,
    clipped_surrogate,
    loss_norm,
    question_rows,
    token_ratio,
    token_weights,
    weigh,
)
from grpo_runner.objectives import preset

ONE_GROUP = torch.zeros(8, dtype=torch.long)


def mask_of(*lengths, width=None):
    return torch.arange(width or max(lengths))[None, :] < torch.tensor(lengths)[:, None]


def test_lengths_100_and_400_under_one_over_length():
    norm = loss_norm(mask_of(100, 400), ONE_GROUP[:2], "sequence_mean", 1000)
    assert norm[0, 0].item() * 2 == pytest.approx(0.01) and norm[1, 399].item() * 2 == pytest.approx(0.0025)
    assert norm[0, 100] == 0


def test_pb025_the_constant_is_the_budget_whatever_the_padding():
    narrow, wide = (
        loss_norm(mask_of(5, 9, width=64), ONE_GROUP[:2], "constant", 1024),
        loss_norm(mask_of(5, 9, width=512), ONE_GROUP[:2], "constant", 1024),
    )
    assert narrow[0, 0].item() == wide[0, 0].item() == pytest.approx(1 / (2 * 1024))
    assert narrow.sum().item() == wide.sum().item() == pytest.approx(14 / 2048)


def test_pb022_token_mean_counts_the_whole_batch():
    """Lengths 1 and 3, advantages +1 and -1: the weights sum to (1 - 3) / 4; a mean per micro-batch would give 0."""
    weights, _ = token_weights(
        torch.tensor([1.0, -1.0]), mask_of(1, 3), ONE_GROUP[:2], [torch.arange(2)], "token_mean", 10
    )
    assert weights.sum().item() == pytest.approx(-0.5)
    one_by_one = [
        token_weights(torch.tensor([a]), mask_of(n), ONE_GROUP[:1], [torch.arange(1)], "token_mean", 10)[0].sum()
        for a, n in ((1.0, 1), (-1.0, 3))
    ]
    assert sum(one_by_one).item() == pytest.approx(0.0)  # negative control: the wrong rule gives the wrong number


def test_pb028_the_normaliser_covers_the_optimizer_batch():
    """Two optimizer batches of two rows: each is divided by its own tokens, not by the rollout's."""
    mask, parts = mask_of(2, 2, 3, 5), [torch.tensor([0, 1]), torch.tensor([2, 3])]
    weights, norm = token_weights(torch.ones(4), mask, ONE_GROUP[:4], parts, "token_mean", 10)
    assert norm[0, 0].item() == pytest.approx(1 / 4) and norm[3, 0].item() == pytest.approx(1 / 8)
    assert weights.sum().item() == pytest.approx(2.0)


@pytest.mark.parametrize("kind", ["sequence_mean", "constant", "token_mean"])
def test_padding_and_row_order_change_nothing(kind):
    advantage, order = torch.tensor([1.0, -0.5, 2.0]), torch.tensor([2, 0, 1])
    weights, _ = token_weights(advantage, mask_of(2, 7, 4), ONE_GROUP[:3], [torch.arange(3)], kind, 16)
    padded, _ = token_weights(advantage, mask_of(2, 7, 4, width=30), ONE_GROUP[:3], [torch.arange(3)], kind, 16)
    shuffled, _ = token_weights(advantage[order], mask_of(2, 7, 4)[order], ONE_GROUP[:3], [torch.arange(3)], kind, 16)
    torch.testing.assert_close(padded[:, :7], weights)
    torch.testing.assert_close(shuffled, weights[order])
    assert (padded[:, 7:] == 0).all()


def test_pb034_clipping_table():
    advantage, ratio = (
        torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0]),
        torch.tensor([1.5, 1.5, 0.5, 0.5, 10.0], requires_grad=True),
    )
    value = clipped_surrogate(ratio, advantage, 0.2, 0.2)
    value.sum().backward()
    assert value.tolist() == pytest.approx([1.2, -1.5, 0.5, -0.8, -10.0])
    assert (ratio.grad == 0).tolist() == [True, False, False, True, False]


def test_pb038_the_ratio_is_per_token():
    assert token_ratio(torch.full((1, 3), -0.9), torch.full((1, 3), -1.0)).tolist()[0] == pytest.approx(
        [math.exp(0.1)] * 3
    )


def test_pb040_kl_values_and_gradients():
    expected = {"k2": (0.5, 1.0), "k3": (math.exp(-1), 1 - math.exp(-1))}  # value; gradient in log π
    for name, (value, slope) in expected.items():
        logprob = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
        found = ESTIMATORS[name](logprob, torch.tensor(-2.0, dtype=torch.float64))
        found.backward()
        assert found.item() == pytest.approx(value) and logprob.grad.item() == pytest.approx(slope), name


@pytest.mark.parametrize(("rho", "coefficient"), [(0.5, 0.98), (1.0, 1.00), (2.0, 1.04)])
def test_deepseekmath_eq_20_coefficient(rho, coefficient):
    """beta 0.04, advantage +1: the coefficient of ∇log π is Â + β(π_ref/π - 1)."""
    logprob = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
    ratio = token_ratio(logprob, logprob.detach())
    loss = -clipped_surrogate(ratio, torch.tensor(1.0), 0.2, 0.2) + 0.04 * ESTIMATORS["k3"](
        logprob, logprob.detach() + math.log(rho)
    )
    loss.backward()
    assert -logprob.grad.item() == pytest.approx(coefficient)


def test_the_gradient_of_k3_as_a_loss_is_the_forward_kl_s():
    """Enumerated over a vocabulary of 4: E_π[∇k3] = ∇KL(π_ref || π), not ∇KL(π || π_ref), which k2 gives."""
    logits = torch.tensor([0.3, -1.0, 0.8, 0.1], dtype=torch.float64, requires_grad=True)
    reference = torch.log_softmax(torch.tensor([-0.5, 0.7, 0.2, 0.0], dtype=torch.float64), 0)
    policy = torch.log_softmax(logits, 0)

    def gradient(value):
        return torch.autograd.grad(value, logits, retain_graph=True)[0]

    forward = gradient((reference.exp() * (reference - policy)).sum())
    reverse = gradient((policy.exp() * (policy - reference)).sum())
    sampled = {
        name: gradient((policy.exp().detach() * ESTIMATORS[name](policy, reference)).sum()) for name in ("k2", "k3")
    }
    torch.testing.assert_close(sampled["k3"], forward)
    torch.testing.assert_close(sampled["k2"], reverse)
    assert (sampled["k3"] - reverse).abs().max() > 0.01  # negative control


def rows_for(successes, size=8, scale="group_std", kind="sequence_mean", budget=100, right=10, wrong=10):
    rewards = torch.tensor([[1.0] * successes + [0.0] * (size - successes)])
    lengths = torch.tensor([[right] * successes + [wrong] * (size - successes)])
    advantage = advantages(rewards, "group_mean", scale)
    weights, _ = token_weights(
        advantage.flatten(),
        mask_of(*lengths[0].tolist()),
        torch.zeros(size, dtype=torch.long),
        [torch.arange(size)],
        kind,
        budget,
    )
    batch, mask = [torch.arange(size)], mask_of(*lengths[0].tolist())
    references = {
        name: weigh(rewards, mask, batch, preset(name, 0, 0.0, budget)) for name in ("grpo", "dr_grpo", "rloo")
    }
    included = torch.ones_like(rewards, dtype=torch.bool)
    by_token = weights.view(1, size, -1)
    return question_rows(rewards, rewards.bool(), advantage, by_token, lengths, included, references)[0], advantage


@pytest.mark.parametrize("successes", range(9))
def test_advantage_weight_is_the_theory_curve(successes):
    p, size = successes / 8, 8
    grpo, dr = rows_for(successes)[0], rows_for(successes, scale="none")[0]
    assert grpo["advantage_weight"] == pytest.approx(2 * size * math.sqrt(p * (1 - p)))
    assert dr["advantage_weight"] == pytest.approx(2 * size * p * (1 - p))
    assert grpo["weight"] == pytest.approx(grpo["advantage_weight"] / size)  # under 1/|o| the same, up to N
    assert dr["success_rate"] == p


@pytest.mark.parametrize(("p", "expected"), [(0.5, 2.0), (0.1, 3.3333), (0.01, 10.0504)])
def test_question_weight_of_the_std(p, expected):
    """GRPO over Dr. GRPO: 1/sqrt(p(1-p)), which grows for very easy and very hard questions."""
    size = 200
    grpo, dr = (rows_for(round(p * size), size, scale)[0]["advantage_weight"] for scale in ("group_std", "none"))
    assert grpo / dr == pytest.approx(expected, abs=1e-4)


def test_the_constant_divisor_carries_lengths_into_the_weight():
    row, _ = rows_for(2, scale="none", kind="constant", budget=100, right=10, wrong=40)
    assert row["weight_up"] == pytest.approx(2 * 10 * 0.75 / (8 * 100))
    assert row["weight_down"] == pytest.approx(-6 * 40 * 0.25 / (8 * 100))
    assert row["weight"] == pytest.approx(row["weight_up"] - row["weight_down"])
    assert row["weight_per_token_right"] == pytest.approx(0.75 / 800) and row[
        "weight_per_token_wrong"
    ] == pytest.approx(0.25 / 800)
    assert (row["length_right"], row["length_wrong"], row["length_mean"]) == (10, 40, 32.5)
    assert (row["advantage_right"], row["advantage_wrong"]) == (0.75, -0.25)


def test_one_over_length_pushes_short_right_answers_harder_and_long_wrong_ones_less():
    row, _ = rows_for(4, right=10, wrong=40)
    assert row["weight_per_token_right"] == pytest.approx(4 * row["weight_per_token_wrong"])
    assert row["weight_up"] == pytest.approx(-row["weight_down"])


def test_means_of_nothing_are_none():
    row, _ = rows_for(0)
    assert row["advantage_right"] is None and row["length_right"] is None and row["weight"] == 0
