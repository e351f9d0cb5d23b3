"""The verb `compare`: runs in, a verdict, tables and files out."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..errors import InputError, MachineError
from ..lessons.show import Screen, one_line
from .flags import FILES, HELP, USAGE, listed, parse
from .types import Analysis, Comparison


def compare(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `compare`. Gives 0, or what --check says (0, 1, 3). Raises InputError, MachineError."""
    console = console or Screen()
    if {"-h", "--help"} & set(words):
        from .measures import MEASURES

        console.print(f"{USAGE}\n\n{HELP.format(measures=', '.join(MEASURES))}", soft_wrap=True)
        return 0
    flags = parse(words)
    analysis = analyse(flags)
    code, checked = _checked(analysis, flags)
    written = _write(analysis, flags, words)
    try:
        _say(console, analysis, flags, [*written, *checked])
    except BrokenPipeError:
        # the reader, such as `head`, has seen enough; files and exit code stand before the first line is printed
        out = sys.__stdout__
        if out is not None and sys.stdout is out:  # what is left in its buffer has no reader either
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return code


def _say(console: Console, analysis: Analysis, flags: argparse.Namespace, last: Sequence[Text]) -> None:
    """Print the tables, or the one file that was asked for on standard output, and then the last lines.

    Beside such a file they go to standard error, for it is to be read by a program.
    """
    from . import export

    to_screen = [kind for kind in FILES if getattr(flags, kind) == "-"]
    if to_screen:
        export.write(analysis, to_screen[0], Path("-"))
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    else:
        from .table import show

        show(console, analysis)
    for line in last:
        console.print(line, soft_wrap=line.style == "dim")
    sys.stdout.flush()  # a closed pipe is noticed here, and not when Python ends


def _checked(analysis: Analysis, flags: argparse.Namespace) -> tuple[int, list[Text]]:
    """The exit code that --check asks for, 0 without one, and a line for each."""
    if not flags.check:
        return 0, []
    from .check import check, worst

    found = [check(text, analysis.comparison, analysis.measures, analysis.values) for text in flags.check]
    return worst([code for code, _ in found]), [Text(one_line(f"check: {said}"), style="bold") for _, said in found]


def analyse(flags: argparse.Namespace) -> Analysis:
    """What the flags ask for, worked out. Raises InputError."""
    from . import family, foreign, measures, window
    from .arms import arrange
    from .choices import METHOD
    from .effects import effects
    from .faults import faults
    from .read import read
    from .verdict import verdict

    stated = listed(flags.metric)
    runs = read(flags.runs, foreign.parse(flags.columns, flags.seed_from, stated))
    if (unused := flags.columns or flags.seed_from) and all(run.source == "folder" for run in runs):
        flag = "--columns" if flags.columns else "--seed-from"
        raise InputError(
            f"{flag} {unused}: it is for logs of others; these runs name their figures and seeds themselves."
        )
    by = listed(flags.by)
    of_methods = family.view_of(flags.view, by, runs) == "family"
    comparison = arrange(runs, by or ([METHOD] if of_methods else None), flags.baseline, listed(flags.allow))
    chosen, primary = measures.choose(comparison, stated, flags.target)
    if not chosen and any(run.source != "folder" for run in runs):
        keys = ", ".join(sorted({key for run in runs for key in run.series})[:8])
        raise InputError(
            f"None of these logs has a figure by a name of ours: --columns accuracy=NAME, or --metric NAME.\n"
            f"Columns with numbers: {keys or 'none'}"
        )
    found = measures.values(comparison, chosen, flags.window, flags.target)
    missed = [key for key in measures.TO_TARGET if measures.unreached(comparison, found, key)]
    notes = [said for key in missed if (said := measures.unreached(comparison, found, key))]
    notes += faults(comparison, chosen, primary, found, flags.window)
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
        verdict=tuple(verdict(made, _paired(comparison))) if len(comparison.arms) > 1 else _alone(comparison),
        family=family.family(comparison, flags.window, flags.target, flags.level) if of_methods else None,
    )


def _paired(comparison: Comparison) -> bool:
    return any(set(arm.runs) & set(comparison.baseline.runs) for arm in comparison.arms[1:])


def _alone(comparison: Comparison) -> tuple[str, ...]:
    arm = comparison.baseline
    if len(arm.runs) == 1:
        return ()
    return (f"One arm ({arm.label}): the runs differ in nothing but the seed, so there is nothing to compare.",)


def _write(analysis: Analysis, flags: argparse.Namespace, words: Sequence[str]) -> list[Text]:
    """Write the files that were asked for; a line for each."""
    from . import export

    written: list[str] = []
    for kind in FILES:
        if (path := getattr(flags, kind)) and path != "-":
            export.write(analysis, kind, Path(path))
            written.append(path)
    said: list[Text] = []
    if flags.html or flags.figures:
        written += _page(analysis, flags, shlex.join(["python", "-m", "grpo_runner", "compare", *words]))
    elif not any(getattr(flags, kind) for kind in (*FILES, "check")):
        written, said = _of_one_run(analysis)
    return [*said, *(Text(f"written: {one_line(path)}", style="dim") for path in written)]


def _page(analysis: Analysis, flags: argparse.Namespace, command: str) -> list[str]:
    """The page, the figures as files, or both; what was written."""
    from .page import save_figures, write

    folder = Path(flags.figures) if flags.figures else None
    if flags.html:
        write(analysis, Path(flags.html), figures_dir=folder, command=command)
    elif folder:
        save_figures(analysis, folder)
    return [path for path in (flags.html, flags.figures) if path]


def _of_one_run(analysis: Analysis) -> tuple[list[str], list[Text]]:
    """A run of ours by itself has its page in its folder. Where that cannot be written nobody asked for it."""
    (run, *others) = (run for arm in analysis.comparison.arms for run in arm.runs.values())
    if others or run.source != "folder":
        return [], []
    from .page import write_run

    try:
        return [str(write_run(run.folder, analysis))], []
    except MachineError as error:
        return [], [Text(f"no page: {one_line(str(error).splitlines()[0])} Another place: --html FILE", style="dim")]
