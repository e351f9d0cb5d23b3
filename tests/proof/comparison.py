"""The package beside the re-stated libraries, on shared random batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from grpo_runner import algorithm
from tests.proof import libraries as lib

DRAWS = 100
BUDGET = 64


@dataclass(frozen=True)
class Sample:
    """A random batch: logp is a leaf, so that losses and their gradients can be compared. pieces: equal micro-batches."""

    rewards: torch.Tensor
    logp: torch.Tensor
    old: torch.Tensor
    ref: torch.Tensor
    mask: torch.Tensor
    pieces: list[torch.Tensor]
    beta: float
    low: float
    high: float


def sample(seed, size=None, questions=None, beta=None):
    draw = torch.Generator().manual_seed(seed)

    def randint(low, high):
        return int(torch.randint(low, high, (1,), generator=draw))

    questions, size = questions or randint(1, 4), size or randint(2, 6)
    rows, width = questions * size, randint(2, 9)
    rewards = torch.randint(0, 2, (questions, size), generator=draw).double()
    if seed % 2:
        rewards += 0.25 * torch.randint(0, 3, (questions, size), generator=draw)
    logp = -3 * torch.rand(rows, width, generator=draw, dtype=torch.float64)
    noise = torch.randn(2, rows, width, generator=draw, dtype=torch.float64)
    mask = torch.arange(width) < torch.randint(1, width + 1, (rows, 1), generator=draw)
    order, cuts = torch.randperm(rows, generator=draw), [n for n in range(1, rows + 1) if rows % n == 0]
    return Sample(
        rewards=rewards,
        logp=logp.requires_grad_(),
        old=logp.detach() + 0.2 * noise[0],
        ref=logp.detach() + 0.4 * noise[1],
        mask=mask,
        pieces=list(order.split(cuts[randint(0, len(cuts))])),
        beta=0.04 * randint(0, 2) if beta is None else beta,
        low=0.2,
        high=0.28 if seed % 3 else 0.2,
    )


def ours(batch, kind, baseline="group_mean", scale="group_std", ddof=1, eps=0.0, dual=None, parts=None):
    """(advantages (Q, G), loss) of the package, the loss put together as Trainer does."""
    advantage = algorithm.advantages(batch.rewards, baseline, scale, ddof, eps)
    parts = parts or [torch.arange(len(batch.mask))]
    weights, norm = algorithm.token_weights(
        advantage.flatten(), batch.mask, torch.arange(len(batch.mask)) // batch.rewards.shape[1], parts, kind, BUDGET
    )
    limits = algorithm.Range(batch.low, batch.high, dual)
    found = algorithm.SURROGATES["token"](batch.logp, batch.old, weights, batch.mask, limits)
    loss = -found.value_NT.sum() + batch.beta * (norm * algorithm.ESTIMATORS["k3"](batch.logp, batch.ref)).sum()
    return advantage, loss


def _trl(loss_type, scale_rewards):
    def theirs(b):
        advantage = lib.trl_advantages(b.rewards, scale_rewards)
        per_token = lib.ppo_loss(advantage.flatten(), b.logp, b.old, b.low, b.high)
        per_token = per_token + b.beta * lib.k3_loss(b.logp, b.ref)
        pieces = [torch.arange(len(b.mask))] if loss_type == "bnpo" else b.pieces
        return advantage, lib.trl_loss(loss_type, per_token, b.mask, pieces, BUDGET)

    return theirs


def _verl(mode, rule="grpo", dual=3.0):
    def theirs(b):
        rules = {
            "grpo": lib.verl_advantages,
            "no std": lambda rewards: lib.verl_advantages(rewards, by_std=False),
            "rloo": lib.verl_rloo,
        }
        advantage = rules[rule](b.rewards)
        per_token = lib.ppo_loss(advantage.flatten(), b.logp, b.old, b.low, b.high, dual)
        per_token = per_token + b.beta * lib.k3_loss(b.logp, b.ref, 20, 10)
        if mode != "seq-mean-token-sum-norm":
            return advantage, lib.verl_loss(mode, per_token, b.mask, b.pieces)
        # micro-batches of one row: the only size at which this version is the mean over responses
        return advantage, lib.verl_loss(mode, per_token, b.mask, torch.arange(len(b.mask)).split(1), BUDGET)

    return theirs


def _oat(critic_type):
    def theirs(b):
        advantage = lib.oat_advantages(b.rewards, critic_type)
        per_token = lib.ppo_loss(advantage.flatten(), b.logp, b.old, b.low, b.high)
        per_token = per_token + b.beta * lib.k3_loss(b.logp, b.ref, 40)
        return advantage, lib.oat_loss(critic_type, per_token, b.mask, b.pieces, BUDGET)

    return theirs


TRL, VERL, OAT = {"ddof": 1, "eps": 1e-4}, {"ddof": 1, "eps": 1e-6, "dual": 3.0}, {"ddof": 1, "eps": 1e-8}
EQUAL = {  # name -> (theirs, the same in the package's names)
    "TRL grpo, scale group": (_trl("grpo", "group"), {"kind": "sequence_mean", **TRL}),
    "TRL grpo, scale batch": (_trl("grpo", "batch"), {"kind": "sequence_mean", "scale": "batch_std", **TRL}),
    "TRL bnpo in one micro-batch": (_trl("bnpo", "group"), {"kind": "token_mean", **TRL}),
    "TRL dapo, scale group": (_trl("dapo", "group"), {"kind": "token_mean", **TRL}),
    "TRL dr_grpo, scale none": (_trl("dr_grpo", "none"), {"kind": "constant", "scale": "none"}),
    "TRL dr_grpo, scale group": (_trl("dr_grpo", "group"), {"kind": "constant", **TRL}),
    "verl token-mean": (_verl("token-mean"), {"kind": "token_mean", **VERL}),
    "verl seq-mean-token-mean": (_verl("seq-mean-token-mean"), {"kind": "sequence_mean", **VERL}),
    "verl seq-mean-token-sum, RLOO": (
        _verl("seq-mean-token-sum", "rloo"),
        {"kind": "sequence_sum", "baseline": "leave_one_out", "scale": "none", "dual": 3.0},
    ),
    "verl seq-mean-token-sum-norm, no std": (
        _verl("seq-mean-token-sum-norm", "no std"),
        {"kind": "constant", "scale": "none", "dual": 3.0},
    ),
    "oat grpo": (_oat("grpo"), {"kind": "sequence_mean", **OAT}),
    "oat drgrpo": (_oat("drgrpo"), {"kind": "constant", "scale": "none"}),
}


def difference(name, draws=DRAWS, **settings):
    """Largest of the relative differences of advantages, losses and gradients; `settings` break the package's side."""
    theirs, mine = EQUAL[name]
    worst = 0.0
    for seed in range(draws):
        batch = sample(seed)
        pairs = [theirs(batch), ours(batch, **{**mine, **settings})]
        grads = [torch.autograd.grad(loss, batch.logp)[0] for _, loss in pairs]
        for a, b in zip((*pairs[0], grads[0]), (*pairs[1], grads[1]), strict=True):
            top = max(float(a.detach().abs().max()), 1e-6)
            worst = max(worst, float((a - b).detach().abs().max()) / top)
    return worst
