"""`rollout.ahead`: the next step's answers are sampled while this one updates, from the policy before the update."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from ..rollout import NativeEngine
from .collect import Rollout, collect
from .parts import Parts


class Ahead:
    """Gives each step's answers; without `rollout.ahead`, sampled when they are asked for.

    With it they are one update old, all but the first: `mismatch` tells how far the policy has moved since, and
    `rollout.importance` weighs by it. A checkpoint keeps the adapter that the next step samples from, so that a resumed
    run draws the same answers.
    """

    def __init__(self, run: Parts) -> None:
        self.run, self.on = run, run.config.rollout.ahead
        self.pool = ThreadPoolExecutor(1) if self.on else None
        self.pending: Future[tuple[Rollout, Tensor]] | None = None
        self.done: tuple[Rollout, Tensor] | None = None
        # what the coming step samples from, where that is not the policy as it stands
        self.sampler: Mapping[str, Tensor] = run.sampler

    def begin(self, step: int) -> None:
        """Start on a step's answers, from the policy as it stands. The update may change it from here on."""
        if not self.on or self.pool is None or step >= self.run.config.steps:
            self.sampler = {}
            return
        assert isinstance(self.run.engine, NativeEngine)
        self.sampler = {name: value.detach().clone() for name, value in self.run.trainer.named.items()}
        self.run.engine.hold()
        self.pending = self.pool.submit(collect, self.run, step)

    def join(self) -> None:
        """Wait for what is being sampled: the engine is free then, and samples from the policy as it stands."""
        if self.pending is not None and isinstance(self.run.engine, NativeEngine):
            try:
                self.done, self.pending = self.pending.result(), None
            finally:
                self.run.engine.release()

    def take(self, step: int) -> tuple[Rollout, Tensor]:
        """See `collect`."""
        self.join()
        if self.done is not None:
            taken, self.done = self.done, None
            return taken
        self._swap()  # a resumed run: the answers come from the policy before its last update
        try:
            return collect(self.run, step)
        finally:
            self._swap()

    def _swap(self) -> None:
        with torch.no_grad():
            for name, value in self.sampler.items():
                parameter = self.run.trainer.named[name]
                kept = parameter.detach().clone()
                parameter.copy_(value)
                value.copy_(kept)
