"""How many tokens a micro-batch may have: as configured, or as many as free memory holds; half after each failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import sizes
from ..errors import MachineError
from ..sizes import bytes_a_token
from .memory import free_memory


class MicrobatchBudget:
    """tokens: the present limit. It only ever falls, and each fall is said once.

    fixed: it cannot fall, since other processes are in the middle of the pass that failed (shards.py).
    """

    def __init__(
        self,
        setting: int | str,
        model: Any,
        device: torch.device,
        packed: bool,
        say: Callable[[str], None],
        fixed: bool = False,
    ) -> None:
        self.say, self.fixed = say, fixed
        self.tokens = setting if isinstance(setting, int) else automatic(model, device, packed)

    def halve(self) -> None:
        """After memory ran out. Raises MachineError where a smaller piece cannot be had."""
        if self.fixed:
            raise MachineError(
                f"Out of memory in the update, with micro-batches of {self.tokens} tokens and shard_base on.\n"
                "A lower optim.microbatch_tokens needs less; model.gradient_checkpointing=true or dtype=bfloat16 too."
            ) from None
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
    return sizes.automatic(free_memory(device), kept, device.type, _drops_out(model))


def _frozen(model: Any) -> bool:
    """Whether an adapter alone is trained, over a base of plain matrices."""
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    return all("lora_" in name for name in trained) and getattr(model, "quantization_method", None) is None


def _drops_out(model: Any) -> bool:
    return any("lora_dropout" in name and getattr(module, "p", 0) > 0 for name, module in model.named_modules())


def checkpoints(model: Any) -> bool:
    """Whether gradient checkpointing is on."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
