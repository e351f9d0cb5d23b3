"""From conf/ and command-line overrides to RunConfig. Only this module and cli.py know Hydra.

Three things are added to Hydra's own behaviour: a number for a group that is one number (`beta=0.04`), folders named by
what was overridden (so that the same command finds the same folder), and errors that name the key and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import hydra
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, ValueType
from hydra.errors import MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from . import checks, names
from .errors import InputError, nearest
from .schema import RunConfig
from .validate import NUMERIC_GROUPS, build, keys, load, mappings, shown, shown_key, suggest, to_yaml

__all__ = ["Plan", "Source", "compose", "compose_sweep", "find", "load", "numeric", "plan", "resolve", "to_yaml"]

VERSION_BASE = "1.3"
EXCLUDED = "hydra.job.config.override_dirname.exclude_keys"


class Source(NamedTuple):
    """Where configs are read from: a folder, and the name of the primary config in it."""

    directory: Path
    name: str = "config"


@dataclass(frozen=True)
class Plan:
    """What a command line comes to: the overrides for Hydra, and the run, or the runs of a sweep.

    configs is empty for a sweep whose runs are decided as it goes (a sweeper other than Hydra's basic one).
    """

    overrides: tuple[str, ...]
    configs: tuple[RunConfig, ...]
    sweep: bool


def find() -> Path:
    """The folder conf/: inside an installed package, or beside it in a checkout or an editable install."""
    package = Path(__file__).resolve().parent
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise InputError(f"conf/config.yaml is missing beside {package}: install the package again.")


def compose(overrides: Sequence[str] = ()) -> RunConfig:
    """The RunConfig of one run, as the command line makes it. Raises InputError (one to five lines)."""
    planned = plan(overrides)
    if planned.sweep:
        raise InputError("These overrides make a sweep, not one run. Use compose_sweep, or add hydra.mode=RUN.")
    return planned.configs[0]


def compose_sweep(overrides: Sequence[str]) -> list[RunConfig]:
    """The RunConfigs of a sweep in order, as `--multirun` makes them. Raises InputError if any of them is not valid."""
    return list(plan(overrides, sweep=True).configs)


def plan(overrides: Sequence[str], sweep: bool = False, source: Source | None = None) -> Plan:
    """Compose and check every run that the overrides ask for. `sweep`: --multirun was given. Raises InputError."""
    source = source or Source(find())
    overrides = numeric(overrides)
    with _initialized(source) as loader:
        parsed = _parse(overrides, loader)
        _check_choices(parsed, loader)
        swept = [override for override in parsed if override.is_sweep_override()]
        for override in swept:
            if override.key_or_group == "sweep_name":
                line = override.input_line
                raise InputError(
                    f"{line}: a sweep has one name. One with a comma goes in both quotes: \"sweep_name='a,b'\""
                )
        base = _compose([_first(override) for override in parsed], source)
        sweep = sweep or base.hydra.mode == RunMode.MULTIRUN
        if swept and not sweep:
            line = swept[0].input_line
            raise InputError(f"{line}: several values are a sweep. Add -m (--multirun); a list is written key=[a,b].")
        if not sweep:
            return Plan(tuple(overrides), (resolve(base, base.hydra),), False)

        final = _sweep_overrides(parsed, base, loader)
        settings = [override.input_line or "" for override in parsed if override.is_hydra_override()]
        added = _sweep_settings(final, parsed, base)
        configs: list[RunConfig] = []
        if str(base.hydra.sweeper._target_).endswith("." + BasicSweeper.__name__):
            for job in _jobs(final):
                composed = _compose([*job, *settings, *added, "hydra.mode=MULTIRUN"], source)
                try:
                    configs.append(resolve(composed, composed.hydra))
                except InputError as error:
                    lines = str(error).splitlines()[:4]
                    raise InputError(
                        "\n".join([f"In the sweep's run {composed.hydra.sweep.subdir}:", *lines])
                    ) from None
        return Plan((*overrides, *added), tuple(configs), True)


def resolve(composed: DictConfig, settings: DictConfig) -> RunConfig:
    """A composed config and Hydra's own node -> a checked RunConfig. The one way from Hydra's world into ours."""
    ours = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    try:
        values: Any = OmegaConf.to_container(ours, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise InputError(_first_lines(error)) from None
    for key in names.UNNAMED:
        if isinstance(values.get(key), (int, float)):  # a name such as 7 is read as a number, and is meant as text
            values[key] = shown(values[key])
        if isinstance(values.get(key), str):
            names.check(key, values[key])
    if values.get("run_name", "") is None:
        values["run_name"] = own_label(settings)
    config = build(values | {"run_dir": str(_folder(settings).absolute())})
    checks.check(config)
    return config


def numeric(overrides: Iterable[str]) -> list[str]:
    """Rewrite `beta=0.04` to `beta.value=0.04`, in sweeps too. Raises InputError where names and numbers are mixed.

    Hydra takes a group's value for a file name and refuses numbers ("Config group override must be a string").
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
        result.append(text)
    return result


# --- names of folders


def own_label(settings: DictConfig) -> str:
    """The name of a run after its overrides; in a sweep, after those in which its runs differ."""
    exclude = settings.job.config.override_dirname.exclude_keys if settings.mode == RunMode.MULTIRUN else ()
    return names.label(settings.overrides.task, exclude)


def _folder(settings: DictConfig) -> Path:
    """Where Hydra puts the run: what it says itself while it runs, before that what it will say."""
    if not OmegaConf.is_missing(settings.runtime, "output_dir"):
        return Path(settings.runtime.output_dir)
    if settings.mode == RunMode.MULTIRUN:
        return Path(settings.sweep.dir) / settings.sweep.subdir
    return Path(settings.run.dir)


OmegaConf.register_new_resolver(
    "grpo.run_folder", lambda *, _root_: _root_.get("run_name") or own_label(_root_.hydra), replace=True
)
OmegaConf.register_new_resolver("grpo.sweep_subfolder", lambda *, _root_: own_label(_root_.hydra), replace=True)


# --- sweeps


def _sweep_overrides(parsed: Sequence[Override], base: DictConfig, loader: ConfigLoader) -> dict[str, Override]:
    """The last override of each key that Hydra's sweeper will see: the experiment's own (sweeper.params) come first."""
    params = [f"{key}={value}" for key, value in (base.hydra.sweeper.get("params") or {}).items()]
    every = [*_parse(params, loader), *(override for override in parsed if not override.is_hydra_override())]
    return {override.get_key_element(): override for override in every}


def _sweep_settings(final: Mapping[str, Override], parsed: Sequence[Override], base: DictConfig) -> list[str]:
    """Overrides that name the sweep's folder by its command, and each run's by what differs."""
    constant = [key for key, override in final.items() if not override.is_sweep_override()]
    added = []
    if base.sweep_name is None:
        typed = [override for override in parsed if not override.is_hydra_override()]
        fixed = [override.input_line or "" for override in typed if not override.is_sweep_override()]
        name = names.sweep_label(fixed, (o.get_key_element() for o in typed if o.is_sweep_override()))
        added.append(f"sweep_name='{name}'")
    if not any(override.key_or_group == EXCLUDED for override in parsed):
        added.append(f"{EXCLUDED}=[{','.join(repr(key) for key in constant)}]")
    return added


def _jobs(final: Mapping[str, Override]) -> list[list[str]]:
    try:
        batches = BasicSweeper.split_arguments(list(final.values()), None)
    except Exception as error:
        raise InputError(_first_lines(error)) from None
    return list(batches[0])


# --- Hydra, and its errors in one to five lines


@contextmanager
def _initialized(source: Source) -> Iterator[ConfigLoader]:
    if not source.directory.is_dir():
        raise InputError(f"--config-path={source.directory}: no such folder.")
    outer = GlobalHydra.instance().hydra  # a notebook may have Hydra open for a project of its own
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(source.directory), job_name="grpo_runner", version_base=VERSION_BASE):
            yield GlobalHydra.instance().config_loader()
    finally:
        GlobalHydra.instance().hydra = outer


def _compose(overrides: list[str], source: Source) -> DictConfig:
    try:
        return hydra.compose(config_name=source.name, overrides=overrides, return_hydra_config=True)
    except Exception as error:  # composing reads YAML and overrides only: whatever fails here, the user can mend
        raise explain(error) from error


def _parse(overrides: Sequence[str], loader: ConfigLoader) -> list[Override]:
    parser = OverridesParser.create(config_loader=loader)
    return [_parse_one(text, parser) for text in overrides]


def _parse_one(text: str, parser: OverridesParser) -> Override:
    try:
        return parser.parse_overrides([text])[0]
    except Exception as error:  # the grammar's functions, such as range(a), raise errors of many kinds
        raise explain(error, text) from error


def _first(override: Override) -> str:
    """The override itself, or the first of its values if it sweeps."""
    if not override.is_sweep_override():
        return override.input_line or ""
    try:
        return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"
    except Exception as error:
        reason = " ".join(str(error).split()) or "it holds no value"
        raise InputError(f"{override.input_line}: not a sweep that can be listed ({reason}).") from error


def _is_numeric(override: Override) -> bool | None:
    """Whether all values are numbers (True), none is (False), or some are (None)."""
    if override.value_type in (ValueType.RANGE_SWEEP, ValueType.INTERVAL_SWEEP):
        return True
    if override.value_type == ValueType.GLOB_CHOICE_SWEEP:
        return False
    values = override.sweep_iterator() if override.is_sweep_override() else [override.value()]
    found = {isinstance(value, (int, float)) and not isinstance(value, bool) for value in values}
    return found.pop() if len(found) == 1 else None


def _check_choices(parsed: Sequence[Override], loader: ConfigLoader) -> None:
    """Raise InputError for a group that is given no name of a file: Hydra merges the files of a list without a word."""
    groups = set(loader.list_groups("")) - {"hydra"}
    for override in parsed:
        if override.key_or_group not in groups or override.is_delete() or override.is_sweep_override():
            continue
        value = override.value()
        if isinstance(value, str) or (value is None and override.key_or_group in names.OPTION_ONLY):
            continue
        raise InputError(_no_choice(override.key_or_group, value, loader.get_group_options(override.key_or_group)))


def _no_choice(group: str, value: object, options: Sequence[str]) -> str:
    number = ", or a number" if group in NUMERIC_GROUPS else ""
    text = f"{group}={shown(value)} is not allowed. It takes one of {', '.join(options)}{number}."
    return text + (nearest(value, options) if isinstance(value, str) else "")


def explain(error: Exception, override: str | None = None) -> InputError:
    """What Hydra refused, as an InputError of one to five lines. `override`: the text that was being read."""
    text = str(error)
    if isinstance(error, InputError):
        return error
    if isinstance(error, OverrideParseException) or override is not None:
        reason = _first_lines(error, 1)
        return InputError(
            f"{override or getattr(error, 'override', '')}: not readable as key=value ({reason}).\n"
            "Allowed: key=value, key=[a,b] for a list, key='\"text\"' (both quotes) for text with = , or brackets."
        )
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and "/" in error.missing_cfg_file:
        group, _, value = error.missing_cfg_file.rpartition("/")
        return InputError(_no_choice(group, value, error.options or ()))
    if unknown := re.search(r"Could not (?:override|delete from config\.) '([^']+)'", text):
        key = unknown[1]
        if key.rpartition(".")[0] in mappings():
            return InputError(f'"{key}" is not there yet. Add it with a +: +{key}=…')
        if key.split("@")[0] not in keys():
            tail = "" if key.startswith("hydra.") else suggest(key) + "\nAll keys: python -m grpo_runner --cfg job"
            return InputError(f'Unknown key "{key}".{tail}')
    if present := re.search(r"An item is already at '([^']+)'", text):
        key = shown_key(present[1])
        return InputError(f"+{key}: the key is there already. Write {key}=… without the +.")
    return InputError(_first_lines(error))


def _first_lines(error: BaseException, most: int = 4) -> str:
    """The telling lines of a library's message and of its cause."""
    lines = [*str(error).splitlines(), *(str(error.__cause__).splitlines() if error.__cause__ else [])]
    noise = ("See http", "Error parsing override", "object_type", "reference_type")
    telling = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(noise)]
    telling = [re.sub("^full_key: (.*)", r"at \1", line) for line in telling]
    return "\n".join(telling[:most]) or type(error).__name__
