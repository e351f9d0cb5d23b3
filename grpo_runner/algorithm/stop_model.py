"""A policy whose only freedom is when to stop: what an objective does to answers' lengths on average, summed exactly.

An answer has a body of fixed length, then a tail: at each of its tokens it stops with chance s, the last token (EOS)
among them. So it has body + t tokens with chance s(1-s)^(t-1). It is right with chance p, whatever its length; how long
the body is may depend on that. The derivative of its log-probability by the logit of s is

    Σ over the tail (1{stop} - s) = 1 - s·t        with mean 0

and an objective pushes the logit by the mean over answers of advantage · norm · (1 - s·t). With a norm that is the same
for every answer the mean is exactly 0, for right and for wrong answers. With 1/|o| it is not: short tails, which are the
ones that stopped early, count more, so what is right stops sooner and what is wrong goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .advantages import advantages

REST = 1e-14  # of a tail's chances that may be left out of a sum


class StopModel(NamedTuple):
    """right: chance p of an answer to be right; size: G; stop: s; bodies: tokens in front of the tail."""

    right: float
    size: int
    stop: float
    body_right: int
    body_wrong: int


class Push(NamedTuple):
    """Mean over answers of advantage · norm · (1 - s·t), of right and of wrong ones; above 0: stops sooner.

    Where one logit serves both, it is pushed by their sum.
    """

    right: float
    wrong: float


def one_over_length(own_T: Tensor, others_U: Tensor, size: int, budget: float) -> Tensor:
    """1/|o|, times N as below."""
    return (1 / own_T)[:, None].expand(-1, len(others_U))


def one_over_constant(own_T: Tensor, others_U: Tensor, size: int, budget: float) -> Tensor:
    """1/L."""
    return torch.full((len(own_T), len(others_U)), 1 / budget, dtype=torch.float64)


def one_over_group(own_T: Tensor, others_U: Tensor, size: int, budget: float) -> Tensor:
    """G/Σ|o| over the tokens of the group."""
    return size / (own_T[:, None] + others_U)


def one(own_T: Tensor, others_U: Tensor, size: int, budget: float) -> Tensor:
    """1."""
    return torch.ones(len(own_T), len(others_U), dtype=torch.float64)


# N times the loss norm of the same name, of an answer with own_T tokens beside others with others_U in all: (T, U)
_NORMS: dict[str, Callable[[Tensor, Tensor, int, float], Tensor]] = {
    "sequence_mean": one_over_length,
    "constant": one_over_constant,
    "group_token_mean": one_over_group,
    "sequence_sum": one,
}
STOP_NORMS = tuple(_NORMS)


def stop_push(model: StopModel, baseline: str, scale: str, norm: str, budget: float = 1.0, ddof: int = 0) -> Push:
    """The expected push of one group, over all numbers of right answers and all lengths of tails.

    baseline, scale, ddof: of the advantage, which must be of the group. norm: of STOP_NORMS (KeyError otherwise);
    `token_mean` is left out, since it depends on the other groups of the batch. budget: L of `constant`.
    """
    p, size, stop = model.right, model.size, model.stop
    right = wrong = 0.0
    for count in range(1, size):  # a group that is all right or all wrong has no advantages
        chance = math.comb(size, count) * p**count * (1 - p) ** (size - count)
        rewards_G = torch.tensor([[1.0] * count + [0.0] * (size - count)], dtype=torch.float64)
        made_G = advantages(rewards_G, baseline, scale, ddof)[0]
        bodies = count * model.body_right + (size - count) * model.body_wrong
        for_right = _mean_score(stop, model.body_right, bodies - model.body_right, size, norm, budget)
        for_wrong = _mean_score(stop, model.body_wrong, bodies - model.body_wrong, size, norm, budget)
        right += chance * float(made_G[:count].sum()) / size * for_right
        wrong += chance * float(made_G[count:].sum()) / size * for_wrong
    return Push(right, wrong)


def _mean_score(stop: float, body: int, other_bodies: int, size: int, norm: str, budget: float) -> float:
    """E[N · norm · (1 - s·t)] of one answer, over its own tail and the sum of the others'."""
    tails_T, chance_T = tail_chances(stop, 1)
    if norm == "group_token_mean":
        others_U, chance_U = tail_chances(stop, size - 1)
    else:  # the others do not matter
        others_U, chance_U = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    norm_TU = _NORMS[norm](body + tails_T, other_bodies + others_U, size, budget)
    return float((chance_T * (1 - stop * tails_T)) @ norm_TU @ chance_U)


def tail_chances(stop: float, answers: int) -> tuple[Tensor, Tensor]:
    """(lengths, their chances) of so many tails together: C(n-1, answers-1) s^answers (1-s)^(n-answers)."""
    if stop == 1:
        return torch.tensor([float(answers)], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    lengths, logs = [], []
    n, mean = answers, answers / stop
    while True:
        log = (
            math.lgamma(n) - math.lgamma(answers) - math.lgamma(n - answers + 1)
            + answers * math.log(stop) + (n - answers) * math.log1p(-stop)
        )  # fmt: skip
        if n > mean and log < math.log(REST * stop):
            break
        lengths.append(float(n))
        logs.append(log)
        n += 1
    return torch.tensor(lengths, dtype=torch.float64), torch.tensor(logs, dtype=torch.float64).exp()
