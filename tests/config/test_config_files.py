"""conf/: every choice composes, every key is explained, and the experiments hold the papers' figures."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict

import pytest
import yaml

from grpo_runner import advice, checks, helptext
from grpo_runner.config import compose, compose_sweep, find
from grpo_runner.method import OF_CHOICE, method_name
from grpo_runner.validate import to_yaml

CONF = find()
CHOICES = sorted((file.parent.name, file.stem) for file in CONF.glob("*/*.yaml"))
OWN_JOBS = ("experiment", "method", "sweep", "debug")  # these set keys of many groups
# choices that want something from the user, and what a user would give
GIVEN = {
    ("reward", "custom"): ["reward.function=my_rewards:short_answers"],
    ("reward", "model"): ["reward.model=owner/name"],
}
# choices that go with certain others alone, and a method which has these
APART = {
    ("samples", "base"): ["method=rft"],
    ("samples", "base_pairs"): ["method=dpo"],
    ("samples", "policy_pairs"): ["method=online_dpo"],
    ("samples", "policy_right"): ["method=online_rft", "samples=policy_right"],
    ("samples", "solutions"): ["method=sft"],
    ("advantage", "gae"): ["method=ppo"],
    ("advantage", "pairs"): ["method=dpo"],
    ("advantage", "process"): ["method=grpo_process"],
    ("beta", "dpo"): ["method=dpo"],
    ("critic", "shared_base"): ["method=ppo"],
    ("critic", "own_model"): ["method=ppo", "critic=own_model"],
}
TOGETHER = ("parts", "sets")  # explained together, above the heading
TOLD_APART = {"data": {"train_size", "eval_size"}, "prompt": {"template", "system", "chat", "stop"}}  # differ by file
FIELD = re.compile(r"^ *(?:- override /)?([\w./]+): *(.*)$")
# what a comment must hold: the name of a paper or library whose value it gives, or that there is no such value
SOURCE = re.compile(
    r"\b(DeepSeekMath|DeepSeek-R1|Dr\. GRPO|DAPO|GSPO|MiniMax-M1|RLOO|oat|verl|TRL"
    r"|MaxRL|TinyZero|open-r1|Unsloth|rasbt|tinker|LoRA Without Regret|no paper|the papers|ours|our choice)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("turn", range(max(Counter(group for group, _ in CHOICES).values())))
def test_every_choice_composes_and_validates(turn: int) -> None:
    """One choice of each group at a time: as many turns as the largest group has choices."""
    overrides = []
    for group in dict.fromkeys(group for group, _ in CHOICES if group not in OWN_JOBS):
        choices = [choice for other, choice in CHOICES if other == group and (group, choice) not in APART]
        choice = choices[turn % len(choices)]
        overrides += [f"{group}={choice}", *GIVEN.get((group, choice), [])]
    checks.check(compose(overrides))


@pytest.mark.parametrize("group, choice", APART)
def test_a_choice_that_goes_with_others_alone_composes_with_its_method(group: str, choice: str) -> None:
    config = compose(APART[group, choice])
    checks.check(config)
    values, of_config = yaml.safe_load((CONF / group / f"{choice}.yaml").read_text()), asdict(config)[group]
    assert {key: of_config[key] for key in values if isinstance(values[key], str)} == {
        key: value for key, value in values.items() if isinstance(value, str)
    } or group == "critic"  # 1e-3 is text to YAML


@pytest.mark.parametrize("choice", [choice for group, choice in CHOICES if group == "debug"])
def test_every_debug_job_composes_and_validates(choice: str) -> None:
    """Experiments: test_experiments.py."""
    checks.check(compose([f"debug={choice}"]))


def comments(text: str) -> dict[str, str]:
    """The comment right above each field of a YAML text, by dotted name. A heading is left out: its fields count."""
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []  # the headings above, with their indents
    comment: list[str] = []
    skipped = None  # indent of the key whose deeper lines are its value
    lines = [line.rstrip() for line in text.splitlines()]
    for index, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if skipped is not None and (indent > skipped or not line):
            continue  # inside a block of text, or among parts explained together
        skipped = None
        if line.lstrip().startswith("#"):
            comment.append(line.strip().lstrip("# "))
            continue
        if match := FIELD.match(line):
            path = [(depth, key) for depth, key in path if depth < indent]
            name, value = match.groups()
            below = next((other for other in lines[index + 1 :] if other and not other.lstrip().startswith("#")), "")
            heading = not value and below.startswith(" " * (indent + 1)) and not below.lstrip().startswith("- ")
            if name in TOGETHER or re.fullmatch(r"[|>][-+]?", value):
                skipped = indent
            if not heading or name in TOGETHER:
                found[".".join([*(key for _, key in path), name])] = " ".join(comment)
            path.append((indent, name))
        comment = []
    return found


def unexplained(text: str) -> list[str]:
    """Fields without a comment right above that gives a paper's value or says that there is none."""
    return [name for name, comment in comments(text).items() if not SOURCE.search(comment)]


@pytest.mark.parametrize("name", ["config", *(f"{group}/{choice}" for group, choice in CHOICES)])
def test_every_field_is_explained_above_it_with_the_papers_value(name: str) -> None:
    text = (CONF / f"{name}.yaml").read_text()
    assert text.startswith("# ")
    assert comments(text)
    assert unexplained(text) == []


def test_unexplained_finds_a_field_without_a_comment_or_without_a_source() -> None:
    text = """\
# AdamW's rate. DeepSeekMath: 1e-6.
lr: 1
betas: [0, 1]
# A text of your own, on paper, in hours; it floats.
body: |-
  inner: x

  # no field: y
head:
  # no paper: ours
  first: 1
  second: 2
# Weights. Dr. GRPO: correct alone.
parts:
  correct: 1
# What is chosen.
defaults:
  # DAPO: 0.28
  - override /clip: clip_higher
  - override /data: gsm8k
# The papers do not say.

apart: 1
"""
    assert unexplained(text) == ["betas", "body", "head.second", "defaults", "defaults.data", "apart"]


@pytest.mark.parametrize("group", sorted({group for group, _ in CHOICES if group not in OWN_JOBS}))
def test_a_field_is_explained_alike_in_all_files_of_its_group(group: str) -> None:
    texts: dict[str, set[str]] = {}
    for file in sorted((CONF / group).glob("*.yaml")):
        for name, comment in comments(file.read_text()).items():
            texts.setdefault(name, set()).add(comment)
    assert {name for name, found in texts.items() if len(found) > 1} == TOLD_APART.get(group, set())


def test_experiments_say_what_they_are_on_their_second_line() -> None:
    for group in OWN_JOBS:
        for file in (CONF / group).glob("*.yaml"):
            first, second, *_ = file.read_text().splitlines()
            assert first == "# @package _global_"
            assert second.startswith("# ")


def test_help_describes_every_choice() -> None:
    described = helptext.choices(CONF)
    assert sorted((group, choice) for group, found in described.items() for choice in found) == CHOICES
    assert all(text for found in described.values() for text in found.values())


def test_defaults_are_grpo_as_deepseekmath_wrote_it() -> None:
    config = compose()
    assert (config.advantage.baseline, config.advantage.scale, config.advantage.ddof) == ("group_mean", "group_std", 0)
    assert (config.loss_norm.kind, config.beta.value, config.beta.estimator) == ("sequence_mean", 0.04, "k3")
    assert (config.clip.low, config.clip.high, config.optim.updates_per_rollout) == (0.2, 0.2, 1)
    assert config.model.path == "embedded" and config.data.kind == "arithmetic" and config.lora.enabled
    assert method_name(config) == "GRPO"


def test_quickstart_is_the_default_job() -> None:
    named, plain = asdict(compose(["experiment=quickstart"])), asdict(compose())
    assert {key for key in plain if named[key] != plain[key]} == {"run_name", "run_dir"}


# --- whole methods, on any model and data; the older ones are experiments of the same name too

WHOLE = {  # name, (baseline, scale), loss norm, (beta, estimator, placement), (kind, low, high), (truncated, dynamic)
    "grpo": (
        "GRPO", ("group_mean", "group_std"), "sequence_mean", (0.04, "k3", "loss"), ("token", 0.2, 0.2), ("zero", 0)
    ),
    "dr_grpo": (
        "Dr. GRPO", ("group_mean", "none"), "constant", (0.0, "k3", "loss"), ("token", 0.2, 0.2), ("zero", 0)
    ),
    "rloo": (
        "RLOO with the KL in the reward", ("leave_one_out", "none"), "sequence_sum", (0.03, "k1", "reward"),
        ("token", 0.2, 0.2), ("zero", 0),
    ),
    "dapo": (
        "DAPO", ("group_mean", "group_std"), "group_token_mean", (0.0, "k3", "loss"), ("token", 0.2, 0.28), ("soft", 10)
    ),
    "gspo": (
        "GSPO", ("group_mean", "group_std"), "sequence_mean", (0.0, "k3", "loss"), ("sequence", 3e-4, 4e-4), ("zero", 0)
    ),
    "cispo": (
        "CISPO", ("group_mean", "group_std"), "group_token_mean", (0.0, "k3", "loss"), ("cispo", 1.0, 0.2), ("soft", 10)
    ),
    "sft": ("SFT", ("none", "none"), "sequence_mean", (0.0, "k3", "loss"), ("none", 0.0, 0.0), ("zero", 0)),
    "rft": ("RFT", ("none", "none"), "sequence_mean", (0.0, "k3", "loss"), ("none", 0.0, 0.0), ("zero", 0)),
    "online_rft": (
        "Online RFT", ("none", "none"), "sequence_mean", (0.0, "k3", "loss"), ("none", 0.0, 0.0), ("zero", 0)
    ),
    "reinforce": ("REINFORCE", ("none", "none"), "sequence_sum", (0.0, "k3", "loss"), ("none", 0.0, 0.0), ("zero", 0)),
    "reinforce_baseline": (
        "REINFORCE with the step's mean as baseline", ("batch_mean", "none"), "sequence_sum", (0.0, "k3", "loss"),
        ("none", 0.0, 0.0), ("zero", 0),
    ),
    "maxrl": (
        "MaxRL", ("group_mean", "group_mean"), "token_mean", (0.0, "k3", "loss"), ("token", 0.2, 0.2), ("zero", 0)
    ),
    "dpo": ("DPO", ("none", "none"), "sequence_sum", (0.1, "k1", "preference"), ("none", 0.0, 0.0), ("zero", 0)),
    "online_dpo": (
        "online DPO", ("none", "none"), "sequence_sum", (0.1, "k1", "preference"), ("none", 0.0, 0.0), ("zero", 0)
    ),
    "ppo": ("PPO", ("none", "none"), "sequence_mean", (0.03, "k1", "reward"), ("token", 0.2, 0.2), ("zero", 0)),
    "grpo_process": (
        "GRPO with process rewards", ("group_mean", "group_std"), "sequence_mean", (0.04, "k3", "loss"),
        ("token", 0.2, 0.2), ("zero", 0),
    ),
    "grpo_iterative": (
        "Iterative GRPO", ("group_mean", "group_std"), "sequence_mean", (0.04, "k3", "loss"), ("token", 0.2, 0.2),
        ("zero", 0),
    ),
}  # fmt: skip
# of whom, which, how many of a question, group_size; the others: the policy's, all of them, 8
SAMPLES = {
    "sft": ("solutions", "all", None, 1),
    "rft": ("base", "right", 4, 8),
    "dpo": ("base", "pairs", 4, 8),
    "online_dpo": ("policy", "pairs", None, 8),
}
CREDIT = {"dpo": "pairs", "online_dpo": "pairs", "ppo": "gae", "grpo_process": "process"}  # the others: outcome
UPDATES = {
    "ppo": (4, "whole"),
    "rloo": (1, "whole"),
    "dapo": (2, "group"),
    "gspo": (4, "response"),
    "cispo": (2, "group"),
}


METHODS = sorted(choice for group, choice in CHOICES if group == "method")


def test_every_method_is_in_the_table_of_this_page() -> None:
    assert sorted(WHOLE) == METHODS


def test_a_choice_is_known_by_the_name_that_its_runs_have() -> None:
    assert {name: whole[0] for name, whole in WHOLE.items()} == OF_CHOICE


@pytest.mark.parametrize("name", WHOLE)
def test_pb017_a_choice_of_method_sets_the_whole_method(name: str) -> None:
    """pb017: dr_grpo sets the std, the constant and the KL term, not a part of them."""
    config = compose([f"method={name}"])
    advantage, beta, clip, samples = config.advantage, config.beta, config.clip, config.samples
    found = (
        method_name(config),
        (advantage.baseline, advantage.scale),
        config.loss_norm.kind,
        (beta.value, beta.estimator, beta.placement),
        (clip.kind, clip.low, clip.high),
        (config.reward.truncated, config.rollout.dynamic_sampling),
    )
    assert found == WHOLE[name]
    whose = (samples.source, samples.keep, samples.per_question, config.group_size.value)
    assert whose == SAMPLES.get(name, ("policy", "all", None, 8))
    assert advantage.credit == CREDIT.get(name, "outcome")
    assert (config.critic.kind, config.reward.steps, beta.refresh_every) == (
        "shared_base" if name == "ppo" else "none",
        "lines" if name == "grpo_process" else "none",
        25 if name == "grpo_iterative" else 0,
    )
    assert (config.rollout.importance, config.entropy_bonus, clip.dual) == ("none", 0.0, None)
    if name in UPDATES:
        assert (config.optim.updates_per_rollout, config.optim.minibatch) == UPDATES[name]
    # nothing is half of anything; that one update leaves the clip no work is told for every run
    assert not [text for text in advice.warnings(config) if "clip range cannot act" not in text]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_method_says_so_for_each_of_its_switches(name: str) -> None:
    """It overrides what would spoil it, wherever that comes from: all switches stand in the file itself."""
    said = comments((CONF / "method" / f"{name}.yaml").read_text())
    keys = {key.removeprefix("defaults./").removeprefix("defaults.") for key in said}
    wanted = {"samples", "advantage", "loss_norm", "beta", "clip", "reward.truncated", "entropy_bonus"}
    assert wanted | {"rollout.dynamic_sampling", "rollout.importance"} <= keys
    assert not {"model", "data", "prompt"} & keys


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_method_is_also_a_small_job(name: str) -> None:
    config = compose([f"method={name}", "debug=cpu_smoke"])
    assert (config.steps, config.questions_per_step, config.group_size.value) == (2, 2, 1 if name == "sft" else 4)
    assert method_name(config) == WHOLE[name][0]


@pytest.mark.parametrize("name", sorted({*METHODS} & {choice for group, choice in CHOICES if group == "experiment"}))
def test_an_experiment_of_a_methods_name_is_that_method(name: str) -> None:
    assert compose([f"experiment={name}"]) == compose([f"method={name}"])


def test_a_method_wins_over_an_experiment_and_what_is_typed_over_both() -> None:
    config = compose(["experiment=laptop_gsm8k", "method=sft", "loss_norm=constant"])
    assert (config.samples.source, config.loss_norm.kind, config.clip.kind) == ("solutions", "constant", "none")
    assert config.model.path == "HuggingFaceTB/SmolLM2-135M-Instruct" and config.data.solution_column == "answer"
    assert compose(["method=grpo", "advantage=dr_grpo"]).advantage.scale == "none"


def test_the_overlong_penalty_keeps_the_papers_proportions() -> None:
    for name in ("dapo", "cispo"):
        config = compose([f"experiment={name}"])
        assert config.reward.parts == {"correct": 2.0}  # 1 and -1, shifted by 1
        assert config.reward.overlong_buffer is None  # a fifth of whatever budget, as 4096 of 20480


@pytest.mark.parametrize("half", ["advantage=dr_grpo", "loss_norm=constant"])
def test_pb017_half_of_dr_grpo_is_told(half: str) -> None:
    told = [text for text in advice.warnings(compose([half])) if text.startswith("This is not Dr. GRPO")]
    assert len(told) == 1 and half in told[0]


def test_pb005_the_chosen_ddof_stands_in_the_resolved_config() -> None:
    for ddof in (0, 1):
        shown = yaml.safe_load(to_yaml(compose([f"advantage.ddof={ddof}"])))
        assert shown["advantage"]["ddof"] == ddof
    assert "G - ddof" in comments((CONF / "advantage/grpo.yaml").read_text())["ddof"]


def test_pb026_the_constant_is_the_completion_budget_without_the_prompt() -> None:
    """Its value stands in the resolved config; a number that is given wins."""
    words = ["loss_norm=constant", "max_new_tokens=512", "data.max_prompt_tokens=256"]
    assert yaml.safe_load(to_yaml(compose(words)))["loss_norm"] == {"kind": "constant", "divisor": 512}
    assert compose([*words, "loss_norm.divisor=768"]).loss_norm.divisor == 768
    assert compose(["experiment=dr_grpo_oat_zero_7b", "loss_norm=constant"]).loss_norm.divisor == 3000


def test_grpo_vs_dr_grpo_is_two_by_two_over_seeds() -> None:
    configs = compose_sweep(["experiment=grpo_vs_dr_grpo", "seed=0,3"])
    arms = [(config.advantage.scale, config.loss_norm.kind, config.seed) for config in configs]
    expected = {(s, n, seed) for s in ("group_std", "none") for n in ("sequence_mean", "constant") for seed in (0, 3)}
    assert len(arms) == 8 and set(arms) == expected
    assert {config.beta.value for config in configs} == {0.0}
    assert len({config.run_dir for config in configs}) == 8
    ours = {"advantage", "loss_norm", "seed", "run_name", "run_dir"}
    first = asdict(configs[0])
    for config in configs:  # arms differ in the compared switches and in nothing else
        assert {key for key, value in asdict(config).items() if value != first[key]} <= ours


def test_deepseekmath_grpo_holds_section_4_2() -> None:
    config = compose(["experiment=deepseekmath_grpo"])
    assert config.model.path == "deepseek-ai/deepseek-math-7b-instruct"
    assert (config.optim.lr, config.beta.value, config.group_size.value) == (1e-6, 0.04, 64)
    assert (config.max_new_tokens, config.group_size.value * config.questions_per_step) == (1024, 1024)
    assert (config.optim.updates_per_rollout, config.lora.enabled) == (1, False)
    assert method_name(config) == "GRPO"


def test_dr_grpo_oat_zero_7b_holds_table_6() -> None:
    config = compose(["experiment=dr_grpo_oat_zero_7b"])
    assert config.model.path == "Qwen/Qwen2.5-Math-7B"
    assert (config.group_size.value, config.questions_per_step, config.max_new_tokens) == (8, 128, 3000)
    optim = config.optim
    assert (optim.lr, optim.betas, optim.weight_decay, optim.max_grad_norm) == (1e-6, (0.9, 0.95), 0.0, 1.0)
    assert (optim.schedule, optim.updates_per_rollout, optim.minibatch) == ("constant", 8, "response")
    assert 128 * 8 // optim.updates_per_rollout == 128  # responses in an optimizer step
    assert (config.clip.low, config.clip.high, config.beta.value, config.temperature) == (0.2, 0.2, 0.0, 1.0)
    assert (config.loss_norm.kind, config.loss_norm.divisor) == ("constant", 3000)  # max_new_tokens
    assert (config.rollout.top_p, config.rollout.top_k, config.reward.truncated) == (1.0, 0, "zero")
    assert (config.rollout.importance, config.rollout.dynamic_sampling, config.entropy_bonus) == ("none", 0, 0.0)
    assert config.data.train.path is None and config.prompt.template.startswith("<|im_start|>system")
    assert not config.lora.enabled
    assert method_name(config) == "Dr. GRPO"


def test_the_grpo_arm_of_oat_zero_takes_oats_std() -> None:
    text = (CONF / "experiment" / "dr_grpo_oat_zero_7b.yaml").read_text()
    [line] = re.findall(r"^# +and the GRPO arm: (.+)$", text, re.MULTILINE)
    config = compose(["experiment=dr_grpo_oat_zero_7b", *line.split()])
    assert (config.advantage.baseline, config.advantage.scale) == ("group_mean", "group_std")
    assert (config.advantage.ddof, config.advantage.eps) == (1, 1e-8)
    assert (config.loss_norm.kind, config.beta.value) == ("sequence_mean", 0.0)


def test_cpu_smoke_is_small_and_gives_way_to_overrides() -> None:
    config = compose(["debug=cpu_smoke"])
    assert (config.steps, config.tracking.wandb, config.device) == (2, "disabled", "cpu")
    assert compose(["debug=cpu_smoke", "steps=3", "group_size=16"]).group_size.value == 16
    assert compose(["steps=3", "debug=cpu_smoke"]).steps == 3
