"""The presets of conf/experiment: each holds every row of docs/facts.csv, says what it is, and runs two steps.

All tests go over the folder, so that a new preset is covered on the day it is added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_runner import checks, facts, run
from grpo_runner.config import compose, compose_sweep, find
from grpo_runner.errors import InputError
from grpo_runner.facts import Fact, typed
from grpo_runner.method import method_name
from grpo_runner.schema import RunConfig
from grpo_runner.tracking import charts

FOLDER = find() / "experiment"
NAMES = sorted(file.stem for file in FOLDER.glob("*.yaml"))
METHODS = sorted(file.stem for file in (find() / "method").glob("*.yaml") if file.stem not in NAMES)
SETTINGS = tuple(fact for fact in facts.facts() if fact.kind != "published")
# texts, which golden files and tests of prompts hold, and a mapping with names of its own
TEXTS = {"prompt.template", "prompt.system", "evaluation.sets"}
FAMILY = ("family", "family_time")
# what comes in by the choice of a group, and makes a run another one
CORE = {
    *("model.path", "advantage.baseline", "advantage.scale", "loss_norm.kind", "beta.value", "group_size.value"),
    *("clip.low", "clip.high", "lora.enabled", "optim.lr", "optim.updates_per_rollout", "reward.truncated"),
    *("temperature", "questions_per_step", "max_new_tokens", "steps", "evaluation.every"),
}


@cache
def text(name: str) -> str:
    return (FOLDER / f"{name}.yaml" if "/" not in name else find() / f"{name.lstrip('/')}.yaml").read_text()


@cache
def runs(name: str) -> tuple[RunConfig, ...]:
    """The run of a preset, or the runs of its sweep; its seeds are put into one composed run of each arm.

    name: of an experiment, or /method/NAME.
    """
    if name.startswith("/method/"):
        return (compose([f"method={name.removeprefix('/method/')}"]),)
    files = [yaml.safe_load(text(one)) for one in (*inherited(name), name)]
    sweep = {}
    for file in files:
        sweep |= (file.get("hydra") or {}).get("sweeper", {}).get("params", {})
    if not sweep and "mode: MULTIRUN" not in "".join(map(text, inherited(name))):
        return (compose([f"experiment={name}"]),)
    seeds = [int(seed) for seed in str(sweep.get("seed", 0)).split(",")]
    arms = compose_sweep([f"experiment={name}", *(["seed=0"] if len(seeds) > 1 else [])])
    return tuple(replace(arm, seed=seed) for arm in arms for seed in seeds)


def inherited(name: str) -> list[str]:
    """The presets that a preset's file begins from."""
    return [entry for entry in yaml.safe_load(text(name)).get("defaults", []) if isinstance(entry, str)]


def rows(name: str) -> tuple[Fact, ...]:
    return tuple(fact for fact in SETTINGS if fact.preset == name.removeprefix("/method/"))


def jobs() -> list[str]:
    """The presets that name a model: whole runs, of a source or of our own."""
    return [name for name in NAMES if any(fact.key == "model.path" for fact in rows(name))]


# --- the table and the presets say the same


def value(config: RunConfig, key: str) -> Any:
    """A key's value as plain YAML has it. Raises KeyError."""
    found: Any = asdict(config)
    for part in key.split("."):
        found = found[part]
    return list(found) if isinstance(found, tuple) else found


def same(one: Any, two: Any) -> bool:
    return one == two and isinstance(one, bool) == isinstance(two, bool)


def wrong(facts: Iterable[Fact], configs: Sequence[RunConfig]) -> list[str]:
    """Rows that the runs of their preset do not hold. Where runs differ, a row has their values in order."""
    found = []
    for fact in facts:
        try:
            values = [value(config, fact.key) for config in configs]
        except KeyError:
            found.append(f"{fact.preset}: no key {fact.key}")
            continue
        inner = [other for index, other in enumerate(values) if other not in values[:index]]
        wanted = [typed(fact.value)] if len(inner) == 1 else list(map(typed, fact.value.split(",")))
        if len(wanted) != len(inner) or not all(map(same, inner, wanted)):
            found.append(f"{fact.preset}: {fact.key} is {inner}, not {fact.value}")
    return found


def leaves(node: Any, *path: str) -> Iterator[str]:
    """Dotted keys of nested values; a mapping with names of the user's choosing is one value."""
    if isinstance(node, dict) and ".".join(path) not in ("reward.parts", "evaluation.sets"):
        for key, inner in node.items():
            yield from leaves(inner, *path, key)
    else:
        yield ".".join(path)


def written(name: str) -> set[str]:
    """The keys that a preset sets itself, or takes from the presets that it inherits."""
    values = {key: inner for key, inner in yaml.safe_load(text(name)).items() if key not in ("defaults", "hydra")}
    own = set(leaves(values)) if values else set()
    return own.union(*map(written, inherited(name))) - TEXTS


BOTH = [*NAMES, *(f"/method/{name}" for name in METHODS)]


@pytest.mark.parametrize("name", BOTH)
def test_a_preset_is_valid_and_holds_every_row_of_its_facts(name: str) -> None:
    for config in runs(name):
        checks.check(config)
    assert wrong(rows(name), runs(name)) == []


@pytest.mark.parametrize("name", BOTH)
def test_every_key_that_a_preset_sets_has_its_row(name: str) -> None:
    keys = {fact.key for fact in rows(name)}
    assert written(name) - keys == set()
    assert bool(keys) == (name != "quickstart")  # it only gives the defaults a name
    if name in jobs():
        assert keys >= CORE
    if name.startswith("/method/"):
        assert keys >= {"samples.source", "samples.keep", "advantage.baseline", "advantage.scale", "loss_norm.kind"}
        assert keys >= {"beta.value", "clip.kind", "reward.truncated"}


def test_every_row_is_of_a_preset_that_there_is() -> None:
    assert {fact.preset for fact in SETTINGS} <= {*NAMES, *METHODS}
    assert not set(facts.figure_names()) & {*NAMES, *METHODS}
    assert len(SETTINGS) > 2000 and len(NAMES) > 50


def test_a_changed_value_in_the_table_is_seen() -> None:
    """Every row, each changed in turn."""
    for name in ("dapo_32b", "dr_grpo_fig5", "verl_math_0_5b", "laptop_gsm8k"):
        changed = [replace(fact, value="nothing such") for fact in rows(name)]
        assert len(wrong(changed, runs(name))) == len(changed) > 20
    near = {"optim.lr": "1.1e-6", "clip.high": "0.29", "optim.betas": "[0.9, 0.998]", "lora.enabled": "0"}
    changed = [replace(fact, value=near[fact.key]) for fact in rows("dapo_32b") if fact.key in near]
    assert len(wrong(changed, runs("dapo_32b"))) == len(near)


def test_a_changed_number_in_a_preset_is_seen() -> None:
    [config] = runs("dapo_32b")
    other = replace(config, temperature=0.9, optim=replace(config.optim, weight_decay=0.01))
    assert [line.split()[1] for line in wrong(rows("dapo_32b"), [other])] == ["optim.weight_decay", "temperature"]
    arms = [replace(arm, seed=0) for arm in runs("dr_grpo_ablation")]
    assert wrong(rows("dr_grpo_ablation"), arms) == ["dr_grpo_ablation: seed is [0], not 0,1,2"]


def test_a_row_of_a_key_that_there_is_not_is_seen() -> None:
    fact = replace(rows("dapo_32b")[0], key="optim.lrr")
    assert wrong([fact], runs("dapo_32b")) == ["dapo_32b: no key optim.lrr"]


# --- what the files say about themselves


@pytest.mark.parametrize("name", jobs())
def test_a_job_opens_with_command_hardware_figures_and_what_is_not_stated(name: str) -> None:
    head = text(name).partition("\n\n")[0]
    assert f"python -m grpo_runner experiment={name}" in head
    for said in ("\n# Hardware: ", "\n# Published", "\n# Not stated", "Departures"):
        assert said in head, said


def full(name: str) -> bool:
    return name in jobs() and not runs(name)[0].lora.enabled


@pytest.mark.parametrize("name", [name for name in NAMES if f"{name}_lora" in NAMES])
def test_a_twin_is_its_preset_with_an_adapter_at_ten_times_the_rate(name: str) -> None:
    ours = text(f"{name}_lora").splitlines()[1].lower()
    assert "ours: " in ours and "adapter" in ours
    for one, two in zip(runs(name), runs(f"{name}_lora"), strict=True):
        lora = two.lora
        assert (lora.enabled, lora.rank, lora.alpha, lora.targets, lora.dropout) == (True, 16, 32.0, "all-linear", 0.0)
        assert two.optim.lr == pytest.approx(10 * one.optim.lr, rel=1e-12)
        rest = {"lora": lora, "checkpoint": two.checkpoint, "run_name": two.run_name, "run_dir": two.run_dir}
        assert two == replace(one, optim=replace(one.optim, lr=two.optim.lr), sweep_name=two.sweep_name, **rest)


def test_every_full_run_has_a_twin_or_says_how_it_is_made() -> None:
    alone = [name for name in NAMES if full(name) and f"{name}_lora" not in NAMES]
    for name in alone:
        [rate] = re.findall(
            r"^#   and with an adapter \(ours\): lora=default optim\.lr=(\S+)$", text(name), re.MULTILINE
        )
        assert float(rate) == pytest.approx(10 * runs(name)[0].optim.lr, rel=1e-12), name
    config = compose([f"experiment={alone[0]}", "lora=default", "optim.lr=1e-5"])
    assert config.lora.enabled and config.optim.lr == 1e-5


# --- two steps of each on the embedded model


@cache
def small() -> RunConfig:
    words = ["debug=cpu_smoke", "tracking=off", "data.train_size=16", "data.eval_size=8", "max_new_tokens=12"]
    return compose([*words, "evaluation.questions=2", "evaluation.samples=1"])


@cache
def countdown() -> RunConfig:
    return compose(["data=countdown", "data.train_size=16", "data.eval_size=8"])


def debug_form(config: RunConfig, folder: Path) -> RunConfig:
    """A preset's method in the smallest job: all but its model, its data, its prompt and its sizes."""
    job = small()
    updates = min(config.optim.updates_per_rollout, 2)
    return replace(
        config,
        model=replace(job.model, gradient_checkpointing=config.model.gradient_checkpointing),
        data=countdown().data if config.data.kind == "countdown" else job.data,
        prompt=job.prompt,
        optim=replace(config.optim, updates_per_rollout=updates, warmup_steps=min(config.optim.warmup_steps, 1)),
        group_size=job.group_size if config.group_size.value > 1 else config.group_size,
        evaluation=job.evaluation,
        tracking=job.tracking,
        checkpoint=job.checkpoint,
        steps=job.steps,
        questions_per_step=job.questions_per_step,
        # worked solutions have their lengths
        max_new_tokens=job.max_new_tokens if config.samples.source != "solutions" else config.max_new_tokens,
        device=job.device,
        dtype=job.dtype,
        run_dir=str(folder),
    )


def path_taken(made: RunConfig) -> str:
    """What a job runs through, as a word: its values but for names and numbers that no branch looks at."""
    optim = replace(made.optim, lr=1.0, weight_decay=0.0, betas=(0.9, 0.999))
    return repr(replace(made, optim=optim, seed=0, run_name="-", run_dir="-", sweep_name="-"))


RAN: dict[str, str] = {}  # path taken -> the preset that ran it, in this process


def arms(name: str) -> list[RunConfig]:
    """The runs of a preset that differ in more than their seed."""
    found: dict[str, RunConfig] = {}
    for config in runs(name):
        found.setdefault(repr(replace(config, seed=0, run_name="-", run_dir="-")), config)
    return list(found.values())


@pytest.mark.parametrize(
    "name",
    [
        # a twin with an adapter differs from its full run in what every other preset has
        pytest.param(name, marks=pytest.mark.slow if name.endswith("_lora") else ())
        for name in BOTH
        if name not in FAMILY  # whose methods are run one by one
    ],
)
def test_two_steps_on_the_embedded_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets that differ in their model, data and sizes alone run once between them."""
    monkeypatch.setattr(charts, "draw", lambda *table, **rows: {})  # four fifths of the time, and tests of their own
    for index, config in enumerate(arms(name)):
        folder = tmp_path / str(index)
        made = debug_form(config, folder)
        assert method_name(made) == method_name(config)
        if RAN.setdefault(path_taken(made), name) != name:
            continue
        run(made)
        steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in steps] == [0, 1] and (folder / "DONE").exists()
        assert {row["step"] for row in map(json.loads, (folder / "evals.jsonl").read_text().splitlines())} == {0, 2}
        assert (folder / ("adapter" if config.lora.enabled else "model")).is_dir()


def test_presets_that_run_once_between_them_are_of_one_method() -> None:
    """Negative control: what a switch changes is another path."""
    one, other = (debug_form(runs(name)[0], Path("x")) for name in ("verl_math_0_5b", "verl_math_7b"))
    assert one != other and path_taken(one) == path_taken(other)
    paths = {path_taken(debug_form(arm, Path("x"))) for arm in arms("dr_grpo_ablation")}
    assert len(paths) == 4


def test_a_preset_that_cannot_run_is_seen(tmp_path: Path) -> None:
    made = debug_form(runs("gspo")[0], tmp_path / "run")
    with pytest.raises(InputError, match="updates_per_rollout=99"):
        run(replace(made, optim=replace(made.optim, updates_per_rollout=99)))


def test_sweeps_run_all_their_arms() -> None:
    assert {name: len(arms(name)) for name in NAMES if len(arms(name)) > 1} == {
        "dr_grpo_ablation": 4,
        "dr_grpo_fig5": 2,
        "dr_grpo_fig5_lora": 2,
        "family": 12,
        "family_time": 12,
        "grpo_vs_dr_grpo": 4,
    }
