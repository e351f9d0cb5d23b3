"""The words of a command line: the verb, Hydra's flags among the overrides, and what was meant by what is none."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn

from .errors import InputError, nearest

INFOS = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


def verb_of(words: list[str], verbs: Collection[str]) -> tuple[str, list[str]]:
    """The verb, by default `train`, and the words after it. Raises InputError."""
    if not words or words[0].startswith(("-", "~", "+")) or "=" in words[0]:
        return "train", words
    if words[0] not in verbs:
        close = meant(words[0]) or nearest(words[0], verbs)
        raise InputError(f'No verb "{words[0]}". Verbs: {", ".join(verbs)}.{close}')
    return words[0], words[1:]


def meant(word: str) -> str:
    """The end of a sentence about a preset's name: ' Did you mean "experiment=quickstart"?', or a group's: how its
    choices are listed.
    """
    from .config import find
    from .config.names import PRESETS

    if re.fullmatch(r"\w+", word) and (find() / word).is_dir():
        return f" The choices of the group {word}: python -m grpo_runner --help {word}"
    found = [group for group in PRESETS if re.fullmatch(r"\w+", word) and (find() / group / f"{word}.yaml").is_file()]
    return f' Did you mean "{found[0]}={word}"?' if found else ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message[0].upper()}{message[1:]}. All flags: --help")


def parse(words: Sequence[str], verbs: Collection[str]) -> argparse.Namespace:
    """Hydra's flags, in any place among the overrides. Left out: --experimental-rerun, which reads a pickle."""
    parser = _Parser(prog="grpo_runner", add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-c", "--cfg", choices=["job", "hydra", "all"])
    parser.add_argument("-i", "--info", nargs="?", const="all", choices=INFOS)
    parser.add_argument("-p", "--package")
    parser.add_argument("-cp", "--config-path")
    parser.add_argument("-cn", "--config-name", default="config")
    parser.add_argument("-cd", "--config-dir")
    parser.add_argument("-sc", "--shell-completion", action="store_true")
    for flag in ("--help", "--version", "--hydra-help", "--resolve"):
        parser.add_argument(flag, action="store_true")
    flags, unknown = parser.parse_known_intermixed_args(list(words))
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        raise InputError(f'No flag "{unknown[0]}".{nearest(unknown[0], known)} All flags: --help')
    for word in flags.overrides:
        if "=" not in word and not word.startswith("~"):
            close = meant(word) or f" A verb comes first: {', '.join(verbs)}."
            raise InputError(f'"{word}" is not an override: write key=value.{close}')
    return flags


def own_configs(folder: str | None) -> list[str]:
    """The override for a user's folder of configs, read after conf/."""
    if folder is None:
        return []
    path = Path(folder).absolute()
    if not path.is_dir():
        raise InputError(f"--config-dir={folder}: no such folder.")
    quoted = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return [f"hydra.searchpath=['file://{quoted}']"]


def shows_of(flags: argparse.Namespace) -> list[str]:
    """The flags that Hydra answers without a run, as Hydra takes them."""
    valued = [(f"--{name}", value) for name in ("cfg", "info", "package") if (value := getattr(flags, name))]
    switches = [name for name in ("hydra_help", "shell_completion", "resolve") if getattr(flags, name)]
    shows = [word for pair in valued for word in pair] + [f"--{name.replace('_', '-')}" for name in switches]
    if (flags.package or flags.resolve) and not flags.cfg:
        raise InputError("--resolve and --package only go with --cfg job.")
    if shows and flags.multirun:
        raise InputError(f"{shows[0]} shows one run: leave out --multirun.")
    return shows
