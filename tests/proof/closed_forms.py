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


def _above_nothing(middle):
    """MaxRL divides by the rate of success: by rule nothing is learned where there is none, or less than none."""
    return middle if middle > 0 else math.inf


SCALES = {  # what the rest is divided by
    "none": lambda group, everything, ddof, eps: 1.0,
    "group_std": lambda group, everything, ddof, eps: spread(group, ddof) + eps,
    "batch_std": lambda group, everything, ddof, eps: spread(everything, ddof) + eps,
    "group_mean": lambda group, everything, ddof, eps: _above_nothing(mean(group) + eps),
}
FROM_THE_GROUP, FROM_ALL = {"group_mean", "leave_one_out", "group_std"}, {"batch_mean", "batch_std"}


def _present(group):
    return [float(value) for value in group if not math.isnan(value)]


def advantages(rewards, baseline, scale, ddof=0, eps=0.0):
    """(Q, G). A reward of NaN is an answer that was never sampled: 0, and the others' advantages are made without it.

    By rule 0 where the rewards that a baseline or scale is made of (the group's, or all) are equal.
    """
    everything = [value for group in rewards for value in _present(group)]
    rows = []
    for row in rewards:
        group = _present(row)
        one_of_group, one_of_all = len(set(group)) < 2, len(set(everything)) < 2
        if (one_of_group and FROM_THE_GROUP & {baseline, scale}) or (one_of_all and FROM_ALL & {baseline, scale}):
            rows.append([0.0] * len(row))
            continue
        found = iter(
            [
                (value - BASELINES[baseline](group, i, everything)) / SCALES[scale](group, everything, ddof, eps)
                for i, value in enumerate(group)
            ]
        )
        rows.append([0.0 if math.isnan(value) else next(found) for value in row])
    return np.array(rows)


def _sequence_mean(lengths, groups, budget):
    return [1 / (len(lengths) * length) for length in lengths]


def _constant(lengths, groups, budget):
    return [1 / (len(lengths) * budget)] * len(lengths)


def _token_mean(lengths, groups, budget):
    return [1 / sum(lengths)] * len(lengths)


def _sequence_sum(lengths, groups, budget):
    return [1 / len(lengths)] * len(lengths)


def _group_token_mean(lengths, groups, budget):
    """DAPO's formula: 1/Σ|o| of the row's own group, then the mean over groups."""
    tokens = {group: sum(n for n, g in zip(lengths, groups, strict=True) if g == group) for group in groups}
    return [1 / (len(tokens) * tokens[group]) for group in groups]


NORMS = {  # what one token of each row counts, of rows that all have a token
    "sequence_mean": _sequence_mean,
    "constant": _constant,
    "token_mean": _token_mean,
    "sequence_sum": _sequence_sum,
    "group_token_mean": _group_token_mean,
}


def norm(mask, groups, kind, budget):
    """(N, T) for the rows of one optimizer batch; 0 where the mask is. Rows without a token were never sampled."""
    mask, made = np.asarray(mask, dtype=bool), np.zeros(np.shape(mask))
    kept = [row for row in range(len(mask)) if mask[row].any()]
    if not kept:
        return made
    per_row = NORMS[kind]([int(mask[row].sum()) for row in kept], [int(groups[row]) for row in kept], budget)
    for row, value in zip(kept, per_row, strict=True):
        made[row, mask[row]] = value
    return made


IMPORTANCE = {  # π_old/μ of each token, or of the answer: the product over its tokens
    "none": lambda old, sampled, mask: np.ones_like(old),
    "token": lambda old, sampled, mask: np.exp(old) / np.exp(sampled),
    "sequence": lambda old, sampled, mask: (
        np.prod(np.where(mask, np.exp(old) / np.exp(sampled), 1.0), axis=-1, keepdims=True) * np.ones_like(old)
    ),
}


def importance(old, sampled, mask, kind, cap):
    """(N, T) factor of the advantage where answers were drawn from another policy than π_old; at most `cap`."""
    weight = IMPORTANCE[kind](old, sampled, mask)
    return weight if cap is None else np.minimum(weight, cap)


KL = {  # coefficient of ∇log π in -KL-estimate, per beta
    "k1": lambda logp, ref: -np.ones_like(logp),
    "k2": lambda logp, ref: ref - logp,
    "k3": lambda logp, ref: np.exp(ref - logp) - 1,
}


PENALTY = {  # what one token takes off the reward, per beta
    "k1": lambda logp, ref: logp - ref,
    "k2": lambda logp, ref: (logp - ref) ** 2 / 2,
    "k3": lambda logp, ref: np.exp(ref) / np.exp(logp) - 1 - (ref - logp),
}


def _beyond(sign, ratio, low, high, dual):
    """Where PPO's minimum is flat: the ratio has gone as far as the clip allows in the direction of the advantage."""
    far = ((sign > 0) & (ratio > 1 + high)) | ((sign < 0) & (ratio < 1 - low))
    return far if dual is None else far | ((sign < 0) & (ratio > dual))


def _token(sign, norms, log_ratio, mask, low, high, dual):
    """PPO's token ratio: the gradient of min(rA, clip(r)A) is rA∇log π, or nothing beyond the clip."""
    ratio = np.exp(log_ratio)
    return norms * sign * ratio * ~_beyond(sign, ratio, low, high, dual)


def _response_log_ratio(log_ratio, mask):
    return np.where(mask, log_ratio, 0.0).sum(-1, keepdims=True) / np.maximum(mask.sum(-1, keepdims=True), 1)


def _sequence(sign, norms, log_ratio, mask, low, high, dual):
    """GSPO: ∇ of the ratio exp(mean log-ratio) is the ratio times the mean of the tokens' ∇log π."""
    shared = norms.sum(-1, keepdims=True) / np.maximum(mask.sum(-1, keepdims=True), 1)
    return _token(sign, shared, _response_log_ratio(log_ratio, mask), mask, low, high, dual) * mask


def _cispo(sign, norms, log_ratio, mask, low, high, dual):
    """The clipped ratio is a constant in front of ∇log π: no token loses its gradient."""
    return norms * sign * np.clip(np.exp(log_ratio), 1 - low, 1 + high)


def _none(sign, norms, log_ratio, mask, low, high, dual):
    """Weighed log-likelihood: DeepSeekMath eq. 5, however far the policy has gone since."""
    return norms * sign * np.ones_like(log_ratio)


SURROGATES = {"token": _token, "sequence": _sequence, "cispo": _cispo, "none": _none}


def ratio_and_clipped(surrogate, sign, log_ratio, mask, low, high, dual):
    """(N, T) the ratio that is clipped, and where the clip acts on a token that has an advantage."""
    ratio = np.exp(_response_log_ratio(log_ratio, mask) if surrogate == "sequence" else log_ratio) * np.ones(mask.shape)
    if surrogate == "none":
        return ratio, np.zeros(mask.shape, dtype=bool)
    if surrogate == "cispo":
        return ratio, ((ratio < 1 - low) | (ratio > 1 + high)) & (sign != 0) & mask
    return ratio, _beyond(sign, ratio, low, high, dual) & mask


def kl_part(norms, logp, beta, estimator, ref):
    """(…, N, T) the KL term's share of the coefficient."""
    return beta * norms * KL[estimator](logp, ref)


def coefficient(
    surrogate,
    norms,
    advantage,
    logp,
    old,
    mask,
    low,
    high,
    dual=None,
    beta=0.0,
    estimator=None,
    ref=None,
    weight=1.0,
):
    """(…, N, T) norm · (Â · weight · r · [not clipped] + β · KL): DeepSeekMath eq. 20, with the ratio where π ≠ π_old.

    norms (…, N, T) and advantage (…, N) may stand for several objectives. weight: of importance, of the advantage only.
    """
    total = SURROGATES[surrogate](advantage[..., None], norms * weight, logp - old, mask, low, high, dual)
    return total + kl_part(norms, logp, beta, estimator, ref) if beta else total


def entropy_coefficient(probabilities, norms, bonus):
    """(…, N, T, V) of ∇log π(v) for every v of the vocabulary: c · norm · (-π log π).

    ∇H = -Σ ∇π log π - Σ π ∇log π, whose second sum is ∇ of Σ π = 1.
    """
    safe = np.where(probabilities > 0, probabilities, 1.0)
    return bonus * norms[..., None] * (-probabilities * np.log(safe))


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
    return _onto_weights(coefficients, contexts[..., :, None] * (hot - probabilities)[..., None, :] / temperature)


def softmax_entropy_gradient(norms, bonus, probabilities, contexts, temperature):
    """Σ over tokens and vocabulary of entropy_coefficient · ∇log π(v), with Σ_v a_v (one-hot_v - π) = a - π Σ a."""
    of_vocabulary = entropy_coefficient(probabilities, np.ones(probabilities.shape[:2]), bonus)
    towards = of_vocabulary - probabilities * of_vocabulary.sum(2, keepdims=True)
    return _onto_weights(norms, contexts[..., :, None] * towards[..., None, :] / temperature)


def _onto_weights(coefficients, each):
    flat = coefficients.reshape(len(coefficients), -1) @ each.reshape(-1, each.shape[2] * each.shape[3])
    return flat.reshape(-1, *each.shape[2:])
