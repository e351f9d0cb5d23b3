"""The objective's coefficient of ∇log π, written down a second time, in plain Python and numpy.

Nothing here may import the package or torch (a test reads the imports): it is what the package is held against.
A switch of the package without a form here makes the proofs fail and name it. Some forms stand before their switch.
"""

from __future__ import annotations

import math

import numpy as np


def mean(values):
    return math.fsum(values) / len(values)


def spread(values, ddof):
    """Standard deviation of all values, Σ(x - mean)² over their number less ddof."""
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - ddof))


BASELINES = {  # what is taken off the reward of answer i of a group; `everything` is all rewards of the rollout
    "group_mean": lambda group, i, everything: mean(group),
    "leave_one_out": lambda group, i, everything: mean(group[:i] + group[i + 1 :]),
    "batch_mean": lambda group, i, everything: mean(everything),
    "none": lambda group, i, everything: 0.0,
}
SCALES = {  # what the rest is divided by
    "none": lambda group, everything, ddof, eps: 1.0,
    "group_std": lambda group, everything, ddof, eps: spread(group, ddof) + eps,
    "batch_std": lambda group, everything, ddof, eps: spread(everything, ddof) + eps,
}
FROM_THE_GROUP, FROM_ALL = {"group_mean", "leave_one_out", "group_std"}, {"batch_mean", "batch_std"}


def advantages(rewards, baseline, scale, ddof=0, eps=0.0):
    """(Q, G). By rule 0 where the rewards that a baseline or scale is made of (the group's, or all) are equal."""
    groups = [[float(value) for value in group] for group in rewards]
    everything = [value for group in groups for value in group]
    rows = []
    for group in groups:
        one_of_group, one_of_all = len(set(group)) == 1, len(set(everything)) == 1
        if (one_of_group and FROM_THE_GROUP & {baseline, scale}) or (one_of_all and FROM_ALL & {baseline, scale}):
            rows.append([0.0] * len(group))
            continue
        width = SCALES[scale](group, everything, ddof, eps)
        rows.append([(value - BASELINES[baseline](group, i, everything)) / width for i, value in enumerate(group)])
    return np.array(rows)


def _sequence_mean(lengths, groups, budget):
    return [1 / (len(lengths) * length) if length else 0.0 for length in lengths]


def _constant(lengths, groups, budget):
    return [1 / (len(lengths) * budget)] * len(lengths)


def _token_mean(lengths, groups, budget):
    return [1 / sum(lengths)] * len(lengths) if sum(lengths) else [0.0] * len(lengths)


def _sequence_sum(lengths, groups, budget):
    return [1 / len(lengths)] * len(lengths)


def _group_token_mean(lengths, groups, budget):
    """DAPO's formula: 1/Σ|o| of the row's own group, then the mean over groups."""
    tokens = {group: sum(n for n, g in zip(lengths, groups, strict=True) if g == group) for group in groups}
    return [1 / (len(tokens) * tokens[group]) if tokens[group] else 0.0 for group in groups]


NORMS = {  # what one token of each row counts; every row counts in the mean over rows, one without tokens too
    "sequence_mean": _sequence_mean,
    "constant": _constant,
    "token_mean": _token_mean,
    "sequence_sum": _sequence_sum,
    "group_token_mean": _group_token_mean,
}


def norm(mask, groups, kind, budget):
    """(N, T) for the rows of one optimizer batch; 0 where the mask is."""
    mask = np.asarray(mask, dtype=bool)
    per_row = NORMS[kind]([int(row.sum()) for row in mask], list(groups), budget)
    return np.where(mask, np.array(per_row)[:, None], 0.0)


KL = {  # coefficient of ∇log π in -KL-estimate, per beta
    "k1": lambda logp, ref: -np.ones_like(logp),
    "k2": lambda logp, ref: ref - logp,
    "k3": lambda logp, ref: np.exp(ref - logp) - 1,
}


def _token(sign, norms, log_ratio, mask, low, high, dual):
    """PPO's token ratio: the gradient of min(rA, clip(r)A) is rA∇log π, or nothing beyond the clip."""
    ratio = np.exp(log_ratio)
    free = np.where(sign > 0, ratio <= 1 + high, ratio >= 1 - low)
    if dual is not None:
        free &= (sign > 0) | (ratio <= dual)
    return norms * sign * ratio * free


def _sequence(sign, norms, log_ratio, mask, low, high, dual):
    """GSPO: ∇ of the ratio exp(mean log-ratio) is the ratio times the mean of the tokens' ∇log π."""
    lengths = np.maximum(mask.sum(-1, keepdims=True), 1)
    logs = np.where(mask, log_ratio, 0.0).sum(-1, keepdims=True) / lengths
    return _token(sign, norms.sum(-1, keepdims=True) / lengths, logs, mask, low, high, dual) * mask


def _cispo(sign, norms, log_ratio, mask, low, high, dual):
    """The clipped ratio is a constant in front of ∇log π: no token loses its gradient."""
    return norms * sign * np.clip(np.exp(log_ratio), 1 - low, 1 + high)


SURROGATES = {"token": _token, "sequence": _sequence, "cispo": _cispo}


def coefficient(surrogate, norms, advantage, logp, old, mask, low, high, dual=None, beta=0.0, estimator=None, ref=None):
    """(…, N, T) norm · (Â · r · [not clipped] + β · KL): DeepSeekMath eq. 20, with the ratio and clip where π ≠ π_old.

    norms (…, N, T) and advantage (…, N) may stand for several objectives.
    """
    total = SURROGATES[surrogate](advantage[..., None], norms, logp - old, mask, low, high, dual)
    return total + beta * norms * KL[estimator](logp, ref) if beta else total


def softmax_scores(weights, contexts, tokens, temperature):
    """log π (N, T) of the linear softmax policy, and its probabilities (N, T, V)."""
    logits = contexts @ weights / temperature
    logits = logits - logits.max(axis=2, keepdims=True)
    probabilities = np.exp(logits)
    probabilities /= probabilities.sum(axis=2, keepdims=True)
    return np.log(np.take_along_axis(probabilities, tokens[..., None], 2))[..., 0], probabilities


def softmax_gradient(coefficients, probabilities, contexts, tokens, temperature):
    """Σ coefficient · ∇log π over the weights: context ⊗ (one-hot - π) / temperature. (K, N, T) -> (K, D, V)."""
    hot = np.zeros_like(probabilities)
    np.put_along_axis(hot, tokens[..., None], 1.0, 2)
    each = contexts[..., :, None] * (hot - probabilities)[..., None, :] / temperature
    flat = coefficients.reshape(len(coefficients), -1) @ each.reshape(-1, each.shape[2] * each.shape[3])
    return flat.reshape(-1, *each.shape[2:])
