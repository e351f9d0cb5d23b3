"""`hydra/sweeper=resuming`: the basic sweeper without the runs that are done: no launcher starts a worker for them.

A sweep that is typed again uses it by itself; `done` has the places of those runs in the sweep's order. Hydra finds
sweepers in the package hydra_plugins alone. Nothing heavy is imported here, since Hydra reads this at every start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher

OPTIONS = {
    "_target_": "hydra_plugins.grpo_runner_resuming.ResumingSweeper",
    "max_batch_size": None,
    "params": None,
    "done": [],
}
ConfigStore.instance().store(group="hydra/sweeper", name="resuming", node=OPTIONS, provider="grpo_runner")


class ResumingSweeper(BasicSweeper):
    def __init__(self, max_batch_size: int | None, params: Any = None, done: Sequence[int] = ()) -> None:
        super().__init__(max_batch_size, params)
        self.done = frozenset(done)

    def setup(self, **given: Any) -> None:
        super().setup(**given)
        assert self.launcher is not None
        self.launcher = _Leaving(self.launcher, self.done)


class _Leaving(Launcher):
    """A launcher that is not asked for some of the jobs."""

    def __init__(self, inner: Launcher, done: frozenset[int]) -> None:
        self.inner, self.done = inner, done

    def setup(self, **given: Any) -> None:
        self.inner.setup(**given)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        left = [job for place, job in enumerate(job_overrides, initial_job_idx) if place not in self.done]
        return self.inner.launch(left, initial_job_idx=initial_job_idx) if left else []
