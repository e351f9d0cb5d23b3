"""Bad overrides end in one to five lines that name the key as it was typed, what is allowed, and the nearest match."""

from __future__ import annotations

import hydra
import pytest

from grpo_runner.config import compose, find
from grpo_runner.errors import InputError

CASES = [
    # overrides, what the message must hold
    ("group_size=0", ["group_size=0", "whole number of at least 1"]),
    ("group_size=-4", ["group_size=-4", "at least 1"]),
    ("group_size=8.5", ["group_size=8.5", "whole number"]),
    ("group_size=true", ["group_size=true", "small", "or a number"]),
    ("group_size=1", ["group_size=1", "at least 2", "advantage=reinforce"]),
    ("group_size=big", ["group_size=big", "deepseek_math, medium, small, or a number"]),
    ("beta=-1", ["beta=-1", "finite number of at least 0"]),
    ("beta=inf", ["beta=inf", "finite number of at least 0"]),
    ("beta=nan", ["beta=nan", "finite"]),
    ("beta=", ["beta=", "no_kl"]),
    ("beta=null", ["beta=null", "no_kl", "or a number"]),
    ("beta=no_k", ["beta=no_k", 'Did you mean "no_kl"?']),
    ("beta.value=-1", ["beta=-1"]),
    ("+beta=0.04", ["+beta", "without the +"]),
    ("advantage=drgrpo", ["advantage=drgrpo", "dr_grpo, grpo", 'Did you mean "dr_grpo"?']),
    ("advantage=[grpo,dr_grpo]", ["advantage=[grpo,dr_grpo]", "one of"]),
    ("advantage=3", ["advantage=3", "grpo"]),
    ("+typo=1", ["typo"]),
    ("typo=1", ["typo", "--cfg job"]),
    ("advntage=grpo", ["advntage", 'Did you mean "advantage"?']),
    ("optim.lrr=1", ["optim.lrr", 'Did you mean "optim.lr"?']),
    ("+optim.lrr=1", ["optim.lrr", 'Did you mean "optim.lr"?']),
    ("++optim.lrr=1", ["optim.lrr", 'Did you mean "optim.lr"?']),
    ("lr=1", ["lr", 'Did you mean "optim.lr"?']),
    ("update_per_rollout=2", ["update_per_rollout", 'Did you mean "optim.updates_per_rollout"?']),
    ("hydra.run.dirr=x", ["hydra.run.dirr"]),
    ("loss_norm=[", ["loss_norm=[", "key=value"]),
    ("loss_norm=(", ["loss_norm=(", "key=value"]),
    ("seed", ["seed", "key=value"]),
    ("=3", ["=3", "key=value"]),
    ("run_name=a=b", ["run_name=a=b", "quotes"]),
    ("run_name=é", ["run_name=é", "only in quotes: é)"]),
    ("run_name=a!b#'ü'", ["only in quotes: ! #)"]),
    ("run_name='a", ["quote without its other half"]),
    ("é=3", ["é=3", "no key is written like this"]),
    ("prompt.stop=['']", ["prompt.stop=['']", "not empty"]),
    ("prompt.stop=['a,b','']", ["prompt.stop=['a,b','']"]),
    ("seed=range(a)", ["seed=range(a)"]),
    ("seed=abc", ["seed=abc", "whole number of at least 0"]),
    ("seed=-1", ["seed=-1", "at least 0"]),
    ("seed=1.0", ["seed=1.0", "whole number"]),
    ("seed=null", ["seed=null", "whole number"]),
    ("seed=???", ["seed"]),
    ("~seed", ["seed is missing"]),
    ("~optim", ["optim is missing", "lr"]),
    ("seed=0,1", ["seed=0,1", "--multirun", "[a,b]"]),
    ("seed=range(3)", ["seed=range(3)", "--multirun"]),
    ("+seed=1", ["+seed", "without the +"]),
    ("steps=0", ["steps=0", "at least 1"]),
    ("temperature=inf", ["temperature=inf", "above 0"]),
    ("temperature=0", ["temperature=0", "above 0"]),
    ("device=gpu", ["device=gpu", "auto, cpu, cuda or mps"]),
    ("dtype=float16", ["dtype=float16", "auto, float32 or bfloat16", 'Did you mean "bfloat16"?']),
    ("rollout=vlm", ["rollout=vlm", "native, transformers"]),
    ("evaluation.every=abc", ["evaluation.every=abc", "at least 0"]),
    ("optim.lr=0", ["optim.lr=0", "above 0"]),
    ("optim.lr=fast", ["optim.lr=fast", "finite number above 0"]),
    ("optim.betas=[0.9]", ["optim.betas=[0.9]", "a list of 2"]),
    ("optim.betas=[0.9,1.0]", ["optim.betas", "below 1"]),
    ("optim.max_grad_norm=0", ["optim.max_grad_norm=0", "above 0 or null"]),
    ("optim=3", ["optim=3", "adamw"]),
    ("lora.enabled=1", ["lora.enabled=1", "true or false"]),
    ("lora.targets=[q_proj,3]", ["lora.targets", "text"]),
    ("lora.targets=[]", ["lora.targets=[]", "all-linear"]),
    ("model.path=''", ["model.path=", "not empty"]),
    ("reward.parts.short=1", ["reward.parts.short", "+reward.parts.short"]),
    ("+reward.parts.short=much", ["reward.parts.short=much", "finite number"]),
    ("optim.lr=${nope}", ["nope"]),
    ("optim.lr={a:1}", ["optim.lr={a:1}", "finite number"]),
    ("experiment=nope", ["experiment=nope", "quickstart"]),
    ("experiment=quickstrat", ['Did you mean "quickstart"?']),
    ("run_name=a/b", ["run_name=a/b", "hydra.run.dir"]),
    ("run_name=..", ["run_name=..", "hydra.run.dir"]),
    ("sweep_name=a/b", ["sweep_name=a/b", "hydra.sweep.dir"]),
    ("hydra.mode=FOO", ["hydra.mode=FOO", "MULTIRUN"]),
    ("loss_norm.divisor=100", ["loss_norm.divisor", "loss_norm=constant"]),
    ("data.train.path=x.jsonl", ["data.train.path", "data=jsonl"]),
    ("beta.estimator=k9", ["beta.estimator=k9", "k1, k2 or k3"]),
    ("beta.estimator=k1", ["beta.estimator=k1", "k2 or k3", "beta.placement=reward"]),
    ("beta.placement=both", ["beta.placement=both", "loss or reward"]),
    ("beta.placement=[loss,reward]", ["beta.placement=[loss,reward]", "loss or reward"]),
    ("beta.refresh_every=-1", ["beta.refresh_every=-1", "at least 0"]),
    ("beta.reference=''", ["beta.reference=", "not empty"]),
    ("loss_norm=group_token", ["loss_norm=group_token", 'Did you mean "group_token_mean"?']),
    ("reward.truncated=sof", ["reward.truncated=sof", "zero, keep, mask or soft", 'Did you mean "soft"?']),
    ("reward.overlong_buffer=0", ["reward.overlong_buffer=0", "at least 1 or null"]),
    ("rollout.importance=tokens", ["rollout.importance=tokens", 'Did you mean "token"?']),
    ("rollout.importance_cap=0", ["rollout.importance_cap=0", "above 0"]),
    ("rollout.dynamic_sampling=true", ["rollout.dynamic_sampling=true", "whole number"]),
    ("rollout.when_short=wait", ["rollout.when_short=wait", "smaller or error"]),
    ("entropy_bonus=-1", ["entropy_bonus=-1", "at least 0"]),
    ("entropy_bonus=inf", ["entropy_bonus=inf", "finite"]),
    ("tracking.probe=[grpo,dr_gprx]", ["tracking.probe", 'Did you mean "dr_grpo"?', "no_std"]),
    ("tracking.probe=grpo", ["tracking.probe=grpo", "a list"]),
    ("experiment=dappo", ["experiment=dappo", 'Did you mean "dapo"?']),
]


@pytest.mark.parametrize(("override", "needles"), CASES, ids=[case[0] for case in CASES])
def test_bad_override(override: str, needles: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        compose([override])
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert 1 <= len(message.splitlines()) <= 5
    assert all(len(line) <= 250 for line in message.splitlines())
    for needle in needles:
        assert needle in message
    assert "Traceback" not in message and "https://" not in message


LONG = ["reward.truncated=soft", "reward.overlong_buffer=99"]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["beta=1e-3", "beta.estimator=k9"], 1),
        ([*LONG, "rollout.when_short=error", "rollout.importance_cap=2", "beta.estimator=k1"], 4),
        (["tracking.probe=[a,b,c,d]", "rollout.when_short=error", "rollout.importance_cap=2"], 5),
    ],
    ids=["two of a group", "four faults", "six faults"],
)
def test_faults_of_several_keys_are_a_line_each_and_five_at_most(words: list[str], lines: int) -> None:
    with pytest.raises(InputError) as caught:
        compose(words)
    assert len(str(caught.value).splitlines()) == lines


def test_the_table_would_notice_a_good_override() -> None:
    for good in ("seed=3", "beta=0.01", "advantage=dr_grpo", "run_name='é'"):
        assert compose([good])


def test_hydra_alone_lets_these_through() -> None:
    with hydra.initialize_config_dir(str(find()), version_base="1.3"):
        for override in ("+typo=1", "beta.value=inf", "group_size.value=0", "seed=abc", "advantage=[grpo,dr_grpo]"):
            assert hydra.compose("config", [override])


def test_many_faults_stay_within_five_lines() -> None:
    bad = ["group_size=0", "beta=-3", "optim.lr=-1", "seed=x", "steps=0", "temperature=-1", "device=gpu"]
    with pytest.raises(InputError) as caught:
        compose(bad)
    lines = str(caught.value).splitlines()
    assert len(lines) == 5 and lines[-1] == "… and 3 more"
    with pytest.raises(InputError) as caught:
        compose(bad[:5])
    lines = str(caught.value).splitlines()
    assert sorted(line.split("=")[0] for line in lines) == ["beta", "group_size", "optim.lr", "seed", "steps"]
