"""Sampling groups of completions behind one small Protocol.

Engines: native (our own loop), transformers (`generate`), and vllm, which stands apart: it loads the model
itself, so that `vllm_engine.start` makes it from the whole configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..policy.decoder import unsupported
from ..schema import RolloutConfig
from .engine import Engine, Sampling, check_finite
from .native import NativeEngine
from .transformers_engine import TransformersEngine


def native(
    model: Any, tokenizer: Any, eos: frozenset[int], config: RolloutConfig, say: Callable[[str], None]
) -> Engine:
    """The native engine; for a model that it does not know, the one that knows all, and a line that says so."""
    if reason := unsupported(model):
        say(f"rollout.engine=native does not know this model ({reason}): transformers' generate samples instead")
        return transformers(model, tokenizer, eos, config, say)
    return NativeEngine(model, tokenizer, eos, config.batch_rows, config.merge_lora)


def transformers(
    model: Any, tokenizer: Any, eos: frozenset[int], config: RolloutConfig, say: Callable[[str], None]
) -> Engine:
    """`generate`."""
    return TransformersEngine(model, tokenizer, eos, config.batch_rows)


# the model, its tokenizer, the ids that end an answer, the settings, and where a fallback is told
ENGINES: dict[str, Callable[[Any, Any, frozenset[int], RolloutConfig, Callable[[str], None]], Engine]] = {
    "native": native,
    "transformers": transformers,
}

__all__ = ["ENGINES", "Engine", "NativeEngine", "Sampling", "TransformersEngine", "check_finite"]
