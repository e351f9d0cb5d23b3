"""`evaluate`: how good a model is, or what a run made of it, on sets of held-out questions, with intervals.

Answers are kept as they come, so that the same command goes on where it stopped. This module asks the others in turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .words import USAGE, Wanted, read

if TYPE_CHECKING:
    from rich.console import Console

    from .results import Evaluated

__all__ = ["evaluate"]


def evaluate(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `evaluate`; gives the exit code, 0. Raises RunnerError for what a user can mend.

    console: where to, stdout by default.
    """
    from ..lessons.show import Screen

    wanted = read(words)
    console = console or Screen()
    if wanted is None:
        console.print(USAGE, soft_wrap=True)
        return 0
    from .. import parallel
    from ..errors import InputError

    if parallel.world() > 1:
        raise InputError("evaluate runs in one process, not under torchrun. On a large GPU take rollout=vllm.")
    _evaluate(wanted, console)
    return 0


def _evaluate(wanted: Wanted, console: Console) -> None:
    from .. import local_paths
    from ..errors import InputError, Interrupted, Preempted, exit_code_of
    from ..files import write_atomic
    from ..grading.progress import bar
    from ..tracking import quiet_libraries
    from .graders import all_of, policies
    from .published import compare, figures
    from .results import ANSWERS, CURVE, evaluated, left_out, write
    from .show import show
    from .targets import targets, to_load

    published = figures(wanted.against)
    found = targets(wanted)
    config = found[0].config
    others = policies(wanted.also, config)
    folder = wanted.output or Path("outputs") / "evaluations" / _folder_name(wanted)
    if (folder / "config.yaml").exists() or (folder / "metrics.jsonl").exists():
        raise InputError(
            f"--output {folder}: there is a run in this folder, and its questions.parquet would be overwritten.\n"
            f"Give another, such as --output {folder / 'evaluation'}"
        )
    for target in found:
        local_paths.check(to_load(target), training=False)
    quiet_libraries()
    from .runner import answer_all, questions_of
    from .training import trained_on

    sets, sizes = questions_of(config)
    with _locked(folder):
        total = len(found) * sum(map(len, sets.values()))
        try:
            with bar(total, "evaluating", "answers") as shown:
                for note in trained_on(found, sets):
                    shown.say(f"note: {note}")
                answered = list(answer_all(found, sets, folder / ANSWERS, shown))
        except KeyboardInterrupt as interrupt:
            end = Preempted if exit_code_of(interrupt) == Preempted.exit_code else Interrupted
            raise end(f"Stopped; the answers so far are in {folder}.\nThe same command goes on.") from None
        graders = [all_of(one.records, others, config) for one in answered]
        results = evaluated(answered, graders)
        compared = [line for one in results for line in compare(published, one.name, one.summary, _embedded(one))]
        lost = left_out(folder, results, compared)
        write(folder, results, compared, sizes)
        from .curve import curve, has_curve

        if has_curve(results):
            write_atomic(folder / CURVE, curve(results))
        show(console, results, compared, published, sizes, folder)
        if lost:
            console.print(
                f"note: results.json was written anew without what was asked before: {' '.join(lost)}\n"
                "Typed with these words again it has them; no answer is asked for twice.",
                soft_wrap=True,
            )


def _embedded(one: Evaluated) -> bool:
    return one.answered.target.config.model.path == "embedded"


def _folder_name(wanted: Wanted) -> str:
    """After the command, so that the same command finds the same folder, and another choice of policies another one.

    What is done with the same answers, graders and published figures, is not in it. Runs are told apart by where they
    are: those of two sweeps may have one name.
    """
    from ..config import label

    runs = "+".join(os.path.relpath(folder).removeprefix("outputs/") for folder in wanted.adapters)
    steps = ",".join(map(str, wanted.steps))
    parts = {"adapter": runs, "base": "yes" if wanted.base else "", "checkpoints": steps}  # no keys of a run
    return label([*wanted.overrides, *(f"{key}={value}" for key, value in parts.items() if value)])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time. What was made for nothing goes again."""
    from filelock import FileLock, Timeout

    from ..errors import BusyError
    from ..files import disk_errors

    made = [one for one in (folder, *folder.parents) if not one.exists()]
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise BusyError(f"{folder}: another process is evaluating into it.") from None
    try:
        yield
    finally:
        lock.release()
        with suppress(OSError):
            (folder / ".lock").unlink()
        for one in made:
            with suppress(OSError):
                one.rmdir()
