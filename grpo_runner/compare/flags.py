"""The words after `compare` -> flags: which there are, which may stand twice, and what is refused."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ..errors import InputError, nearest

USAGE = "Usage: python -m grpo_runner compare RUNS … [FLAG …]"
HELP = """\
RUNS: folders of runs or of sweeps, globs, logs of others (.jsonl, .csv), W&B's folders, wandb:ENTITY/PROJECT.
Runs that differ in nothing but the seed are one arm; arms are paired by seed. A single run is shown by itself.

What is compared
  --by KEY,…            the settings that make arms, such as advantage,loss_norm (all that differ);
                        method: by what the runs call themselves
  --baseline ARM        the arm that others are held against: a label, a value, or advantage=grpo
  --metric KEY,…        what was stated beforehand (accuracy,length/wrong); any key of metrics.jsonl,
                        or eval/ and a key of evals.jsonl. The others are shown as well
  --window SHARE|STEPS  the final window: a share of the steps or a number of them (0.2)
  --level LEVEL         of the intervals (0.95)
  --target ACCURACY     adds time and tokens to this held-out accuracy, such as .8
  --view family|pairs   family: a row a method, and who only sharpens (tokens are to --target, 0.8);
                        by itself where three methods or more are compared. pairs: each arm
                        against the baseline
  --allow KEY,…         settings that may differ beside those of --by; data: the training questions

What comes out
  --html FILE           one page with everything, which needs no network; that of a single run is
                        RUN/report.html by itself
  --figures FOLDER      each figure of the page as PNG and SVG, some seconds each
  --csv FILE            a row a run and measure; - is standard output, as for the next three
  --json FILE           arms, values, effects, warnings, verdict
  --md FILE             the tables in Markdown
  --latex FILE          the tables with booktabs
  --check TEXT          'length/wrong: dr_grpo < grpo': exit code 0 shown, 1 not shown, 3 too few seeds.
                        Several: 0 where all are shown, 1 where one is not, else 3

Logs of others
  --columns OURS=THEIRS,…   step=global_step,reward=train/reward,accuracy=val/acc
  --seed-from REGEX         the seed from the path, by the one group of the expression: 'seed([0-9]+)'.
                            The rest of the name is the arm

Measures: {measures}
How to read it: docs/compare.md; the statistics: docs/statistics.md"""
VIEWS = ("family", "pairs")
FILES = ("csv", "json", "md", "latex")
_LISTS = ("by", "metric", "allow", "columns")  # given twice: one list
_ONCE = ("baseline", "window", "level", "target", "view", "html", "figures", *FILES, "seed-from")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"compare: {message}. All flags: compare --help")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The flags of `analyse`. check: each text. Raises InputError."""
    from .window import DEFAULT, parse_window

    parser = _Parser(prog="compare", add_help=False, allow_abbrev=False)
    parser.add_argument("runs", nargs="*")
    for flag in (*_LISTS, *_ONCE, "check"):
        parser.add_argument(f"--{flag}", action="append")
    flags, unknown = parser.parse_known_intermixed_args(list(words))
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        raise InputError(f'compare: no flag "{unknown[0]}".{nearest(unknown[0], known)} All flags: compare --help')
    if not flags.runs:
        raise InputError(f"{USAGE}\nAll flags: compare --help")
    for flag in (*_LISTS, *_ONCE, "check"):
        _gather(flags, flag)
    flags.window = parse_window(flags.window) if flags.window else DEFAULT
    flags.level = _share("--level", flags.level, "such as 0.95") if flags.level else 0.95
    flags.target = _share("--target", flags.target, "an accuracy such as 0.8") if flags.target else None
    if flags.view not in (None, *VIEWS):
        close = nearest(flags.view, VIEWS)
        raise InputError(f"--view {flags.view}: allowed are {' and '.join(VIEWS)}.{close}")
    _hold_places(flags)
    return flags


def _gather(flags: argparse.Namespace, flag: str) -> None:
    """What a flag was given, times over, as one value. Raises InputError for nothing, and for two where one counts."""
    name = flag.replace("-", "_")
    given: list[str] = getattr(flags, name) or []
    if any(not value.strip(" ,") for value in given):
        raise InputError(f"--{flag} '': nothing is given. Leave the flag out, or see compare --help")
    if flag in _ONCE and len(given) > 1:
        raise InputError(f"--{flag} is given {len(given)} times ({', '.join(given[:3])}); it takes one.")
    if flag != "check":
        setattr(flags, name, ",".join(given) if given else None)
    else:
        flags.check = given


def _hold_places(flags: argparse.Namespace) -> None:
    """Raise InputError for files that have no place; before anything is read: it can take a while."""
    if sum(getattr(flags, kind) == "-" for kind in FILES) > 1:
        raise InputError("compare: only one of --csv, --json, --md and --latex can go to standard output (-).")
    if flags.html == "-" or flags.figures == "-":
        raise InputError("compare: the page and its figures go into files; --csv, --json, --md or --latex to -.")
    taken: dict[Path, str] = {}
    for kind in (*FILES, "html", "figures"):
        path = getattr(flags, kind)
        if not path or path == "-":
            continue
        if kind != "figures" and not Path(path).parent.is_dir():
            raise InputError(f"--{kind} {path}: there is no folder {Path(path).parent}.")
        if other := taken.get(Path(path).resolve()):
            raise InputError(f"--{other} and --{kind} both go to {path}. Give each its own file.")
        taken[Path(path).resolve()] = kind


def _share(flag: str, text: str, such: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise InputError(f"{flag} {text}: allowed is a number between 0 and 1, {such}.")
    return value


def listed(text: str | None) -> list[str]:
    """The words between commas, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip())) if text else []
