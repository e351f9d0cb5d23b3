"""The grading process. JSON lines (id, answers, golds) come in by stdin, JSON lines (id, status, rule) go to stdout.

Started by workers.Grader as `python -P -m grpo_runner.reward.worker`: an own program rather than a fork or a spawned
copy of the caller, so it works from notebooks, threads and scripts without a main guard, and never imports torch.

It loads the grammar once and forks a child for each row that is graded at a time. A child that passes the deadline or
its memory is killed, and the next one is there within milliseconds; this process itself never touches a row, so it can
always act. It has one thread, which is what makes forking it safe.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..signals import ALL

Serve = Callable[[dict[str, Any]], dict[str, Any]]
_CHECK_PARENT_S = 1.0
# A row whose child got less than this share of a processor by its deadline is given the same time once more
_STARVED = 0.05


class _Child:
    """A forked process that grades one row at a time."""

    def __init__(self, serve: Serve, limit_s: float, memory_bytes: int) -> None:
        tasks, self.inlet = os.pipe()
        self.outlet, replies = os.pipe()
        supervisor = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(tasks, 0)
                os.dup2(replies, 1)
                os.closerange(3, 4096)  # the pipes of the other children among them
                _serve(serve, supervisor, limit_s, memory_bytes)
            finally:
                os._exit(1)
        os.close(tasks)
        os.close(replies)
        self.task: int | None = None
        self.end = self.used = 0.0
        self.extended = False
        self.buffer = b""

    def hand(self, task: dict[str, Any], deadline_s: float) -> None:
        self.task, self.extended = int(task["id"]), False
        self.used, self.end = self.processor_s(), time.monotonic() + deadline_s
        _write(self.inlet, task)

    def processor_s(self) -> float:
        """Seconds of processor time so far; infinity where the system does not say."""
        try:
            return time.clock_gettime((~self.pid << 3) | 2)  # Linux's clock of another process
        except OSError:
            return float("inf")

    def late(self, deadline_s: float) -> bool:
        """Is its time over? Where the machine gave it next to none, it has the same again, once."""
        if time.monotonic() < self.end:
            return False
        if not self.extended and self.processor_s() - self.used < _STARVED * deadline_s:
            self.extended, self.end = True, time.monotonic() + deadline_s
            return False
        return True

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.inlet)
        os.close(self.outlet)


def _serve(serve: Serve, supervisor: int, limit_s: float, memory_bytes: int) -> None:
    """The child's life: until its supervisor is gone, or it has grown large."""
    with contextlib.suppress(Exception):  # Linux: end with the supervisor, whatever this process is doing
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    while os.getppid() == supervisor and (line := sys.stdin.buffer.readline()):
        # Elsewhere the kernel ends it a little after its deadline: the default action of SIGALRM also ends a single
        # call into C that never returns to Python.
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        task = json.loads(line)
        try:
            reply = serve(task)
        except (MemoryError, RecursionError) as error:
            reply = {"status": "error", "rule": f"error: {type(error).__name__}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        last = "MemoryError" in reply["rule"] or peak > memory_bytes / 2
        _write(1, reply | {"id": task["id"], "last": last})
        if last:
            return


class _Supervisor:
    """Hands tasks to children and answers for those that fail."""

    def __init__(self, serve: Serve, deadline_s: float, memory_bytes: int, output: int) -> None:
        self.serve, self.deadline_s, self.memory_bytes, self.output = serve, deadline_s, memory_bytes, output
        self.children: list[_Child] = []
        self.buffer = b""

    def run(self, parent: int) -> None:
        """Until stdin closes or the parent changes."""
        while os.getppid() == parent:
            now = time.monotonic()
            busy = [child for child in self.children if child.task is not None]
            patience = min([_CHECK_PARENT_S, *(child.end - now for child in busy)])
            # idle children are watched too: one that ends is taken away, not left a zombie
            readable, _, _ = select.select([0, *(child.outlet for child in self.children)], [], [], max(0.0, patience))
            if 0 in readable and not self.receive():
                break
            for child in list(self.children):
                if child.outlet in readable:
                    self.collect(child)
                elif child.task is not None and child.late(self.deadline_s):
                    self.fail(child, "timeout", f"timeout after {self.deadline_s:g} s")
        for child in self.children:
            child.kill()

    def receive(self) -> bool:
        """Read tasks and hand each to a child of its own; the Grader sends no more than it wants at a time."""
        chunk = os.read(0, 1 << 16)
        *lines, self.buffer = (self.buffer + chunk).split(b"\n")
        for line in lines:
            child = next((child for child in self.children if child.task is None), None)
            if child is None:
                child = _Child(self.serve, 2 * self.deadline_s + 5, self.memory_bytes)
                self.children.append(child)
            task = json.loads(line)
            try:
                child.hand(task, self.deadline_s)
            except OSError:  # it ended while idle
                self.fail(child, "error", "error: the grading process ended")
        return bool(chunk)

    def collect(self, child: _Child) -> None:
        chunk = os.read(child.outlet, 1 << 16)
        child.buffer += chunk
        if child.buffer.endswith(b"\n"):
            reply = json.loads(child.buffer)
            child.task, child.buffer = None, b""
            _write(self.output, reply)
        if not chunk or (child.task is None and reply["last"]):
            self.fail(child, "error", "error: the grading process ended")

    def fail(self, child: _Child, status: str, rule: str) -> None:
        child.kill()
        self.children.remove(child)
        if child.task is not None:
            _write(self.output, {"id": child.task, "status": status, "rule": rule})


def _write(descriptor: int, message: Mapping[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def main(deadline_s: float, memory_bytes: int, policy: Mapping[str, Any]) -> None:
    parent = os.getppid()
    output = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not mix with the replies
    sys.stdout = sys.stderr
    for number in ALL:  # Ctrl-C and a scheduler's belong to the parent, which decides what to finish
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with contextlib.suppress(ValueError, OSError):  # not every system has the limit
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    try:
        from .check import decide_with_algebra
        from .policy import Policy

        rules = Policy(**policy)
        decide_with_algebra((r"\sqrt{2}x",), (r"x\sqrt{2}",), rules)  # loads the grammar before the first deadline runs
    except Exception as error:
        _write(output, {"failed": f"{type(error).__name__}: {error}"})
        return

    def serve(task: dict[str, Any]) -> dict[str, Any]:
        verdict = decide_with_algebra(tuple(task["answers"]), tuple(task["golds"]), rules)
        return {"status": verdict.status.value, "rule": verdict.rule}

    gc.collect()
    gc.freeze()  # children share what is loaded, so they start at once and stay small
    _write(output, {"ready": True})
    _Supervisor(serve, deadline_s, memory_bytes, output).run(parent)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
