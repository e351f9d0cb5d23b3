"""Flags of `explain` and their values, or an InputError of one line that names the flag. No torch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import InputError, nearest

LARGEST = 1e9
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


def known_of(flag: str, name: str | None, names: Iterable[str]) -> None:
    if name is not None and name not in names:
        raise InputError(f'{flag}: no "{name}". Allowed: {", ".join(names)}.{nearest(name, names)}')


def rewards_of(text: str) -> list[float | None]:
    """Numbers, with None for an answer that is excluded."""
    return [
        None if part.strip().lower() in ("none", "nan") else numbers_of("--rewards", part, -LARGEST)[0]
        for part in text.split(",")
    ]


def numbers_of(flag: str, text: str, least: float, above: bool = False) -> list[float]:
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


def whole_of(flag: str, text: str, least: int, most: int) -> list[int]:
    found = []
    for value in numbers_of(flag, text, -LARGEST):
        if value != int(value) or not least <= value <= most:
            raise InputError(f"{flag}: {value:g} is not allowed. Allowed: a whole number from {least} to {most}.")
        found.append(int(value))
    return found


def count_of(flag: str, text: str, least: int, most: int) -> int:
    values = whole_of(flag, text, least, most)
    if len(values) > 1:
        raise InputError(f"{flag} takes one number.")
    return values[0]


def between_of(flag: str, text: str, low: float, high: float) -> float:
    value = one_of(flag, text)
    if not low < value < high:
        raise InputError(f"{flag}: {value:g} is not allowed. Allowed: a chance above {low:g} and below {high:g}.")
    return value


def one_of(flag: str, text: str, above: float | None = None) -> float:
    values = numbers_of(flag, text, 0.0 if above is None else above, above is not None)
    if len(values) > 1:
        raise InputError(f"{flag} takes one number.")
    return values[0]


def each_of(flag: str, text: str, count: int) -> tuple[float, ...]:
    values = numbers_of(flag, text, 0, above=True)
    if len(values) not in (1, count):
        raise InputError(f"{flag} has {len(values)} entries: give one number, or one for each of the {count} rewards.")
    return tuple(values * count if len(values) == 1 else values)
