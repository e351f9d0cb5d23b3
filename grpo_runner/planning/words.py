"""The words after `plan`: overrides as for a run, and a few flags. No torch, no Hydra."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, nearest
from ..files import json_file

USAGE = """\
plan [GROUP=CHOICE …] [KEY=VALUE …]   what this run is, what will happen, what it needs, what will bite; loads nothing
     [-m]                             of a sweep: its first run, and how many there are
     [--success-rate P]               share of right answers: how many groups will have no variance
     [--prompt-tokens N]              tokens of a prompt; left out: about the mean of the questions, or where that is
                                      not known data.max_prompt_tokens, the most there can be
     [--processes N]                  of torchrun; left out: 1
     [--price P]                      of an hour of one device: the cost of the time, in whatever P is in
     [--calibrate]                    time two steps of this run first (loads the model), and keep the figure
     [--json FILE]                    the same as JSON"""


@dataclass(frozen=True)
class Asked:
    """What was asked for. success: None where not given; prompt: tokens, None for the most there can be."""

    overrides: tuple[str, ...] = ()
    sweep: bool = False
    success: float | None = None
    prompt: int | None = None
    processes: int = 1
    price: float | None = None
    calibrate: bool = False
    json: Path | None = None
    help: bool = False


class _Flag(NamedTuple):
    """field: of Asked; read: the value's text as a value, None for a switch; takes: what is allowed, in words."""

    field: str
    read: Callable[[str], Any] | None = None
    takes: str = ""


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _price(text: str) -> float:
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise ValueError
    return value


FLAGS = {
    "-h": _Flag("help"),
    "--help": _Flag("help"),
    "-m": _Flag("sweep"),
    "--multirun": _Flag("sweep"),
    "--calibrate": _Flag("calibrate"),
    "--success-rate": _Flag("success", _share, "a share from 0 to 1"),
    "--prompt-tokens": _Flag("prompt", _count, "a whole number of at least 1"),
    "--processes": _Flag("processes", _count, "a whole number of at least 1"),
    "--price": _Flag("price", _price, "a number above 0"),
    "--json": _Flag("json", json_file, "a file"),
}


def read(words: Sequence[str]) -> Asked:
    """Raises InputError for a flag that is none, lacks its value, or has one that is not allowed."""
    given: dict[str, Any] = {}
    overrides: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            overrides.append(_override(word))
            continue
        name, equals, value = word.partition("=")
        if name not in FLAGS:
            raise InputError(f'plan has no flag "{name}".{nearest(name, FLAGS)} All of them: plan --help')
        flag = FLAGS[name]
        if flag.read is None:
            given[flag.field] = True
            continue
        if not equals:
            if not left:
                raise InputError(f"{name} wants {flag.takes}.")
            value = left.pop(0)
        try:
            given[flag.field] = flag.read(value)
        except ValueError:
            raise InputError(f"{name} {value} is not allowed. It takes {flag.takes}.") from None
    return Asked(overrides=tuple(overrides), **given)


def _override(word: str) -> str:
    if "=" in word or word.startswith("~"):
        return word
    from ..config import find

    close = f' Did you mean "experiment={word}"?' if (find() / "experiment" / f"{word}.yaml").is_file() else ""
    raise InputError(f'"{word}" is not an override: write key=value.{close}')
