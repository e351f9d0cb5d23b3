"""Grading in processes that can be killed. What exact rules decide never leaves the parent; the rest has a deadline.

    with Grader(workers=2, deadline_s=5.0) as grader:
        verdicts = grader.grade([(response, gold), ...])

A batch takes at most about (deadline + 1 s) for each wave of rows over the workers. Processes start when the first row
needs computer algebra, so a run on integers never starts one. Usable from any thread (calls are served in turn), and
after a fork: a child process that inherits a Grader starts processes of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import MachineError
from ..types import Status, Verdict
from .check import decide, shown, shown_golds
from .extract import offer
from .policy import DEFAULT, Gold, Policy, golds_of

MEMORY_BYTES = 1 << 30
CACHE_ROWS, CACHE_TEXT = 65_536, 2000  # rows kept, and the longest answer with its golds that is kept
# Importing sympy takes a second on an idle machine and much longer on a loaded one; no row's deadline runs meanwhile
START_S = 120.0
_MAX_FAILURES = 3
ENDED = "error: the grading process ended"
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])

Key = tuple[tuple[str, ...], tuple[str, ...]]  # what is offered, and the accepted golds


class _Process:
    """The grading process (worker.py) and the pipes to it; started when it is first needed, and again after its end."""

    def __init__(self, arguments: Sequence[str]) -> None:
        # -P keeps the user's working folder, and whatever modules lie there, out of the process's import path
        self.command = [sys.executable, "-P", "-m", "grpo_runner.reward.worker", *arguments]
        self.running: subprocess.Popen[bytes] | None = None
        self.owner = 0
        self.buffer = b""

    def start(self) -> bool:
        """Make sure that it runs and belongs to this process. True if it had to be started: it then says `ready`."""
        if self.running is not None and self.owner == os.getpid():
            return False
        self.kill()
        paths = [_PACKAGE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(paths))
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self.running = subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, stderr=nowhere, env=environment, bufsize=0
        )
        self.owner, self.buffer = os.getpid(), b""
        assert self.running.stdin is not None
        os.set_blocking(self.running.stdin.fileno(), False)
        return True

    def send(self, message: dict[str, Any], patience_s: float) -> None:
        """Write one line. Raises OSError if the process has ended, or does not read for `patience_s`."""
        assert self.running is not None and self.running.stdin is not None
        descriptor, data = self.running.stdin.fileno(), json.dumps(message).encode() + b"\n"
        while data:
            if not _ready(descriptor, selectors.EVENT_WRITE, patience_s):
                raise TimeoutError
            data = data[os.write(descriptor, data) :]

    def replies(self, patience_s: float) -> list[dict[str, Any]] | None:
        """The replies of the next moments, [] if none comes in time; None when the process has ended."""
        assert self.running is not None and self.running.stdout is not None
        descriptor, end = self.running.stdout.fileno(), time.monotonic() + patience_s
        while b"\n" not in self.buffer:
            if not _ready(descriptor, selectors.EVENT_READ, end - time.monotonic()):
                return []
            if not (chunk := os.read(descriptor, 1 << 16)):
                return None
            self.buffer += chunk
        *whole, self.buffer = self.buffer.split(b"\n")
        return [json.loads(line) for line in whole]

    def unready(self) -> str | None:
        """Wait until it is ready. None when it is, else why not, "" where that is not known."""
        replies = self.replies(START_S)
        return None if replies and "ready" in replies[0] else str(replies[0]["failed"]) if replies else ""

    def kill(self) -> None:
        """End it, unless it belongs to the process that this one was forked from."""
        process, self.running = self.running, None
        if process is None:
            return
        if self.owner == os.getpid():
            process.kill()
            process.wait()
        else:
            process.returncode = 0  # it is not ours to wait for
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _ready(descriptor: int, event: int, patience_s: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, event)
        return bool(selector.select(max(0.0, patience_s)))


class Grader:
    """Grades batches of (response, gold). workers: rows graded at a time; deadline_s: seconds for one row's algebra.

    A row past its deadline is `timeout`, one whose process died is `error`; both are counted apart from `wrong`. Where
    the machine gives a row less than a twentieth of a processor until its deadline, it has the deadline once more.
    Raises MachineError when no grading process can be started at all. Processes end with close(), with the grader, and
    with the program, however that ends.
    """

    def __init__(
        self,
        workers: int = 1,
        deadline_s: float = 5.0,
        policy: Policy = DEFAULT,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self.policy, self.deadline_s, self.memory_bytes = policy, deadline_s, memory_bytes
        self._count = max(1, workers)
        self._process = _Process([str(deadline_s), str(memory_bytes), json.dumps(asdict(policy))])
        self._cache: OrderedDict[Key, Verdict] = OrderedDict()
        self._locks: dict[int, threading.Lock] = {}  # by process: a fork may inherit a lock that nobody will release
        weakref.finalize(self, self._process.kill)

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the grading processes. The grader may be used again; it then starts new ones."""
        with self._lock():
            self._process.kill()

    def _lock(self) -> threading.Lock:
        return self._locks.setdefault(os.getpid(), threading.Lock())

    def grade(self, pairs: Sequence[tuple[str, Gold]]) -> list[Verdict]:
        """One Verdict for each (response, gold or golds), in order. Equal (answer, gold) pairs are decided once."""
        with self._lock():
            keys: list[Key] = []
            verdicts: dict[Key, Verdict] = {}
            pending: deque[Key] = deque()
            for response, gold in pairs:
                key = (offer(response, self.policy.extract, self.policy.boxes).answers, golds_of(gold))
                keys.append(key)
                if key in verdicts:
                    continue
                verdict = self._known(key)
                if verdict is None:
                    pending.append(key)
                    verdict = _verdict(key, Status.ERROR, "error: not graded")
                verdicts[key] = verdict
            try:
                verdicts |= self._work(pending)
            except BaseException:
                self._process.kill()  # Ctrl-C in mid-batch: a later batch must not read this one's replies
                raise
            return [verdicts[key] for key in keys]

    def _known(self, key: Key) -> Verdict | None:
        """The verdict from exact rules or the cache; None when it needs computer algebra."""
        if not key[0]:
            return Verdict(Status.NO_ANSWER, gold_value=shown_golds(key[1]), rule="no answer")
        if (cached := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            return cached
        verdict = decide(*key, self.policy)
        return verdict if verdict is None else self._remember(key, verdict)

    def _remember(self, key: Key, verdict: Verdict) -> Verdict:
        settled = verdict.status in (Status.CORRECT, Status.WRONG, Status.AMBIGUOUS)
        if settled and sum(map(len, key[0] + key[1])) <= CACHE_TEXT:
            self._cache[key] = verdict
            while len(self._cache) > CACHE_ROWS:
                self._cache.popitem(last=False)
        return verdict

    def _work(self, pending: deque[Key]) -> dict[Key, Verdict]:
        done: dict[Key, Verdict] = {}
        running: dict[int, tuple[Key, float]] = {}  # by the number of the task: what it is, and since when
        again: set[Key] = set()
        # The process keeps the deadlines. It can itself be killed or stopped, so it has one too, past any of its own.
        patience, number, failed = 2 * self.deadline_s + 1, 0, 0
        while pending or running:
            if self._process.start() and (why := self._process.unready()) is not None:
                failed += 1
                self._failed(why, failed)
                continue
            try:
                while pending and len(running) < self._count:
                    answers, golds = pending[0]
                    number += 1
                    self._process.send({"id": number, "answers": answers, "golds": golds}, patience)
                    running[number] = (pending.popleft(), time.monotonic())
                oldest = min(since for _, since in running.values())
                replies = self._process.replies(oldest + patience - time.monotonic())
            except OSError:
                replies = None
            for reply in replies or ():
                key, since = running.pop(reply["id"])
                done[key] = self._remember(key, _verdict(key, Status(reply["status"]), reply["rule"], since))
                failed = 0
            if replies:
                continue
            self._process.kill()  # it has ended, or is stuck
            failed += 1
            self._failed("", failed)
            for key, since in running.values():
                if key not in again:  # no row is to blame for that; a second time is enough
                    pending.append(key)
                elif replies is None:
                    done[key] = _verdict(key, Status.ERROR, ENDED, since)
                else:
                    done[key] = _verdict(key, Status.TIMEOUT, f"timeout after {self.deadline_s:g} s", since)
                again.add(key)
            running.clear()
        return done

    def _failed(self, why: str, times: int) -> None:
        """Raise MachineError when a grading process did not start, or nothing came of it, too often in a row."""
        self._process.kill()
        if not why and times < _MAX_FAILURES:
            return
        raise MachineError(
            f"A grading process cannot {'start: ' + why if why else 'be kept running.'}\n"
            f"Its memory limit is {self.memory_bytes / 2**20:,.0f} MiB. Try it alone to see why:\n"
            f"{shlex.join(self._process.command)}"
        )


def _verdict(key: Key, status: Status, rule: str, since: float | None = None) -> Verdict:
    seconds = 0.0 if since is None else time.monotonic() - since
    return Verdict(status, shown(key[0]), shown_golds(key[1]), rule, seconds)
