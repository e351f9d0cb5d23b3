"""Log-probabilities of completion tokens under the policy, at the sampling temperature, and its entropy there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .batch import Padded
from .models import forward_keywords


def completion_logprobs(model: nn.Module, padded: Padded, temperature: float) -> Tensor:
    """(B, T) log-probabilities of the completion tokens, in float32 or wider; values outside the mask mean nothing.

    Logits are taken at the completion's positions alone (the prompt's are never made) and divided by the temperature at
    which the tokens were sampled, over the full vocabulary: the same rule as in the rollout.
    """
    logits_BTV = _logits(model, padded, temperature)
    return _of_tokens(logits_BTV, padded)


def logprobs_and_entropy(model: nn.Module, padded: Padded, temperature: float) -> tuple[Tensor, Tensor]:
    """The same, and (B, T) the entropy of the policy at each position, in nats. Holds one more (B, T, V) tensor."""
    logits_BTV = _logits(model, padded, temperature)
    all_BTV = torch.log_softmax(logits_BTV, dim=2)
    # 0 · -inf: a vocabulary entry that a model rules out adds nothing, to the gradient neither
    entropy_BT = -(all_BTV.exp() * all_BTV.masked_fill(all_BTV.isneginf(), 0.0)).sum(dim=2)
    return _of_tokens(logits_BTV, padded), entropy_BT


def _of_tokens(logits_BTV: Tensor, padded: Padded) -> Tensor:
    targets_BT1 = padded.input_ids[:, -padded.completion_mask.shape[1] :, None]
    return logits_BTV.gather(2, targets_BT1).squeeze(2) - torch.logsumexp(logits_BTV, dim=2)


def _logits(model: nn.Module, padded: Padded, temperature: float) -> Tensor:
    """(B, T, V) logits that predict the completion's tokens, over the temperature."""
    width_T = padded.completion_mask.shape[1]
    inputs = inputs_of(model, padded)
    if "logits_to_keep" in forward_keywords(model):
        inputs["logits_to_keep"] = width_T + 1
    # the logits at position t predict token t + 1; the last position predicts a token that was not sampled
    logits_BTV = model(**inputs).logits[:, -(width_T + 1) : -1]
    return logits_BTV.to(torch.promote_types(logits_BTV.dtype, torch.float32)) / temperature


def inputs_of(model: nn.Module, padded: Padded) -> dict[str, Any]:
    """What a model's forward takes of a micro-batch; positions where it takes any."""
    inputs: dict[str, Any] = {
        "input_ids": padded.input_ids,
        "attention_mask": padded.attention_mask,
        "use_cache": False,
    }
    return inputs | ({"position_ids": padded.position_ids} if "position_ids" in forward_keywords(model) else {})
