"""The verb `compare`: runs in, a verdict, tables and files out."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from ..errors import InputError, MachineError, nearest
from ..lessons.show import Screen, one_line
from .types import Analysis, Comparison

USAGE = "Usage: python -m grpo_runner compare RUNS … [FLAG …]"
HELP = """\
RUNS: folders of runs or of sweeps, globs, logs of others (.jsonl, .csv), W&B's folders, wandb:ENTITY/PROJECT.
Runs that differ in nothing but the seed are one arm; arms are paired by seed. A single run is shown by itself.

What is compared
  --by KEY,…            the settings that make arms, such as advantage,loss_norm (all that differ)
  --baseline ARM        the arm that others are held against: a label, a value, or advantage=grpo
  --metric KEY,…        what was stated beforehand (accuracy,length/wrong); any key of metrics.jsonl,
                        or eval/ and a key of evals.jsonl. The others are shown as well
  --window SHARE|STEPS  the final window: a share of the steps or a number of them (0.2)
  --level LEVEL         of the intervals (0.95)
  --target ACCURACY     adds time and tokens to this held-out accuracy, such as .8
  --allow KEY,…         settings that may differ beside those of --by; data: the training questions

What comes out
  --html FILE           one page with everything, which needs no network; that of a single run is
                        RUN/report.html by itself
  --figures FOLDER      each figure of the page as PNG and SVG, some seconds each
  --csv FILE            a row a run and measure; - is standard output, as for the next three
  --json FILE           arms, values, effects, warnings, verdict
  --md FILE             the tables in Markdown
  --latex FILE          the tables with booktabs
  --check TEXT          'length/wrong: dr_grpo < grpo': exit code 0 shown, 1 not shown, 3 too few seeds

Logs of others
  --columns OURS=THEIRS,…   step=global_step,reward=train/reward,accuracy=val/acc
  --seed-from REGEX         the seed from the path, by the one group of the expression: 'seed([0-9]+)'.
                            The rest of the name is the arm

Measures: {measures}
How to read it: docs/compare.md; the statistics: docs/statistics.md"""
FILES = ("csv", "json", "md", "latex")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"compare: {message}. All flags: compare --help")


def compare(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `compare`. Gives 0, or what --check says (0, 1, 3). Raises InputError, MachineError."""
    console = console or Screen()
    if {"-h", "--help"} & set(words):
        from .measures import MEASURES

        console.print(f"{USAGE}\n\n{HELP.format(measures=', '.join(MEASURES))}", soft_wrap=True)
        return 0
    flags = parse(words)
    analysis = analyse(flags)
    said = None
    if flags.check:
        from .check import check

        said = check(flags.check, analysis.comparison, analysis.measures, analysis.values)
    to_screen = [kind for kind in FILES if getattr(flags, kind) == "-"]
    if not to_screen:
        from .table import show

        show(console, analysis)
    _write(console, analysis, flags, words)
    if said is None:
        return 0
    console.print(Text(one_line(f"check: {said[1]}"), style="bold"))
    return said[0]


def analyse(flags: argparse.Namespace) -> Analysis:
    """What the flags ask for, worked out. Raises InputError."""
    from . import foreign, measures, window
    from .arms import arrange
    from .effects import effects
    from .read import read
    from .verdict import verdict

    runs = read(flags.runs, foreign.parse(flags.columns, flags.seed_from))
    comparison = arrange(runs, _listed(flags.by) or None, flags.baseline, _listed(flags.allow))
    chosen, primary = measures.choose(comparison, _listed(flags.metric), flags.target)
    found = measures.values(comparison, chosen, flags.window, flags.target)
    missed = [key for key in measures.TO_TARGET if measures.unreached(comparison, found, key)]
    notes = [said for key in missed if (said := measures.unreached(comparison, found, key))]
    compared = [one for one in chosen if one.key not in missed]
    questions = measures.by_question(comparison, flags.window) if len(comparison.arms) > 1 else None
    made = effects(comparison, compared, found, primary, flags.level, by_question=questions)
    return Analysis(
        comparison=replace(comparison, warnings=(*comparison.warnings, *notes)),
        measures=chosen,
        values=found,
        effects=made,
        window=window.described(comparison, flags.window),
        bounds=window.common(comparison, flags.window),
        verdict=tuple(verdict(made)) if len(comparison.arms) > 1 else _alone(comparison),
    )


def _alone(comparison: Comparison) -> tuple[str, ...]:
    arm = comparison.baseline
    if len(arm.runs) == 1:
        return ()
    return (f"One arm ({arm.label}): the runs differ in nothing but the seed, so there is nothing to compare.",)


def _write(console: Console, analysis: Analysis, flags: argparse.Namespace, words: Sequence[str]) -> None:
    from . import export

    written: list[str] = []
    for kind in FILES:
        if path := getattr(flags, kind):
            export.write(analysis, kind, Path(path))
            written += [path] if path != "-" else []
    if flags.html or flags.figures:
        written += _page(analysis, flags, shlex.join(["python", "-m", "grpo_runner", "compare", *words]))
    elif not any(getattr(flags, kind) for kind in (*FILES, "check")):
        written += _of_one_run(console, analysis)
    for path in written:
        console.print(f"written: {one_line(path)}", style="dim", soft_wrap=True)


def _page(analysis: Analysis, flags: argparse.Namespace, command: str) -> list[str]:
    """The page, the figures as files, or both; what was written."""
    from .page import save_figures, write

    folder = Path(flags.figures) if flags.figures else None
    if flags.html:
        write(analysis, Path(flags.html), figures_dir=folder, command=command)
    elif folder:
        save_figures(analysis, folder)
    return [path for path in (flags.html, flags.figures) if path]


def _of_one_run(console: Console, analysis: Analysis) -> list[str]:
    """A run of ours by itself has its page in its folder. Where that cannot be written nobody asked for it."""
    from .page import write_run

    (run, *others) = (run for arm in analysis.comparison.arms for run in arm.runs.values())
    if others or run.source != "folder":
        return []
    try:
        return [str(write_run(run.folder, analysis))]
    except MachineError as error:
        console.print(f"no page: {one_line(str(error).splitlines()[0])} Another place: --html FILE", soft_wrap=True)
        return []


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The flags of `analyse`. Raises InputError."""
    from .window import DEFAULT, parse_window

    parser = _Parser(prog="compare", add_help=False, allow_abbrev=False)
    parser.add_argument("runs", nargs="*")
    for flag in (
        "by",
        "baseline",
        "metric",
        "window",
        "level",
        "target",
        "allow",
        "html",
        "check",
        "columns",
        "figures",
    ):
        parser.add_argument(f"--{flag}")
    for flag in (*FILES, "seed-from"):
        parser.add_argument(f"--{flag}")
    flags, unknown = parser.parse_known_intermixed_args(list(words))
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        raise InputError(f'compare: no flag "{unknown[0]}".{nearest(unknown[0], known)} All flags: compare --help')
    if not flags.runs:
        raise InputError(f"{USAGE}\nAll flags: compare --help")
    flags.window = parse_window(flags.window) if flags.window else DEFAULT
    flags.level = _share("--level", flags.level, "such as 0.95") if flags.level else 0.95
    flags.target = _share("--target", flags.target, "an accuracy such as 0.8") if flags.target else None
    if sum(getattr(flags, kind) == "-" for kind in FILES) > 1:
        raise InputError("compare: only one of --csv, --json, --md and --latex can go to standard output (-).")
    for kind in (*FILES, "html"):  # before anything is read: it can take a while
        if (path := getattr(flags, kind)) and not Path(path).parent.is_dir():
            raise InputError(f"--{kind} {path}: there is no folder {Path(path).parent}.")
    return flags


def _share(flag: str, text: str, such: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise InputError(f"{flag} {text}: allowed is a number between 0 and 1, {such}.")
    return value


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] if text else []
