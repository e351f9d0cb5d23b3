"""One run of a sweep in a process of its own: `python -m grpo_runner.sweeps.worker`, the run on its standard input.

The first line is JSON: {"config": YAML of the RunConfig, "cores": [numbers]}. The input stays open as long as the
sweep lives: at its end, which a killed sweep leaves too, the process ends itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

import yaml

from ..schema import RunConfig
from ..validate import build
from .task import perform


def main() -> int:
    asked = json.loads(sys.stdin.buffer.readline())
    if asked["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, asked["cores"])
    threading.Thread(target=_end_with_the_sweep, daemon=True).start()
    outcome = perform(config_of(asked["config"]), to_log=True)
    return outcome.code


def config_of(text: str) -> RunConfig:
    """The RunConfig of its YAML."""
    return build(yaml.safe_load(text))


def _end_with_the_sweep() -> None:
    while sys.stdin.buffer.read(1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
