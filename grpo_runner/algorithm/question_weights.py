"""What each question weighed in a step, read off the token weights that trained (never estimated).

weight(q) = Σ over answers and tokens of |token_weights|; advantage_weight(q) = Σ over answers of |A|. For 0/1 rewards
with success rate p the latter is 2G·sqrt(p(1-p)) under the group std (ddof 0) and 2G·p(1-p) without it.
"""

from __future__ import annotations

from torch import Tensor


def _mean(values: Tensor) -> float | None:
    """Mean as a float; None of nothing, since an undefined mean is not 0."""
    return float(values.double().mean()) if values.numel() else None


def question_rows(
    rewards_QG: Tensor,
    correct_QG: Tensor,
    advantages_QG: Tensor,
    token_weights_QGT: Tensor,
    lengths_QG: Tensor,
) -> list[dict[str, float | int | None]]:
    """One dict a question, in order: counts, advantages, weights and mean lengths.

    rewards_QG: total rewards; correct_QG: bool, the checker's word; advantages_QG; token_weights_QGT: each token's
    coefficient of ∇log π before clipping and KL, with the loss norm in it; lengths_QG: tokens, EOS included. Values for
    "right" and "wrong" answers are means over those answers, None where the group has none.
    """
    rows: list[dict[str, float | int | None]] = []
    weights_QG = token_weights_QGT.abs().sum(dim=2)
    for rewards, correct, advantage, weights, per_answer, lengths in zip(
        rewards_QG.double(), correct_QG, advantages_QG, token_weights_QGT, weights_QG, lengths_QG, strict=True
    ):
        per_token = per_answer / lengths.clamp(min=1)
        rows.append(
            {
                "successes": int(correct.sum()),
                "group_size": int(correct.numel()),
                "success_rate": _mean(correct),
                "reward_mean": _mean(rewards),
                "reward_std": float(rewards.std(correction=0)),
                "advantage_right": _mean(advantage[correct]),
                "advantage_wrong": _mean(advantage[~correct]),
                "advantage_weight": float(advantage.abs().sum()),
                "weight": float(per_answer.sum()),
                "weight_up": float(weights.clamp(min=0).sum()),
                "weight_down": float(weights.clamp(max=0).sum()),
                "weight_per_token_right": _mean(per_token[correct]),
                "weight_per_token_wrong": _mean(per_token[~correct]),
                "length_mean": _mean(lengths),
                "length_right": _mean(lengths[correct]),
                "length_wrong": _mean(lengths[~correct]),
            }
        )
    return rows
