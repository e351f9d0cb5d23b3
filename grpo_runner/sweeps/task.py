"""One run of a sweep, in whatever process: marked while it goes, its words kept where no screen shows them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from .. import parallel
from ..errors import CRASHED, BusyError, Interrupted, RunnerError, crashed
from ..schema import RunConfig
from .states import LOG, RUNNING, read, working
from .value import value_of


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit code, 0 for well. value: of the sweep's metric, None for a run that has none."""

    code: int
    value: float | None = None


def perform(config: RunConfig, to_log: bool = False, mark: bool = True) -> Outcome:
    """Train the run, or see that it is done; say why where it fails. to_log: its words go into log.txt of its folder.

    mark: it is one of a sweep, whose tables read its folder. Raises Interrupted and KeyboardInterrupt.
    """
    folder = Path(config.run_dir)
    with _log(folder / LOG) if to_log else nullcontext():
        try:
            state = read(folder, config.steps) if mark else None
            if state and state.place:  # its marks are another's
                raise BusyError(f"{folder}: {state.place} is at work on this run.")
            if state and state.state == "done":
                (folder / RUNNING).unlink(missing_ok=True)
                print(f"{config.run_dir}: finished before; nothing to do", flush=True)
            else:
                with working(folder) if mark else nullcontext():
                    _train(config)
            return Outcome(0, value_of(config) if mark else None)
        except Interrupted as error:
            if to_log:
                print(error, file=sys.stderr)
            raise
        except Exception as error:
            if isinstance(error, RunnerError):
                if parallel.speaks():
                    print(error, file=sys.stderr)
                return Outcome(error.exit_code)
            crashed(error)
            return Outcome(CRASHED)


def _train(config: RunConfig) -> None:
    """train.run; a SystemExit of code that it calls, such as a reward function's, is a run that failed."""
    from ..train import run

    try:
        run(config)
    except SystemExit as end:
        place = traceback.extract_tb(end.__traceback__)[-1]
        raise RunnerError(
            f"{place.filename}:{place.lineno}: sys.exit({end.code!r}) ended the run before it was done."
        ) from end


@contextmanager
def _log(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "a", buffering=1, encoding="utf-8", errors="replace")  # noqa: SIM115
    with file, redirect_stdout(file), redirect_stderr(file):
        yield
