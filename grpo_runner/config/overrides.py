"""Overrides as text: what users may write beyond Hydra's own grammar, and single ones read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, OverrideType, ValueType

from ..errors import InputError
from ..validate import NUMERIC_GROUPS
from . import names
from .hydra_errors import OWN_SWEEPER, explain, no_choice, no_item


def translate(overrides: Iterable[str]) -> list[str]:
    """Overrides as Hydra takes them. Raises InputError where names and numbers are mixed.

    `beta=0.04` becomes `beta.value=0.04`, in sweeps too: Hydra takes a group's value for a file name and refuses
    numbers. `debug=null`, as conf/config.yaml has it, becomes `~debug`. A name such as `run_name=1e3` becomes text.
    """
    parser = OverridesParser.create()
    result: list[str] = []
    kinds: dict[str, bool] = {}
    for text in overrides:
        override = _parse_one(text, parser)
        group = override.key_or_group
        if not group:
            raise InputError(f"{text}: no key before the =. Allowed: key=value.")
        if group in NUMERIC_GROUPS and override.package is None and not override.is_delete():
            is_number = _is_numeric(override)
            if is_number is None or kinds.setdefault(group, is_number) != is_number:
                raise InputError(
                    f"{text}: {group} is given both names and numbers. Give all as names, or all as numbers."
                )
            if is_number:
                text = re.sub(rf"^(\s*\+*){group}\s*=", rf"\g<1>{group}.value=", text)
        elif group in names.PRESETS and override.type == OverrideType.CHANGE and override.package is None:
            result = [other for other in result if names.plain_key(other.partition("=")[0].lstrip("~")) != group]
            if None in _values(override):
                if override.is_sweep_override():
                    raise InputError(f"{text}: null is no value of a sweep. Start the job without {group} by itself.")
                text = f"~{group}"
        elif group in names.UNNAMED and isinstance(override.value(), (bool, int, float)):
            key, _, value = text.partition("=")
            text = f"{key}='{value.strip()}'"
        result.append(text)
    return result


def parse(overrides: Sequence[str], loader: ConfigLoader | None = None) -> list[Override]:
    """Overrides, read. The loader is for sweeps with glob()."""
    parser = OverridesParser.create(config_loader=loader)
    return [_parse_one(text, parser) for text in overrides]


def first(override: Override) -> str:
    """The override itself, or the first of its values if it sweeps; of an interval, which a search has, its start."""
    if not override.is_sweep_override():
        return override.input_line or ""
    if isinstance(interval := override.value(), IntervalSweep):
        return f"{override.get_key_element()}={interval.start}"
    try:
        return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"
    except Exception as error:
        reason = " ".join(str(error).split()) or "it holds no value"
        raise InputError(f"{override.input_line}: not a sweep that can be listed ({reason}).") from error


def check_choices(parsed: Sequence[Override], loader: ConfigLoader) -> None:
    """Raise InputError for a group that is given no name of a file: Hydra merges the files of a list without a word.

    And for a key below a list, of which Hydra says only that it is no int, and for the runner's own sweeper.
    """
    groups = set(loader.list_groups("")) - {"hydra"}
    for override in parsed:
        key = override.key_or_group
        own = key == "hydra/sweeper" and override.value() == OWN_SWEEPER
        if own or key == "hydra.sweeper.done" or key.startswith("hydra.sweeper.done."):
            raise InputError(
                f"{override.input_line}: the runner sets this itself, from the runs that are done. Leave it out."
            )
        if said := no_item(key, {key.rpartition(".")[2]} if override.is_delete() else ()):
            raise InputError(said)
        nothing = override.is_delete() and override.value() is None  # ~optim, as against ~optim=adamw
        if key not in groups or nothing or override.is_sweep_override():
            continue
        value = override.value()
        if not isinstance(value, str):
            raise InputError(no_choice(key, value, loader.get_group_options(key)))


def _parse_one(text: str, parser: OverridesParser) -> Override:
    try:
        return parser.parse_overrides([text])[0]
    except Exception as error:  # the grammar's functions, such as range(a), raise errors of many kinds
        raise explain(error, text) from error


def _values(override: Override) -> list[object]:
    """The values that an override lists: one, or those of a sweep; none for a range, an interval or a glob."""
    if override.value_type in (ValueType.RANGE_SWEEP, ValueType.INTERVAL_SWEEP, ValueType.GLOB_CHOICE_SWEEP):
        return []
    return list(override.sweep_iterator()) if override.is_sweep_override() else [override.value()]


def _is_numeric(override: Override) -> bool | None:
    """Whether all values are numbers (True), none is (False), or some are (None)."""
    if override.value_type in (ValueType.RANGE_SWEEP, ValueType.INTERVAL_SWEEP):
        return True
    found = {isinstance(value, (int, float)) and not isinstance(value, bool) for value in _values(override)} or {False}
    return found.pop() if len(found) == 1 else None
