"""Other people's formulas: equal where they should be, and how far apart where a library departs from the paper."""

import math

import numpy as np
import pytest
import torch

from grpo_runner import algorithm
from tests.proof import comparison, libraries
from tests.proof.comparison import BUDGET, EQUAL, difference, ours, sample


@pytest.mark.parametrize("name", EQUAL)
def test_advantages_loss_and_gradient_are_the_librarys(name):
    assert difference(name) <= 1e-9


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("TRL grpo, scale group", {"ddof": 0}),
        ("TRL grpo, scale group", {"eps": 1e-6}),
        ("TRL grpo, scale group", {"kind": "constant"}),
        ("TRL grpo, scale batch", {"scale": "group_std"}),
        ("TRL dapo, scale group", {"kind": "sequence_mean"}),
        ("TRL dr_grpo, scale none", {"scale": "group_std"}),
        ("verl seq-mean-token-mean", {"eps": 1e-4}),
        ("verl seq-mean-token-sum, RLOO", {"baseline": "group_mean"}),
        ("oat grpo", {"ddof": 0}),
        ("oat drgrpo", {"kind": "token_mean"}),
    ],
)
def test_another_setting_is_seen(name, broken):
    """Negative controls: what differs in one switch alone is found by the same comparison."""
    assert difference(name, draws=20, **broken) > 1e-5


def per_token(batch, advantage, **keywords):
    return libraries.ppo_loss(advantage.flatten(), batch.logp, batch.old, batch.low, batch.high, **keywords)


@pytest.mark.parametrize(("size", "factor"), [(4, 0.866025), (8, 0.935414), (16, 0.968246), (64, 0.992157)])
def test_departure_sample_std(size, factor):
    """All three: ddof 1 shrinks every advantage of a group by sqrt((G-1)/G)."""
    rewards = torch.rand(2, size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    mine = algorithm.advantages(rewards, "group_mean", "group_std")
    for theirs, eps in (
        (libraries.trl_advantages(rewards, "group"), 1e-4),
        (libraries.verl_advantages(rewards), 1e-6),
        (libraries.oat_advantages(rewards, "grpo"), 1e-8),
    ):
        torch.testing.assert_close(theirs / mine, torch.full_like(mine, factor), rtol=1e-5 + 5 * eps, atol=0)
    assert factor == pytest.approx(math.sqrt((size - 1) / size), abs=1e-6)


@pytest.mark.parametrize(("eps", "size"), [(1e-4, 7.5e-5), (1e-6, 0.0074), (1e-8, 0.41), (1e-9, 0.82)])
def test_departure_rounding_residue_over_a_small_eps(eps, size):
    """Seven rewards of 0.1 in float32 as numpy sums them: TRL's eps hides it, verl's nearly, oat's does not."""
    rewards = np.full(7, 0.1, dtype=np.float32)
    theirs = np.abs((rewards - rewards.mean()) / (rewards.std(ddof=1) + np.float32(eps))).max()
    assert theirs == pytest.approx(size, rel=0.03)
    mine = algorithm.advantages(torch.tensor(rewards)[None], "group_mean", "group_std", 1, eps)
    assert (mine == 0).all()


def test_departure_bnpo_depends_on_the_micro_batch():
    """TRL bnpo: one micro-batch is token_mean, micro-batches of one row are sequence_mean; between them neither."""
    batch = sample(7, size=4, questions=2, beta=0.0)
    advantage = libraries.trl_advantages(batch.rewards, "group")
    values = per_token(batch, advantage).detach()
    losses = {
        size: float(libraries.trl_loss("bnpo", values, batch.mask, torch.arange(8).split(size), BUDGET))
        for size in (1, 2, 4, 8)
    }
    free = {**comparison.TRL, "kind": "token_mean"}
    assert losses[8] == pytest.approx(float(ours(batch, **free)[1].detach()))
    assert losses[1] == pytest.approx(float(ours(batch, **{**free, "kind": "sequence_mean"})[1].detach()))
    assert len({round(value, 6) for value in losses.values()}) == 4


@pytest.mark.parametrize(("steps", "factor"), [(2, 0.5), (4, 0.25)])
def test_departure_dapo_divides_by_the_generation_batchs_tokens(steps, factor):
    """TRL dapo, releases up to the fix of #6024: each of several optimizer steps a generation by the tokens of all."""
    batch = sample(2, size=4, questions=2)
    mask = torch.ones_like(batch.mask)
    values = torch.rand(mask.shape, dtype=torch.float64)
    for rows in torch.arange(8).split(8 // steps):
        theirs = libraries.trl_loss("dapo", values, mask, [rows], BUDGET, tokens=int(mask.sum()))
        mine = (
            values * algorithm.token_weights(torch.ones(8), mask, torch.arange(8) // 4, [rows], "token_mean", BUDGET)[0]
        ).sum()
        assert float(theirs / mine) == pytest.approx(factor)


@pytest.mark.parametrize(("right", "factor"), [(1, 1.9996), (2, 1.73175)])
def test_departure_dr_grpo_snippet_keeps_the_std(right, factor):
    """TRL's page sets loss_type=dr_grpo alone: every advantage of the group stays over its std."""
    rewards = torch.tensor([[1.0] * right + [0.0] * (4 - right)], dtype=torch.float64)
    theirs = libraries.trl_advantages(rewards, "group")
    torch.testing.assert_close(
        theirs / algorithm.advantages(rewards, "group_mean", "none"),
        torch.full_like(rewards, factor),
        rtol=1e-5,
        atol=0,
    )


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_departure_verl_constant_grows_with_the_micro_batch(size):
    """verl b178a3c: not divided by the rows, so a micro-batch of n rows gives n times Dr. GRPO's gradient."""
    batch = sample(4, size=4, questions=2, beta=0.0)
    advantage, pieces = libraries.verl_advantages(batch.rewards, by_std=False), torch.arange(8).split(size)
    mine = ours(batch, "constant", scale="none")[1].detach()
    values = per_token(batch, advantage).detach()
    theirs = libraries.verl_loss("seq-mean-token-sum-norm", values, batch.mask, pieces, BUDGET)
    assert float(theirs / mine) == pytest.approx(size)
    # without loss_scale_factor the constant is the padded width of the batch at hand
    unset = libraries.verl_loss("seq-mean-token-sum-norm", values, batch.mask, pieces)
    assert float(unset / mine) == pytest.approx(size * BUDGET / batch.mask.shape[1])


def test_departure_verl_dual_clip():
    """A = -1, r = 10: the paper's surrogate takes 10, verl's default takes 3 and has no gradient."""
    batch = [torch.tensor([[value]], dtype=torch.float64) for value in (math.log(10), 0.0, -1.0)]
    logp, old, weight = batch[0].requires_grad_(), batch[1], batch[2]
    ones = torch.ones(1, 1, dtype=torch.bool)
    for dual, value, slope in ((None, -10.0, -10.0), (3.0, -3.0, 0.0)):
        mine = algorithm.SURROGATES["token"](logp, old, weight, ones, algorithm.Range(0.2, 0.2, dual)).value_NT
        theirs = libraries.ppo_loss(weight[0], logp, old, 0.2, 0.2, dual)
        for found in (mine, -theirs):
            assert found.item() == pytest.approx(value)
            assert float(torch.autograd.grad(found.sum(), logp)[0]) == pytest.approx(slope)


@pytest.mark.parametrize(("log_rho", "coefficient"), [(2.0, math.exp(2) - 1), (3.0, 0.0)])
def test_departure_verl_k3_is_flat_above_ten(log_rho, coefficient):
    """k3 is 16.09 at ρ = e³; verl's clamp at 10 leaves no pull to the reference, where the paper has ρ - 1 = 19.09."""
    logp = torch.tensor(-4.0, dtype=torch.float64, requires_grad=True)
    ref = logp.detach() + log_rho
    theirs = torch.autograd.grad(-libraries.k3_loss(logp, ref, 20, 10), logp)[0]
    mine = torch.autograd.grad(-algorithm.ESTIMATORS["k3"](logp, ref), logp)[0]
    assert float(theirs) == pytest.approx(coefficient)
    assert float(mine) == pytest.approx(math.exp(log_rho) - 1)


def test_departure_verl_group_of_one_keeps_its_reward():
    rewards = torch.tensor([[1.0], [0.5]], dtype=torch.float64)
    torch.testing.assert_close(libraries.verl_advantages(rewards), rewards, rtol=1e-5, atol=0)
    assert (algorithm.advantages(rewards, "group_mean", "group_std") == 0).all()


def test_departure_token_mean_is_over_the_batch_and_not_the_group():
    """DAPO's formula gives each group 1/Σ|o| of its own; over the batch, a group of long answers weighs more."""
    mask = torch.arange(12) < torch.tensor([[2], [4], [12], [6]])  # group 0 has 6 tokens, group 1 has 18
    ones, groups = torch.ones(4, dtype=torch.float64), torch.arange(4) // 2
    weights, formula = (
        algorithm.token_weights(ones, mask, groups, [torch.arange(4)], kind, BUDGET)[0]
        for kind in ("token_mean", "group_token_mean")
    )
    assert weights.view(2, -1).sum(1).tolist() == pytest.approx([0.25, 0.75])
    assert formula.view(2, -1).sum(1).tolist() == pytest.approx([0.5, 0.5])
    # verl's token-mean is that of the batch too: a loss of 1 on the tokens of group 1 alone counts three quarters
    values = torch.zeros_like(weights)
    values[2:] = 1.0
    assert float(libraries.verl_loss("token-mean", values, mask, [])) == pytest.approx(0.75)


def _with_empty_rows(empty, kind):
    mask = torch.ones(6, 4, dtype=torch.bool)
    mask[:empty] = False
    values = torch.rand(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(empty))
    norm = algorithm.token_weights(torch.ones(6), mask, torch.arange(6) // 3, [torch.arange(6)], kind, BUDGET)[0]
    return mask, values, float((values * norm).sum())


@pytest.mark.parametrize("empty", [1, 2, 3])
def test_fully_masked_rows_leave_the_mean_as_in_verl(empty):
    """verl ≥ 0.10 takes them out of N, as here; before, it did not."""
    for mode, kind in (("seq-mean-token-mean", "sequence_mean"), ("seq-mean-token-sum", "sequence_sum")):
        mask, values, mine = _with_empty_rows(empty, kind)
        assert float(libraries.verl_loss(mode, values, mask, [], skip_empty=True)) == pytest.approx(mine)
        assert float(libraries.verl_loss(mode, values, mask, [])) == pytest.approx(mine * (6 - empty) / 6)


@pytest.mark.parametrize("empty", [1, 2, 3])
def test_departure_fully_masked_rows_in_the_mean(empty):
    """TRL and oat count them: their loss and gradient are (N - empty)/N of these."""
    everything = [torch.arange(6)]
    for kind, theirs in (
        ("sequence_mean", lambda v, m: libraries.trl_loss("grpo", v, m, everything, BUDGET)),
        ("constant", lambda v, m: libraries.trl_loss("dr_grpo", v, m, everything, BUDGET)),
        ("constant", lambda v, m: libraries.oat_loss("drgrpo", v, m, everything, BUDGET)),
    ):
        mask, values, mine = _with_empty_rows(empty, kind)
        assert float(theirs(values, mask)) == pytest.approx(mine * (6 - empty) / 6)


def test_pb014_departure_masked_rewards_in_the_baseline():
    """[1, 0, 0, masked 1]: TRL takes mean and std over all four (±1), here over the three that are left."""
    theirs = libraries.trl_advantages(torch.tensor([[1.0, 0, 0, 1]], dtype=torch.float64), "group")
    mine = algorithm.advantages(torch.tensor([[1.0, 0, 0, math.nan]]), "group_mean", "group_std", 1, 1e-4)
    assert theirs[0].tolist() == pytest.approx([0.86588, -0.86588, -0.86588, 0.86588], abs=1e-5)
    assert mine[0].tolist() == pytest.approx([1.15450, -0.57725, -0.57725, 0.0], abs=1e-5)
