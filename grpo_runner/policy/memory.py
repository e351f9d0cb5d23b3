"""How much memory there is left: of the GPU, or of the machine within what a container or a Slurm job may use; and the
most that a run took.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

# (limit, usage) by version of Linux's control groups
_FILES = {2: ("memory.max", "memory.current"), 1: ("memory.limit_in_bytes", "memory.usage_in_bytes")}


def free_memory(device: torch.device) -> int:
    """Bytes. Files that are cached make room when it is needed, and count as free."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    return min([machine_room(), *cgroup_rooms()])


def forget_peak(device: torch.device, cleared: Path = Path("/proc/self/clear_refs")) -> None:
    """Begin anew with what `peak` tells: a sweep may have had another run in this process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # another system than Linux, or a container that does not let it
        cleared.write_text("5")


def peak(device: torch.device, told: Path = Path("/proc/self/status")) -> float | None:
    """MB that were in use at most: by tensors on a GPU, else resident in this process with all its libraries (VmHWM).

    None where the system does not tell.
    """
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    kib = _numbers(told).get("VmHWM:")
    return None if kib is None else round(kib * 1024 / 1e6, 1)


def machine_room(told: Path = Path("/proc/meminfo")) -> int:
    """Bytes that the machine has left; where Linux does not tell, those that hold nothing at all."""
    kib = _numbers(told).get("MemAvailable:")
    return kib * 1024 if kib is not None else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cgroup_rooms(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """Bytes left to this process's control group and to each above it; none where there is no limit."""
    try:
        lines = own.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and "memory" not in controllers.split(","):
            continue
        top = root if number == "0" else root / "memory"
        folder = top / path.lstrip("/")
        for group in [folder, *(parent for parent in folder.parents if parent.is_relative_to(top))]:
            if (room := _room(group, *_FILES[2 if number == "0" else 1])) is not None:
                yield room


def _room(group: Path, limit: str, usage: str) -> int | None:
    try:
        left = int((group / limit).read_text()) - int((group / usage).read_text())
    except (OSError, ValueError):  # no such group from here, or the word "max"
        return None
    stat = _numbers(group / "memory.stat")
    # of the older groups `inactive_file` leaves out the groups within, whose memory `usage` counts
    return max(0, left + stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _numbers(file: Path) -> dict[str, int]:
    """The lines `NAME NUMBER …` of a file; {} of one that is not there."""
    try:
        parts = [line.split() for line in file.read_text(errors="replace").splitlines()]
    except OSError:
        return {}
    return {part[0]: int(part[1]) for part in parts if len(part) > 1 and part[1].isdecimal()}
