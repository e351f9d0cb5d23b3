"""The command line: verbs, flags and overrides in; runs, errors in a few lines and exit codes out.

Only this module, jobs.py and config/ know Hydra. torch is imported when a run starts, not before.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__, parallel, signals
from .errors import CRASHED, InputError, RunnerError, crashed, exit_code_of
from .words import own_configs, parse, shows_of, verb_of

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from .config import Source


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0, that of errors.py, or 1 for a fault of ours."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with signals.at_once(), parallel.ranks().together():
            verb, rest = verb_of(words, VERBS)
            return VERBS[verb][0](rest)
    except RunnerError as error:
        if parallel.speaks():
            print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        if not interrupt.args and parallel.speaks():  # otherwise the run itself has said how to go on
            print("Interrupted.", file=sys.stderr)
        return exit_code_of(interrupt)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("grpo_runner"):
            print(_missing(error), file=sys.stderr)  # as a rule another python than the environment's
            return InputError.exit_code
        crashed(error)
        return CRASHED


def _missing(error: ModuleNotFoundError) -> str:
    return (
        f"{sys.executable} has no module {error.name}, which grpo_runner needs.\n"
        "`make setup` makes an environment that has it; then: .venv/bin/python -m grpo_runner"
    )


def train(words: Sequence[str]) -> int:
    """Train one run or a sweep, or answer one of the flags that only show something."""
    if {"-h", "--help"} & set(words):
        return _help(next((word for word in words if re.fullmatch(r"\w+=?", word)), None))
    flags = parse(words, VERBS)
    if flags.version:
        print(f"grpo_runner {__version__}")
        return 0
    from . import config

    directory = Path(flags.config_path).absolute() if flags.config_path else config.find()
    source = config.Source(directory, flags.config_name)
    overrides = [*flags.overrides, *own_configs(flags.config_dir)]
    if shows := shows_of(flags):
        logging.raiseExceptions = False  # `--info | head`: a reader that has seen enough is no error of logging's
        return _hydra([*shows, *config.to_show(overrides, source)], source, _nothing)
    planned = config.plan(overrides, flags.multirun, source)  # every run is checked before the first one starts
    if planned.sweep and parallel.world() > 1:
        raise InputError("-m: a sweep does not run under torchrun.\nCall torchrun once for each of its runs.")
    from .jobs import Jobs

    jobs = Jobs(planned, words)
    new = [folder for config in planned.configs if not (folder := Path(config.run_dir)).exists()]
    try:
        jobs.begin()
        overrides = [*planned.overrides, *jobs.leaving_out(planned.overrides)]
    except OSError as error:
        raise _no_folder(error) from error
    try:
        with jobs.watching():
            try:
                _hydra([*(["--multirun"] if planned.sweep else []), *overrides], source, jobs.task())
            except RunnerError as error:
                jobs.outlast(error)
    except KeyboardInterrupt:
        jobs.close("Sweep stopped; the same command goes on from there. ", stopped=True)
        raise
    finally:
        for folder in new:  # Hydra makes it before the run can be refused
            with suppress(OSError):
                folder.rmdir()
    return jobs.close("Sweep done. ")


def sweep(words: Sequence[str]) -> int:
    """Say how the runs of a sweep stand, what those said that failed, or remove what is not finished."""
    from .sweeps import sweep as show

    return show(words)


def merge(words: Sequence[str]) -> int:
    """Write a run's adapter and its base as one model folder."""
    if len(words) != 2 or any(word.startswith("-") for word in words):
        raise InputError("Usage: python -m grpo_runner merge RUN_FOLDER OUTPUT_FOLDER")
    from .tracking import quiet_libraries

    quiet_libraries()
    from .policy.merge import merge as merge_adapter

    target = merge_adapter(words[0], words[1])
    print(f"{target}: a full model folder; AutoModelForCausalLM.from_pretrained loads it")
    return 0


def explain(words: Sequence[str]) -> int:
    """Show what the objective does to a group, to a step of a run, or which methods there are."""
    from .lessons import explain as show

    return show(words)


def plan(words: Sequence[str]) -> int:
    """Say what a run is, what will happen, what it needs and what will bite, before anything is loaded."""
    from .planning import plan as show

    return show(words)


def check(words: Sequence[str]) -> int:
    """Grade an answer, the rows of a file, or a run's answers once more."""
    from .grading import check as grade

    return grade(words)


def data(words: Sequence[str]) -> int:
    """Hold the training questions against the evaluation sets."""
    from .contamination import data as answer

    return answer(words)


def prompt(words: Sequence[str]) -> int:
    """Show the prompts of a run, token by token, and how long those of its sets are."""
    from .preview import prompt as show

    return show(words)


def doctor(words: Sequence[str]) -> int:
    """Look at this machine and environment, line by line: versions, devices, disk, keys, a self test."""
    from .doctor import doctor as look

    return look(words)


def health(words: Sequence[str]) -> int:
    """Show which health rules hold in the series of a run, and when."""
    from .health import health as show

    return show(words)


def evaluate(words: Sequence[str]) -> int:
    """Measure a model, or what a run made of it, on held-out questions."""
    from .suite import evaluate as measure

    return measure(words)


def compare(words: Sequence[str]) -> int:
    """Hold arms of runs against each other, paired by seed."""
    from .compare.command import compare as hold

    return hold(words)


VERBS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "train": (train, "train one run, or a sweep with -m; this is what happens without a verb"),
    "merge": (merge, "RUN_FOLDER OUTPUT_FOLDER: write a run's adapter and its base as one model folder"),
    "explain": (
        explain,
        "what the objective does, in figures: alone, methods, length, --rewards … --lengths …, or RUN --step N",
    ),
    "plan": (plan, "what a run is, what will happen, what it needs and what will bite; loads nothing (plan --help)"),
    "check": (check, "is an answer right: --response … --gold …, the rows of --file ROWS, or RUN's answers once more"),
    "evaluate": (
        evaluate,
        "how often a model is right, with intervals: model=… or adapter=RUN_FOLDER (evaluate --help)",
    ),
    "compare": (
        compare,
        "RUNS …: arms paired by seed, intervals, a verdict, one page: folders, sweeps, logs (compare --help)",
    ),
    "sweep": (sweep, "status|failures|clean NAME: how a sweep's runs stand, what failed ones said, what to remove"),
    "data": (data, "contamination data=… evaluation=…: which evaluation questions are in the training set"),
    "prompt": (prompt, "the prompts of a run: text, tokens, lengths, and what does not fit; experiment=… --n 3"),
    "doctor": (doctor, "can this machine run it? versions, devices, disk, keys, and a self test of a few seconds"),
    "health": (health, "RUN_FOLDER: which rules of docs/health.md hold in what the run logged, and from which step on"),
}


def _help(group: str | None = None) -> int:
    from .config import find
    from .helptext import show

    show(find(), {name: text for name, (_, text) in VERBS.items()}, only=group.rstrip("=") if group else None)
    return 0


# --- runs under Hydra


def _nothing(composed: DictConfig) -> None:
    """The task of flags that only show something."""


def _hydra(words: Sequence[str], source: Source, task: Callable[[DictConfig], object]) -> int:
    """Hand words to Hydra's own main, as if they had been typed after the program's name."""
    import hydra

    from . import config

    wrap = hydra.main(config_path=str(source.directory), config_name=source.name, version_base=config.VERSION_BASE)
    with _as_typed(words):
        try:
            wrap(task)()
        except SystemExit as end:  # how Hydra ends after what it shows
            return end.code if isinstance(end.code, int) else 0
        except OSError as error:
            if error.filename is None:
                raise config.explain(error) from error
            raise _no_folder(error) from error
        except Exception as error:
            raise config.explain(error) from error
    return 0


def _no_folder(error: OSError) -> InputError:
    return InputError(
        f"{error.filename}: cannot be the run's folder ({error.strerror}).\n"
        "Another one: hydra.run.dir=FOLDER, for a sweep hydra.sweep.dir=FOLDER"
    )


@contextmanager
def _as_typed(words: Sequence[str]) -> Iterator[None]:
    """sys.argv as Hydra reads it, and Hydra's errors as exceptions in place of text and an exit."""
    argv, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = ["grpo_runner", *words], "1"
    try:
        yield
    finally:
        sys.argv = argv
        if full is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full
