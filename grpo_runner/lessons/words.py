"""The words after `explain` as one of seven wishes, or an InputError of one line. No torch.

The parser is our own and not argparse, which takes the `-1,1` of `--rewards -1,1` for a flag.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, nearest
from ..objectives import NORM_WORDS, PRESETS
from .usage import USAGE

if TYPE_CHECKING:
    from .family_words import Family

MOST_TOKENS, MOST_ANSWERS, LARGEST = 200_000, 1024, 1e9
NORMS_HINT = ", ".join(NORM_WORDS)


@dataclass(frozen=True)
class Usage:
    """`--help`."""

    text: str


@dataclass(frozen=True)
class Worked:
    """The screen of worked numbers."""


@dataclass(frozen=True)
class Methods:
    """The table of methods."""


@dataclass(frozen=True)
class Length:
    """The stop-only model: chance to be right, answers in a group, chance to stop, tokens in front of the tail.

    wrong_body: None: as body.
    """

    right: float
    group: int
    stop: float
    body: int
    wrong_body: int | None


@dataclass(frozen=True)
class Step:
    """One step of a run; question: an id, or None for all; html: where the page goes, or None for its usual place.

    everything: all questions on the screen too, their answers whole.
    """

    folder: Path
    number: int | None
    question: str | None
    html: Path | None
    everything: bool = False


@dataclass(frozen=True)
class Own:
    """A group that the user gave. Sequences have one entry for each answer; None is what was left out.

    A reward of None is an excluded answer.
    """

    rewards: tuple[float | None, ...]
    lengths: tuple[int, ...]
    advantage: str | None
    loss_norm: str | None
    budget: float | None
    ddof: int
    beta: float
    ref_ratio: tuple[float, ...] | None
    ratio: tuple[float, ...] | None
    low: float
    high: float


OWN_FLAGS = (
    "--rewards", "--lengths", "--advantage", "--loss-norm", "--budget", "--ddof", "--beta", "--ref-ratio", "--ratio",
    "--clip",
)  # fmt: skip
STEP_FLAGS = ("--step", "--question", "--html", "--all")
SWITCHES = ("--all",)
LENGTH_FLAGS = ("--right", "--group", "--stop", "--body", "--wrong-body")
PLACES = {  # where a flag belongs that was given elsewhere
    **dict.fromkeys(OWN_FLAGS, "a group of your own"),
    **dict.fromkeys(STEP_FLAGS, "a run's folder: explain RUN_FOLDER --step N"),
    **dict.fromkeys(LENGTH_FLAGS, "explain length"),
}
MOST_OF_GROUP, LEAST_STOP, LONGEST_BODY = 64, 0.005, 10_000  # so that all is summed in a second or two


def read(words: Sequence[str]) -> Usage | Worked | Methods | Length | Step | Own | Family:
    """What is wanted."""
    words = list(words)
    if {"-h", "--help"} & set(words):
        return Usage(USAGE.format(advantages=", ".join(PRESETS), norms=NORMS_HINT))
    if not words:
        return Worked()
    if words[0] == "methods":
        if words[1:]:
            raise InputError(f'"explain methods" takes nothing more; "{words[1]}" came after it.')
        return Methods()
    if words[0] == "family":
        from .family_words import read as family

        return family(words[1:])
    if words[0] == "length":
        return _length(flags_of(words[1:], LENGTH_FLAGS))
    if words[0].startswith("-"):
        return _own(flags_of(words, OWN_FLAGS))
    return _step(words[0], flags_of(words[1:], STEP_FLAGS))


def _length(flags: dict[str, str]) -> Length:
    return Length(
        right=_between("--right", flags.get("--right", "0.3"), 0, 1),
        group=_count("--group", flags.get("--group", "8"), 2, MOST_OF_GROUP),
        stop=_between("--stop", flags.get("--stop", "0.15"), LEAST_STOP, 1),
        body=_count("--body", flags.get("--body", "6"), 0, LONGEST_BODY),
        wrong_body=_count("--wrong-body", flags["--wrong-body"], 0, LONGEST_BODY) if "--wrong-body" in flags else None,
    )


def _step(folder: str, flags: dict[str, str]) -> Step:
    if not os.path.isdir(folder):
        near = nearest(folder, ["methods", "length", "family"])
        raise InputError(f'"{folder}" is no run folder.{near} All that explain takes: explain --help')
    page = html_place(flags.get("--html"))
    question = flags.get("--question")
    if question is not None and "--all" in flags:
        raise InputError("--all and --question: one question, or all. Give one of the two.")
    return Step(Path(folder), step_number(flags.get("--step")), question, page, "--all" in flags)


def step_number(number: str | None) -> int | None:
    """Of `--step`."""
    if number is not None and not (number.isascii() and number.isdecimal()):
        raise InputError(f'--step {number}: "{number}" is not a step. Allowed: a whole number of at least 0.')
    return None if number is None else int(number)


def html_place(html: str | None) -> Path | None:
    """Of `--html`: where a file is, or could be."""
    if html is not None and (not html or os.path.isdir(html) or not os.path.isdir(os.path.dirname(html) or ".")):
        raise InputError(f"--html {html}: not a place for a file. Allowed: a file's name, in a folder that is there.")
    if html is not None and not _is_file_or_free(html):
        raise InputError(
            f"--html {html}: what is there is no file but a device, a pipe or the like. Give a file's name."
        )
    return None if html is None else Path(html)


def _is_file_or_free(place: str) -> bool:
    """Whether nothing is at the place, or a file; a link is what it leads to (in a circle: neither)."""
    end = os.path.realpath(place)
    return os.path.isfile(end) or not os.path.lexists(end)


def _own(flags: dict[str, str]) -> Own:
    if "--rewards" not in flags:
        raise InputError("--rewards is missing: the rewards of one group, such as --rewards 1,0,0,0,0.")
    rewards = _rewards(flags["--rewards"])
    count = len(rewards)
    if not 2 <= count <= MOST_ANSWERS:
        raise InputError(
            f"--rewards has {count} reward{'s'[: count != 1]}. Allowed: 2 to {MOST_ANSWERS}, since a group is what an "
            "answer is compared with."
        )
    if all(reward is None for reward in rewards):
        raise InputError("--rewards: every answer is excluded, so there is nothing to weigh. Give at least one reward.")
    lengths = tuple(_whole("--lengths", flags["--lengths"], 1, MOST_TOKENS)) if "--lengths" in flags else (1,) * count
    if len(lengths) != count:
        raise InputError(f"--lengths has {len(lengths)} entries and --rewards has {count}: give one length a reward.")
    advantage, norm = flags.get("--advantage"), flags.get("--loss-norm")
    _known("--advantage", advantage, PRESETS)
    if norm is not None:
        from ..algorithm import LOSS_NORMS

        _known("--loss-norm", norm, LOSS_NORMS)
    chosen = [PRESETS[advantage]] if advantage else [PRESETS[name] for name in ("grpo", "dr_grpo", "rloo")]
    if "--ddof" in flags and all(preset.scale == "none" for preset in chosen):
        raise InputError(f"--ddof changes nothing with --advantage {advantage}: nothing is divided by a std.")
    if "--budget" in flags and all((norm or preset.norm) != "constant" for preset in chosen):
        raise InputError(
            f"--budget changes nothing with --loss-norm {norm or chosen[0].norm}: take --loss-norm constant."
        )
    for flag, needed in (("--ref-ratio", "--beta"), ("--clip", "--ratio")):
        if flag in flags and needed not in flags:
            raise InputError(f"{flag} changes nothing without {needed}.")
    ddof = _whole("--ddof", flags.get("--ddof", "0"), 0, 1)
    clip = _numbers("--clip", flags.get("--clip", "0.2"), 0)
    if len(clip) > 2 or len(ddof) > 1:
        raise InputError("--clip takes one or two numbers, --ddof one: --clip 0.2,0.28 --ddof 1.")
    return Own(
        rewards=tuple(rewards),
        lengths=lengths,
        advantage=advantage,
        loss_norm=norm,
        budget=_one("--budget", flags["--budget"], above=0) if "--budget" in flags else None,
        ddof=ddof[0],
        beta=_one("--beta", flags["--beta"]) if "--beta" in flags else 0.0,
        ref_ratio=_each("--ref-ratio", flags["--ref-ratio"], count) if "--ref-ratio" in flags else None,
        ratio=_each("--ratio", flags["--ratio"], count) if "--ratio" in flags else None,
        low=clip[0],
        high=clip[-1],
    )


def flags_of(words: Sequence[str], allowed: Sequence[str]) -> dict[str, str]:
    """Flag -> value of `--flag value` and `--flag=value`."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if flag in PLACES and flag not in allowed:
            raise InputError(f"{flag} goes with {PLACES[flag]}.")
        if flag not in allowed:
            raise InputError(f'explain has no "{flag}".{nearest(flag, allowed)} All that it takes: explain --help')
        if flag in found:
            raise InputError(f"{flag} is given twice.")
        if flag in SWITCHES:
            if equals:
                raise InputError(f"{flag} takes no value.")
        elif not equals:
            if not rest or rest[0].startswith("--"):
                raise InputError(f"{flag} needs a value. All that explain takes: explain --help")
            value = rest.pop(0)
        found[flag] = value
    return found


def _known(flag: str, name: str | None, names: Iterable[str]) -> None:
    if name is not None and name not in names:
        raise InputError(f'{flag}: no "{name}". Allowed: {", ".join(names)}.{nearest(name, names)}')


def _rewards(text: str) -> list[float | None]:
    """Numbers, with None for an answer that is excluded."""
    return [
        None if part.strip().lower() in ("none", "nan") else _numbers("--rewards", part, -LARGEST)[0]
        for part in text.split(",")
    ]


def _numbers(flag: str, text: str, least: float, above: bool = False) -> list[float]:
    found = []
    for part in text.split(","):
        try:
            value = float(part)
        except ValueError:
            raise InputError(
                f'{flag}: "{part}" is not a number. Write numbers with commas and no spaces: {flag} 1,0.5'
            ) from None
        if not math.isfinite(value) or not least <= value <= LARGEST or (above and value == least):
            limit = f"above {least:g}" if above else f"of at least {least:g}"
            raise InputError(
                f"{flag}: {part.strip()} is not allowed. Allowed: a number {limit} and at most {LARGEST:g}."
            )
        found.append(value)
    return found


def _whole(flag: str, text: str, least: int, most: int) -> list[int]:
    found = []
    for value in _numbers(flag, text, -LARGEST):
        if value != int(value) or not least <= value <= most:
            raise InputError(f"{flag}: {value:g} is not allowed. Allowed: a whole number from {least} to {most}.")
        found.append(int(value))
    return found


def _count(flag: str, text: str, least: int, most: int) -> int:
    values = _whole(flag, text, least, most)
    if len(values) > 1:
        raise InputError(f"{flag} takes one number.")
    return values[0]


def _between(flag: str, text: str, low: float, high: float) -> float:
    value = _one(flag, text)
    if not low < value < high:
        raise InputError(f"{flag}: {value:g} is not allowed. Allowed: a chance above {low:g} and below {high:g}.")
    return value


def _one(flag: str, text: str, above: float | None = None) -> float:
    values = _numbers(flag, text, 0.0 if above is None else above, above is not None)
    if len(values) > 1:
        raise InputError(f"{flag} takes one number.")
    return values[0]


def _each(flag: str, text: str, count: int) -> tuple[float, ...]:
    values = _numbers(flag, text, 0, above=True)
    if len(values) not in (1, count):
        raise InputError(f"{flag} has {len(values)} entries: give one number, or one for each of the {count} rewards.")
    return tuple(values * count if len(values) == 1 else values)
