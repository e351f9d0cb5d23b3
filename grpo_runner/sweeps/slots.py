"""What the runs of a sweep are spread over: a GPU each, or some cores each on a machine without GPUs. No torch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..validate import shown


@dataclass(frozen=True)
class Slot:
    """The place of one run at a time: `gpu`, as CUDA_VISIBLE_DEVICES takes it, or the numbers of cores."""

    gpu: str | None = None
    cores: tuple[int, ...] = ()

    def environment(self) -> dict[str, str]:
        if self.gpu is not None:
            return {"CUDA_VISIBLE_DEVICES": self.gpu}
        return {"OMP_NUM_THREADS": str(len(self.cores)), "CUDA_VISIBLE_DEVICES": ""}

    def __str__(self) -> str:
        return f"GPU {self.gpu}" if self.gpu is not None else f"core{'s' * (len(self.cores) > 1)} {_span(self.cores)}"


def slots(gpus: Sequence[object] | None, runs_per_gpu: int, cores_per_run: int | None) -> list[Slot]:
    """One place a run that goes at the same time.

    gpus: the ones to use, [] for none; None: all that are there. runs_per_gpu: runs that share one. cores_per_run: on a
    machine without GPUs; None: 1. Raises InputError for numbers that make no place.
    """
    if runs_per_gpu < 1:
        raise InputError(f"hydra.launcher.runs_per_gpu={runs_per_gpu} is not allowed. Allowed: an integer >= 1.")
    there = visible()
    chosen = there if gpus is None else [str(gpu) for gpu in gpus]
    if wrong := [gpu for gpu in chosen if gpu not in there]:
        have = f"this machine has {', '.join(there)}" if there else "this machine has no GPU"
        raise InputError(f"hydra.launcher.gpus={shown(list(gpus or []))}: there is no GPU {wrong[0]}; {have}.")
    if chosen:
        return [Slot(gpu=gpu) for _ in range(runs_per_gpu) for gpu in chosen]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    each = 1 if cores_per_run is None else cores_per_run
    if not 1 <= each <= len(cores):
        raise InputError(
            f"hydra.launcher.cores_per_run={each} is not allowed. Allowed: 1 to {len(cores)}, the cores at hand."
        )
    return [Slot(cores=tuple(cores[start : start + each])) for start in range(0, len(cores) - each + 1, each)]


def visible() -> list[str]:
    """The GPUs of this machine as CUDA_VISIBLE_DEVICES names them; those that it names already, where it is set."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in named.split(",") if name.strip() and name.strip() != "-1"]
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return said.stdout.split() if said.returncode == 0 else []


def _span(cores: Sequence[int]) -> str:
    return f"{cores[0]}" if len(cores) == 1 else f"{cores[0]} to {cores[-1]}"
