"""Grading in processes that can be killed. What exact rules decide never leaves the parent; the rest has a deadline.

    with Grader(workers=2, deadline_s=5.0) as grader:
        verdicts = grader.grade([(response, gold), ...])

A batch takes at most about (deadline + 1 s) for each wave of rows over the workers. Workers start when the first row
needs computer algebra, so a run on integers never starts one. Usable from any thread; calls are served in turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..errors import MachineError
from ..types import Status, Verdict
from .check import decide, shown, shown_golds
from .extract import offer
from .policy import DEFAULT, Gold, Policy, golds_of

MEMORY_BYTES = 1 << 30
CACHE_ROWS, CACHE_TEXT = 65_536, 2000  # rows kept, and the longest answer that is kept
# Importing sympy takes a second on an idle machine and much longer on a loaded one; no row's deadline runs meanwhile
START_S = 120.0
_MAX_FAILED_STARTS = 3
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])

Key = tuple[tuple[str, ...], tuple[str, ...]]  # what is offered, and the accepted golds


class _Worker:
    """One process and the row that it works on. Not ready until it has said so."""

    def __init__(self, deadline_s: float, memory_bytes: int, policy: Policy) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        paths = [_PACKAGE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        # -P keeps the user's working folder, and whatever modules lie there, out of the worker's import path
        arguments = [str(deadline_s), str(memory_bytes), json.dumps(asdict(policy))]
        command = [sys.executable, "-P", "-m", "grpo_runner.reward.worker", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
        )
        self.ready = False
        self.key: Key | None = None
        self.number = 0
        self.since = time.monotonic()
        self.buffer = b""

    def send(self, key: Key) -> None:
        self.key, self.number, self.since = key, self.number + 1, time.monotonic()
        task = json.dumps({"id": self.number, "answers": key[0], "golds": key[1]}).encode() + b"\n"
        assert self.process.stdin is not None
        self.process.stdin.write(task)

    def lines(self) -> list[dict[str, object]] | None:
        """The replies that have arrived; None when the process has ended."""
        assert self.process.stdout is not None
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        if not chunk:
            return None
        *whole, self.buffer = (self.buffer + chunk).split(b"\n")
        return [json.loads(line) for line in whole if line]

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class Grader:
    """Grades batches of (response, gold). workers: processes; deadline_s: seconds for one row's computer algebra.

    A row past its deadline is `timeout`, one whose process died is `error`; both are counted apart from `wrong`.
    Raises MachineError when no worker process can be started at all.
    """

    def __init__(
        self,
        workers: int = 1,
        deadline_s: float = 5.0,
        policy: Policy = DEFAULT,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self.policy, self.deadline_s, self.memory_bytes = policy, deadline_s, memory_bytes
        self._count = workers
        self._workers: list[_Worker] = []
        self._spares = 0
        self._failed_starts = 0
        self._cache: OrderedDict[Key, Verdict] = OrderedDict()
        self._lock = threading.Lock()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes. The grader may be used again; it then starts new ones."""
        with self._lock:
            self._drop_workers()

    def _drop_workers(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers = []

    def grade(self, pairs: Sequence[tuple[str, Gold]]) -> list[Verdict]:
        """One Verdict for each (response, gold or golds), in order. Equal (answer, gold) pairs are decided once."""
        with self._lock:
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
                    verdict = Verdict(Status.ERROR, shown(key[0]), shown_golds(key[1]), "error: not graded")
                verdicts[key] = verdict
            if pending:
                try:
                    verdicts |= self._work(pending)
                except BaseException:
                    self._drop_workers()  # Ctrl-C in mid-batch: a later batch must not read this one's replies
                    raise
            return [verdicts[key] for key in keys]

    def _known(self, key: Key) -> Verdict | None:
        """The verdict from exact rules or the cache; None when it needs a worker."""
        if not key[0]:
            return Verdict(Status.NO_ANSWER, gold_value=shown_golds(key[1]), rule="no answer")
        if (cached := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            return cached
        verdict = decide(*key, self.policy)
        return verdict if verdict is None else self._remember(key, verdict)

    def _remember(self, key: Key, verdict: Verdict) -> Verdict:
        settled = verdict.status in (Status.CORRECT, Status.WRONG, Status.AMBIGUOUS)
        if settled and sum(map(len, key[0])) <= CACHE_TEXT:
            self._cache[key] = verdict
            if len(self._cache) > CACHE_ROWS:
                self._cache.popitem(last=False)
        return verdict

    def _work(self, pending: deque[Key]) -> dict[Key, Verdict]:
        done: dict[Key, Verdict] = {}
        total = len(pending)
        while len(done) < total:
            missing = total - len(done)
            while len(self._workers) < min(self._count, missing) + self._spares:
                self._workers.append(_Worker(self.deadline_s, self.memory_bytes, self.policy))
            free = self._count - sum(worker.key is not None for worker in self._workers)
            idle = [worker for worker in self._workers if worker.ready and worker.key is None]
            for worker in idle[: min(free, len(pending))]:
                self._hand_out(worker, pending)
            for worker in self._waiting():
                self._receive(worker, pending, done)
            self._expire(done)
        return done

    def _hand_out(self, worker: _Worker, pending: deque[Key]) -> None:
        key = pending.popleft()
        try:
            worker.send(key)
        except OSError:  # it died while idle: the row is not to blame, another worker takes it
            worker.key = None
            pending.appendleft(key)
            self._replace(worker)

    def _waiting(self) -> list[_Worker]:
        """Workers that have something to say, after at most the time to the next deadline."""
        now = time.monotonic()
        ends = [
            worker.since + (self.deadline_s if worker.ready else START_S)
            for worker in self._workers
            if self._busy(worker)
        ]
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
            return [event.data for event, _ in selector.select(max(0.0, min(ends, default=now) - now))]

    def _busy(self, worker: _Worker) -> bool:
        return not worker.ready or worker.key is not None

    def _receive(self, worker: _Worker, pending: deque[Key], done: dict[Key, Verdict]) -> None:
        replies = worker.lines()
        if replies is None:
            self._ended(worker, done)
            return
        for reply in replies:
            if "failed" in reply:
                self._drop_workers()
                raise MachineError(f"A grading process cannot start: {reply['failed']}")
            if "ready" in reply:
                worker.ready, self._failed_starts = True, 0
            elif worker.key is not None and reply["id"] == worker.number:
                verdict = self._verdict(worker, Status(str(reply["status"])), str(reply["rule"]))
                done[worker.key] = self._remember(worker.key, verdict)
                worker.key = None

    def _ended(self, worker: _Worker, done: dict[Key, Verdict]) -> None:
        if worker.key is not None:
            done[worker.key] = self._verdict(worker, Status.ERROR, "error: the grading process ended")
        elif not worker.ready:
            self._start_failed()
        self._replace(worker)

    def _start_failed(self) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _MAX_FAILED_STARTS:
            self._drop_workers()
            raise MachineError(
                "A grading process cannot start.\n"
                f'Try it alone to see why: "{sys.executable}" -P -m grpo_runner.reward.worker 5 {self.memory_bytes}'
            )

    def _expire(self, done: dict[Key, Verdict]) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.key is not None and now - worker.since >= self.deadline_s:
                done[worker.key] = self._verdict(worker, Status.TIMEOUT, f"timeout after {self.deadline_s:g} s")
                self._spares = self._count  # from now on a killed worker's successor is warm before it is needed
                self._replace(worker)
            elif not worker.ready and now - worker.since >= START_S:
                self._start_failed()
                self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        """Kill a worker and start its successor at once."""
        worker.kill()
        if worker in self._workers:
            self._workers[self._workers.index(worker)] = _Worker(self.deadline_s, self.memory_bytes, self.policy)

    def _verdict(self, worker: _Worker, status: Status, rule: str) -> Verdict:
        assert worker.key is not None
        answers, golds = worker.key
        return Verdict(status, shown(answers), shown_golds(golds), rule, time.monotonic() - worker.since)
