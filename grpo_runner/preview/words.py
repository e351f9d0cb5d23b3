"""The words after `prompt` as one wish, or an InputError of a few lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, nearest
from ..files import json_file

USAGE = """\
prompt [OVERRIDE …]                   the prompts of a run (experiment=…, model=…, data=…, prompt=…): rendered,
                                      token by token, their BOS and stop strings, how long those of its sets are,
                                      how many are over data.max_prompt_tokens, and what does not fit the model
        [--n N]                       show the first N prompts of the training set; left out: 3
        [--json FILE]                 write the same as JSON

Only the tokenizer is loaded, not the model; evaluation=never leaves the evaluation sets out. Exit code 0, whatever is
found; 2 for what you can mend."""
FLAGS = ("--n", "--json")


@dataclass(frozen=True)
class Wanted:
    """count: prompts to show, at least 1. json: where the report is written as JSON, None for nowhere."""

    overrides: tuple[str, ...]
    count: int = 3
    json: Path | None = None


def read(words: Sequence[str]) -> Wanted | None:
    """What is wanted; None for the usage."""
    if {"-h", "--help"} & set(words):
        return None
    flags: dict[str, str] = {}
    overrides: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if word.startswith("-"):
            if flag not in FLAGS:
                raise InputError(f'prompt has no "{flag}".{nearest(flag, FLAGS)} All that it takes: prompt --help')
            if flag in flags:
                raise InputError(f"{flag} is given twice.")
            if not equals:
                if not rest or rest[0].startswith("--"):
                    raise InputError(f"{flag} needs a value. All that prompt takes: prompt --help")
                value = rest.pop(0)
            flags[flag] = value
        elif equals or word.startswith("~"):
            overrides.append(word)
        else:
            raise InputError(f'"{word}" is not an override: write key=value. All that prompt takes: prompt --help')
    return Wanted(
        tuple(overrides), _count(flags.get("--n", "3")), json_file(flags["--json"]) if "--json" in flags else None
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:9]) > 0):
        raise InputError(f"--n {text}: not allowed. It takes a whole number of at least 1.")
    return int(text[:9])
