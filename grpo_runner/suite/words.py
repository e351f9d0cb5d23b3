"""The words after `evaluate` as one wish, or an InputError of a few lines. Pure, but for a look at the folders."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, nearest

USAGE = """\
evaluate experiment=… | model=… | KEY=VALUE …   a model before any training
evaluate adapter=RUN_FOLDER … [KEY=VALUE …]     what a run has trained; several runs side by side
         [--steps all|0,50,…]                   of its checkpoints, as a curve; 0: before training; left out: the last
         [--base]                               first, the model before training (or without its lora.adapter)
         [--also reward=PRESET,…]               grade the same answers by other conf/reward presets beside the own
         [--against NAME …]                     published figures of docs/facts.csv beside ours
         [--output FOLDER]                      left out: outputs/evaluations/NAME, by the command: each choice of
                                                policies its own; in one folder, answers are not asked for twice

What is asked stands in the group evaluation: evaluation=dr_grpo_suite, math500, gsm8k_test, aime, or sets of your own
(+evaluation.sets.NAME.path=FILE); how often and how, in evaluation.samples, .greedy, .temperature, .top_p, .questions,
.max_new_tokens. A run's other settings are its own, and keys given here come before them. The others are
compared with the first of several policies, question by question. Typed again, the command goes on where it stopped."""

FLAGS = ("--steps", "--base", "--also", "--against", "--output")
_MANY = ("--also", "--against")


@dataclass(frozen=True)
class Wanted:
    """What to evaluate. steps: () for the last of each run, ("all",) for all there are, else their numbers."""

    adapters: tuple[Path, ...]
    overrides: tuple[str, ...]
    steps: tuple[int | str, ...] = ()
    base: bool = False
    also: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    output: Path | None = None


def read(words: Sequence[str]) -> Wanted | None:
    """What is wanted; None for the usage."""
    if not words or {"-h", "--help"} & set(words):
        return None
    flags, others = _sorted(words)
    adapters, overrides = [], []
    for word in others:
        key, equals, value = word.partition("=")
        if word == "adapter=":
            raise InputError("adapter= needs the folder of a run, such as adapter=outputs/NAME.")
        # a run of a sweep has = in its name: sweeps/night/advantage=grpo,seed=0
        is_folder = os.path.isdir(word) and (not equals or os.sep in key)
        if key == "adapter" or is_folder:
            adapters.append(Path(value if equals and not is_folder else word))
        elif equals or word.startswith("~"):
            overrides.append(word)
        else:
            raise InputError(f'"{word}" is no run folder and no override such as model=tiny. All: evaluate --help')
    if "--steps" in flags and not adapters:
        raise InputError("--steps goes with adapter=RUN_FOLDER: only a run has steps.")
    if not flags.get("--output", ["."])[0].strip():
        raise InputError("--output needs the name of a folder.")
    adapters = [run_of(folder) for folder in adapters]
    for folder in {folder for folder in adapters if adapters.count(folder) > 1}:
        raise InputError(f"adapter={folder} is given twice.")
    return Wanted(
        adapters=tuple(adapters),
        overrides=tuple(overrides),
        steps=_steps(flags["--steps"][0]) if "--steps" in flags else (),
        base="--base" in flags,
        also=tuple(name for text in flags.get("--also", ()) for name in _presets(text)),
        against=tuple(flags.get("--against", ())),
        output=Path(flags["--output"][0]) if "--output" in flags else None,
    )


def run_of(folder: Path) -> Path:
    """A run's folder; its adapter/ or model/ stands for the run."""
    inside = folder.name in ("adapter", "model") and not (folder / "config.yaml").is_file()
    return folder.parent if inside and (folder.parent / "config.yaml").is_file() else folder


def _sorted(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Flag -> its values, of `--flag value` and `--flag=value`; and the other words."""
    flags: dict[str, list[str]] = {}
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if not word.startswith("--"):
            others.append(word)
            continue
        if flag not in FLAGS:
            raise InputError(f'evaluate has no "{flag}".{nearest(flag, FLAGS)} All that it takes: evaluate --help')
        if flag in flags and flag not in _MANY:
            raise InputError(f"{flag} is given twice.")
        if flag == "--base":
            if equals:
                raise InputError("--base takes no value.")
        elif not equals:
            if not rest or rest[0].startswith("--"):
                raise InputError(f"{flag} needs a value. All that evaluate takes: evaluate --help")
            value = rest.pop(0)
        flags.setdefault(flag, []).append(value)
    return flags, others


def _steps(text: str) -> tuple[int | str, ...]:
    if text == "all":
        return ("all",)
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise InputError(f"--steps {text}: not allowed. Allowed: all, or whole numbers such as 0,50,100.")
    return tuple(sorted({int(step) for step in text.split(",")}))


def _presets(text: str) -> list[str]:
    group, equals, listed = text.partition("=")
    chosen = [name for name in listed.split(",") if name]
    if group != "reward" or not equals or not chosen:
        raise InputError(
            f"--also {text}: not allowed. Allowed: reward=PRESET, such as reward=math_verify,boxed_strict."
        )
    return chosen
