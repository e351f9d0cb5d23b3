"""Log-probabilities of rows: packed where our own forward pass knows the model, else padded, through the model's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from . import packed
from .batch import Batch
from .decoder import Decoder, unsupported
from .logprobs import completion_logprobs, logprobs_and_entropy


class Scorer:
    """How rows are cut into micro-batches, and what a micro-batch's tokens are under the model as it stands.

    packing: False to go through the model's own forward pass in any case. `why_padded` says why it is padded though
    packing was asked for, None where it is not.
    """

    def __init__(self, model: nn.Module, pad_id: int, device: torch.device, temperature: float, packing: bool) -> None:
        self.model, self.pad_id, self.device, self.temperature = model, pad_id, device, temperature
        self.why_padded = unsupported(model) if packing else None
        self.decoder = Decoder(model) if packing and self.why_padded is None else None

    def cut(self, batch: Batch, rows: Tensor, tokens: int) -> Iterator[Tensor]:
        """Pieces of `rows` of at most `tokens` tokens, padding and prompts included; at least one row each."""
        return (batch.packed_microbatches if self.decoder else batch.microbatches)(rows, tokens)

    def __call__(self, batch: Batch, piece: Tensor, entropy: bool = False) -> tuple[Tensor, Tensor | None]:
        """((B, T) log-probabilities, (B, T) entropies in nats or None) in float32 or wider, 0 outside the mask.

        T is the longest completion of the piece; at the sampling temperature, over the full vocabulary.
        """
        if self.decoder:
            made = packed.pack(batch, piece, self.device)
            return packed.packed_logprobs(self.decoder, made, self.temperature, entropy)
        padded = batch.pad(piece, self.pad_id, self.device)
        outside = ~padded.completion_mask
        if not entropy:
            return completion_logprobs(self.model, padded, self.temperature).masked_fill(outside, 0.0), None
        logprobs, entropies = logprobs_and_entropy(self.model, padded, self.temperature)
        return logprobs.masked_fill(outside, 0.0), entropies.masked_fill(outside, 0.0)


@contextmanager
def differentiated(model: nn.Module) -> Iterator[None]:
    """LoRA dropout and gradient checkpointing on, for the passes that are differentiated and for nothing else.

    The backward pass belongs in it too, since checkpointing computes the forward pass again there. The base's own
    dropout stays off: sampling, old, reference and new log-probabilities are of one and the same policy.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    switched = [
        m for name, m in model.named_modules() if isinstance(m, GradientCheckpointingLayer) or "lora_dropout" in name
    ]
    for module in switched:
        module.training = True
    try:
        yield
    finally:
        for module in switched:
            module.training = False
