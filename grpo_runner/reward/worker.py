"""One grading process: JSON lines (id, answers, golds) come in by stdin, JSON lines (id, status, rule) go to stdout.

Started by workers.Grader as `python -P -m grpo_runner.reward.worker`: an own program rather than a fork or a spawned
copy of the parent, so it works from notebooks, threads and scripts without a main guard, and never imports torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any


def main(deadline_s: float, memory_bytes: int, policy: Mapping[str, Any]) -> None:
    """Serve until stdin closes or the parent is gone."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints must not mix with the replies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the parent, which decides what to finish
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _limit_memory(memory_bytes)
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks, os.getppid()), daemon=True).start()
    try:
        from .check import decide_with_algebra
        from .policy import Policy

        rules = Policy(**policy)
        decide_with_algebra((r"\sqrt{2}x",), (r"x\sqrt{2}",), rules)  # loads the grammar before the first deadline runs
        reply: dict[str, object] = {"ready": True}
    except Exception as error:
        reply = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(reply), file=replies)
    while "failed" not in reply:
        task = json.loads(tasks.get())
        # The parent kills at the deadline. Should it be gone or stopped, the kernel does so a little later: the default
        # action of SIGALRM also ends a single call into C that never returns to Python.
        signal.setitimer(signal.ITIMER_REAL, 2 * deadline_s + 5)
        reply = {"id": task["id"], "status": "error", "rule": "error: MemoryError"}
        with contextlib.suppress(MemoryError, RecursionError):
            verdict = decide_with_algebra(tuple(task["answers"]), tuple(task["golds"]), rules)
            reply |= {"status": verdict.status.value, "rule": verdict.rule}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(reply), file=replies)


def _limit_memory(memory_bytes: int) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not every system has the limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _read(tasks: queue.SimpleQueue[str], parent: int) -> None:
    """Queue the lines of stdin; end the process when stdin closes or the parent changes, even in mid-task."""
    pending = b""
    while os.getppid() == parent:
        if select.select([0], [], [], 1.0)[0]:
            chunk = os.read(0, 1 << 16)
            if not chunk:
                break
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                tasks.put(line.decode())
    os._exit(0)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
