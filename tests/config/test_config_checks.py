"""Cross-field checks: each fault alone, each warning alone, and the name of the method for every pair of switches."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from grpo_runner import advice, checks, validate
from grpo_runner.config import compose as composed_by_hydra
from grpo_runner.config import find
from grpo_runner.errors import InputError
from grpo_runner.schema import RunConfig
from grpo_runner.validate import to_yaml

DR_GRPO = ["advantage=dr_grpo", "loss_norm=constant", "beta=no_kl"]


@cache
def default() -> dict[str, Any]:
    return yaml.safe_load(to_yaml(composed_by_hydra()))


def compose(overrides: list[str]) -> RunConfig:
    """What config.compose gives, without Hydra's tenth of a second."""
    values = copy.deepcopy(default()) | {"run_dir": "somewhere"}
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        file = find() / key / f"{value}.yaml"
        if file.exists():
            values[key] = OmegaConf.to_container(OmegaConf.load(file))
            continue
        key = f"{key}.value" if key in validate.NUMERIC_GROUPS else key
        *groups, last = key.split(".")
        place = values
        for group in groups:
            place = place[group]
        place[last] = yaml.safe_load(value)
    config = validate.build(values)
    checks.check(config)
    return config


FAULTS = [
    (["group_size=1"], "group_mean"),
    (["group_size=1", "advantage=rloo"], "leave_one_out"),
    (["group_size=1", "advantage=reinforce", "advantage.scale=group_std"], "no std"),
    (["advantage=dr_grpo", "advantage.ddof=1"], "advantage.ddof"),
    (["loss_norm.divisor=100"], "loss_norm.divisor"),
    (["reward=custom"], "reward.function"),
    (["reward.function=a.b:c"], "reward.parts.function"),
    (["reward.parts.correct=0"], "no part has a weight"),
    (["data.train.path=a.jsonl"], "data.train.path"),
    (["data.eval.hub_id=a/b"], "data.eval.hub_id"),
    (["optim.minibatch=group", "optim.updates_per_rollout=9"], "at most 8"),
    (["optim.minibatch=response", "optim.updates_per_rollout=65"], "at most 64"),
    (["lora.targets=[]"], "lora.targets"),
    (["evaluation.samples=0", "evaluation.greedy=false"], "evaluation=never"),
]

FINE = [
    ["group_size=1", "advantage=reinforce"],
    ["group_size=2"],
    ["advantage.ddof=1"],
    ["loss_norm=constant", "loss_norm.divisor=100"],
    ["reward=custom", "reward.function=a.b:c"],
    ["+reward.parts.function=0.5", "reward.function=a.b:c"],
    ["data=jsonl", "data.train.path=a.jsonl", "data.eval.path=b.jsonl"],
    ["optim.minibatch=group", "optim.updates_per_rollout=8"],
    ["optim.minibatch=response", "optim.updates_per_rollout=64"],
    ["optim.minibatch=whole", "optim.updates_per_rollout=65"],
    ["lora=off", "lora.targets=[]"],
    ["evaluation.samples=0"],
    ["evaluation.samples=0", "evaluation.greedy=false", "evaluation.every=0"],
]


@pytest.mark.parametrize(("overrides", "needle"), FAULTS, ids=[" ".join(case[0]) for case in FAULTS])
def test_fault(overrides: list[str], needle: str) -> None:
    with pytest.raises(InputError) as caught:
        compose(overrides)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 and needle in lines[0]


def test_the_short_cut_gives_what_compose_gives() -> None:
    overrides = ["advantage=rloo", "beta=0.5", "optim.minibatch=group", "optim.updates_per_rollout=3", "lora=off"]
    assert replace(composed_by_hydra(overrides), run_dir="d", run_name="n") == replace(
        compose(overrides), run_dir="d", run_name="n"
    )


@pytest.mark.parametrize("overrides", FINE, ids=" ".join)
def test_no_fault(overrides: list[str]) -> None:
    checks.check(compose(overrides))


def hits(config: RunConfig, needle: str) -> int:
    return sum(needle in text for text in advice.warnings(config))


@pytest.mark.parametrize(
    ("overrides", "needle", "count"),
    [
        ([], "Dr. GRPO", 0),
        (["beta=no_kl"], "Dr. GRPO", 0),
        (DR_GRPO, "Dr. GRPO", 0),
        (["advantage=dr_grpo"], "This is not Dr. GRPO: advantage=dr_grpo is half of it", 1),
        (["advantage=dr_grpo"], "add loss_norm=constant beta=no_kl", 1),
        (["advantage=dr_grpo", "beta=no_kl"], "add loss_norm=constant, or", 1),
        (["loss_norm=constant", "beta=no_kl"], "add advantage=dr_grpo, or", 1),
        (["advantage=dr_grpo", "loss_norm=token_mean"], "This is not Dr. GRPO", 1),
        (["advantage=dr_grpo", "loss_norm=constant"], "add beta=no_kl", 1),
        (["advantage=rloo", "loss_norm=constant"], "Dr. GRPO", 0),
        (["group_size=2"], "no variance", 1),
        (["group_size=3"], "no variance", 0),
        (["group_size=2", "advantage=rloo"], "no variance", 0),
        ([], "clip range cannot act", 1),
        (["optim.updates_per_rollout=2"], "clip range cannot act", 0),
        (["optim.minibatch=group"], "optim.minibatch=group changes nothing", 1),
        (["optim.minibatch=group", "optim.updates_per_rollout=2"], "changes nothing", 0),
        (["rollout.top_p=0.9", "optim.updates_per_rollout=2"], "vocabulary", 1),
        (["rollout.top_k=5", "optim.updates_per_rollout=2"], "vocabulary", 1),
        (["rollout.top_p=0.9"], "vocabulary", 0),
        (["lora=off"], "rate for adapters", 1),
        (["lora=off", "optim=full_finetune"], "rate for adapters", 0),
        (["optim.warmup_steps=100"], "outlasts", 1),
        (["optim.warmup_steps=100", "optim.updates_per_rollout=2"], "outlasts", 0),
        (["lora.dropout=0.1"], "lora.dropout", 1),
    ],
)
def test_warnings(overrides: list[str], needle: str, count: int) -> None:
    assert hits(compose(overrides), needle) == count


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "GRPO"),
        (["beta=no_kl"], "GRPO without its KL term"),
        (DR_GRPO, "Dr. GRPO"),
        (["advantage=dr_grpo", "loss_norm=constant"], "Dr. GRPO and a KL term"),
        (["advantage=rloo", "loss_norm=constant", "beta=no_kl"], "RLOO"),
        (["advantage=reinforce", "loss_norm=constant", "beta=no_kl"], "REINFORCE"),
    ],
)
def test_method_names(overrides: list[str], name: str) -> None:
    assert advice.method_name(compose(overrides)) == name


@pytest.mark.parametrize(
    "overrides", [["advantage=dr_grpo", "beta=no_kl"], ["loss_norm=constant"], ["loss_norm=constant", "beta=no_kl"]]
)
def test_halves_are_between_the_two(overrides: list[str]) -> None:
    assert advice.method_name(compose(overrides)).startswith("between the two: ")


def test_every_combination_of_switches_has_its_own_name() -> None:
    norms = ("sequence_mean", "constant", "token_mean")
    found = {
        advice.method_name(compose([f"advantage={advantage}", f"loss_norm={norm}", "beta=no_kl"]))
        for advantage in ("grpo", "dr_grpo", "rloo", "reinforce")
        for norm in norms
    }
    assert len(found) == 12


def test_values_are_shown_as_typed() -> None:
    values = {"[a,b]": ("a", "b"), "[nope]": ("nope",), "['']": [""], "['a,b',c]": ["a,b", "c"], "{a:1.0}": {"a": 1.0}}
    for text, value in {**values, "null": None, "true": True, "[0.9,null]": [0.9, None], "a,b": "a,b"}.items():
        assert validate.shown(value) == text
