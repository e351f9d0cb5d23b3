"""The loop, its checkpoints and the folder of a run. `run(config)` is the whole path."""

from .runner import Summary, run

__all__ = ["Summary", "run"]
