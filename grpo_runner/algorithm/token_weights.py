"""Everything but the log-probability in one tensor: the weight of every token of a rollout."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .loss_norm import loss_norm


def token_weights(
    advantages_N: Tensor, mask_NT: Tensor, minibatches: Sequence[Tensor], kind: str, budget: float
) -> tuple[Tensor, Tensor]:
    """(weights_NT, norm_NT), both float64 and 0 outside the mask: weights = advantage × norm.

    `minibatches` are the row indices of each optimizer step. The norm is taken over the optimizer batch that a row
    belongs to: where a rollout is cut into 8 optimizer steps, N of the mean over responses is the eighth. When several
    steps use the same rows (PPO's epochs), their norm is the same and stands once.
    """
    norm_NT = torch.zeros(mask_NT.shape, dtype=torch.float64)
    for rows in minibatches:
        norm_NT[rows] = loss_norm(mask_NT[rows], kind, budget)
    return advantages_N.double()[:, None] * norm_NT, norm_NT
