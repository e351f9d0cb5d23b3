"""The one hierarchy of errors that a user may see. Each prints as its message alone, in one to five lines.

Exit codes are part of the command line's contract: 2 for what a user can mend (input, a full disk, a missing device), 3
for a folder that is in use, 4 for a run that stopped itself since a number was no longer finite, 5 for one that a
rule of health.stop_on ended, 130 for Ctrl-C, 143 for SIGTERM and SIGUSR1, by which a scheduler asks for the end.
"""

from __future__ import annotations

import difflib
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

CRASHED = 1  # exit code of a fault of ours
ANOTHER = "run_name (in a sweep: sweep_name)"  # the key that gives a run another folder


class RunnerError(Exception):
    """Base of all errors that are shown to a user as their message, without a traceback."""

    exit_code = 1


class InputError(RunnerError):
    """Something the user gave (a key, a file, a line) cannot be used. Names it and says what is allowed."""

    exit_code = 2


class BusyError(RunnerError):
    """Another process is writing to the same run folder."""

    exit_code = 3


class NonFiniteError(RunnerError):
    """A loss, gradient, ratio or reward is NaN or infinite; raised before the optimizer step it would have spoiled."""

    exit_code = 4


class Unhealthy(RunnerError):
    """A rule of health.stop_on holds: the run ended after the checkpoint of that step, and says which rule."""

    exit_code = 5


class MachineError(RunnerError):
    """The machine failed: disk full, no permission to write, device lost. The last good checkpoint is kept."""

    exit_code = 2


class Interrupted(RunnerError):
    """Ctrl-C: the run saved itself and says how to go on."""

    exit_code = 130


class Preempted(Interrupted):
    """SIGTERM or SIGUSR1: likewise. The code is the one by which schedulers tell it from a failure, 128 + SIGTERM."""

    exit_code = 143


class Stopped(KeyboardInterrupt):
    """Ends what goes on at once, a sweep with all its runs, past every `except Exception`; code: the exit code."""

    def __init__(self, *said: str, code: int) -> None:
        """said: something, where the user has been told already."""
        super().__init__(*said)
        self.code = code


def exit_code_of(end: Interrupted | KeyboardInterrupt) -> int:
    """Of what was asked to end, by whatever it was told: 130 or 143."""
    return end.code if isinstance(end, Stopped) else getattr(end, "exit_code", Interrupted.exit_code)


def crashed(error: Exception) -> None:
    """Print an error that no input should cause."""
    traceback.print_exception(error)
    print(
        f"\nThis is a fault in grpo_runner, not in your input ({type(error).__name__}). Please report the lines above.",
        file=sys.stderr,
    )


def in_a_line(error: BaseException, most: int = 200) -> str:
    """`ValueError: what it says`, cut to its first line: the words of somebody else's code may be long."""
    said = (str(error).strip().splitlines() or [""])[0]
    cut = said if len(said) <= most else said[: most - 2] + " …"
    return f"{type(error).__name__}: {cut}" if cut else type(error).__name__


def nearest(name: str, allowed: Iterable[str]) -> str:
    """The end of an error sentence: ' Did you mean "x"?' for the closest allowed name, '' when nothing is close."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f' Did you mean "{close[0]}"?' if close else ""


def no_run(folder: Path) -> str:
    """Why a folder is not that of a run, as a sentence, with the nearest beside it that is one."""
    lacks = "no config.yaml in it" if folder.is_dir() else "it is a file" if folder.exists() else "it does not exist"
    why = f"no run folder ({lacks})."
    beside = folder.parent.iterdir() if folder.parent.is_dir() else ()
    return why + nearest(folder.name, [one.name for one in beside if (one / "config.yaml").is_file()])
