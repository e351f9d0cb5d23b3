"""What TRL, verl and oat compute, re-stated from their documented behaviour and public sources.

Own words, no copied code, nothing of the package: rewards (Q, G) and log-probabilities (N, T) in, advantages and a loss
to be minimised out. `pieces` are the rows of each micro-batch, since three of the rules look at those.
"""

from __future__ import annotations

import torch


def trl_advantages(rewards, scale_rewards):
    """Reward less group mean; over (std + 1e-4) of the group ("group"), of all rewards ("batch"), or not ("none")."""
    centred = rewards - rewards.mean(1, keepdim=True)
    if scale_rewards == "none":
        return centred
    width = rewards.std(1, keepdim=True) if scale_rewards == "group" else rewards.std()
    return centred / (width + 1e-4)


def verl_advantages(rewards, by_std=True):
    """`grpo`: over (std + 1e-6), the sample std. A group of one has mean 0 and std 1, so it keeps its raw reward."""
    if rewards.shape[1] == 1:
        return rewards / (1 + 1e-6) if by_std else rewards
    centred = rewards - rewards.mean(1, keepdim=True)
    return centred / (rewards.std(1, keepdim=True) + 1e-6) if by_std else centred


def verl_rloo(rewards):
    """G/(G-1) times the reward less the group mean."""
    size = rewards.shape[1]
    return (rewards - rewards.mean(1, keepdim=True)) * size / (size - 1)


def oat_advantages(rewards, critic_type):
    """`drgrpo`: reward less group mean. `grpo`: that over (std + 1e-8), the sample std."""
    centred = rewards - rewards.mean(1, keepdim=True)
    return centred / (rewards.std(1, keepdim=True) + 1e-8) if critic_type == "grpo" else centred


def ppo_loss(advantage_N, logp, old, low, high, dual=None):
    """(N, T) max(-A r, -A clip(r)); verl's dual clip: where A < 0, at most -A·c."""
    advantage, ratio = advantage_N[:, None], (logp - old).exp()
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clip(1 - low, 1 + high))
    if dual is None:
        return loss
    return torch.where(advantage < 0, torch.minimum(loss, -advantage * dual), loss)


def k3_loss(logp, ref, clamp_log=None, clamp_value=None):
    """exp(d) - d - 1 with d = log π_ref - log π. verl clamps d to ±20 and the value to ±10; oat clamps d to ±40."""
    d = ref - logp
    d = d if clamp_log is None else d.clip(-clamp_log, clamp_log)
    value = d.exp() - d - 1
    return value if clamp_value is None else value.clip(-clamp_value, clamp_value)


def trl_loss(loss_type, per_token, mask, pieces, max_completion_length, tokens=None):
    """grpo: mean of each row, then of rows. bnpo: mean over the micro-batch's tokens. dapo: sum over the tokens of all
    micro-batches and processes (`tokens`: another count, for releases that took the generation batch's, before 1.16).
    dr_grpo: sum over rows × max_completion_length. Micro-batches are averaged, except under dapo."""
    total = 0.0
    for rows in pieces:
        values, kept = per_token[rows] * mask[rows], mask[rows]
        if loss_type == "grpo":
            total = total + (values.sum(1) / kept.sum(1).clip(min=1)).mean() / len(pieces)
        elif loss_type == "bnpo":
            total = total + values.sum() / kept.sum().clip(min=1) / len(pieces)
        elif loss_type == "dapo":
            total = total + values.sum() / (tokens or mask[torch.cat(list(pieces))].sum())
        elif loss_type == "dr_grpo":
            total = total + values.sum() / (len(rows) * max_completion_length) / len(pieces)
    return total


def verl_loss(mode, per_token, mask, pieces, scale=None, skip_empty=False):
    """token-mean over the optimizer batch; seq-mean-*: mean over rows (`skip_empty`: over rows with a token, ≥ 0.10).

    seq-mean-token-sum-norm at b178a3c: each micro-batch's sum over `scale` (its padded width where none is given), not
    divided by the rows, then over the number of micro-batches."""
    values, lengths = per_token * mask, mask.sum(1)
    if mode == "token-mean":
        return values.sum() / mask.sum()
    if mode == "seq-mean-token-sum-norm":
        return sum(values[rows].sum() / (scale or mask.shape[1]) for rows in pieces) / len(pieces)
    rows = {"seq-mean-token-mean": values.sum(1) / lengths.clip(min=1), "seq-mean-token-sum": values.sum(1)}[mode]
    return rows.sum() / int((lengths > 0).sum()) if skip_empty else rows.mean()


def oat_loss(critic_type, per_token, mask, pieces, generate_max_length):
    """grpo: masked mean of each row; drgrpo: masked sum over generate_max_length; then the mean of the micro-batch,
    averaged over micro-batches."""
    values = per_token * mask
    rows = values.sum(1) / (mask.sum(1) if critic_type == "grpo" else generate_max_length)
    return sum(rows[piece].mean() for piece in pieces) / len(pieces)
