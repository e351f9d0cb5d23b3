"""How the methods of the family are limits of one another: each `method=` as composed, on the same answers.

What a gradient should be is written out here with autograd, from DeepSeekMath A.1 (eq. 5 to 11), or is another method's.
"""

from __future__ import annotations

import functools

import pytest
import torch

from grpo_runner import algorithm
from grpo_runner.config import compose
from grpo_runner.objectives import budget_of
from grpo_runner.policy.loss import Given, loss_of
from tests.helpers import changed
from tests.proof.enumerated import bandit

QUESTIONS, SIZE, LONGEST, VOCAB, FEATURES = 3, 4, 6, 5, 3
ROWS = QUESTIONS * SIZE
DRAWS = range(8)
NORMS = ("sequence_mean", "constant", "sequence_sum")


class Drawn:
    """Answers of a softmax policy of random features; its parameters now, as it sampled, and of the reference."""

    def __init__(self, seed, longest=LONGEST):
        draw = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(1, longest + 1, (ROWS,), generator=draw).double()
        self.mask = torch.arange(longest) < self.lengths[:, None]
        self.inputs = torch.randn(ROWS, longest, FEATURES, generator=draw, dtype=torch.float64)
        self.tokens = torch.randint(VOCAB, (ROWS, longest), generator=draw)
        self.now, self.then, self.reference = (
            torch.randn(FEATURES, VOCAB, generator=draw, dtype=torch.float64) * 0.3 for _ in range(3)
        )
        self.right = torch.rand(QUESTIONS, SIZE, generator=draw) < 0.4
        self.right[0] = torch.tensor([True, False, False, True])
        self.groups = torch.arange(ROWS) // SIZE
        self.texts = [[f"{q} {i}" for i in range(SIZE)] for q in range(QUESTIONS)]  # all of them different

    def scores(self, weights):
        """(N, T) log-probabilities of the tokens, 0 outside the answers."""
        found = (self.inputs @ weights).log_softmax(2).gather(2, self.tokens[..., None]).squeeze(2)
        return found.masked_fill(~self.mask, 0.0)

    def ascent(self, config, moved=False, earned=1.0):
        """Minus the gradient of the run's loss: kept, advantages, token weights, surrogate, KL. earned: by a right
        answer. moved: the policy is no longer the one that sampled, where there is a ratio."""
        samples, advantage = config.samples, config.advantage
        if samples.source == "solutions":
            rewards = torch.ones(ROWS, 1, dtype=torch.float64)  # a question each
            groups = torch.arange(ROWS)
        else:
            rewards, groups = self.right.double() * earned, self.groups
            rewards = algorithm.kept(rewards, self.right, self.texts, samples.keep, samples.per_question)
        mask = self.mask & ~rewards.flatten().isnan()[:, None]
        of = (advantage.baseline, advantage.scale, advantage.ddof, advantage.eps)
        made = algorithm.advantages(rewards, *of).flatten()
        rows = mask.any(1).nonzero().flatten()
        weights, norm = algorithm.token_weights(made, mask, groups, [rows], config.loss_norm.kind, budget_of(config))
        leaf = self.now.clone().requires_grad_()
        scores = self.scores(leaf)
        old = self.scores(self.then) if moved else scores.detach()
        reference = self.scores(self.reference) if config.beta.value else None
        loss = loss_of(Given(scores, old, old, weights, norm, mask, reference, None), config)
        return -torch.autograd.grad(loss.value, leaf)[0]

    def likelihood(self, counts, share):
        """∇ of Σ_i counts_i · share_i · Σ_t log π, the plain weighed likelihood."""
        leaf = self.now.clone().requires_grad_()
        return torch.autograd.grad((self.scores(leaf).sum(1) * counts * share).sum(), leaf)[0]


@functools.cache
def method(name, *words):
    return changed(compose([f"method={name}", *words]), run_dir="unused")


def close(one, two):
    scale = float(two.abs().max())
    return scale > 1e-6 and float((one - two).abs().max()) <= 1e-9 * scale


@pytest.fixture(scope="module", params=DRAWS)
def drawn(request):
    return Drawn(request.param)


def test_online_rft_is_reinforce_without_a_baseline_on_rewards_of_0_and_1(drawn):
    """DeepSeekMath eq. 10 and 11: right answers' likelihood, each over its length, over all answers of the step."""
    right = drawn.right.flatten().double()
    expected = drawn.likelihood(right, 1 / (ROWS * drawn.lengths))
    assert close(drawn.ascent(method("online_rft")), expected)
    assert close(drawn.ascent(method("reinforce", "loss_norm=sequence_mean")), expected)
    assert not close(drawn.ascent(method("reinforce_baseline", "loss_norm=sequence_mean")), expected)


@pytest.mark.parametrize("norm", NORMS)
def test_rft_on_the_present_policys_answers_is_online_rft_up_to_how_many_are_counted(drawn, norm):
    """All norms that are a mean over answers: what is kept is K of N answers, so RFT is Online RFT times N/K. With
    every answer in the mean (samples.keep=all, eq. 9 as printed) it is Online RFT itself."""
    words = [f"loss_norm={norm}"]
    online, kept = drawn.ascent(method("online_rft", *words)), int(drawn.right.sum())
    every = ["samples.keep=all", "samples.per_question=null"]
    assert close(drawn.ascent(method("rft", *words, "samples.per_question=null")), online * ROWS / kept)
    assert close(drawn.ascent(method("rft", *words, *every)), online)


def test_of_equal_answers_rft_counts_one():
    """Where the limit ends: Online RFT counts a right answer as often as it came."""
    drawn = Drawn(0)
    drawn.texts[0][3] = drawn.texts[0][0]  # both right
    online, kept = drawn.ascent(method("online_rft")), int(drawn.right.sum())
    once = drawn.right.flatten().double()
    once[3] = 0
    found = drawn.ascent(method("rft", "samples.per_question=null"))
    assert not close(found, online * ROWS / kept)
    assert close(found, drawn.likelihood(once, 1 / ((kept - 1) * drawn.lengths)))


@pytest.mark.parametrize("norm", NORMS)
def test_sft_weighs_each_token_by_the_loss_norm_alone(drawn, norm):
    """Eq. 6 and 7: 1/|o|, or a constant, over the answers of the step; whatever is right."""
    config = method("sft", f"loss_norm={norm}")
    share = {"sequence_mean": 1 / drawn.lengths, "constant": 1 / config.max_new_tokens, "sequence_sum": 1.0}[norm]
    assert close(
        drawn.ascent(config), drawn.likelihood(torch.ones(ROWS), torch.as_tensor(share, dtype=torch.float64) / ROWS)
    )


def test_dapo_without_its_four_parts_is_grpo_without_its_kl_term(drawn):
    """Off the sampling policy too. Its right answer earns 2 for 1, which the std takes out."""
    parts = {
        "clip-higher": "clip=ppo",
        "dynamic sampling": "rollout.dynamic_sampling=0",
        "token loss": "loss_norm=sequence_mean",
        "overlong penalty": "reward.truncated=zero",
    }
    grpo, bare = method("grpo", "beta=0"), method("dapo", *parts.values())
    assert close(drawn.ascent(bare, moved=True, earned=2.0), drawn.ascent(grpo, moved=True))
    same = ("advantage", "loss_norm", "clip", "rollout", "samples", "entropy_bonus", "critic")
    assert all(getattr(bare, name) == getattr(grpo, name) for name in same) and bare.beta.value == 0
    assert bare.reward.truncated == grpo.reward.truncated
    # negative control: with the token loss left in
    left_in = method("dapo", *(word for name, word in parts.items() if name != "token loss"))
    assert not close(drawn.ascent(left_in, moved=True, earned=2.0), drawn.ascent(grpo, moved=True))


@pytest.mark.parametrize("low, high", [(0.2, 0.2), (3e-4, 4e-4)])
def test_gspo_of_one_token_answers_is_grpo(low, high):
    """(π/π_old)^(1/|o|) of one token is its ratio; of more it is not."""
    words = ["beta=0", f"clip.low={low}", f"clip.high={high}"]
    grpo, gspo = method("grpo", *words), method("gspo", *words)
    for seed in DRAWS:
        single, longer = Drawn(seed, longest=1), Drawn(seed)
        if high > 0.1:  # at GSPO's range nearly all are clipped, and a gradient may be 0
            assert close(single.ascent(gspo, moved=True), single.ascent(grpo, moved=True))
        assert torch.allclose(single.ascent(gspo, moved=True), single.ascent(grpo, moved=True), rtol=1e-9, atol=1e-15)
        assert not torch.allclose(longer.ascent(gspo, moved=True), longer.ascent(grpo, moved=True), rtol=1e-3)


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_maxrl_climbs_the_likelihood_of_a_right_answer_to_the_order_of_the_group(p, size):
    """By algebra E = ∇[-Σ_{k < G} (1-p)^k / k], the expansion of log p (arXiv 2602.02710) to the order G - 1, for a
    group without a right answer weighs 0: (1 - (1-p)^(G-1))/p of ∇p, which is 1/p as G grows, and 1 for G = 2."""
    assert bandit(p, size, "group_mean", "group_mean") == pytest.approx((1 - (1 - p) ** (size - 1)) / p)
    if size > 2:  # of two answers GRPO's std is their mean
        assert bandit(p, size, "group_mean", "group_std") != pytest.approx((1 - (1 - p) ** (size - 1)) / p, rel=1e-3)
