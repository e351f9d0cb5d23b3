"""Where the time of a step goes: known functions are wrapped from outside, and each is charged for its own time.

A function that calls another of the table is not charged for that one's time. The table is all that knows names of the
package; one that is no longer there is told, and its time shows up in the part around it.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

STEP = "grpo_runner.train.ahead:collect"  # called once a step, at its beginning
LOOP = "grpo_runner.train.runner:train"  # the end of the last step is its end
# the part, and what it is made of: module:name as looked up by the caller, or module:Class.method
PARTS: dict[str, tuple[str, ...]] = {
    "rollout: merge LoRA": ("grpo_runner.policy.decoder:Decoder.merged",),
    "rollout: prompt": ("grpo_runner.rollout.native:prefill",),
    "rollout: decode": ("grpo_runner.rollout.decoding:Cache.step",),
    "rollout: draw": ("grpo_runner.rollout.native:choose",),
    "rollout: rest": ("grpo_runner.rollout.native:NativeEngine.sample",),
    "grading": ("grpo_runner.train.loading:_grade",),
    "log-prob": ("grpo_runner.policy.scorer:Scorer.__call__",),
    "backward": ("torch:Tensor.backward",),
    "optimizer": ("grpo_runner.policy.optimizer:Stepper.step",),
    "update: rest": ("grpo_runner.policy.update:Trainer.update",),
    "logging": (
        "grpo_runner.train.loop:step_metrics",
        "grpo_runner.train.loop:step_questions",
        "grpo_runner.train.loop:step_completions",
        "grpo_runner.tracking:Trackers.step",
        "grpo_runner.tracking:Trackers.questions",
        "grpo_runner.tracking:Trackers.completions",
    ),
    "checkpointing": ("grpo_runner.train.checkpoint:Checkpoints.save",),
}
ROLLOUT = tuple(part for part in PARTS if part.startswith("rollout"))
UPDATE = ("log-prob", "backward", "optimizer", "update: rest")
OVERHEAD = ("logging", "grading", "checkpointing")


class Clock:
    """Own seconds of each part, step by step."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.steps: list[dict[str, float]] = []
        self.begun: list[float] = []
        self.open: list[list[Any]] = []  # of each call in progress: its part, when it last went on, step it counts in

    def begin(self) -> None:
        """The next step begins."""
        self.begun.append(self.now())
        self.steps.append(defaultdict(float))

    def end(self) -> None:
        """The last step ends."""
        self.begun.append(self.now())

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function, charged to a part."""

        @functools.wraps(call)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            now = self.now()
            if self.open:
                self._charge(self.open[-1], now)
            self.open.append([part, now])
            try:
                return call(*args, **kwargs)
            finally:
                now = self.now()
                self._charge(self.open.pop(), now)
                if self.open:
                    self.open[-1][1] = now

        return wrapped

    def _charge(self, entry: list[Any], now: float) -> None:
        if self.steps:
            self.steps[-1][entry[0]] += now - entry[1]

    def seconds(self, warm_up: int) -> tuple[float, dict[str, float]]:
        """(seconds of a step, of each part): means over the steps after the warm-up. `rest` is in no part."""
        count = len(self.steps) - warm_up
        whole = (self.begun[-1] - self.begun[warm_up]) / count
        means = {part: sum(step[part] for step in self.steps[warm_up:]) / count for part in PARTS}
        return whole, means | {"rest": whole - sum(means.values())}


def wrap(clock: Clock) -> list[str]:
    """Put the clock around everything in the tables; gives the names that are not there."""
    missing = []
    for part, names in PARTS.items():
        for name in names:
            if not _replace(name, functools.partial(clock.timed, part)):
                missing.append(name)

    def beginning(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            clock.begin()
            return call(*args, **kwargs)

        return wrapped

    def ending(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            finally:
                clock.end()

        return wrapped

    for name, around in ((STEP, beginning), (LOOP, ending)):
        if not _replace(name, around):
            raise SystemExit(f"{name} is not there: the table in {__file__} needs mending.")
    return missing


def _replace(name: str, around: Callable[[Any], Any]) -> bool:
    module, path = name.split(":")
    try:
        holder: Any = importlib.import_module(module)
    except ImportError:
        return False
    *classes, last = path.split(".")
    for each in classes:
        holder = getattr(holder, each, None)
    found = getattr(holder, last, None)
    if found is None:
        return False
    setattr(holder, last, around(found))
    return True
