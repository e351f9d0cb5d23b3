"""Log-probabilities of completion tokens under the policy, at the sampling temperature."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .batch import Padded
from .models import forward_keywords


def completion_logprobs(model: nn.Module, padded: Padded, temperature: float) -> Tensor:
    """(B, T) log-probabilities of the completion tokens, in float32 or wider; values outside the mask mean nothing.

    Logits are taken at the completion's positions alone (the prompt's are never made) and divided by the temperature at
    which the tokens were sampled, over the full vocabulary: the same rule as in the rollout.
    """
    width_T = padded.completion_mask.shape[1]
    keywords = forward_keywords(model)
    inputs = {"input_ids": padded.input_ids, "attention_mask": padded.attention_mask, "use_cache": False}
    if "position_ids" in keywords:
        inputs["position_ids"] = padded.position_ids
    if "logits_to_keep" in keywords:
        inputs["logits_to_keep"] = width_T + 1
    # the logits at position t predict token t + 1; the last position predicts a token that was not sampled
    logits_BTV = model(**inputs).logits[:, -(width_T + 1) : -1]
    logits_BTV = logits_BTV.to(torch.promote_types(logits_BTV.dtype, torch.float32)) / temperature
    targets_BT1 = padded.input_ids[:, -width_T:, None]
    return logits_BTV.gather(2, targets_BT1).squeeze(2) - torch.logsumexp(logits_BTV, dim=2)
