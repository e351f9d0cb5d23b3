"""The words after `explain` as one of seven wishes, or an InputError of one line. No torch.

The parser is our own and not argparse, which takes the `-1,1` of `--rewards -1,1` for a flag.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, nearest
from ..objectives import NORM_WORDS, PRESETS
from .flags import (
    LENGTH_FLAGS,
    OWN_FLAGS,
    STEP_FLAGS,
    between_of,
    count_of,
    each_of,
    flags_of,
    html_place,
    known_of,
    numbers_of,
    one_of,
    rewards_of,
    step_number,
    whole_of,
)  # fmt: skip
from .usage import USAGE

if TYPE_CHECKING:
    from .family_words import Family

MOST_TOKENS, MOST_ANSWERS = 200_000, 1024
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
        right=between_of("--right", flags.get("--right", "0.3"), 0, 1),
        group=count_of("--group", flags.get("--group", "8"), 2, MOST_OF_GROUP),
        stop=between_of("--stop", flags.get("--stop", "0.15"), LEAST_STOP, 1),
        body=count_of("--body", flags.get("--body", "6"), 0, LONGEST_BODY),
        wrong_body=count_of("--wrong-body", flags["--wrong-body"], 0, LONGEST_BODY)
        if "--wrong-body" in flags
        else None,
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


def _own(flags: dict[str, str]) -> Own:
    if "--rewards" not in flags:
        raise InputError("--rewards is missing: the rewards of one group, such as --rewards 1,0,0,0,0.")
    rewards = rewards_of(flags["--rewards"])
    count = len(rewards)
    if not 2 <= count <= MOST_ANSWERS:
        raise InputError(
            f"--rewards has {count} reward{'s'[: count != 1]}. Allowed: 2 to {MOST_ANSWERS}, since a group is what an "
            "answer is compared with."
        )
    if all(reward is None for reward in rewards):
        raise InputError("--rewards: every answer is excluded, so there is nothing to weigh. Give at least one reward.")
    lengths = tuple(whole_of("--lengths", flags["--lengths"], 1, MOST_TOKENS)) if "--lengths" in flags else (1,) * count
    if len(lengths) != count:
        raise InputError(f"--lengths has {len(lengths)} entries and --rewards has {count}: give one length a reward.")
    advantage, norm = flags.get("--advantage"), flags.get("--loss-norm")
    known_of("--advantage", advantage, PRESETS)
    if norm is not None:
        from ..algorithm import LOSS_NORMS

        known_of("--loss-norm", norm, LOSS_NORMS)
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
    ddof = whole_of("--ddof", flags.get("--ddof", "0"), 0, 1)
    clip = numbers_of("--clip", flags.get("--clip", "0.2"), 0)
    if len(clip) > 2 or len(ddof) > 1:
        raise InputError("--clip takes one or two numbers, --ddof one: --clip 0.2,0.28 --ddof 1.")
    return Own(
        rewards=tuple(rewards),
        lengths=lengths,
        advantage=advantage,
        loss_norm=norm,
        budget=one_of("--budget", flags["--budget"], above=0) if "--budget" in flags else None,
        ddof=ddof[0],
        beta=one_of("--beta", flags["--beta"]) if "--beta" in flags else 0.0,
        ref_ratio=each_of("--ref-ratio", flags["--ref-ratio"], count) if "--ref-ratio" in flags else None,
        ratio=each_of("--ratio", flags["--ratio"], count) if "--ratio" in flags else None,
        low=clip[0],
        high=clip[-1],
    )
