"""Right answers against wrong ones of the same question: DPO as a weight per token (Rafailov et al. 2023, eq. 7).

With Δ the log-ratio log π - log π_ref of a whole answer, the loss of a pair is -log σ(β(Δ+ - Δ-)), and its gradient
-β σ(β(Δ- - Δ+)) (∇Δ+ - ∇Δ-): every answer of a pair has one coefficient, plus on the right one and minus on the
wrong one. What Δ is follows the loss norm, since the gradient of Δ is what the coefficient multiplies: the sum over
tokens (sequence_sum: Rafailov et al. 2023), their mean (sequence_mean: DeepSeekMath eq. 12, whose 1/|o| stands before
each sum), or the sum over a constant (constant). In a step of N answers the loss is then (1/N) Σ over pairs, half of
the mean over pairs that other codebases take, since a pair is two answers; AdamW takes such a factor out.

DeepSeekMath eq. 14 as printed has the log-ratios of single tokens in σ, and no leading β. That is not the gradient of
its eq. 12, nor that of another loss here (tests/algorithm/test_pairs.py).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .loss_norm import loss_norm, responses


def partners(right_QG: Tensor, usable_QG: Tensor, per_question: int | None = None) -> Tensor:
    """(N,) the row that each answer is paired with, -1 for none: the i-th right one of a question with its i-th wrong.

    right_QG, usable_QG: bool; the others are never paired. per_question: pairs of a question, at most; None: all.
    """
    size = right_QG.shape[1]
    partner_N = torch.full((right_QG.numel(),), -1, dtype=torch.long)
    for slot, (right_G, usable_G) in enumerate(zip(right_QG, usable_QG, strict=True)):
        better = (right_G & usable_G).nonzero().squeeze(1) + slot * size
        worse = (~right_G & usable_G).nonzero().squeeze(1) + slot * size
        pairs = min(len(better), len(worse), len(better) if per_question is None else per_question)
        partner_N[better[:pairs]], partner_N[worse[:pairs]] = worse[:pairs], better[:pairs]
    return partner_N


def answer_log_ratios(log_ratios_NT: Tensor, mask_NT: Tensor, kind: str, budget: float) -> Tensor:
    """(N,) Δ of each answer from its tokens' log π - log π_ref, by the loss norm `kind`: one of the three above.

    0 for a row without a token in the mask, whatever stands there.
    """
    within_NT = loss_norm(mask_NT, torch.zeros(len(mask_NT), dtype=torch.long), kind, budget) * responses(mask_NT)
    return (within_NT * log_ratios_NT.masked_fill(~mask_NT, 0.0)).sum(dim=1)


def preference_margins(log_ratios_N: Tensor, partner_N: Tensor, right_N: Tensor, beta: float) -> Tensor:
    """(P,) β(Δ+ - Δ-) of each pair, in the order of the right answers: DPO's implicit reward of one over the other."""
    better = (right_N & (partner_N >= 0)).nonzero().squeeze(1)
    return beta * (log_ratios_N[better] - log_ratios_N[partner_N[better]])


def preference_coefficients(log_ratios_N: Tensor, partner_N: Tensor, right_N: Tensor, beta: float) -> Tensor:
    """(N,) what ∇Δ of each answer is multiplied by: ±β σ(β(Δ- - Δ+)), + on the right one; 0 without a partner.

    log_ratios_N: at the policy as it stands. The exact gradient of Σ over pairs log σ(β(Δ+ - Δ-)), to be climbed.
    """
    sign_N = torch.where(right_N, 1.0, -1.0).to(log_ratios_N)
    margin_N = sign_N * beta * (log_ratios_N - log_ratios_N[partner_N])  # of an answer without partner: not used
    return (sign_N * beta * torch.sigmoid(-margin_N)).masked_fill(partner_N < 0, 0.0)
