"""Loss normalisers: what a token of a response counts in the loss of one optimizer batch.

Each takes the mask (N, T) of the *whole* optimizer batch (never of a micro-batch, so that gradients do not depend on
how a batch is cut) and gives weights (N, T), zero outside the mask. Token weight = advantage × this.

Conventions that differ: `sequence_mean` is GRPO as published (DeepSeekMath eq. 3; TRL `grpo`, verl
`seq-mean-token-mean`); TRL's default is `dapo` and verl's `token-mean`, which are `token_mean` here. `constant` is Dr.
GRPO's (sum over tokens / constant, mean over responses; oat divides by generate_max_length, which excludes the prompt).
All rows count in the mean over responses, those of advantage 0 too, as in TRL and oat.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def sequence_mean(mask_NT: Tensor, budget: float) -> Tensor:
    """1 / (N·|o|): mean over the tokens of each response, then over responses (GRPO, DeepSeekMath eq. 3)."""
    lengths_N1 = mask_NT.sum(dim=1, keepdim=True).clamp(min=1)
    return mask_NT / (lengths_N1 * mask_NT.shape[0])


def constant(mask_NT: Tensor, budget: float) -> Tensor:
    """1 / (N·L): sum over tokens over a constant L, then mean over responses (Dr. GRPO, Listing 1)."""
    return mask_NT / (budget * mask_NT.shape[0])


def token_mean(mask_NT: Tensor, budget: float) -> Tensor:
    """1 / Σ|o|: every token of the optimizer batch counts the same (DAPO's aggregation over the batch)."""
    return mask_NT / mask_NT.sum().clamp(min=1)


def sequence_sum(mask_NT: Tensor, budget: float) -> Tensor:
    """1 / N: sum over the tokens of each response, then mean over responses (no length normaliser at all)."""
    return mask_NT / mask_NT.shape[0]


LOSS_NORMS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "sequence_mean": sequence_mean,
    "constant": constant,
    "token_mean": token_mean,
    "sequence_sum": sequence_sum,
}


def loss_norm(mask_NT: Tensor, kind: str, budget: float) -> Tensor:
    """(N, T) what each token counts, in float64. `budget` is L of `constant`: the response budget unless set."""
    return LOSS_NORMS[kind](mask_NT.double(), budget)
