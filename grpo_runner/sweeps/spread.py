"""Runs side by side, each in a process of its own and in a place of its own: what hydra/launcher=gpus does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from ..errors import BusyError, Interrupted, Preempted, Stopped, exit_code_of
from ..schema import RunConfig
from ..validate import to_yaml
from .slots import Slot
from .states import FAILURE, LOG, Failure, read, write_failure

_LOOK = 0.1  # seconds between two looks at the processes
_INTERRUPTED = (Interrupted.exit_code, Preempted.exit_code)


def spread(configs: Sequence[RunConfig], places: Sequence[Slot]) -> list[int]:
    """The exit code of each run; one that fails does not end the others. A run that is done has no process.

    Ctrl-C, or a scheduler's signal, lets each run finish its step and save, a second one ends them at once; then
    KeyboardInterrupt is raised, or its kind Stopped.
    """
    codes = dict.fromkeys(range(len(configs)), 0)
    waiting = deque(i for i, config in enumerate(configs) if read(Path(config.run_dir), config.steps).state != "done")
    free, running = deque(places), dict[int, tuple[subprocess.Popen[bytes], Slot]]()
    try:
        while waiting or running:
            while waiting and free:
                index, place = waiting.popleft(), free.popleft()
                running[index] = _start(configs[index], place), place
            time.sleep(_LOOK)
            for index, (process, place) in list(running.items()):
                if (code := process.poll()) is not None:
                    del running[index]
                    free.append(place)
                    codes[index] = _ended(Path(configs[index].run_dir), code)
                    if code in _INTERRUPTED:  # it was asked to stop by itself: a scheduler's signal to every process
                        raise Stopped(code=code)
    except KeyboardInterrupt as interrupt:
        by = signal.SIGTERM if exit_code_of(interrupt) == Preempted.exit_code else signal.SIGINT
        _stop([process for process, _ in running.values()], by)
        raise
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()
    return list(codes.values())


def _start(config: RunConfig, place: Slot) -> subprocess.Popen[bytes]:
    folder, package = Path(config.run_dir), Path(__file__).resolve().parents[2]
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    with open(folder / LOG, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker"],
            stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT,
            env={**os.environ, **place.environment(), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C comes from here, once, and not from the terminal as well
        )  # fmt: skip
    assert process.stdin is not None
    try:
        process.stdin.write(
            json.dumps({"config": to_yaml(config), "run_dir": config.run_dir, "cores": place.cores}).encode() + b"\n"
        )
        process.stdin.flush()  # it stays open: its end tells the process that the sweep is gone
    except BrokenPipeError:  # it is gone already; its code and its log say why
        pass
    return process


def _ended(folder: Path, code: int) -> int:
    """The exit code, with a word about a process that ended without one."""
    if code < 0:
        name = signal.Signals(-code).name
        write_failure(
            folder, Failure(code, f"Its process was ended by {name}" + " (out of memory?)" * (name == "SIGKILL"))
        )
    elif code == BusyError.exit_code and read(folder).state in ("running", "done"):
        pass  # another process has it, or had
    elif code not in (0, *_INTERRUPTED) and not (folder / FAILURE).exists():
        write_failure(folder, Failure(code, f"Its process ended with exit code {code}; see {folder / LOG}"))
    return code


def _stop(processes: Sequence[subprocess.Popen[bytes]], by: signal.Signals) -> None:
    """Ask each to finish its step, and wait; another Ctrl-C while waiting ends them by `spread`'s last word."""
    for process in processes:
        process.send_signal(by)
    for process in processes:
        process.wait()
