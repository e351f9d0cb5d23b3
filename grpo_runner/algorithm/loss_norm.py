"""Loss normalisers: what a token of a response counts in the loss of one optimizer batch.

Each takes the mask (N, T) of the *whole* optimizer batch (never of a micro-batch, so that gradients do not depend on
how a batch is cut) and the group of each row (N,), and gives weights (N, T), zero outside the mask. Token weight =
advantage × this.

A response without a token in the mask is excluded: masked for its length, or without a reward. It counts nowhere, as if
it had never been sampled; a response of advantage 0 counts. Codebases differ: TRL and oat leave fully masked responses
in the number that the mean divides by, verl takes them out.

Conventions that differ: `sequence_mean` is GRPO as published (DeepSeekMath eq. 3; TRL `grpo`, verl
`seq-mean-token-mean`); TRL's default is `dapo` and verl's `token-mean`, which are `token_mean` here, while the formula
of the DAPO paper (arXiv 2503.14476 eq. 8) is `group_token_mean`. `constant` is Dr. GRPO's (sum over tokens / constant,
mean over responses; oat divides by generate_max_length, which excludes the prompt).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def sequence_mean(mask_NT: Tensor, groups_N: Tensor, budget: float) -> Tensor:
    """1 / (N·|o|): mean over the tokens of each response, then over responses (GRPO, DeepSeekMath eq. 3)."""
    return mask_NT / (mask_NT.sum(dim=1, keepdim=True).clamp(min=1) * responses(mask_NT))


def constant(mask_NT: Tensor, groups_N: Tensor, budget: float) -> Tensor:
    """1 / (N·L): sum over tokens over a constant L, then mean over responses (Dr. GRPO, Listing 1)."""
    return mask_NT / (budget * responses(mask_NT))


def token_mean(mask_NT: Tensor, groups_N: Tensor, budget: float) -> Tensor:
    """1 / Σ|o|: every token of the optimizer batch counts the same (DAPO's code; verl `token-mean`)."""
    return mask_NT / mask_NT.sum().clamp(min=1)


def group_token_mean(mask_NT: Tensor, groups_N: Tensor, budget: float) -> Tensor:
    """1 / (Q·Σ|o| of the group): mean over the tokens of each group, then over groups (DAPO eq. 8, as printed).

    Where an optimizer batch holds part of a group, the group is that part.
    """
    lengths_N = mask_NT.sum(dim=1)
    tokens_Q = lengths_N.new_zeros(int(groups_N.max()) + 1 if len(groups_N) else 0).index_add(0, groups_N, lengths_N)
    return mask_NT / (tokens_Q[groups_N].clamp(min=1) * (tokens_Q > 0).sum().clamp(min=1))[:, None]


def sequence_sum(mask_NT: Tensor, groups_N: Tensor, budget: float) -> Tensor:
    """1 / N: sum over the tokens of each response, then mean over responses (no length normaliser at all)."""
    return mask_NT / responses(mask_NT)


def responses(mask_NT: Tensor) -> Tensor:
    """How many rows have a token in the mask; at least 1, to divide by."""
    return mask_NT.any(dim=1).sum().clamp(min=1)


LOSS_NORMS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "sequence_mean": sequence_mean,
    "constant": constant,
    "token_mean": token_mean,
    "group_token_mean": group_token_mean,
    "sequence_sum": sequence_sum,
}


def loss_norm(mask_NT: Tensor, groups_N: Tensor, kind: str, budget: float) -> Tensor:
    """(N, T) what each token counts, in float64. `budget` is L of `constant`: the response budget unless set."""
    return LOSS_NORMS[kind](mask_NT.double(), groups_N, budget)
