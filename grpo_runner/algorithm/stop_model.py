"""A policy whose only freedom is when to stop: what an objective does to answers' lengths on average, summed exactly.

An answer has a body of fixed length, then a tail: at each of its tokens, the last one (EOS) among them, it stops with
chance s. So it has body + t tokens with chance s(1-s)^(t-1). It is right with chance p, whatever its length; how long
the body is may depend on that. The derivative of its log-probability by the logit of s is

    Σ over the tail (1{stop} - s) = 1 - s·t        with mean 0

and an objective pushes the logit by the mean over answers of advantage · norm · (1 - s·t). With a norm that is the same
for every answer the mean is exactly 0, for right and for wrong answers. With 1/|o| it is not: short tails, which are
the ones that stopped early, count more, so what is right stops sooner and what is wrong goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .advantages import advantages

REST = 1e-18  # chances of a length that are left out of a sum


class StopModel(NamedTuple):
    """right: chance p of an answer to be right; size: G; stop: s, below 1; bodies: tokens in front of the tail."""

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


class _Norm(NamedTuple):
    """N times the loss norm of that name: a function of (tokens, G, L), of an answer or, group: of all G together."""

    of: Callable[[Tensor, int, float], Tensor]
    group: bool = False


_NORMS = {
    "sequence_mean": _Norm(lambda tokens_T, size, budget: 1 / tokens_T),
    "constant": _Norm(lambda tokens_T, size, budget: torch.full_like(tokens_T, 1 / budget)),
    "group_token_mean": _Norm(lambda tokens_T, size, budget: size / tokens_T, group=True),
    "sequence_sum": _Norm(lambda tokens_T, size, budget: torch.ones_like(tokens_T)),
}
STOP_NORMS = tuple(_NORMS)


def stop_push(model: StopModel, baseline: str, scale: str, norm: str, budget: float = 1.0, ddof: int = 0) -> Push:
    """The expected push of one group, over all numbers of right answers and all lengths of tails.

    baseline, scale, ddof: of the advantage, which must be of the group. norm: of STOP_NORMS (KeyError otherwise);
    `token_mean` is left out, since it depends on the other groups of the batch. budget: L of `constant`.
    """
    p, size = model.right, model.size
    right = wrong = 0.0
    for count in range(1, size):  # a group that is all right or all wrong has no advantages
        chance = math.comb(size, count) * p**count * (1 - p) ** (size - count)
        rewards_G = torch.tensor([[1.0] * count + [0.0] * (size - count)], dtype=torch.float64)
        made_G = advantages(rewards_G, baseline, scale, ddof)[0]
        bodies = count * model.body_right + (size - count) * model.body_wrong
        for_right = _mean_score(model, model.body_right, bodies, norm, budget)
        for_wrong = _mean_score(model, model.body_wrong, bodies, norm, budget)
        right += chance * float(made_G[:count].sum()) / size * for_right
        wrong += chance * float(made_G[count:].sum()) / size * for_wrong
    return Push(right, wrong)


def _mean_score(model: StopModel, body: int, bodies: int, norm: str, budget: float) -> float:
    """E[N · norm · (1 - s·t)] of one answer in a group with `bodies` tokens in front of its tails.

    Where the norm is of the whole group, the tails' sum n is summed over; an answer's own is n/G of it on average.
    """
    rule = _NORMS[norm]
    answers, before = (model.size, bodies) if rule.group else (1, body)
    tails_T, chance_T = tail_chances(model.stop, answers)
    norm_T = rule.of(before + tails_T, model.size, budget)
    return float((chance_T * (1 - model.stop * tails_T / answers) * norm_T).sum())


def tail_chances(stop: float, answers: int) -> tuple[Tensor, Tensor]:
    """(lengths, their chances) of so many tails together: C(n-1, answers-1) s^answers (1-s)^(n-answers)."""
    mean, most = answers / stop, int(answers / stop + 60 * answers**0.5 / stop) + 1
    lengths_T = torch.arange(answers, most + 1, dtype=torch.float64)
    choose_T = torch.lgamma(lengths_T) - math.lgamma(answers) - torch.lgamma(lengths_T - answers + 1)
    chance_T = (choose_T + answers * math.log(stop) + (lengths_T - answers) * math.log1p(-stop)).exp()
    kept_T = (chance_T > REST) | (lengths_T <= mean)
    return lengths_T[kept_T], chance_T[kept_T]
