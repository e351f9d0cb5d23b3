"""Generalised advantage estimation, and the loss of the critic it rests on (Schulman et al. 2016 and 2017).

An answer is one episode: a token is an action, the state before it is the prompt with the tokens so far, and nothing
comes after the last token, whether the answer ended or was cut off. Codebases agree on that, and differ in what
follows: TRL and verl whiten the advantages over the batch, which the papers do not; here nothing is whitened.
"""

from __future__ import annotations

import torch
from torch import Tensor


def token_rewards(rewards_N: Tensor, penalty_NT: Tensor | None, mask_NT: Tensor, beta: float) -> Tensor:
    """(N, T) what each token earns: -β · KL estimate, and at the last token the answer's reward (DeepSeekMath eq. 2).

    rewards_N: NaN for an excluded answer, whose row of mask_NT is False; it earns 0.
    """
    earned_NT = torch.zeros(mask_NT.shape, dtype=torch.float64)
    if penalty_NT is not None:
        earned_NT = earned_NT - beta * penalty_NT.double()
    last_NT = mask_NT & (mask_NT.long().cumsum(dim=1) == mask_NT.long().sum(dim=1, keepdim=True))
    earned_NT = earned_NT + last_NT * rewards_N.double().nan_to_num(nan=0.0)[:, None]
    return earned_NT.masked_fill(~mask_NT, 0.0)


def gae(rewards_NT: Tensor, values_NT: Tensor, mask_NT: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """(advantages_NT, returns_NT), float64, 0 outside the mask (Schulman et al. 2016, eq. 16).

    values_NT: V of the state before each token. A_t = Σ_k (γλ)^k δ_{t+k} with δ_t = r_t + γ V_{t+1} - V_t; a return is
    A_t + V_t, what the critic is fitted to. λ = 1: the discounted rewards to come less V_t; λ = 0: δ_t alone.
    """
    values_NT = values_NT.double().masked_fill(~mask_NT, 0.0)
    advantages_NT, running_N = torch.zeros_like(values_NT), values_NT.new_zeros(len(values_NT))
    following_N = torch.zeros_like(running_N)
    for t in reversed(range(mask_NT.shape[1])):
        surprise_N = rewards_NT[:, t].double() + gamma * following_N - values_NT[:, t]
        running_N = torch.where(mask_NT[:, t], surprise_N + gamma * lam * running_N, running_N)
        following_N = torch.where(mask_NT[:, t], values_NT[:, t], following_N)
        advantages_NT[:, t] = running_N
    advantages_NT = advantages_NT.masked_fill(~mask_NT, 0.0)
    return advantages_NT, advantages_NT + values_NT


def value_loss(values: Tensor, old: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """½ (V - R)², elementwise; with a clip the larger of that and the same for V held within old ± clip.

    The clip is of OpenAI's PPO code, not of the paper; half the square is TRL's and verl's convention too. It bounds
    how far the critic follows one rollout: where the larger is the clipped one, V has no gradient.
    """
    loss = (values - returns) ** 2
    if clip is not None:
        held = old + (values - old).clamp(-clip, clip)
        loss = torch.maximum(loss, (held - returns) ** 2)
    return 0.5 * loss


def explained_variance(values_NT: Tensor, returns_NT: Tensor, mask_NT: Tensor) -> float | None:
    """1 - Var(R - V) / Var(R) over the tokens: 1 is perfect, 0 a constant, below 0 worse than one.

    None where the returns do not vary.
    """
    returns, left = returns_NT[mask_NT].double(), (returns_NT - values_NT)[mask_NT].double()
    total = returns.var(correction=0) if len(returns) else returns.sum()
    return float(1 - left.var(correction=0) / total) if total > 0 else None
