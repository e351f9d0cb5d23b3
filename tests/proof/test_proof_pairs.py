"""DPO's loss, written out and differentiated by autograd, beside a weight per token times ∇log π.

The loss is written here from Rafailov et al. 2023, eq. 7, and DeepSeekMath, eq. 12; nothing of the package is in it.
"""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from grpo_runner.algorithm import kept, token_weights
from grpo_runner.config import compose
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.loss import Given as LossGiven
from grpo_runner.policy.loss import loss_of
from grpo_runner.policy.update import Trainer
from grpo_runner.train.collect import Rollout
from grpo_runner.train.credit import CREDITS, Given
from grpo_runner.types import Reward, Status, Verdict
from tests.helpers import changed, random_groups, tiny_llama
from tests.proof.draws import CPU, random_mask, relative, row_scores, shaken

BOUND, DRAWS, BUDGET, FEATURES, VOCAB = 1e-6, 240, 16, 4, 5
NORMS = ("sequence_sum", "sequence_mean", "constant")


@pytest.fixture(scope="module")
def config():
    return changed(compose(["method=dpo", f"max_new_tokens={BUDGET}"]), lora__enabled=False, optim__max_grad_norm=None)


def pairs_of(right_QG, used_QG, most):
    """[(row of the right answer, row of the wrong one)], in plain loops."""
    size, found = right_QG.shape[1], []
    for slot, (right, used) in enumerate(zip(right_QG, used_QG, strict=True)):
        sides = [[slot * size + i for i in range(size) if used[i] and right[i] == side] for side in (True, False)]
        found += list(zip(*sides, strict=False))[:most]
    return found


def summed(ratios, kind):
    """Of one answer, from the log-ratios of its tokens."""
    return {"sequence_sum": ratios.sum(), "sequence_mean": ratios.mean(), "constant": ratios.sum() / BUDGET}[kind]


def dpo_loss(log_policy, log_reference, pairs, beta, kind):
    """-log σ(β(Δ+ - Δ-)), summed over pairs and divided by their answers; lists with the tokens' log-probabilities."""
    total = 0.0
    for better, worse in pairs:
        gap = [summed(log_policy[row] - log_reference[row], kind) for row in (better, worse)]
        total = total - torch.log(torch.sigmoid(beta * (gap[0] - gap[1])))
    return total / (2 * len(pairs))


class Drawn:
    """Answers with features of a softmax policy of its own, some of them right, some without a reward."""

    def __init__(self, draw):
        questions, size = int(draw.integers(1, 4)), int(draw.integers(2, 7))
        self.mask = random_mask(draw, questions * size)
        self.mask[~self.mask.any(1), 0] = True  # an answer has a token
        self.right = torch.tensor(draw.random((questions, size)) < 0.5)
        self.used = torch.tensor(draw.random((questions, size)) < 0.85)
        self.right[0, :2], self.used[0, :2] = torch.tensor([True, False]), True  # a pair at least
        self.most = [1, 2, 99][int(draw.integers(3))]
        self.inputs = torch.tensor(draw.normal(size=(*self.mask.shape, FEATURES)))
        self.tokens = torch.tensor(draw.integers(VOCAB, size=self.mask.shape))
        self.reference, self.policy = (torch.tensor(draw.normal(size=(FEATURES, VOCAB))) for _ in range(2))
        self.beta, self.kind = float(draw.uniform(0.05, 2)), NORMS[int(draw.integers(3))]
        self.pairs = pairs_of(self.right, self.used, self.most)
        self.mask = torch.tensor(self.mask)

    def scores(self, weights):
        """(N, T) log-probabilities of the tokens."""
        return (self.inputs @ weights).log_softmax(2).gather(2, self.tokens[..., None]).squeeze(2)

    def exact(self):
        """Gradient of DPO's loss by autograd."""
        leaf = self.policy.clone().requires_grad_()
        rows = [
            [row[there] for row, there in zip(self.scores(weights), self.mask, strict=True)]
            for weights in (leaf, self.reference)
        ]
        return torch.autograd.grad(dpo_loss(*rows, self.pairs, self.beta, self.kind), leaf)[0]

    def climbed(self, coefficient_NT, kind):
        """Gradient of -1/N Σ_i Σ_t coefficient · norm · log π, over the answers of pairs."""
        leaf = self.policy.clone().requires_grad_()
        scores, total = self.scores(leaf), 0.0
        for row in sorted(row for pair in self.pairs for row in pair):
            total = total - summed((coefficient_NT[row] * scores[row])[self.mask[row]], kind)
        return torch.autograd.grad(total / (2 * len(self.pairs)), leaf)[0]

    def package(self, config, broken=None):
        """Gradient of the package's loss: kept, credited, weighed, differentiated. broken: changes the coefficients."""
        config = changed(config, beta__value=self.beta, loss_norm__kind=self.kind, loss_norm__divisor=None)
        rewards_QG = torch.where(self.used, self.right.double(), torch.nan)
        texts = np.arange(rewards_QG.numel()).reshape(rewards_QG.shape).tolist()
        rewards_QG = kept(rewards_QG, self.right, texts, "pairs", self.most)
        included_N = ~rewards_QG.flatten().isnan()
        mask_NT = self.mask & included_N[:, None]
        leaf = self.policy.clone().requires_grad_()
        scores = self.scores(leaf)
        ratios_NT = ((scores.detach() - self.scores(self.reference)) * self.mask).masked_fill(
            ~included_N[:, None], torch.nan
        )
        rollout = SimpleNamespace(right_QG=lambda config: self.right)
        credited = CREDITS["pairs"](
            SimpleNamespace(config=config), Given(0, rollout, None, rewards_QG, mask_NT, ratios_NT)
        )
        advantages_NT = credited.advantages_NT if broken is None else broken(credited.advantages_NT)
        groups_N = torch.arange(len(mask_NT)) // rewards_QG.shape[1]
        rows = included_N.nonzero().flatten()
        weights, norm = token_weights(advantages_NT, mask_NT, groups_N, [rows], self.kind, BUDGET)
        scores = scores.masked_fill(~mask_NT, 0.0)
        old = scores.detach()
        loss = loss_of(LossGiven(scores, old, old, weights, norm, mask_NT, None, None), config)
        return torch.autograd.grad(loss.value, leaf)[0], credited


def distance(found, exact):
    return float(relative(found.numpy().ravel()[None], exact.numpy().ravel()[None])[0])


@pytest.fixture(scope="module")
def drawn():
    draw = np.random.default_rng(0)
    return [Drawn(draw) for _ in range(DRAWS)]


def test_the_weights_are_the_exact_gradient_of_dpos_loss(drawn, config):
    worst = dict.fromkeys(NORMS, 0.0)
    for one in drawn:
        worst[one.kind] = max(worst[one.kind], distance(one.package(config)[0], one.exact()))
    assert max(worst.values()) <= BOUND and min(worst.values()) > 0  # each norm was drawn
    assert sum(len(one.pairs) > 1 for one in drawn) > 50 and sum(not one.used.all() for one in drawn) > 50


def test_swapped_signs_and_a_coefficient_without_beta_are_seen(drawn, config):
    """Negative controls."""
    for one in drawn[:40]:
        assert distance(one.package(config, lambda made: -made)[0], one.exact()) > 1
        if abs(one.beta - 1) > 0.01:
            assert distance(one.package(config, lambda made, b=one.beta: made / b)[0], one.exact()) > 5e-3


def test_the_figures_are_those_of_the_pairs(drawn, config):
    for one in drawn[:40]:
        found = one.package(config)[1].metrics
        scores = [
            [row[there] for row, there in zip(one.scores(weights), one.mask, strict=True)]
            for weights in (one.policy, one.reference)
        ]
        margins = []
        for pair in one.pairs:
            gap = [summed(scores[0][row] - scores[1][row], one.kind) for row in pair]
            margins.append(one.beta * float(gap[0] - gap[1]))
        assert found["dpo/margin"] == pytest.approx(np.mean(margins))
        assert found["dpo/right"] - found["dpo/wrong"] == pytest.approx(found["dpo/margin"])
        assert found["dpo/accuracy"] == pytest.approx(np.mean(np.array(margins) > 0))
        loss = float(dpo_loss(*scores, one.pairs, one.beta, one.kind))
        assert found["dpo/loss"] / 2 == pytest.approx(loss)  # a pair is two answers


def test_equation_14_as_printed_is_no_gradient_of_equation_12(drawn):
    """DeepSeekMath's means over tokens with σ of single tokens' log-ratios and no β before it: another direction.

    The t-th token of one answer stands against the t-th of the other; where that has ended its log-ratio counts as 0.
    With β before it and σ of whole answers, the same sum is the gradient.
    """
    away, turned = 0, 0
    for one in drawn:
        exact = Drawn.exact(SimpleNamespace(**(vars(one) | {"kind": "sequence_mean", "scores": one.scores})))
        ratios = ((one.scores(one.policy) - one.scores(one.reference)) * one.mask).double()
        printed, sequence = torch.zeros_like(ratios), torch.zeros_like(ratios)
        for better, worse in one.pairs:
            of_token = torch.sigmoid(one.beta * (ratios[worse] - ratios[better]))
            printed[better], printed[worse] = of_token, -of_token
            means = [summed(ratios[row][one.mask[row]], "sequence_mean") for row in (worse, better)]
            whole = one.beta * torch.sigmoid(one.beta * (means[0] - means[1]))
            sequence[better], sequence[worse] = whole, -whole
        assert distance(one.climbed(sequence, "sequence_mean"), exact) <= BOUND
        as_printed = one.climbed(printed, "sequence_mean")
        away += distance(as_printed, exact) > 0.1
        cosine = float((as_printed * exact).sum() / (as_printed.norm() * exact.norm()))
        turned += cosine < 0.999  # no factor mends it
    assert away > 0.9 * len(drawn) and turned > 0.5 * len(drawn)


# --- through the Trainer


@pytest.mark.parametrize("number", range(9))
def test_the_trainers_gradient_is_dpos(config, number):
    """Rows of a random Llama, padded or packed, in micro-batches; the policy has moved away from the reference."""
    draw, kind = np.random.default_rng(number), NORMS[number % 3]
    beta, temperature = float(draw.uniform(0.1, 1)), float(draw.uniform(0.7, 1.3))
    settings = changed(
        config, beta__value=beta, loss_norm__kind=kind, loss_norm__divisor=None, temperature=temperature,
        optim__microbatch_tokens=[1, 30, 10_000][number // 3], optim__packing=number % 2 == 0,
    )  # fmt: skip
    questions, size = 3, 4
    groups = random_groups(questions, size, seed=number, longest=6)
    right = torch.tensor(draw.random((questions, size)) < 0.5)
    right[0, :2] = torch.tensor([True, False])
    words = [[Verdict(Status.CORRECT if yes else Status.WRONG) for yes in row] for row in right.tolist()]
    rewards = [[Reward(float(yes), {}) for yes in row] for row in right.tolist()]
    rollout = Rollout(groups, words, rewards)
    model = tiny_llama(number)
    trainer = Trainer(model, 0, settings, CPU, autocast=False)
    shaken(model, draw, 0.03)
    reference = trainer.reference.model

    rewards_QG, batch = rollout.rewards_QG(settings), Batch.of(groups)  # as the loop does it
    included_N = ~rewards_QG.flatten().isnan()
    mask_NT = batch.mask_NT & included_N[:, None]
    penalty_NT = trainer.penalty(batch, included_N, 0)
    credited = CREDITS["pairs"](
        SimpleNamespace(config=settings), Given(0, rollout, batch, rewards_QG, mask_NT, penalty_NT)
    )
    rows = included_N.nonzero().flatten()
    weights_NT, norm_NT = token_weights(credited.advantages_NT, mask_NT, batch.groups_N, [rows], kind, BUDGET)
    caught = []
    trainer.optimizer.step = lambda: caught.extend(p.grad.clone() for p in trainer.named.values())
    before = copy.deepcopy(model)
    trainer.update(batch, [rows], weights_NT, norm_NT, step=0)

    texts = [[answer.token_ids for answer in group.completions] for group in groups]
    used = torch.tensor([[row.index(text) == i for i, text in enumerate(row)] for row in texts])
    policy = [row_scores(before, batch, row, temperature) for row in range(questions * size)]
    with torch.no_grad():
        fixed = [row_scores(reference, batch, row, temperature) for row in range(questions * size)]
    loss = dpo_loss(policy, fixed, pairs_of(right, used, 4), beta, kind)
    exact = torch.autograd.grad(loss, list(before.parameters()))
    flat = [torch.cat([tensor.flatten() for tensor in tensors]) for tensors in (caught, exact)]
    assert distance(*flat) <= BOUND
    assert distance(flat[0], -flat[1]) > 1  # negative control
