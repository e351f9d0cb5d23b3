"""The runs of a command line as Hydra hands them over, one after the other, and how they ended."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import parallel
from .errors import Interrupted, RunnerError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from .schema import RunConfig

CRASHED = 1


class Jobs:
    """Runs what Hydra hands over, and keeps the exit codes: one that fails does not stop the others of a sweep."""

    def __init__(self, total: int | None) -> None:
        """`total`: runs of the sweep, 0 where its sweeper decides as it goes; None for a single run."""
        self.total = total
        self.codes: dict[int, tuple[str, int]] = {}  # by the job's number: name, exit code
        self.process = os.getpid()

    def task(self) -> Callable[[DictConfig], None]:
        """The function for hydra.main, which wants a plain one."""

        def job(composed: DictConfig) -> None:
            self._run(composed)

        return job

    def close(self, title: str) -> int:
        """Say how a sweep went; the worst exit code. Runs in a launcher's own processes leave no codes here."""
        failed = [f"{name} (exit {code})" for name, code in self.codes.values() if code]
        if self.total is not None:
            done = len(self.codes) - len(failed)
            count = f"{done} of {self.total or len(self.codes)} runs finished." if self.codes else ""
            print(f"{title}{count}", flush=True)
            if failed:
                print(f"Failed: {', '.join(failed)}", file=sys.stderr)
        return max((code for _, code in self.codes.values()), default=0)

    def _run(self, composed: DictConfig) -> None:
        from hydra.core.hydra_config import HydraConfig

        from . import config

        settings: Any = HydraConfig.get()
        name, number = config.own_label(settings), 0
        if self.total is not None:
            number = settings.job.num
            print(f"[{number + 1}/{self.total or '?'}] {name}", flush=True)
        try:
            _train(config.resolve(composed, settings))
            self.codes[number] = name, 0
        except (Interrupted, KeyboardInterrupt) as error:  # as an Exception it would end in Hydra, and a sweep go on
            said = isinstance(error, Interrupted)
            if parallel.speaks():
                words = error if said else "Interrupted. The same command goes on from the last checkpoint."
                print(words, file=sys.stderr)
            raise KeyboardInterrupt("said") from None
        except Exception as error:
            if os.getpid() != self.process:  # a launcher's worker: Hydra carries the error to the process that waits
                raise
            if isinstance(error, RunnerError):
                if parallel.speaks():
                    print(error, file=sys.stderr)
            else:
                crashed(error)
            self.codes[number] = name, error.exit_code if isinstance(error, RunnerError) else CRASHED
        finally:
            gc.collect()  # the next run of a sweep starts with the memory of this one


def _train(run_config: RunConfig) -> None:
    """train.run; a SystemExit of code that it calls, such as a reward function's, is a run that failed."""
    from .train import run

    try:
        run(run_config)
    except SystemExit as end:
        place = traceback.extract_tb(end.__traceback__)[-1]
        raise RunnerError(
            f"{place.filename}:{place.lineno}: sys.exit({end.code!r}) ended the run before it was done."
        ) from end


def crashed(error: Exception) -> None:
    """Print an error that no input should cause."""
    traceback.print_exception(error)
    print(
        f"\nThis is a fault in grpo_runner, not in your input ({type(error).__name__}). Please report the lines above.",
        file=sys.stderr,
    )
