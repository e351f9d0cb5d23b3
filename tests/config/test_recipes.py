"""Presets of library recipes: the conventions in which libraries quietly differ, typed here from their sources."""

from __future__ import annotations

import pytest

from grpo_runner.config import compose
from grpo_runner.method import method_name
from grpo_runner.schema import RunConfig

# (baseline, scale, ddof, eps), loss norm, (beta, estimator, placement), (clip low, high, dual), updates a rollout
TRL = (("group_mean", "group_std", 1, 1e-4), "token_mean")
VERL = (
    ("group_mean", "group_std", 1, 1e-6), "token_mean", (0.001, "k3", "loss"), (0.2, 0.2, 3.0), 1
)  # fmt: skip
NO_STD = (("group_mean", "none", 0, 0.0), "sequence_sum", (0.0, "k3", "loss"), (0.2, 0.2, None), 1)
METHODS = {
    "verl_gsm8k_lora_0_5b": VERL,
    "verl_gsm8k_lora_7b": VERL,
    "verl_math_0_5b": VERL,
    "verl_math_3b": VERL,
    "trl_quickstart": (*TRL, (0.0, "k3", "loss"), (0.2, 0.2, None), 1),
    "open_r1_demo_1_5b": (*TRL, (0.04, "k3", "loss"), (0.2, 0.2, None), 1),
    "unsloth_gsm8k": (*TRL, (0.001, "k3", "loss"), (0.2, 0.2, None), 1),
    "rasbt_qwen3_0_6b": (
        ("group_mean", "group_std", 1, 1e-4), "sequence_sum", (0.0, "k3", "loss"), (0.2, 0.2, None), 1
    ),
    "lora_without_regret_math": NO_STD,
    "tinker_math_rl_8b_gsm8k": NO_STD,
    "tinker_math_rl_1b_arithmetic": NO_STD,
    "oat_countdown_3b": (
        ("group_mean", "group_std", 1, 1e-8), "sequence_mean", (0.001, "k3", "loss"), (0.2, 0.2, None), 8
    ),
    "tinyzero_countdown": (
        ("group_mean", "group_std", 1, 1e-6), "token_mean", (0.001, "k1", "reward"), (0.2, 0.2, None), 4
    ),
}  # fmt: skip


def method(config: RunConfig) -> tuple[object, ...]:
    advantage, beta, clip = config.advantage, config.beta, config.clip
    return (
        (advantage.baseline, advantage.scale, advantage.ddof, advantage.eps),
        config.loss_norm.kind,
        (beta.value, beta.estimator, beta.placement),
        (clip.low, clip.high, clip.dual),
        config.optim.updates_per_rollout,
    )


@pytest.mark.parametrize("name", METHODS)
def test_a_recipe_has_its_librarys_conventions(name: str) -> None:
    assert method(compose([f"experiment={name}"])) == METHODS[name]


def test_the_conventions_are_told_apart() -> None:
    """A negative control: TRL's run in verl's convention is another one."""
    assert method(compose(["experiment=trl_quickstart", "advantage.eps=1e-6"])) != METHODS["trl_quickstart"]


def test_a_run_on_another_model_differs_in_the_model_alone() -> None:
    """verl's four runs, and its four on MATH: the file of the smallest holds for the others."""
    for first, others in {"verl_gsm8k_lora": ("1_5b", "3b", "7b"), "verl_math": ("1_5b", "3b", "7b")}.items():
        base = compose([f"experiment={first}_0_5b", "run_name=x"])
        for size in others:
            other = compose([f"experiment={first}_{size}", "run_name=x"])
            assert other.model.path == f"Qwen/Qwen2.5-{size.replace('_', '.').upper()}-Instruct"
            assert other == compose([f"experiment={first}_0_5b", "run_name=x", f"model.path={other.model.path}"])
            assert other != base


def test_verls_run_on_math_takes_what_it_names_and_keeps_the_rest() -> None:
    config = compose(["experiment=verl_math_0_5b"])
    assert config.data.train.hub_id == "DigitalLearningGmbH/MATH-lighteval"
    assert config.prompt.template.endswith(r"within \boxed{}.") and config.prompt.chat
    assert (config.reward.extract, config.reward.boxes, config.reward.equality) == ("box", "last", "value")
    assert (config.max_new_tokens, config.data.max_prompt_tokens, config.steps) == (512, 1024, 117)
    assert (config.lora.rank, config.lora.alpha, config.optim.lr, config.entropy_bonus) == (32, 32.0, 3e-5, 0.001)
    assert set(config.evaluation.sets) == {"math"} and config.evaluation.sets["math"].split == "test"
    assert config.evaluation.sets["math"].answer_pattern == config.data.answer_pattern


def test_the_no_std_recipes_are_not_called_dr_grpo() -> None:
    """Without the constant they are not; their names say what there is of it."""
    for name in ("lora_without_regret_math", "tinker_math_rl_8b_gsm8k"):
        assert method_name(compose([f"experiment={name}"])) != "Dr. GRPO"
