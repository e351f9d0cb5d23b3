"""What each question weighed in a step, read off the token weights that trained (never estimated).

weight(q) = Σ over answers and tokens of |token_weights|; advantage_weight(q) = Σ over answers of |A|. For 0/1 rewards
with success rate p the latter is 2G·sqrt(p(1-p)) under the group std (ddof 0) and 2G·p(1-p) without it.

Beside the objective in use stand GRPO, Dr. GRPO and leave-one-out for the same rewards, lengths and optimizer batches,
split so that one sees which switch moved a question (exact, question by question):

    weight_grpo    = centred_weight · std_factor · length_factor
    weight_dr_grpo = centred_weight · constant_factor
    weight_rloo    = weight_dr_grpo · L · n / (n - 1)                 n = included answers, L = Dr. GRPO's constant

`centred_weight` is Σ|r - group mean|, `std_factor` what the division by the std multiplies it by (1/sqrt(p(1-p)) on 0/1
rewards). What the loss norms leave of Σ|A|: `length_factor` under 1/|o|, which is 1/N whatever the lengths;
`constant_factor` under the constant, the |A|-weighted mean length over N·L. So from Dr. GRPO to GRPO the first switch
multiplies a question by std_factor, the second by length_factor / constant_factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .advantages import advantages
from .token_weights import Weighed

SAME = 1e-6  # relative; eight units of float32's last place


def _mean(values: Tensor) -> float | None:
    """Mean as a float; None of nothing, since an undefined mean is not 0."""
    return float(values.double().mean()) if values.numel() else None


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def question_rows(
    rewards_QG: Tensor,
    correct_QG: Tensor,
    advantages_QG: Tensor,
    token_weights_QGT: Tensor,
    lengths_QG: Tensor,
    included_QG: Tensor,
    references: Mapping[str, Weighed],
) -> list[dict[str, float | int | None]]:
    """One dict a question, in order: counts, advantages, weights, reference weights with their factors, mean lengths.

    rewards_QG: total rewards, NaN where there is none; correct_QG: bool, the checker's word; advantages_QG;
    token_weights_QGT: each token's coefficient of ∇log π before clipping and KL, with the loss norm in it; lengths_QG:
    tokens as sampled, EOS included; included_QG: bool, which answers are in the loss; references: "grpo", "dr_grpo" and
    "rloo", each made by `weigh` on the same rewards, mask and optimizer batches.

    Advantages, weights and rewards (as they trained, a KL penalty in them) are of included answers; success rate and
    lengths are of all sampled answers. "right" and "wrong" are means over those answers, None where there are none; a
    factor is None where it multiplies nothing.
    """
    rewards_QG = rewards_QG.double()
    centred_QG = advantages(rewards_QG.masked_fill(~included_QG, torch.nan), "group_mean", "none")
    weight_QG = token_weights_QGT.abs().sum(dim=2)
    advantage_Q = {name: made.advantages_QG.abs().sum(dim=1).tolist() for name, made in references.items()}
    weight_Q = {
        name: made.weights_NT.abs().sum(dim=1).view(rewards_QG.shape).sum(dim=1).tolist()
        for name, made in references.items()
    }
    rows: list[dict[str, float | int | None]] = []
    for q in range(rewards_QG.shape[0]):
        correct, advantage, lengths, included = correct_QG[q], advantages_QG[q], lengths_QG[q], included_QG[q]
        right, wrong = correct & included, ~correct & included
        rewards = rewards_QG[q][~rewards_QG[q].isnan()]
        per_token = weight_QG[q] / lengths.clamp(min=1)
        centred = float(centred_QG[q].abs().sum())
        rows.append(
            {
                "successes": int(correct.sum()),
                "group_size": int(correct.numel()),
                "included": int(included.sum()),
                "success_rate": _mean(correct),
                "reward_mean": _mean(rewards),
                "reward_std": float(rewards.std(correction=0)) if rewards.numel() else None,
                "advantage_right": _mean(advantage[right]),
                "advantage_wrong": _mean(advantage[wrong]),
                "advantage_weight": float(advantage.abs().sum()),
                "weight": float(weight_QG[q].sum()),
                "weight_up": float(token_weights_QGT[q].clamp(min=0).sum()),
                "weight_down": float(token_weights_QGT[q].clamp(max=0).sum()),
                "weight_per_token_right": _mean(per_token[right]),
                "weight_per_token_wrong": _mean(per_token[wrong]),
                **{f"weight_{name}": weights[q] for name, weights in weight_Q.items()},
                "centred_weight": centred,
                "std_factor": _ratio(advantage_Q["grpo"][q], centred),
                "length_factor": _ratio(weight_Q["grpo"][q], advantage_Q["grpo"][q]),
                "constant_factor": _ratio(weight_Q["dr_grpo"][q], advantage_Q["dr_grpo"][q]),
                "length_mean": _mean(lengths),
                "length_right": _mean(lengths[correct]),
                "length_wrong": _mean(lengths[~correct]),
            }
        )
    return rows


def concentration(weights_Q: Tensor | Sequence[float]) -> dict[str, float | None]:
    """How unevenly the weight of a step lies on its questions, those without weight counted; None where none has any.

    gini: half the mean absolute difference of two questions over the mean, 0 when all weigh the same and (Q-1)/Q when
    one has it all; weights that differ by less than float32 tells apart weigh the same. top_tenth: the share of the
    ceil(Q/10) weightiest questions.
    """
    sorted_Q = torch.as_tensor(weights_Q, dtype=torch.float64).sort().values
    count, total = len(sorted_Q), float(sorted_Q.sum())
    if total <= 0:
        return {"gini": None, "top_tenth": None}
    # each weight is a sum over tokens in float32: equal ones come out a few units of its last place apart
    if float(sorted_Q[-1] - sorted_Q[0]) <= SAME * float(sorted_Q[-1]):
        sorted_Q = sorted_Q.mean().expand(count)
    # of two questions the heavier one counts up and the lighter one down: the i-th lightest is heavier i times
    signs_Q = 2.0 * torch.arange(count) - (count - 1)
    gini = 0.0 if sorted_Q[0] == sorted_Q[-1] else float((signs_Q * sorted_Q).sum()) / (count * total)
    return {"gini": gini, "top_tenth": float(sorted_Q[-((count + 9) // 10) :].sum()) / total}
