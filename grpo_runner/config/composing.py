"""Composing: overrides in, checked RunConfigs out.

Added to Hydra's own behaviour: a number for a group that is one number (`beta=0.04`: overrides.py), folders named by
what was overridden (so that the same command finds the same folder), typed choices that win over presets (presets.py),
and errors that name the key and what is allowed (hydra_errors.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import hydra
from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from .. import checks, metric
from ..errors import InputError
from ..files import conf_folder
from ..schema import RunConfig
from ..validate import build, shown
from . import names
from .columns import covered
from .hydra_errors import explain, first_lines
from .overrides import check_choices, first, parse, translate
from .presets import spelled_out, typed_choices, typed_texts

VERSION_BASE = "1.3"
EXCLUDED = "hydra.job.config.override_dirname.exclude_keys"


class Source(NamedTuple):
    """Where configs are read from: a folder, and the name of the primary config in it."""

    directory: Path
    name: str = "config"


@dataclass(frozen=True)
class Plan:
    """What a command line comes to: the overrides for Hydra, and the run, or the runs of a sweep.

    configs is empty for a sweep whose runs are decided as it goes (a sweeper other than Hydra's basic one). runs: how
    many there are, 0 where that is not known beforehand. Of a sweep: its folder, its metric, and whether its launcher
    starts the runs in this process.
    """

    overrides: tuple[str, ...]
    configs: tuple[RunConfig, ...]
    sweep: bool
    runs: int = 1
    folder: Path = Path()
    metric: str = ""
    in_process: bool = True


def find() -> Path:
    """The folder conf/: inside an installed package, or beside it in a checkout or an editable install."""
    return conf_folder()


def compose(overrides: Sequence[str] = ()) -> RunConfig:
    """The RunConfig of one run, as the command line makes it. Raises InputError (one to five lines)."""
    planned = plan(overrides)
    if planned.sweep:
        raise InputError("These overrides make a sweep, not one run. Use compose_sweep, or add hydra.mode=RUN.")
    return planned.configs[0]


def compose_sweep(overrides: Sequence[str]) -> list[RunConfig]:
    """The RunConfigs of a sweep in order, as `--multirun` makes them. Raises InputError if any of them is not valid."""
    return list(plan(overrides, sweep=True).configs)


def plan(overrides: Sequence[str], sweep: bool = False, source: Source | None = None, first_only: bool = False) -> Plan:
    """Compose and check every run that the overrides ask for. `sweep`: --multirun was given. Raises InputError.

    first_only: of a sweep compose the first run alone, and only count the others.
    """
    source = source or Source(find())
    overrides = translate(overrides)
    with _initialized(source) as loader:
        parsed = parse(overrides, loader)
        check_choices(parsed, loader)
        swept = [override for override in parsed if override.is_sweep_override()]
        for override in swept:
            if override.key_or_group == "sweep_name":
                line = override.input_line
                raise InputError(
                    f"{line}: a sweep has one name. One with a comma goes in both quotes: \"sweep_name='a,b'\""
                )
        base = _compose([first(override) for override in parsed], source)
        sweep = sweep or base.hydra.mode == RunMode.MULTIRUN
        if swept and not sweep:
            line = swept[0].input_line
            raise InputError(f"{line}: several values are a sweep. Add -m (--multirun); a list is written key=[a,b].")
        if not sweep:
            return Plan(tuple(overrides), (resolve(base, base.hydra),), False)

        final = _sweep_overrides(parsed, base, loader)
        settings = [override.input_line or "" for override in parsed if override.is_hydra_override()]
        added = _sweep_settings(final, parsed, base)
        differing = {key for key, override in final.items() if override.is_sweep_override()}
        ends = [*settings, *added, "hydra.mode=MULTIRUN"]
        listed = str(base.hydra.sweeper._target_).endswith("." + BasicSweeper.__name__)
        if listed and (wide := [o.input_line for o in final.values() if o.is_interval_sweep()]):
            raise InputError(
                f"{wide[0]}: an interval cannot be listed. Give values, or search in it: hydra/sweeper=optuna"
            )
        jobs = _jobs(final) if listed else [[first(override) for override in final.values()]]
        made = [_run_of_sweep([*job, *ends], source) for job in (jobs[:1] if first_only else jobs)]
        configs, whole = [config for config, _ in made], made[0][1]
        if listed:
            _check_folders(configs, [[text for text in job if text.partition("=")[0] in differing] for job in jobs])
            metric.check(configs)
        else:  # what will be composed as it goes is known to be right in its first values, and has a metric to go by
            metric.check([configs.pop()], search=True)
        in_process = str(base.hydra.launcher._target_).endswith("." + BasicLauncher.__name__)
        of_sweep = (Path(whole.hydra.sweep.dir), str(whole.metric), in_process)
        return Plan((*overrides, *added), tuple(configs), True, len(jobs) if listed else 0, *of_sweep)


def to_show(overrides: Sequence[str], source: Source) -> list[str]:
    """The overrides of one run for what Hydra shows by itself, with all that `resolve` makes of them."""
    overrides = translate(overrides)
    with _initialized(source) as loader:
        parsed = parse(overrides, loader)
        check_choices(parsed, loader)
        if any(override.is_sweep_override() for override in parsed):
            return overrides  # Hydra has its own sentence about them
        return [*overrides, *spelled_out(_compose(overrides, source)), *(f"{key}=null" for key in covered(parsed))]


def resolve(composed: DictConfig, settings: DictConfig) -> RunConfig:
    """A composed config and Hydra's own node -> a checked RunConfig. The one way from Hydra's world into ours."""
    ours = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    try:
        for group, node in typed_choices(settings).items():
            ours[group] = node
        for key in covered(parse(typed_texts(settings))):
            OmegaConf.update(ours, key, None)
        ours["hydra"] = {"runtime": {"choices": settings.runtime.choices}}  # for grpo.chosen
        values: Any = OmegaConf.to_container(ours, resolve=True, throw_on_missing=True)
        del values["hydra"]
    except OmegaConfBaseException as error:
        raise explain(error) from None
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


def _run_folder(*, _root_: DictConfig) -> str:
    name = _root_.get("run_name")
    return own_label(_root_.hydra) if name is None else shown(name)


OmegaConf.register_new_resolver("grpo.run_folder", _run_folder, replace=True)
OmegaConf.register_new_resolver("grpo.sweep_subfolder", lambda *, _root_: own_label(_root_.hydra), replace=True)
# A key that follows another in a preset: ${grpo.by:${advantage.scale},{group_std:sequence_mean,none:constant}}
# "other" stands for what the table does not name
OmegaConf.register_new_resolver(
    "grpo.by", lambda value, table: table[value if value in table or "other" not in table else "other"], replace=True
)
# The choice of a group, such as the method's name: ${grpo.chosen:method}
OmegaConf.register_new_resolver(
    "grpo.chosen", lambda group, *, _root_: _root_.hydra.runtime.choices[group], replace=True
)


def _share(answers: int, *, _root_: DictConfig) -> int:
    """Questions in a step whose groups make so many answers: equal samples whatever the group's size."""
    size = _root_.group_size.value
    if answers % size:
        raise InputError(f"group_size={size}: {answers} answers in a step are no whole number of such groups.")
    return int(answers // size)


OmegaConf.register_new_resolver("grpo.share", _share, replace=True)


# --- sweeps


def _sweep_overrides(parsed: Sequence[Override], base: DictConfig, loader: ConfigLoader) -> dict[str, Override]:
    """The last override of each key that Hydra's sweeper will see: the experiment's own (sweeper.params) come first."""
    params = [f"{key}={value}" for key, value in (base.hydra.sweeper.get("params") or {}).items()]
    every = [*parse(params, loader), *(override for override in parsed if not override.is_hydra_override())]
    return {override.get_key_element(): override for override in every}


def _sweep_settings(final: Mapping[str, Override], parsed: Sequence[Override], base: DictConfig) -> list[str]:
    """Overrides that name the sweep's folder by its command, and each run's by what differs."""
    constant = [key for key, override in final.items() if not override.is_sweep_override()]
    added = []
    if base.sweep_name is None:
        typed = [override for override in parsed if not override.is_hydra_override()]
        fixed = [override.input_line or "" for override in typed if not override.is_sweep_override()]
        own = base.hydra.sweeper.get("params") or {}  # a preset's sweep with more seeds is the same sweep
        by = [o.get_key_element() for o in typed if o.is_sweep_override() and o.get_key_element() not in own]
        name = names.sweep_label(fixed, by)
        added.append(f"sweep_name='{name}'")
    if not any(override.key_or_group == EXCLUDED for override in parsed):
        added.append(f"{EXCLUDED}=[{','.join(repr(key) for key in constant)}]")
    return added


def _run_of_sweep(overrides: list[str], source: Source) -> tuple[RunConfig, DictConfig]:
    composed = _compose(overrides, source)
    try:
        return resolve(composed, composed.hydra), composed
    except InputError as error:
        lines = str(error).splitlines()[:4]
        raise InputError("\n".join([f"In the sweep's run {composed.hydra.sweep.subdir}:", *lines])) from None


def _check_folders(configs: Sequence[RunConfig], differing: Sequence[Sequence[str]]) -> None:
    """Raise InputError for two runs of a sweep in one folder. `differing`: the overrides that tell each run apart."""
    seen: dict[str, int] = {}
    for index, config in enumerate(configs):
        other = seen.setdefault(config.run_dir, index)
        named = any(text.startswith("run_name=") for text in differing[index])  # the same run twice, as asked for
        same = index if named else seen.setdefault(repr(replace(config, run_dir="-", run_name="-")), index)
        if same != index and other == index:
            one, two = (f"{number + 1} ({' '.join(differing[number])})" for number in (same, index))
            raise InputError(
                f"Runs {one} and {two} of the sweep would be the same run.\n"
                "What they differ in is one value, or a preset sets it: give it as a key, as in group_size.value=8,16."
            )
        if other != index:
            one, two = (f"{number + 1} ({' '.join(differing[number])})" for number in (other, index))
            raise InputError(
                f"Runs {one} and {two} of the sweep would share the folder {config.run_dir}.\n"
                "Give each value once; a run's folder is named by its swept values, run_name aside."
            )


def _jobs(final: Mapping[str, Override]) -> list[list[str]]:
    try:
        batches = BasicSweeper.split_arguments(list(final.values()), None)
    except Exception as error:
        raise InputError(first_lines(error)) from None
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
        raise explain(error, typed=overrides) from error
