"""`python -m grpo_runner` in a process of its own, forked from a server that has paid for the imports.

It can be killed, interrupted and waited for as the program can, has its own exit code and output, and reads the folder
that it is started in; pictures are not drawn. What it does not have is the start of Python itself, so a file of tests
starts the real program too. The server is multiprocessing's, one for each process of tests.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from . import pictures

CONTEXT = multiprocessing.get_context("forkserver")
NEEDED = "torch transformers peft hydra grpo_runner.jobs grpo_runner.train grpo_runner.config grpo_runner.lessons"
NEEDED += " grpo_runner.tracking.charts.page grpo_runner.compare.page matplotlib.figure pandas tests.program"
CONTEXT.set_forkserver_preload(NEEDED.split())


class Program:
    """What tests use of subprocess.Popen, of a command line in a folder."""

    def __init__(
        self,
        *words: str,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        target: Callable[..., None] | None = None,
    ) -> None:
        """target: what is done in the process, with the arguments of `as_program`, where it is not that."""
        handle, self._log = tempfile.mkstemp(prefix="program")
        os.close(handle)
        arguments = (words, str(folder or Path.cwd()), dict(environment or {}), self._log)
        self._process = CONTEXT.Process(target=target or as_program, args=arguments)
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("grpo_runner", timeout or 0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """What it wrote, on either stream."""
        self.wait(timeout)
        return Path(self._log).read_text(), None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def as_program(words: tuple[str, ...], folder: str, environment: dict[str, str], log: str) -> None:
    gc.freeze()  # a collection in here shall not look through what the server has imported
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = os.open(log, os.O_WRONLY | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.chdir(folder)
    os.environ.update(environment)
    sys.path.insert(0, folder)  # as -m does
    pictures.plain(pytest.MonkeyPatch())
    from grpo_runner.cli import main

    try:
        code = main(words)
    finally:
        atexit._run_exitfuncs()  # multiprocessing's own end leaves them out
    sys.exit(code)
