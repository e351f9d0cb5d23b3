"""The words after `check` as one of four wishes, or an InputError of a few lines. Pure, but for a look at the folders.

The parser is our own and not argparse, which takes the -5 of `--gold -5` for a flag.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ..errors import InputError, nearest
from ..reward.policy import Policy

STDIN = "-"
SUFFIXES = (".jsonl", ".parquet")
POLICY_KEYS = tuple(field.name for field in fields(Policy))
ADDED = ("status", "correct", "extracted", "rule", "seconds")  # the fields of a verdict in an output
USAGE = f"""\
check --response TEXT --gold TEXT     is the answer right?
        [--gold TEXT …]               other golds that are accepted as well
        [--deadline S]                seconds that computer algebra may take; left out: 5
check --file ROWS                     grade each row of a {" or ".join(SUFFIXES)} file: its field `response`
                                      against its field `gold` (text, a number, or a list of those)
        [--output VERDICTS]           write each row with {", ".join(ADDED)};
                                      left out: only the summary
        [--overwrite]                 over an output that is there
        [--response-field NAME] [--gold-field NAME]
        [--workers N] [--deadline S]  grading processes, seconds a row; left out: 2 and 5
check RUN_FOLDER                      grade a run's answers again, show the verdicts that would change
        [--step N]                    of one step; left out: all whose texts were kept
        [--all]                       every change; left out: the first 50
        [--workers N] [--deadline S]  left out: the run's own

A TEXT of - is read from standard input. Rows with `expected` (true or false) are counted against it,
by `kind` where they have one. Behind each form another policy may follow, a run's own for its folder:
reward=PRESET reward.KEY=VALUE …, such as reward=boxed_strict or reward.units=ignored.

Exit code                 0                              1                    2
  of an answer            right                          not right            cannot be asked so
  of a file               every row could be graded      some could not       none could, or bad usage
  of a run                every verdict stands           some would change    cannot be asked so"""

MOST_WORKERS, LONGEST_S = 256, 3600.0
_PAIR, _ROWS, _RUN = "--response and --gold", "--file", "a run folder"
# what each flag goes with
FLAGS = {
    "--response": (_PAIR,),
    "--gold": (_PAIR,),
    "--file": (_ROWS,),
    "--output": (_ROWS,),
    "--overwrite": (_ROWS,),
    "--response-field": (_ROWS,),
    "--gold-field": (_ROWS,),
    "--step": (_RUN,),
    "--all": (_RUN,),
    "--workers": (_ROWS, _RUN),
    "--deadline": (_PAIR, _ROWS, _RUN),
}
_SWITCHES = ("--overwrite", "--all")
_OVERRIDE = re.compile(r"\+{0,2}[a-zA-Z_][\w.]*=")


@dataclass(frozen=True)
class Usage:
    """`--help`."""

    text: str


@dataclass(frozen=True)
class Pair:
    """One response and its accepted golds; "-" stands for standard input."""

    response: str
    golds: tuple[str, ...]
    deadline_s: float
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """A file of rows; output: None for the summary alone."""

    file: Path
    output: Path | None
    overwrite: bool
    response_field: str
    gold_field: str
    workers: int
    deadline_s: float
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A run's answers; step: None for every step that was kept. workers and deadline_s: None for the run's own."""

    folder: Path
    step: int | None
    everything: bool
    workers: int | None
    deadline_s: float | None
    overrides: tuple[str, ...]


def read(words: Sequence[str]) -> Usage | Pair | Rows | Run:
    """What is wanted."""
    if not words:
        raise InputError(f"Nothing to check: give {_PAIR}, {_ROWS}, or {_RUN}.\nAll that check takes: check --help")
    flags, others = _sorted(words)
    if "--help" in flags:
        return Usage(USAGE)
    folders = [word for word in others if os.path.isdir(word)]
    overrides = tuple(word for word in others if word not in folders)
    for word in overrides:
        _check_override(word)
    if len(folders) > 1:
        raise InputError(f'Two folders, "{folders[0]}" and "{folders[1]}": check takes one run at a time.')
    form = _RUN if folders else _ROWS if "--file" in flags else _PAIR
    for flag in flags:
        if form not in FLAGS[flag]:
            raise InputError(f"{flag} goes with {' or '.join(FLAGS[flag])}, not with {form}.")
    if form == _RUN:
        return _run(folders[0], flags, overrides)
    return _rows(flags, overrides) if form == _ROWS else _pair(flags, overrides)


def _pair(flags: dict[str, list[str]], overrides: tuple[str, ...]) -> Pair:
    if missing := [flag for flag in ("--response", "--gold") if flag not in flags]:
        some = "--file ROWS or a run folder" if len(missing) == 2 else "-, which reads standard input"
        raise InputError(f"{' and '.join(missing)}: missing. Or give {some}. All that check takes: check --help")
    golds = tuple(flags["--gold"])
    if [flags["--response"][0], *golds].count(STDIN) > 1:
        raise InputError(f"Standard input can be read once: give {STDIN} for one text only.")
    return Pair(flags["--response"][0], golds, _deadline(flags) or 5.0, overrides)


def _rows(flags: dict[str, list[str]], overrides: tuple[str, ...]) -> Rows:
    fields = {flag: flags.get(flag, [left_out])[0] for flag, left_out in _FIELDS.items()}
    for flag, field in fields.items():
        if not field or field in ADDED:
            raise InputError(f'{flag} "{field}": not the name of a field to read; {", ".join(ADDED)} are written.')
    output = flags.get("--output", [None])[0]
    if output is None and "--overwrite" in flags:
        raise InputError("--overwrite changes nothing without --output.")
    return Rows(
        file=Path(flags["--file"][0]),
        output=None if output is None else Path(output),
        overwrite="--overwrite" in flags,
        response_field=fields["--response-field"],
        gold_field=fields["--gold-field"],
        workers=_workers(flags) or 2,
        deadline_s=_deadline(flags) or 5.0,
        overrides=overrides,
    )


_FIELDS = {"--response-field": "response", "--gold-field": "gold"}


def _run(folder: str, flags: dict[str, list[str]], overrides: tuple[str, ...]) -> Run:
    step = flags.get("--step", [None])[0]
    if step is not None and not (step.isascii() and step.isdecimal()):
        raise InputError(f'--step {step}: "{step}" is not a step. Allowed: a whole number of at least 0.')
    number = None if step is None else int(step)
    return Run(Path(folder), number, "--all" in flags, _workers(flags), _deadline(flags), overrides)


def _sorted(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Flag -> its values, of `--flag value` and `--flag=value`; and the other words."""
    flags: dict[str, list[str]] = {}
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            return {"--help": []}, []
        if flag not in FLAGS:
            if word.startswith("-"):
                raise InputError(f'check has no "{flag}".{nearest(flag, FLAGS)} All that it takes: check --help')
            others.append(word)
            continue
        if flag in flags and flag != "--gold":
            raise InputError(f"{flag} is given twice.")
        if flag in _SWITCHES:
            if equals:
                raise InputError(f"{flag} takes no value.")
        elif not equals:
            # a text may begin with dashes; only a flag of ours is no text (`--gold=--step` is one)
            if not rest or rest[0].partition("=")[0] in FLAGS:
                raise InputError(f"{flag} needs a value. All that check takes: check --help")
            value = rest.pop(0)
        flags.setdefault(flag, []).append(value)
    return flags, others


def _check_override(word: str) -> None:
    """Raise InputError unless the word is an override that may change a policy."""
    if not _OVERRIDE.match(word):
        raise InputError(
            f'"{word}" is no run folder, and no override such as reward.units=ignored. '
            f"Texts go behind {_PAIR}, rows behind {_ROWS}.\nAll that check takes: check --help"
        )
    key = word.partition("=")[0].lstrip("+")
    if key == "reward":
        return
    keys = [f"reward.{name}" for name in POLICY_KEYS]
    if flag := {"reward.deadline_s": "--deadline", "reward.workers": "--workers"}.get(key):
        raise InputError(f'"{word}" changes no verdict. For this command take {flag}.')
    if key.startswith("reward.") and key[len("reward.") :] in ("parts", "function", "truncated", "overlong_buffer"):
        raise InputError(f'"{word}" changes the reward, and no verdict. Leave it out.')
    if key not in keys:
        own = key.rpartition(".")[2]  # the key alone: every key of the group begins alike, and would be near
        close = (
            nearest(key, keys) if key.startswith("reward") else nearest(own, POLICY_KEYS).replace('"', '"reward.', 1)
        )
        raise InputError(
            f'"{word}" changes no verdict.{close}\nWhat does: reward=PRESET, or reward. with {", ".join(POLICY_KEYS)}.'
        )


def _workers(flags: dict[str, list[str]]) -> int | None:
    text = flags.get("--workers", [None])[0]
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= MOST_WORKERS:
        raise InputError(f"--workers {text}: not allowed. Allowed: a whole number from 1 to {MOST_WORKERS}.")
    return int(text)


def _deadline(flags: dict[str, list[str]]) -> float | None:
    text = flags.get("--deadline", [None])[0]
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= LONGEST_S:
        raise InputError(f"--deadline {text}: not allowed. Allowed: seconds above 0 and at most {LONGEST_S:g}.")
    return value
