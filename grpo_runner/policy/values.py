"""What a linear head reads off the hidden state from which each sampled token was predicted."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from . import packed
from .batch import Batch
from .decoder import causal_of
from .logprobs import inputs_of
from .scorer import Scorer


def hidden_size(model: Any) -> int:
    """Width of the last hidden states."""
    return int(causal_of(model).get_output_embeddings().weight.shape[1])


def head_values(score: Scorer, head: nn.Linear, batch: Batch, piece: Tensor) -> Tensor:
    """(B, T) the head at the state before each token, float32, 0 outside the mask. Rows are cut as for `score`."""
    if score.decoder:
        return packed.packed_values(score.decoder, packed.pack(batch, piece, score.device), head)
    padded = batch.pad(piece, score.pad_id, score.device)
    width_T = padded.completion_mask.shape[1]
    # the state at position t predicts token t + 1, as in logprobs.py
    hidden_BTH = (
        causal_of(score.model).base_model(**inputs_of(score.model, padded)).last_hidden_state[:, -(width_T + 1) : -1]
    )
    values_BT: Tensor = head(hidden_BTH.to(head.weight.dtype)).squeeze(2)
    return values_BT.masked_fill(~padded.completion_mask, 0.0)


def _causal(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model
