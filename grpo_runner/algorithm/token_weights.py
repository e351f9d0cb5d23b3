"""Everything but the log-probability in one tensor: the weight of every token of a rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..objectives import Objective
from .advantages import advantages
from .loss_norm import loss_norm


class Weighed(NamedTuple):
    """What an objective gives a rollout: advantages (Q, G), token weights and loss norm (N, T), row = slot · G + i."""

    advantages_QG: Tensor
    weights_NT: Tensor
    norm_NT: Tensor


def token_weights(
    advantages_N: Tensor, mask_NT: Tensor, groups_N: Tensor, minibatches: Sequence[Tensor], kind: str, budget: float
) -> tuple[Tensor, Tensor]:
    """(weights_NT, norm_NT), both float64 and 0 outside the mask: weights = advantage × norm.

    advantages_N: of each row, (N,), or of each token, (N, T), where tokens of an answer are credited differently.
    `mask_NT` is False throughout for a response that is excluded from the loss; `groups_N` is the group of each row.
    `minibatches` are the row indices of each optimizer step. The norm is taken over the optimizer batch that a row
    belongs to: where a rollout is cut into 8 optimizer steps, N of the mean over responses is the eighth. When several
    steps use the same rows (PPO's epochs), their norm is the same and stands once.
    """
    norm_NT = torch.zeros(mask_NT.shape, dtype=torch.float64)
    for rows in minibatches:
        norm_NT[rows] = loss_norm(mask_NT[rows], groups_N[rows], kind, budget)
    advantages_NT = advantages_N if advantages_N.ndim == 2 else advantages_N[:, None]
    return advantages_NT.double() * norm_NT, norm_NT


def weigh(rewards_QG: Tensor, mask_NT: Tensor, minibatches: Sequence[Tensor], objective: Objective) -> Weighed:
    """What each token of a rollout weighs under an objective, before the ratio, the clip and the KL term.

    rewards_QG: NaN for an excluded response, whose row of mask_NT is False.
    """
    made_QG = advantages(rewards_QG, objective.baseline, objective.scale, objective.ddof, objective.eps)
    groups_N = torch.arange(made_QG.numel()) // made_QG.shape[1]
    found = token_weights(made_QG.flatten(), mask_NT, groups_N, minibatches, objective.norm, objective.budget)
    return Weighed(made_QG, *found)
