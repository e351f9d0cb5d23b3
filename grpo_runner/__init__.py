"""grpo_runner: what does this change to the RL objective do to a model that learns mathematics?

A run in two lines of Python, the same as on the command line:

    from grpo_runner import compose, run
    run(compose(["advantage=dr_grpo", "seed=1"]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import compose, compose_sweep
    from .train import Summary, run

__version__ = "0.1.0"
__all__ = ["Summary", "__version__", "compose", "compose_sweep", "run"]

_HOMES = {"compose": "config", "compose_sweep": "config", "run": "train", "Summary": "train"}


def __getattr__(name: str) -> Any:
    """Import Hydra and torch only when they are asked for, so that `--help` answers at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
