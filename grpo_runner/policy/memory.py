"""How much memory there is left: of the GPU, or of the machine within what a container or a Slurm job may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch

# (limit, usage) by version of Linux's control groups
_FILES = {2: ("memory.max", "memory.current"), 1: ("memory.limit_in_bytes", "memory.usage_in_bytes")}


def free_memory(device: torch.device) -> int:
    """Bytes."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    return min([os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *cgroup_rooms()])


def cgroup_rooms(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """Bytes left to this process's control group and to each above it; none where there is no limit."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number != "0" and "memory" not in controllers.split(","):
            continue
        top = root if number == "0" else root / "memory"
        folder = top / path.lstrip("/")
        for group in [folder, *(parent for parent in folder.parents if parent.is_relative_to(top))]:
            if (room := _room(group, *_FILES[2 if number == "0" else 1])) is not None:
                yield room


def _room(group: Path, limit: str, usage: str) -> int | None:
    try:
        used = int((group / usage).read_text())
        # files that are cached make room when it is needed
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(0, int((group / limit).read_text()) - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):  # no such group from here, or the word "max"
        return None
