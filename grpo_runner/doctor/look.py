"""All checks, in the order in which they are shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import machine, places, selftest, versions
from .lines import Line, guarded

_AGAIN = "make setup installs what grpo_runner needs; `python -m pip check` says what does not go together"
_REPORT = "report this line: it should not happen"


def look(folder: Path, selftest: bool = True) -> list[Line]:
    """Every line. folder: where runs are written, which need not exist. selftest: also sample, grade and save."""
    home = places.nearest_folder(folder)
    single: list[tuple[str, Callable[[], Line], str]] = [
        ("devices", machine.devices, _AGAIN),
        ("cores", machine.cores, _REPORT),
        ("memory", machine.memory, _REPORT),
        ("/dev/shm", machine.shared_memory, _REPORT),
        ("disk", partial(places.disk, folder, home), _REPORT),
        ("folders", partial(places.writable, home), _REPORT),
        ("keys", partial(places.keys, os.environ), _REPORT),
        ("clock", partial(places.clock, home), _REPORT),
    ]
    lines = versions.lines() + [guarded(*check) for check in single]
    return lines + (_selftest(home) if selftest else [])


def _selftest(home: Path) -> list[Line]:
    return [
        guarded("sampler", selftest.sampler, _AGAIN),
        guarded("checker", selftest.checker, _AGAIN),
        guarded("checkpoint", partial(selftest.checkpoint, home), "look at the disk and folder lines above"),
    ]
