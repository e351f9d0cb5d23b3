"""How many tokens a micro-batch may have: as configured, or as many as free memory holds; half after each failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import MachineError
from .memory import free_memory

# More than this brings no speed: the matrix products are large enough, and a CPU's caches hold less of what is kept.
MOST = {"cpu": 1024, "cuda": 65536}
# Of small models, on a CPU: as many as keep so many bytes.
CACHED = 2**26
# What the estimate leaves free: the allocator's own needs, and what the estimate does not know of.
SHARE = 0.6


class MicrobatchBudget:
    """tokens: the present limit. It only ever falls, and each fall is said once."""

    def __init__(
        self, setting: int | str, model: Any, device: torch.device, packed: bool, say: Callable[[str], None]
    ) -> None:
        self.say = say
        self.tokens = setting if isinstance(setting, int) else automatic(model, device, packed)

    def halve(self) -> None:
        """After memory ran out. Raises MachineError at a single token, where a smaller piece cannot be had."""
        if self.tokens <= 1:
            raise MachineError(
                "The update of a single answer does not fit into memory.\n"
                "model.gradient_checkpointing=true, a smaller max_new_tokens or dtype=bfloat16 need less."
            ) from None
        self.tokens //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.say(f"out of memory in the update: going on with micro-batches of {self.tokens} tokens")


def automatic(model: Any, device: torch.device, packed: bool) -> int:
    """Tokens that free memory holds by `bytes_a_token`, at least 256 and at most what still brings speed."""
    # layers that go through their own modules keep about twice as much, and LoRA's dropout as much again
    kept = bytes_a_token(model.config, model.dtype.itemsize, packed and _frozen(model), checkpoints(model))
    kept *= 2 if _drops_out(model) else 1
    fit = int(SHARE * free_memory(device) / kept)
    most = MOST.get(device.type, 8192)
    if device.type == "cpu":
        most = max(most, CACHED // kept)
    return max(256, min(fit, most))


def bytes_a_token(config: Any, item: int, packed: bool, checkpointing: bool) -> int:
    """What a token keeps for the backward pass, in bytes.

    A packed layer keeps, in numbers of the model's type, its two sums and two normed inputs (4 h), q, k and v, what was
    attended, and gate and up (2 f); transformers' and PEFT's layers about twice that. With gradient checkpointing a
    layer keeps its input alone, and one layer at a time the rest. The head: a vector of 4 h bytes, or its logits in
    float32, twice. The sizes that a model does not state are taken as Llama's.
    """
    h, layers = config.hidden_size, config.num_hidden_layers
    heads = getattr(config, "num_attention_heads", 1)
    width = getattr(config, "head_dim", None) or h // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    f = getattr(config, "intermediate_size", None) or 4 * h
    layer = (4 * h + (2 * heads + 2 * kv_heads) * width + 2 * f) * item * (1 if packed else 2)
    body = layers * h * item + layer if checkpointing else layers * layer
    return body + (4 * h if packed else 8 * config.vocab_size)


def _frozen(model: Any) -> bool:
    """Whether an adapter alone is trained, over a base of plain matrices."""
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    return all("lora_" in name for name in trained) and getattr(model, "quantization_method", None) is None


def _drops_out(model: Any) -> bool:
    return any("lora_dropout" in name and getattr(module, "p", 0) > 0 for name, module in model.named_modules())


def checkpoints(model: Any) -> bool:
    """Whether gradient checkpointing is on."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
