"""The runs of a command line as Hydra hands them over: one, or those of a sweep by whatever launcher."""

from __future__ import annotations

import gc
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import parallel
from .errors import CRASHED, BusyError, InputError, Interrupted, RunnerError, Stopped, exit_code_of
from .lessons.show import Screen
from .sweeps import record, table
from .sweeps.live import Watch
from .sweeps.states import FAILURE, RUNNING, Failure, RunState, fail, read, write_failure
from .sweeps.task import Outcome, perform

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from .config import Plan
    from .schema import RunConfig

_NO_WORD = "Its process ended without a word: it was killed, or the machine had no memory left."


class Jobs:
    """Runs what Hydra hands over, and keeps how each ended: one that fails does not stop the others of a sweep."""

    def __init__(self, planned: Plan, words: Sequence[str] = ()) -> None:
        """words: the command line as it was typed, for the sweep's record."""
        self.sweep, self.home, self.metric = planned.sweep, planned.folder, planned.metric
        self.total = len(planned.configs)  # 0 where the sweeper decides as it goes
        self.runs = [(config.run_name, Path(config.run_dir), config.steps) for config in planned.configs]
        self.codes: dict[int, tuple[str, int]] = {}  # of runs in this process, by the job's number: name, exit code
        self.process = (socket.gethostname(), os.getpid())
        self.in_process, self.command = planned.in_process, shlex.join(["python", "-m", "grpo_runner", *words])
        self.live = self.sweep and sys.stdout.isatty()
        self.configs = planned.configs if self.sweep else ()
        self.done: list[int] = []  # the places of the runs that were finished before
        self.elsewhere: set[Path] = set()  # folders that another process was at work on when this sweep began

    def begin(self) -> None:
        """Of a sweep: refuse it where a folder holds another run, say what will be done, and write its record.

        Raises InputError.
        """
        if not self.sweep:
            return
        for config in self.configs:
            _check_folder(config)
        states = [read(folder, steps) for _, folder, steps in self.runs] or record.runs(self.home)
        self.done = [place for place, state in enumerate(states) if state.state == "done"] if self.runs else []
        screen = Screen()
        if any(state.state != "new" for state in states):
            screen.print(table.plan(states, screen.width))
        if states:
            screen.print(f"{self.home}: {table.counts(states)}", soft_wrap=True)
        self.elsewhere = {state.folder for state in states if state.state == "running"}
        for state in states:
            if state.state == "failed":  # what it says from here on is of this time
                (state.folder / FAILURE).unlink(missing_ok=True)
        record.remember(self.home, self.command, self.configs, self.metric)

    def leaving_out(self, overrides: Sequence[str]) -> list[str]:
        """Overrides by which a launcher of processes is not asked for the runs that are done; none to add in this one,
        which says of each that it is, and where the sweeper was chosen on the command line.
        """
        if not self.done or self.in_process or any(word.lstrip("+").startswith("hydra/sweeper=") for word in overrides):
            return []
        return ["hydra/sweeper=resuming", f"hydra.sweeper.done={self.done}".replace(" ", "")]

    def watching(self) -> AbstractContextManager[object]:
        """The live table; none where the runs themselves write on the screen."""
        if not self.sweep or (self.in_process and not self.live):
            return nullcontext()
        return Watch([(folder, steps) for _, folder, steps in self.runs], self.home)

    def task(self) -> Callable[[DictConfig], float | None]:
        """The function for hydra.main, which wants a plain one. It gives the sweep's metric, for a search."""

        def job(composed: DictConfig) -> float | None:
            return self._run(composed)

        return job

    @property
    def name(self) -> str:
        """What finds the sweep again: its name where it lies in outputs/sweeps, else its folder."""
        return self.home.name if self.home.absolute().parent == record.HOME.absolute() else str(self.home)

    def close(self, title: str, stopped: bool = False) -> int:
        """Say how a sweep went; the worst exit code. stopped: it was, so that runs without an end are no failures."""
        if not self.sweep:
            return max((code for _, code in self.codes.values()), default=0)
        ends, others = self._ends(stopped)
        failed = [f"{name} (exit {code})" for name, code in ends.values() if code]
        if ends or others:
            count = f"{len(ends) - len(failed)} of {self.total or len(ends) + len(others)} runs finished."
            print(f"{title}{count}", flush=True)
        else:
            print(title, flush=True)
        if going := sum(state.state == "running" for _, state in self._states()) if stopped else 0:
            print(f"{going} go on by themselves, as their launcher has it: sweep status {self.name}", flush=True)
        if others:
            print(f"Running elsewhere: {', '.join(others)}", flush=True)
        missing = 0 if stopped else max(0, self.total - len(ends) - len(others))
        if missing:
            print(f"Not started: {missing}. The same command goes on.", flush=True)
        if not self.total and (best := record.best(self.home)) and not stopped:
            print(f"Best by {self.metric}: {best}", flush=True)
        if failed:
            print(f"Failed: {', '.join(failed)}", file=sys.stderr)
            print(f"What they said: python -m grpo_runner sweep failures {shlex.quote(self.name)}", file=sys.stderr)
        worst = max((code if code > 0 else CRASHED for _, code in ends.values() if code), default=0)
        return worst or (CRASHED if missing else BusyError.exit_code if others else 0)

    def _ends(self, stopped: bool) -> tuple[dict[int, tuple[str, int]], list[str]]:
        """Name and exit code of each run that has ended, by its number: as known here, else as its folder says; and
        the runs that a process which this sweep did not start is at work on.
        """
        ends, others = dict(self.codes), list[str]()
        for number, (name, state) in enumerate(self._states()):
            busy = ends.get(number, ("", 0))[1] == BusyError.exit_code
            if self.in_process and not busy and (self.total or number in ends):
                continue
            if busy and state.state not in ("done", "running"):  # left unfinished by the process that had it
                continue
            if state.state == "running" and (busy or (not stopped and self._is_others(state))):
                ends.pop(number, None)
                others.append(f"{name} ({state.place})")
            elif state.state == "done":
                ends[number] = name, 0
            elif state.failure:
                ends[number] = name, state.failure.code
            elif not stopped and (state.folder / RUNNING).exists():
                write_failure(state.folder, Failure(CRASHED, _NO_WORD))
                ends[number] = name, CRASHED
                (state.folder / RUNNING).unlink()
        return ends, others

    def _is_others(self, state: RunState) -> bool:
        """Of a running run, when all of this sweep's have ended: whether it is another's. Of a machine that cannot be
        asked it is where it ran before this sweep began.
        """
        return state.folder in self.elsewhere or state.place.startswith(f"{self.process[0]}:")

    def outlast(self, error: RunnerError) -> None:
        """Wait for the runs that a launcher left going when it ended with an error; raise it where none had begun."""
        if self.in_process or not any((state.folder / RUNNING).exists() or state.made for _, state in self._states()):
            record.forget(self.home)
            raise error
        print(f"The launcher ended with an error. {error}", file=sys.stderr)
        while any(state.state == "running" for _, state in self._states()):
            time.sleep(1.0)

    def _states(self) -> list[tuple[str, RunState]]:
        if self.runs:
            return [(name, read(folder, steps)) for name, folder, steps in self.runs]
        return [(state.name, state) for state in record.runs(self.home)]

    def _run(self, composed: DictConfig) -> float | None:
        from hydra.core.hydra_config import HydraConfig

        from . import config

        settings: Any = HydraConfig.get()
        name, number = config.own_label(settings), 0
        here = self.process == (socket.gethostname(), os.getpid())  # and not in a launcher's worker
        if self.sweep:
            number = settings.job.num
            if here and not self.live:
                print(f"[{number + 1}/{self.total or '?'}] {name}", flush=True)
        try:
            outcome = self._perform(composed, settings, to_log=self.sweep and (self.live or not here))
            self.codes[number] = name, outcome.code
            return outcome.value
        except (Interrupted, KeyboardInterrupt) as error:  # as an Exception it would end in Hydra, and a sweep go on
            said = isinstance(error, Interrupted)
            if parallel.speaks():
                words = error if said else "Interrupted. The same command goes on from the last checkpoint."
                print(words, file=sys.stderr)
            raise Stopped("said", code=exit_code_of(error)) from None
        finally:
            gc.collect()  # the next run of a sweep starts with the memory of this one

    def _perform(self, composed: DictConfig, settings: Any, to_log: bool) -> Outcome:
        from . import config

        try:
            resolved = config.resolve(composed, settings)
        except InputError as error:  # of a search, whose runs are composed as it goes
            print(error, file=sys.stderr)
            fail(Path(settings.runtime.output_dir), error)
            return Outcome(error.exit_code)
        outcome = perform(resolved, to_log, mark=self.sweep)
        if not outcome.code and not self.sweep:  # of a sweep there is one page, by `compare`
            _put_page(Path(resolved.run_dir))
        return outcome


def _check_folder(config: RunConfig) -> None:
    """Raise InputError where the run's folder holds steps of a run with other settings."""
    if not (Path(config.run_dir) / "config.yaml").exists():
        return
    from .train.folder import RunFolder

    try:
        RunFolder(config).check()
    except InputError as error:
        lines = str(error).splitlines()[:4]
        raise InputError("\n".join([f"In the sweep's run {config.run_name}:", *lines])) from None


def _put_page(folder: Path) -> None:
    """The run's report.html, and where it is. That it cannot be made is said, and is no failure of the run."""
    if not parallel.ranks().leads or not (folder / "DONE").exists():
        return
    from .compare.page import REPORT, write_run

    page = folder / REPORT
    if page.exists() and page.stat().st_mtime_ns > (folder / "DONE").stat().st_mtime_ns:
        return  # a run that was finished before
    try:
        write_run(folder)
        print(f"{'page':<10}{min((str(page), os.path.relpath(page)), key=len)}", flush=True)
    except Exception as error:
        said = str(error).splitlines()[0] if isinstance(error, RunnerError) else f"{type(error).__name__}: {error}"
        print(f"no page: {said}", file=sys.stderr)
