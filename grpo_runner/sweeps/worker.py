"""One run of a sweep in a process of its own: `python -m grpo_runner.sweeps.worker`, the run on its standard input.

The first line is JSON: {"config": YAML of the RunConfig, "run_dir": its folder, "cores": [numbers]}. The input stays
open as long as the sweep lives: at its end, which a killed sweep leaves too, the process ends itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

import yaml

from ..errors import Interrupted, exit_code_of
from ..signals import at_once
from ..validate import build
from .task import perform


def main() -> int:
    asked = json.loads(sys.stdin.buffer.readline())
    if asked["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, asked["cores"])
    threading.Thread(target=_end_with_the_sweep, daemon=True).start()
    try:
        with at_once():
            return perform(build(yaml.safe_load(asked["config"]) | {"run_dir": asked["run_dir"]})).code
    except Interrupted as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        return exit_code_of(interrupt)


def _end_with_the_sweep() -> None:
    while os.read(0, 1):  # past Python's buffer, whose lock a thread must not hold when the process ends
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
