"""Starts the processes of a run as torchrun would, and says how each ended; imports are paid once for all runs.

A line of JSON in: world, words (of the command line), logs (a folder), first (Python to execute before). A line out:
the exit codes by rank, None for a process that did not end in time.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

PATIENCE_S = 60


def child(rank: int, port: int, order: dict) -> None:
    """Never returns."""
    code = 99
    gc.freeze()  # a collection in here shall not look through what the launcher has imported
    try:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(order["world"]))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        log = os.open(Path(order["logs"]) / f"{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        from grpo_runner.cli import main

        exec(order.get("first", ""), {})
        code = main(order["words"])
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)


def launch(order: dict) -> list[int | None]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Path(order["logs"]).mkdir(parents=True, exist_ok=True)
    waiting: dict[int, int] = {}
    for rank in range(order["world"]):
        pid = os.fork()
        if pid == 0:
            child(rank, port, order)
        waiting[pid] = rank
    codes: list[int | None] = [None] * order["world"]
    end = time.monotonic() + PATIENCE_S
    while waiting and time.monotonic() < end:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[waiting.pop(pid)] = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(0.02)
    for pid in waiting:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return codes


if __name__ == "__main__":
    import peft  # noqa: F401
    import torch.distributed  # noqa: F401
    import transformers  # noqa: F401

    import grpo_runner.config
    import grpo_runner.tracking.charts
    import grpo_runner.train

    grpo_runner.config.compose([])
    grpo_runner.tracking.charts.draw = lambda *_, **__: {}  # half of the time of a small run
    for line in sys.stdin:
        print(json.dumps(launch(json.loads(line))), flush=True)
