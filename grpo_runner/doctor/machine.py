"""Devices, cores and threads, memory, shared memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from .lines import FAILURE, OK, WARNING, Line

GIB = 2**30
# the default job takes 700 MiB at its peak (README)
ROOM = GIB
# Docker's own is 64 MiB; NCCL, vLLM and Ray put their buffers there
SHARED = GIB


def devices() -> Line:
    """What torch can compute on, after a sum on each GPU."""
    import torch

    if torch.cuda.is_available():
        found, broken = [], []
        for place in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(place)
            found.append(f"cuda:{place} {about.name}, {about.total_memory / GIB:.0f} GiB")
            try:
                ones = torch.ones(64, 64, device=f"cuda:{place}")
                if float((ones @ ones).sum()) != 64**3:
                    broken.append(f"cuda:{place} computes wrongly")
            except RuntimeError as error:
                broken.append(f"cuda:{place}: {str(error).splitlines()[0]}")
        wide = "bfloat16" if torch.cuda.is_bf16_supported() else "float32 (no bfloat16)"
        said = f"{'; '.join(found)}; torch {torch.__version__}, CUDA {torch.version.cuda}, {wide}"
        if broken:
            do = "nvidia-smi says who holds it; the driver must be as new as torch's CUDA. device=cpu goes without"
            return Line("devices", FAILURE, f"{said}. {'; '.join(broken)}", do)
        return Line("devices", OK, said)
    others = "cpu, mps" if torch.backends.mps.is_available() else "cpu"
    return without_gpu(others, torch.__version__, torch.version.cuda, driver_there(), os.environ)


def driver_there() -> bool:
    """Whether the machine has an NVIDIA driver."""
    return Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None


def without_gpu(others: str, version: str, cuda: str | None, driver: bool, environ: Mapping[str, str]) -> Line:
    """Where torch finds no GPU: right, unless there is a driver. cuda: that torch was built for; None for none."""
    said = f"{others}; torch {version}"
    hidden = environ.get("CUDA_VISIBLE_DEVICES")
    if not driver:
        return Line("devices", OK, said)
    if hidden is not None and hidden.strip() in ("", "-1"):
        return Line("devices", OK, f"{said}; GPUs are hidden by CUDA_VISIBLE_DEVICES={hidden.strip()}")
    why = "this torch is a CPU build" if cuda is None else f"this torch is built for CUDA {cuda}"
    do = (
        "the CUDA build: python -m pip install --force-reinstall torch, or remove .venv and make setup"
        if cuda is None
        else "nvidia-smi shows the driver: it must be as new as that CUDA; in a container, start it with --gpus all"
    )
    return Line("devices", WARNING, f"{said}. There is an NVIDIA driver, but torch finds no GPU: {why}", do)


def cores() -> Line:
    """Cores that this process may use, and the threads that torch takes."""
    import torch

    return threads(usable(), os.cpu_count() or 1, torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS"))


def threads(own: int, there: int, taken: int, said: str | None) -> Line:
    """own: cores that the process may use, of those that are there. taken: torch's threads. said: OMP_NUM_THREADS."""
    setting = f" (OMP_NUM_THREADS={said})" if said is not None else ""
    of = f"{own} of {there}" if own != there else str(own)
    found = f"{of} cores, {taken} thread{'s' * (taken != 1)}{setting}"
    if taken > own:
        return Line("cores", WARNING, f"{found}: threads wait for each other", f"export OMP_NUM_THREADS={own}")
    return Line("cores", OK, found)


def usable(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores by the process's affinity and, in a container, by its quota, rounded up; at least 1."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (root / "cpu.max").read_text().split()
        return max(1, min(own, -(-int(quota) // int(period))))
    except (OSError, ValueError):  # no such file, or `max`
        return own


def memory() -> Line:
    """Memory that is free for a run, as runs count it: of the machine, or what a container's limit leaves."""
    import torch

    from ..policy.memory import free_memory

    return room(free_memory(torch.device("cpu")))


def room(free: int) -> Line:
    """free: bytes."""
    found = f"{free / GIB:.1f} GiB free"
    if free < ROOM:
        return Line("memory", WARNING, found, "end other programs: `plan` says what a run needs")
    return Line("memory", OK, found)


def shared_memory(folder: Path = Path("/dev/shm")) -> Line:
    """The size of /dev/shm. A run by itself does not need it; processes that exchange tensors do."""
    if not folder.is_dir():
        return Line("/dev/shm", OK, "none on this system")
    stats = os.statvfs(folder)
    size, free = stats.f_frsize * stats.f_blocks, stats.f_frsize * stats.f_bavail
    return shared(size, free)


def shared(size: int, free: int) -> Line:
    """size, free: bytes."""
    found = f"{free / GIB:.2g} of {size / GIB:.2g} GiB free"
    if free < SHARED:
        do = "for several GPUs, vLLM or Ray: docker run --shm-size=8g, or in Kubernetes a memory volume on /dev/shm"
        return Line("/dev/shm", WARNING, found, do)
    return Line("/dev/shm", OK, found)
