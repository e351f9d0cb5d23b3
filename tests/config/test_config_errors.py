"""Bad overrides end in one to five lines that name the key as it was typed, what is allowed, and the nearest match."""

from __future__ import annotations

from pathlib import Path

import hydra
import pytest

from grpo_runner import validate
from grpo_runner.config import compose, find
from grpo_runner.errors import InputError
from grpo_runner.reward.compose import PARTS

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
    ("advantage=drgrpo", ["advantage=drgrpo", "dr_grpo, gae, grpo", 'Did you mean "dr_grpo"?']),
    ("advantage=[grpo,dr_grpo]", ["advantage=[grpo,dr_grpo]", "one of"]),
    ("advantage=3", ["advantage=3", "grpo"]),
    ("+typo=1", ["typo"]),
    ("typo=1", ["typo", "--cfg job"]),
    ("advntage=grpo", ["advntage", 'Did you mean "advantage"?']),
    ("experimnt=quickstart", ["experimnt", 'Did you mean "experiment"?']),
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
    ("seed=???", ["seed=???", "whole number of at least 0"]),
    ("~seed", ["seed is missing"]),
    ("~advantage.credit", ["advantage.credit is missing", "gae or pairs. Before there was this key: outcome."]),
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
    ("reward.parts.format=1", ["+reward.parts.format=…"]),
    ("reward.parts.formt=1", ["reward.parts", 'Did you mean "format"?']),
    ("reward.parts={correct:2,format:1}", ["+reward.parts.format=…"]),
    ("reward.parts={correct:2,overlong:1}", ['no part "overlong"', "correct, format, countdown, function"]),
    ("reward.parts=[a]", ["reward.parts=[a]", "names, each with a finite number"]),
    ("~reward.parts.short", ["reward.parts has no 'short'"]),
    ("~reward.parts.correct=3", ["the value is 1.0", "Write ~reward.parts.correct."]),
    ("~reward.overlong_buffer", ["~reward.overlong_buffer: it is null", "at least 1 or null"]),
    ("~reward.truncated=keep", ["~reward.truncated=keep: the value is zero", "zero, keep, mask or soft"]),
    ("~advantage=rloo", ["no advantage=rloo to leave out", "advantage=NAME"]),
    ("~advantage=3", ["advantage=3", "one of batch_std, dr_grpo"]),
    ("~experiment=dapo", ["no experiment=dapo to leave out", "Write ~experiment."]),
    ("+experiment=dapo", ["+experiment=dapo: ", "without a +. Write experiment=dapo"]),
    ("++experiment=dapo", ["++experiment=dapo: ", "without a +. Write experiment=dapo"]),
    ("+debug=cpu_smoke", ["Write debug=cpu_smoke"]),
    ("+advantage=rloo", ["Write advantage=rloo"]),
    ("advantage@x=rloo", ["advantage@x", "Write advantage=… without the @"]),
    ("seed@x=1", ['no group "seed"', "Write seed=… without the @"]),
    ("tracking.probe={a:1}", ["tracking.probe={a:1} is not allowed", "a list"]),
    ("optim.betas={a:1}", ["optim.betas={a:1} is not allowed", "a list of 2"]),
    ("data.train=[1]", ["data.train=[1] is not allowed", "path, hub_id, hub_config, split"]),
    ("data.train={x:1}", ['Unknown key "data.train.x"']),
    ("resume=outputs/first", ['Unknown key "resume"', "same command again", "hydra.run.dir=FOLDER"]),
    ("+checkpoint.resume_from=last", ['Unknown key "checkpoint.resume_from"', "same command again"]),
    ("+lora.modules_to_save=[lm_head]", ['Unknown key "lora.modules_to_save"']),
    *[
        (f"{text}", [f"{text.lstrip('+~').partition('=')[0]} is no key: tracking.probe is a list", "tracking.probe=[a"])
        for text in (
            "tracking.probe.x=1",
            "+tracking.probe.x=1",
            "++tracking.probe.x=1",
            "~tracking.probe.x",
            "~tracking.probe.0",
            "tracking.probe.9=grpo",
            "tracking.probe.0.x=1",
        )
    ],
    ("+reward.parts.short=much", ["reward.parts.short=much", "finite number"]),
    ("optim.lr=${nope}", ["optim.lr refers to ${nope}", 'no key "nope"']),
    ("steps=${sed}", ["steps refers to ${sed}", 'Did you mean "seed"?']),
    ("optim.lr=${nope:1}", ["optim.lr: ", "finite number above 0"]),
    ("optim.lr={a:1}", ["optim.lr={a:1}", "finite number"]),
    ("experiment=nope", ["experiment=nope", "none of its", "python -m grpo_runner --help experiment"]),
    ("experiment=oat", ['With "oat" in the name: dr_grpo_oat_zero_1_5b', ", …"]),
    ("experiment=down", ['With "down" in the name: oat_countdown_3b, tinyzero_countdown.']),
    ("experiment=quickstrat", ['Did you mean "quickstart"?']),
    ("run_name=a/b", ["run_name=a/b", "hydra.run.dir"]),
    ("run_name=..", ["run_name=..", "hydra.run.dir"]),
    ("sweep_name=a/b", ["sweep_name=a/b", "hydra.sweep.dir"]),
    ("hydra.mode=FOO", ["hydra.mode=FOO", "MULTIRUN"]),
    ("loss_norm.divisor=100", ["loss_norm.divisor", "loss_norm=constant"]),
    ("data.train.path=x.jsonl", ["data.train.path", "data=jsonl"]),
    ("beta.estimator=k9", ["beta.estimator=k9", "k1, k2 or k3"]),
    ("beta.estimator=k1", ["beta.estimator=k1", "k2 or k3", "beta.placement=reward"]),
    ("beta.placement=both", ["beta.placement=both", "loss, reward or preference"]),
    ("beta.placement=[loss,reward]", ["beta.placement=[loss,reward]", "loss, reward or preference"]),
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
    ("entropy_bonus=1e30", ["entropy_bonus=1e+30", "at least 0 and of at most 1000"]),
    ("advantage.baseline=mean", ["group_mean, leave_one_out, batch_mean, none or package.module:function."]),
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
    for words_of_a_library in ("Error merging", "DictConfig", "full_key", "Multiple values", "int()", "struct"):
        assert words_of_a_library not in message


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


@pytest.mark.parametrize(
    ("name", "text", "needles"),
    [
        (
            "advantage/mine",
            b"baseline: [a\nscale: none\n",
            ["advantage/mine.yaml, line 2: ", "from line 1", "key: value"],
        ),
        ("advantage/mine", b"baseline: x\nbaseline: y\n", ["advantage/mine.yaml, line 2: ", "duplicate key baseline"]),
        ("advantage/mine", b"\teps: 1\n", ["advantage/mine.yaml, line 1: ", "without tabs"]),
        ("advantage/mine", b"eps: 1\n# \x00\n", ["advantage/mine.yaml: ", "not readable as YAML"]),
        ("advantage/mine", b"eps: 0\nbaseline: \xfcber\n", [r'in its line "baseline: \xfcber"', "UTF-8"]),
        ("experiment/mine", b"# @package _global_\nsteps: 3\n  seed: 4\n", ["experiment/mine.yaml, line 3: "]),
        ("experiment/mine", b"# @package _global_\ntracking: {probe: {a: 1}}\n", ["experiment/mine.yaml: ", "probe"]),
        (
            "experiment/mine",
            b"# @package _global_\ndefaults: [{/advantage: rloo}]\n",
            ["advantage: a file", "- override /advantage: rloo"],
        ),
        (
            "experiment/mine",
            b"# @package _global_\ndefaults: [{override advantage: rloo}]\n",
            ["experiment/mine.yaml overrides experiment/advantage: no such group", "- override /advantage: NAME"],
        ),
        (
            "experiment/mine",
            b"# @package _global_\ndefaults: [{/advntage: rloo}]\n",
            ['no group "advntage"', 'Did you mean "advantage"?'],
        ),
    ],
)
def test_a_file_of_the_users_own_that_cannot_be_read(
    tmp_path: Path, name: str, text: bytes, needles: list[str]
) -> None:
    file = tmp_path / f"{name}.yaml"
    file.parent.mkdir()
    file.write_bytes(text)
    with pytest.raises(InputError) as caught:
        compose([name.replace("/", "="), f"hydra.searchpath=['file://{tmp_path}']"])
    message = str(caught.value)
    assert 1 <= len(message.splitlines()) <= 5 and all(needle in message for needle in needles)


def test_what_a_key_takes_is_one_list_with_one_or() -> None:
    sentences = list(map(validate.takes, validate.keys()))
    assert [text for text in sentences if text.count(" or ") > 1] == [] and len(sentences) > 50


def test_the_parts_that_messages_name_are_those_that_there_are() -> None:
    assert tuple(PARTS) == validate.PARTS


def test_the_largest_entropy_bonus_is_taken() -> None:
    assert compose(["entropy_bonus=1000"]).entropy_bonus == 1000


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


def test_a_typed_reference_to_a_key_is_followed_beside_a_preset_too() -> None:
    for preset in ([], ["debug=cpu_smoke", "optim=adamw"]):
        assert compose([*preset, "steps=3", "optim.warmup_steps=${steps}"]).optim.warmup_steps == 3
