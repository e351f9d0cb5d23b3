"""`hydra/launcher=gpus`: the runs of a sweep side by side, each in a process of its own on a GPU of its own.

On a machine without GPUs each has cores of its own. Hydra finds launchers in the package hydra_plugins alone; the work
is done by grpo_runner/sweeps/spread.py. Nothing heavy is imported here, since Hydra reads this at every start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

# gpus: which ones, as [0,1]; null: all that are there, [] for none. runs_per_gpu: so many share one. cores_per_run: on
# a machine without GPUs; null: 1. (Hydra reads this file outside of any module, where a dataclass cannot be made.)
OPTIONS = {
    "_target_": "hydra_plugins.grpo_runner_gpus.GpusLauncher",
    "gpus": None,
    "runs_per_gpu": 1,
    "cores_per_run": None,
}
ConfigStore.instance().store(group="hydra/launcher", name="gpus", node=OPTIONS, provider="grpo_runner")


class GpusLauncher(Launcher):
    def __init__(self, gpus: Any = None, runs_per_gpu: int = 1, cores_per_run: int | None = None) -> None:
        self.asked = (None if gpus is None else list(gpus), runs_per_gpu, cores_per_run)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from hydra.core.hydra_config import HydraConfig

        from grpo_runner.config import resolve
        from grpo_runner.sweeps.slots import slots
        from grpo_runner.sweeps.spread import spread
        from grpo_runner.sweeps.value import value_of

        places = slots(*self.asked)
        configs, returns = [], []
        before = HydraConfig.instance().cfg
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            composed = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
            with open_dict(composed):
                composed.hydra.job.id = composed.hydra.job.num = number
            HydraConfig.instance().set_config(composed)
            configs.append(resolve(composed, composed.hydra))
            returns.append(JobReturn(overrides=list(overrides), task_name="grpo_runner"))
        HydraConfig.instance().cfg = before
        for config, made, code in zip(configs, returns, spread(configs, places), strict=True):
            made.status = JobStatus.COMPLETED  # a run that failed says so in its folder, and does not end the sweep
            made.return_value = value_of(config) if code == 0 else None
        return returns
