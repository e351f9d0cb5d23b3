"""Plain values -> RunConfig, or an InputError that names the key, its value, what is allowed and the nearest match.

Pure: no Hydra, no torch. What is allowed is read off the schema's own types, so that it is written once.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import ValidationError

from .errors import InputError, nearest
from .later import LATER
from .schema import RunConfig, SetConfig

# Groups that are one number: `beta=0.04` means `beta.value=0.04`, and messages say `beta`.
NUMERIC_GROUPS = ("beta", "group_size")
MOST_LINES = 5
# The names in reward.parts: reward/compose.py has a function for each.
PARTS = ("correct", "format", "countdown", "function", "model")
# What a set to evaluate on has where it is not given: `+evaluation.sets.mine.path=FILE` is a whole set.
SET: dict[str, Any] = {field.name: "test" if field.name == "split" else None for field in fields(SetConfig)}
# The names in health.stop_on: health/rules.py has a rule for each.
RULES = (
    *("truncation", "no_answer", "zero_variance", "entropy_collapse", "kl_runaway"),
    *("ratio", "wrong_longer", "zero_reward", "grader", "grad_spikes"),
)


def build(values: Mapping[str, Any]) -> RunConfig:
    """A RunConfig from nested plain values. Raises InputError, one line a fault and at most five lines."""
    faults: list[str] = []
    config = _make(RunConfig, values, "", faults)
    if faults:
        more = [f"… and {len(faults) - MOST_LINES + 1} more"] if len(faults) > MOST_LINES else []
        raise InputError("\n".join(faults[: MOST_LINES - len(more)] + more))
    assert isinstance(config, RunConfig)
    return config


def to_yaml(config: RunConfig) -> str:
    """The configuration as YAML, without run_dir: it is the folder that the file lies in, which may be moved."""
    values = _plain(asdict(config))
    del values["run_dir"]
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return text


def load(path: Path | str) -> RunConfig:
    """The RunConfig of a run from its config.yaml; its run_dir is the file's folder. Raises InputError."""
    file = Path(path)
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{file}: not a readable config.yaml ({' '.join(str(error).split())[:200]}).") from None
    if not isinstance(values, dict):
        raise InputError(f"{file}: not the configuration of a run (no keys in it).")
    try:
        return build(with_later(values) | {"run_dir": str(file.absolute().parent)})
    except InputError as error:
        lines = str(error).splitlines()[: MOST_LINES - 1]
        raise InputError("\n".join([f"{file}:", *lines])) from None


def with_later(values: dict[str, Any]) -> dict[str, Any]:
    """Nested values of a config.yaml with the keys that came after it was written (later.py)."""
    values = {"health": {}} | values  # a group that came later
    for key, value in LATER.items():
        values = _given(values, key.split("."), value)
    norm = values.get("loss_norm")
    if isinstance(norm, dict) and norm.get("kind") == "constant" and norm.get("divisor", 0) is None:
        values = values | {"loss_norm": {**norm, "divisor": values.get("max_new_tokens")}}  # what null stood for
    return values


def _given(values: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """Nested values, with one put in where the path's last name is missing from a group that is there."""
    name, *rest = path
    if not rest:
        return values if name in values else values | {name: value}
    group = values.get(name)
    return values | {name: _given(group, rest, value)} if isinstance(group, dict) else values


def keys() -> tuple[str, ...]:
    """Every key that a user may set, dotted, groups among them; not run_dir, which Hydra's own keys set."""
    return tuple(key for key in _keys(RunConfig, "") if key != "run_dir")


def mappings() -> tuple[str, ...]:
    """The keys whose value is a mapping with names of the user's choosing, such as reward.parts."""
    return tuple(key for key, hint in _keys(RunConfig, "").items() if get_origin(hint) is dict)


def lists() -> tuple[str, ...]:
    """The keys whose value is a list, such as prompt.stop, or may be one."""
    return tuple(key for key, hint in _keys(RunConfig, "").items() if _is_list(hint))


def takes(key: str) -> str:
    """The end of a sentence about a key: ' It takes a whole number of at least 1.'; '' for none of ours."""
    every = _keys(RunConfig, "")
    return f" It takes {_takes(every[key])}." if key in every else ""


def suggest(key: str) -> str:
    """The end of a sentence about an unknown key: ' Did you mean "optim.lr"?' for `lr`, `optim.lrr` or `optim.rl`."""
    known = keys()
    by_last: dict[str, str] = {}
    # data.answer_column, not data.train.answer_column; optim.lr, not critic.lr, which came later
    for name in sorted(known, key=lambda name: (name.count("."), name in LATER)):
        by_last.setdefault(name.rpartition(".")[2], name)
    above, _, last = key.rpartition(".")
    if re.search("resume|from_checkpoint", last):  # what other trainers have a key for
        return " A run goes on by itself: type the same command again, or name its folder with hydra.run.dir=FOLDER."
    if above.startswith("evaluation.sets."):
        return nearest(last, SET)
    if last in by_last:
        return f' Did you mean "{by_last[last]}"?'
    groups = {name.partition(".")[0] for name in known}
    if close := nearest(key, [*known, *groups, "experiment"]):
        return close
    close = nearest(last, by_last)
    return close and f' Did you mean "{by_last[close.split(chr(34))[1]]}"?'


def shown(value: object) -> str:
    """A value as it would be typed on the command line or in YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_quoted(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_quoted(item)}" for key, item in value.items()) + "}"
    return str(value)


def _quoted(item: object) -> str:
    """An item of a list as it would be typed: text that is empty or holds a comma or the like stands in quotes."""
    text = shown(item)
    return f"'{text}'" if isinstance(item, str) and re.search(r"^$|^\s|\s$|[][{},:'\"]", text) else text


def shown_key(key: str) -> str:
    """A key as users type it: `beta` for `beta.value`."""
    group, _, last = key.partition(".")
    return group if last == "value" and group in NUMERIC_GROUPS else key


def allowed(hint: Any) -> str:
    """What a field's type takes, in words: `a whole number of at least 1`, `cpu, cuda or mps`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [limit for info in arguments[1:] for limit in getattr(info, "metadata", ())]
        if any(getattr(limit, "pattern", None) for limit in limits):
            return "package.module:function"
        if any(hasattr(limit, "min_length") for limit in limits):
            return f"{allowed(arguments[0])} that is not empty"
        words = [
            f"{word} {getattr(limit, name)}"
            for limit in limits
            for name, word in {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}.items()
            if hasattr(limit, name)
        ]
        return f"{allowed(arguments[0])} {' and '.join(words)}".strip()
    if origin is Literal:
        return _either(_names(hint))
    if origin in (Union, UnionType):
        return _either([word for choice in arguments for word in _names(choice) or [allowed(choice)]])
    if origin is tuple:
        item = allowed(arguments[0])
        return f"a list, each {item}" if arguments[-1] is Ellipsis else f"a list of {len(arguments)}, each {item}"
    if origin is dict:
        return f"names, each with {_takes(arguments[1])}"
    simple = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", NoneType: "null"}
    return simple[hint]


def _make(cls: type, values: object, prefix: str, faults: list[str]) -> object:
    """An instance of a schema class, or None after its faults were added, each in one line."""
    if not isinstance(values, Mapping):
        faults.append(f"{prefix[:-1]}={shown(values)} is not allowed. It takes {_takes(cls)}.")
        return None
    hints = _hints(cls)
    for key in values:
        if key not in hints:
            faults.append(f'Unknown key "{prefix}{key}".{suggest(f"{prefix}{key}")}')
    arguments: dict[str, object] = {}
    for name, hint in hints.items():
        if name not in values:
            key = prefix + name
            before = f" Before there was this key: {shown(LATER[key])}." if key in LATER else ""
            faults.append(f"{shown_key(key)} is missing. It takes {_takes(hint)}.{before}")
        elif is_dataclass(hint):
            arguments[name] = _make(typing.cast(type, hint), values[name], f"{prefix}{name}.", faults)
        elif _of_sets(hint) and isinstance(values[name], Mapping):
            arguments[name] = {
                str(one): _make(SetConfig, _whole_set(given), f"{prefix}{name}.{one}.", faults)
                for one, given in values[name].items()
            }
        else:
            arguments[name] = values[name]
    try:
        return cls(**arguments)
    except ValidationError as error:
        faults.extend(_fault(prefix, place, hints, arguments) for place in _places(error, hints, arguments))
        return None


def _places(error: ValidationError, hints: dict[str, Any], arguments: dict[str, object]) -> list[tuple[str, ...]]:
    """Where the faults are that were not told yet: a field, or a name in a field that is a mapping."""
    places: dict[tuple[str, ...], None] = {}
    for fault in error.errors():
        place = tuple(str(part) for part in fault["loc"][:2])
        told = is_dataclass(hints.get(place[0])) or (len(place) == 2 and _of_sets(hints.get(place[0])))
        if place[0] in arguments and not told:
            places[place if get_origin(hints[place[0]]) is dict else place[:1]] = None
    return list(places)


def _fault(prefix: str, place: tuple[str, ...], hints: dict[str, Any], values: dict[str, object]) -> str:
    """One line about the value at a place: a field, or a field that is a mapping and a name in it."""
    hint, value = hints[place[0]], values[place[0]]
    if len(place) == 2 and isinstance(value, Mapping) and place[1] in value:
        hint, value = get_args(hint)[1], value[place[1]]
    close = nearest(value, _names(hint)) if isinstance(value, str) else ""
    return f"{shown_key(prefix + '.'.join(place))}={shown(value)} is not allowed. It takes {allowed(hint)}.{close}"


def _names(hint: Any) -> list[str]:
    """The names that a type takes, also one of several types."""
    if get_origin(hint) in (Union, UnionType):
        return [name for choice in get_args(hint) for name in _names(choice)]
    return [str(choice) for choice in get_args(hint)] if get_origin(hint) is Literal else []


def _is_list(hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(map(_is_list, arguments))
    return origin is tuple or (origin is Annotated and _is_list(arguments[0]))


def _of_sets(hint: Any) -> bool:
    """Whether a field is evaluation.sets."""
    return get_origin(hint) is dict and get_args(hint)[1] is SetConfig


def _whole_set(given: object) -> object:
    return SET | dict(given) if isinstance(given, Mapping) else given


def _takes(hint: Any) -> str:
    return f"the keys {_either(list(_hints(hint)), 'and')}" if is_dataclass(hint) else allowed(hint)


def _hints(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields(cls)}


def _keys(cls: type, prefix: str) -> dict[str, Any]:
    """Dotted keys with their types."""
    found: dict[str, Any] = {}
    for name, hint in _hints(cls).items():
        found[f"{prefix}{name}"] = hint
        if is_dataclass(hint):
            found |= _keys(typing.cast(type, hint), f"{prefix}{name}.")
    return found


def _either(words: list[str], link: str = "or") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {link} {words[-1]}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
