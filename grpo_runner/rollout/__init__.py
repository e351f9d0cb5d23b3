"""Sampling groups of completions behind one small Protocol. Engines: native (KV cache, our loop) and transformers."""

from collections.abc import Callable

from .engine import Engine, Sampling, check_finite
from .native import NativeEngine
from .transformers_engine import TransformersEngine

ENGINES: dict[str, Callable[..., Engine]] = {
    "native": NativeEngine,
    "transformers": TransformersEngine,
}

__all__ = ["ENGINES", "Engine", "NativeEngine", "Sampling", "TransformersEngine", "check_finite"]
