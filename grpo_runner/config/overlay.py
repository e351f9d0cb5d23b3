"""Overrides on top of a run that is there already: what `evaluate adapter=RUN …` is asked to do otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import yaml
from hydra.core.override_parser.types import Override

from .. import checks
from ..errors import InputError
from ..schema import RunConfig
from ..validate import build, to_yaml
from . import names
from .columns import covered
from .composing import compose
from .overrides import parse, translate


def compose_over(run: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """The run's configuration with groups (`evaluation=math500`) and keys (`seed=1`) of one's own in it.

    A group that is chosen takes the place of the run's, whole; keys come after. run_dir stays the run's. Raises
    InputError as composing does, and for experiment= and debug=, which would be another run.
    """
    if not overrides:
        return run
    words = translate(overrides)
    parsed = list(zip(parse(words), words, strict=True))
    for override, text in parsed:
        if override.is_sweep_override():
            raise InputError(f"{text}: several values are a sweep, which this command does not make.")
        if override.key_or_group in names.PRESETS:
            raise InputError(
                f"{text}: a run has its settings already. Give groups and keys, such as evaluation=math500."
            )
    values: dict[str, Any] = yaml.safe_load(to_yaml(run))
    choices = [(override, text) for override, text in parsed if _is_choice(override, run)]
    if choices:
        composed = yaml.safe_load(to_yaml(compose([text for _, text in choices])))
        for override, _ in choices:
            values[override.key_or_group] = composed[override.key_or_group]
    for override, _ in parsed:
        if not _is_choice(override, run):
            _set(values, override)
    for key in covered([override for override, _ in parsed]):
        _, source, name = key.split(".")
        values["data"][source][name] = None
    config = build(values | {"run_dir": run.run_dir})
    checks.check(config)
    return config


def _is_choice(override: Override, run: RunConfig) -> bool:
    key = override.key_or_group
    return is_dataclass(getattr(run, key, None)) and isinstance(override.value(), str)


def _set(values: dict[str, Any], override: Override) -> None:
    """Put one key's value in its place; `build` tells what may not be there."""
    *path, last = override.key_or_group.split(".")
    for name in path:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            raise InputError(f"{override.input_line}: {name} is a value and has no keys.")
    if override.is_delete():
        if last not in values:
            raise InputError(f"{override.input_line}: there is no {override.key_or_group} to leave out.")
        del values[last]
    else:
        values[last] = override.value()
