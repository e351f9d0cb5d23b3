"""A grader in a process of its own that is killed when a row takes too long: hostile rows cannot hang who asks.

    with Killable(grade, deadline_s=10) as grader:
        outcome = grader.ask(response, gold)

The process starts in an empty temporary folder; `left_behind` names the files that grading put there (code in a
response that was executed would write some).
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from other_graders import Grade

MEMORY_BYTES = 4 << 30
START_S = 120.0


class Outcome(NamedTuple):
    """accepted: false also where `failed` says why there was no verdict: "timeout", "died", or an error's name."""

    accepted: bool
    seconds: float
    failed: str = ""


def _serve(connection: Connection, grade: Grade, folder: str) -> None:
    with contextlib.suppress(Exception):  # Linux: end with the parent, whatever this process is doing
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    grade(r"\boxed{\sqrt{2}x}", r"x\sqrt{2}")  # imports what it needs before the first clock runs
    connection.send(None)
    while True:
        response, gold = connection.recv()
        start, accepted, failed = time.perf_counter(), False, ""
        try:
            accepted = grade(response, gold)
        except BaseException as error:  # math-verify's TimeoutException derives from BaseException
            failed = type(error).__name__
        connection.send(Outcome(accepted, time.perf_counter() - start, failed))


class Killable:
    """Starts the process with the first row, and anew after each kill. deadline_s: seconds for one row."""

    def __init__(self, grade: Grade, deadline_s: float = 10.0) -> None:
        self.grade, self.deadline_s = grade, deadline_s
        self._folder = tempfile.TemporaryDirectory()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Killable:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._folder.cleanup()

    @property
    def left_behind(self) -> list[str]:
        return sorted(file.name for file in Path(self._folder.name).rglob("*"))

    def ask(self, response: str, gold: str) -> Outcome:
        """One verdict, within the deadline; the time to start a process is not counted."""
        connection = self._connection or self._start()
        start = time.perf_counter()
        try:
            connection.send((response, gold))
            if connection.poll(self.deadline_s):
                return connection.recv()
            failed = "timeout"
        except (EOFError, OSError):
            failed = "died"
        self._kill()
        return Outcome(False, time.perf_counter() - start, failed)

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.grade, self._folder.name), daemon=True)
        self._process.start()
        theirs.close()
        try:
            if self._connection.poll(START_S):
                self._connection.recv()
                return self._connection
            why = f"said nothing for {START_S:g} s"
        except EOFError:
            why = "ended"
        self._kill()
        raise RuntimeError(f"The process of {self.grade.__name__} {why} instead of starting.")

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._process = self._connection = None
