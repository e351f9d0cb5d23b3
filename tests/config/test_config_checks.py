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
from grpo_runner.method import method_name
from grpo_runner.schema import RunConfig
from grpo_runner.validate import to_yaml

DR_GRPO = ["advantage=dr_grpo", "loss_norm=constant", "beta=no_kl"]
PROCESS = ["advantage=process", "reward.steps=lines"]
SOFT = ["reward.truncated=soft", "reward.overlong_buffer=6"]
TOKENS = ["loss_norm=group_token_mean"]
RESPONSES = ["optim.minibatch=response", "optim.updates_per_rollout=2"]
DAPO = [*SOFT, "loss_norm=group_token_mean", "beta=no_kl", "clip=clip_higher", "rollout.dynamic_sampling=3"]


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
    resolved = OmegaConf.to_container(OmegaConf.create(values), resolve=True)
    assert isinstance(resolved, dict)
    config = validate.build(resolved)
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
    (["reward=model"], "reward.model is null"),
    (["reward.refresh_every=2"], "no reward.model to train"),
    (["reward.model_lr=1.0"], "reward.model_lr changes nothing"),
    (["reward.replay=0.5"], "reward.replay changes nothing"),
    (["reward.model=a/b"], "reward.model is set, but has no weight"),
    (["reward.model_revision=v1"], "reward.model_revision changes nothing without reward.model"),
    (["advantage=process"], "no step has a reward"),
    (["reward.steps=lines"], "reward.steps=lines changes nothing"),
    ([*PROCESS, "advantage.baseline=leave_one_out"], "both are over the steps"),
    ([*PROCESS, "advantage.scale=batch_std"], "both are over the steps"),
    ([*PROCESS, "beta=in_reward"], "no step's"),
    (["data.train.path=a.jsonl"], "data.train.path"),
    (["data.eval.hub_id=a/b"], "data.eval.hub_id"),
    (["data.train.revision=abc"], "data.train.revision changes nothing with data.kind=arithmetic"),
    (
        ["data=countdown", "data.eval.answer_column=a"],
        "data.eval.answer_column changes nothing with data.kind=countdown",
    ),
    (["data.levels=[3]"], "data.levels changes nothing"),
    (["data.max_question_characters=9"], "data.max_question_characters changes nothing"),
    (["reward=countdown"], "Take data=countdown."),
    (["optim.minibatch=group", "optim.updates_per_rollout=9"], "at most 8"),
    (["optim.minibatch=response", "optim.updates_per_rollout=65"], "at most 64"),
    (["lora.targets=[]"], "lora.targets"),
    (["evaluation.samples=0", "evaluation.greedy=false"], "evaluation=never"),
    (["loss_norm=constant", "loss_norm.kind=token_mean"], "loss_norm=token_mean, which sets both"),
    (["clip=cispo", "clip.dual=3.0"], "clip.dual"),
    (["beta.estimator=k1"], "its gradient is ∇log π whatever the reference is"),
    (["lora=off", "beta.reference=some/folder"], "beta.reference=some/folder"),
    (["beta.reference=base", "beta.refresh_every=5"], "held fixed or refreshed"),
    (["beta.reference=some/folder", "beta.refresh_every=5"], "held fixed or refreshed"),
    (["lora=off", "lora.adapter=some/folder"], "lora.adapter=some/folder"),
    (["reward.truncated=soft", "reward.overlong_buffer=33"], "at most max_new_tokens=32"),
    (["rollout.when_short=error"], "rollout.when_short"),
    (["group_size=1", "advantage=reinforce", "rollout.dynamic_sampling=3"], "never differs"),
    (["rollout.importance_cap=2.0"], "rollout.importance_cap"),
    (["rollout.importance=token", "lora.dropout=0.1"], "lora.dropout=0.1"),
    (["tracking.probe=[grpo,dr_gprx]"], 'Did you mean "dr_grpo"?'),
    (["tracking.probe_every=5", "tracking.probe=[grpo]"], "two objectives"),
    (["tracking.probe_every=5", "tracking.probe=[grpo,grpo]"], "tracking.probe=[grpo,grpo] names 'grpo' 2 times"),
    (["tracking.probe_every=5", "tracking.probe=[rloo,grpo,dr_grpo,grpo]"], "names 'grpo' 2 times"),
    (["tracking.probe=[grpo,rloo,rloo]"], "names 'rloo' 2 times"),
    (["tracking.probe_every=5", "tracking.probe=[]"], "two objectives"),
    (["health.stop_on=[truncated]"], "no rule 'truncated'. Did you mean \"truncation\"?"),
    (["health.stop_on=[ratio,nothing]"], "Allowed: truncation, no_answer"),
]

FINE = [
    ["group_size=1", "advantage=reinforce"],
    ["group_size=2"],
    ["advantage.ddof=1"],
    ["loss_norm=constant", "loss_norm.divisor=100"],
    ["reward=custom", "reward.function=a.b:c"],
    ["+reward.parts.function=0.5", "reward.function=a.b:c"],
    ["data=jsonl", "data.train.path=a.jsonl", "data.eval.path=b.jsonl"],
    ["data=countdown", "reward=countdown"],
    ["data=jsonl", "reward=countdown"],
    ["data=math_12k", "data.levels=[3,Level 4]", "data.max_question_characters=9"],
    ["optim.minibatch=group", "optim.updates_per_rollout=8"],
    ["optim.minibatch=response", "optim.updates_per_rollout=64"],
    ["optim.minibatch=whole", "optim.updates_per_rollout=65"],
    ["lora=off", "lora.targets=[]"],
    ["evaluation.samples=0"],
    ["evaluation.samples=0", "evaluation.greedy=false", "evaluation.every=0"],
    ["beta=in_reward"],
    ["beta=in_reward", "beta.value=0.0"],  # arms of a sweep over beta
    ["beta.estimator=k1", "beta.value=0.0"],
    ["beta.placement=reward", "beta.value=0.0"],
    ["beta.refresh_every=5", "beta.value=0.0"],
    ["beta.refresh_every=5"],
    ["beta.reference=some/folder"],  # whether it is there is seen when the run is built
    ["lora.adapter=some/folder", "beta.reference=base"],
    ["reward.truncated=soft", "reward.overlong_buffer=32"],
    ["reward.truncated=soft"],
    ["reward.overlong_buffer=33"],  # the arm of a sweep over reward.truncated
    ["rollout.dynamic_sampling=3", "rollout.when_short=error"],
    ["rollout.importance=token", "rollout.importance_cap=2.0"],
    ["rollout.importance=sequence"],
    ["tracking.probe_every=5", "tracking.probe=[grpo,no_std]"],
    ["tracking.probe=[]"],
    ["health.stop_on=[truncation,kl_runaway]"],
    ["entropy_bonus=0.001"],
]


@pytest.mark.parametrize(("overrides", "needle"), FAULTS, ids=[" ".join(case[0]) for case in FAULTS])
def test_fault(overrides: list[str], needle: str) -> None:
    with pytest.raises(InputError) as caught:
        compose(overrides)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 and needle in lines[0]


@pytest.mark.parametrize("cut", ["rollout.top_p=0.8", "rollout.top_k=5"])
@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_pb047_importance_weights_with_a_cut_vocabulary_are_refused(kind: str, cut: str) -> None:
    with pytest.raises(InputError, match=f"rollout.importance={kind} with {cut}: .* both log-probabilities are over"):
        compose([f"rollout.importance={kind}", cut])
    compose([f"rollout.importance={kind}", "rollout.top_p=1.0"])
    compose([cut])


@pytest.mark.parametrize("both", ["both", "[loss,reward]"])
def test_pb041_the_kl_is_counted_in_one_place(both: str) -> None:
    with pytest.raises(InputError) as caught:
        compose([f"beta.placement={both}"])
    assert str(caught.value).startswith(f"beta.placement={both} is not allowed. It takes loss, reward or preference.")
    assert len(str(caught.value).splitlines()) == 1


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
        ([*DAPO, "rollout.dynamic_sampling=0"], "it lacks dynamic sampling", 1),
        ([*DAPO, "clip=ppo"], "add clip=clip_higher", 1),
        ([*DAPO, "reward.truncated=keep"], "add reward.truncated=soft", 1),
        (DAPO, "not DAPO", 0),
        ([*DAPO, "clip=ppo", "rollout.dynamic_sampling=0"], "not DAPO", 0),
        ([*DAPO, "advantage=dr_grpo", "clip=ppo"], "not DAPO", 0),
        (["beta=no_kl", "beta.placement=reward"], "beta.placement changes nothing", 1),
        (["beta=no_kl", "beta.refresh_every=5"], "beta.refresh_every changes nothing", 1),
        (["beta=no_kl", "beta.reference=base"], "beta.reference changes nothing", 1),
        (["beta=0", "beta.estimator=k1"], "beta.estimator changes nothing with beta=0", 1),
        (["beta=0", "beta.estimator=k2"], "beta.estimator changes nothing with beta=0", 1),
        (["beta=0"], "changes nothing with beta=0", 0),
        (["beta.estimator=k2"], "changes nothing with beta=0", 0),
        (["tracking.probe=[grpo,rloo]"], "tracking.probe=[grpo,rloo] changes nothing", 1),
        (["tracking=off", "tracking.probe=[]"], "tracking.probe=[] changes nothing", 1),
        (["tracking.probe=[grpo,rloo]", "tracking.probe_every=10"], "tracking.probe", 0),
        ([], "tracking.probe", 0),
        (["tracking=off"], "tracking.probe", 0),
        (["beta.placement=reward"], "is not the KL's", 1),
        (["beta=in_reward"], "is not the KL's", 0),
        (["beta=in_reward"], "the std divides the KL too", 1),
        (["beta=in_reward", "advantage=rloo"], "the std divides the KL too", 0),
        (["beta.refresh_every=100"], "not reached in 100 steps", 1),
        (["beta.refresh_every=99"], "not reached", 0),
        (["rollout.dynamic_sampling=3", "advantage=reinforce"], "would carry weight", 1),
        (["rollout.dynamic_sampling=3", "advantage=reinforce_baseline"], "would carry weight", 1),
        (["rollout.dynamic_sampling=3", "advantage=reinforce", "advantage.scale=batch_std"], "would carry weight", 1),
        (["rollout.dynamic_sampling=3", "advantage=reinforce", "advantage.scale=group_std"], "would carry weight", 0),
        (["rollout.dynamic_sampling=3", "advantage=dr_grpo", "advantage.baseline=my:median"], "would carry weight", 0),
        (["rollout.dynamic_sampling=3", "advantage=reinforce", "advantage.scale=my:range"], "would carry weight", 0),
        (["rollout.dynamic_sampling=3"], "would carry weight", 0),
        (["rollout.dynamic_sampling=3", "data.train_size=8"], "takes every question there is", 1),
        (
            ["rollout.dynamic_sampling=3", "data.train_size=5", "data.small_set=wrap"],
            "takes every question there is",
            1,
        ),
        (["rollout.dynamic_sampling=3", "data.train_size=9"], "takes every question there is", 0),
        (["rollout.dynamic_sampling=3", "data.train_size=null"], "takes every question there is", 0),
        (["data.train_size=8"], "takes every question there is", 0),
        ([*TOKENS, *RESPONSES], "are those of its part", 1),
        ([*TOKENS, *RESPONSES, "optim.updates_per_rollout=1"], "are those of its part", 0),
        ([*TOKENS, *RESPONSES, "optim.minibatch=group"], "are those of its part", 0),
        ([*TOKENS, *RESPONSES, "optim.minibatch=whole"], "are those of its part", 0),
        ([*TOKENS, *RESPONSES, "advantage=reinforce", "group_size=1"], "are those of its part", 0),
        (["loss_norm=token_mean", *RESPONSES], "are those of its part", 0),
        (SOFT, "2 apart", 1),
        ([*SOFT, "reward.parts.correct=2.0"], "2 apart", 0),
        (["reward.overlong_buffer=6"], "reward.overlong_buffer changes nothing", 1),
        (["reward.truncated=soft", "max_new_tokens=1"], "every answer of more than 0 tokens", 1),
        (["reward.truncated=soft", "max_new_tokens=4"], "every answer of more than 3 tokens, with max_new_tokens=4", 1),
        (["reward.truncated=soft", "max_new_tokens=5"], "nearly all of them", 0),
        (["reward.truncated=soft", "reward.overlong_buffer=32"], "every answer of more than 0 tokens", 1),
        (["reward.truncated=soft", "reward.overlong_buffer=17"], "every answer of more than 15 tokens", 1),
        (["reward.truncated=soft", "reward.overlong_buffer=16"], "nearly all of them", 0),
        (["max_new_tokens=4"], "nearly all of them", 0),
        (SOFT, "of the budget alone", 0),
        ([*SOFT, "max_new_tokens=3000"], "the last 0.2 % of the budget alone. DAPO: a fifth, here 600", 1),
        (["rollout.importance=token"], "1 up to rounding", 1),
        (["rollout.importance=token", "rollout.importance_cap=0.5"], "agree, which is 1", 1),
        ([], "rollout.importance", 0),
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
        (["advantage=rloo", "loss_norm=sequence_sum", "beta=in_reward"], "RLOO with the KL in the reward"),
        (["advantage=rloo", "loss_norm=sequence_sum", "beta=no_kl"], "RLOO"),
        (["beta=in_reward"], "GRPO with the KL in the reward"),
        (["advantage=dr_grpo", "loss_norm=constant", "beta=in_reward"], "Dr. GRPO with the KL in the reward"),
        (DAPO, "DAPO"),
        ([*DAPO, "loss_norm=token_mean"], "DAPO with the token mean of the optimizer batch"),
        ([*DAPO, "entropy_bonus=0.1"], "DAPO, with an entropy bonus"),
        (
            [*DAPO, "rollout.dynamic_sampling=0", "clip=ppo"],
            "GRPO's advantage with DAPO's loss norm (the token mean of each group), with the overlong penalty",
        ),
        (["clip=gspo", "beta=no_kl"], "GSPO"),
        (["clip=gspo"], "GSPO and a KL term"),
        ([*DR_GRPO, "clip=gspo"], "Dr. GRPO, with GSPO's sequence ratio"),
        (["clip=cispo", "loss_norm=group_token_mean", "beta=no_kl"], "CISPO"),
        (["clip=cispo", "loss_norm=group_token_mean", "beta=no_kl", "rollout.dynamic_sampling=3"], "CISPO"),
        ([*DR_GRPO, "clip=cispo"], "Dr. GRPO, with CISPO's weights"),
        (PROCESS, "GRPO with process rewards"),
        ([*PROCESS, "beta.refresh_every=9"], "GRPO with process rewards, with a renewed reference"),
        ([*PROCESS, "advantage.scale=none", "loss_norm=constant"], "Dr. GRPO and a KL term, with process rewards"),
        (["beta.refresh_every=9"], "Iterative GRPO"),
        (["beta.refresh_every=9", "beta=no_kl"], "GRPO without its KL term"),
        (["reward.truncated=mask"], "GRPO, with truncated answers left out"),
        (
            ["rollout.importance=token", "rollout.dynamic_sampling=3"],
            "GRPO, with dynamic sampling and importance weights",
        ),
    ],
)
def test_method_names(overrides: list[str], name: str) -> None:
    assert method_name(compose(overrides)) == name


@pytest.mark.parametrize("updates", ["optim.updates_per_rollout=1", "optim=adamw"])
@pytest.mark.parametrize("experiment", ["gspo", "cispo", "dapo"])
def test_a_method_whose_clip_cannot_act_is_told(experiment: str, updates: str) -> None:
    whole = composed_by_hydra([f"experiment={experiment}"])
    assert hits(whole, "clip range cannot act") == hits(whole, "are those of its part") == 0
    assert hits(composed_by_hydra([f"experiment={experiment}", updates]), "clip range cannot act") == 1


def test_the_probe_that_is_no_choice_is_that_of_conf() -> None:
    for file in (find() / "tracking").glob("*.yaml"):
        assert yaml.safe_load(file.read_text())["probe"] == validate.LATER["tracking.probe"]


@pytest.mark.parametrize("half", [["advantage=dr_grpo"], ["loss_norm=constant"]])
def test_halves_are_between_the_two(half: list[str]) -> None:
    plain = method_name(compose([*half, "beta=no_kl"]))
    assert plain.startswith("between the two: ") and "KL" not in plain
    assert method_name(compose(half)) == f"{plain} and a KL term"
    assert method_name(compose([*half, "beta=in_reward"])) == f"{plain} with the KL in the reward"


def test_every_combination_of_switches_has_its_own_name() -> None:
    norms = ("sequence_mean", "constant", "token_mean", "group_token_mean")
    found = {
        method_name(compose([f"advantage={advantage}", f"loss_norm={norm}", "beta=no_kl"]))
        for advantage in ("grpo", "dr_grpo", "rloo", "reinforce")
        for norm in norms
    }
    assert len(found) == 16


def test_values_are_shown_as_typed() -> None:
    values = {"[a,b]": ("a", "b"), "[nope]": ("nope",), "['']": [""], "['a,b',c]": ["a,b", "c"], "{a:1.0}": {"a": 1.0}}
    for text, value in {**values, "null": None, "true": True, "[0.9,null]": [0.9, None], "a,b": "a,b"}.items():
        assert validate.shown(value) == text
