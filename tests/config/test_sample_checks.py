"""Whose answers, which of them, and no ratio: what goes together, what it is called, and the formula that `plan` shows."""

from __future__ import annotations

import pytest

from grpo_runner import advice, checks
from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.method import method_name
from grpo_runner.planning.formula import coefficient, formula, symbols
from grpo_runner.planning.happens import happens

RFT_ALL = ["method=rft", "samples.keep=all", "samples.per_question=null"]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["samples.per_question=2"], "samples.per_question changes nothing with samples.keep=all"),
        (["method=sft", "group_size=4"], "samples=solutions with group_size=4: a question has one"),
        (["method=sft", "advantage=reinforce_baseline"], "samples=solutions: every coefficient is 1"),
        (["method=sft", "clip=ppo"], "samples=solutions with clip.kind=token: answers of another policy have no π_old"),
        (["method=rft", "clip=gspo"], "samples=base with clip.kind=sequence"),
        (["method=rft", "rollout.dynamic_sampling=2"], "rollout.dynamic_sampling changes nothing with samples=base"),
        (["method=rft", "rollout.importance=token"], "rollout.importance changes nothing with samples=base"),
        (["method=sft", "rollout.ahead=true"], "rollout.ahead changes nothing with samples=solutions"),
        (["method=sft", "data=countdown"], "samples=solutions with data.kind=countdown, which makes none"),
        (["data.solution_column=x"], "data.solution_column changes nothing with data.kind=arithmetic"),
        (["method=online_rft", "clip.high=0.2"], "change nothing with clip.kind=none. Allowed: clip=none"),
        (["samples=policy_right"], "samples.keep=right with advantage.baseline=group_mean: right answers beside right"),
        (
            ["samples=policy_right", "advantage=reinforce", "advantage.scale=batch_std"],
            "samples.keep=right with advantage.scale=batch_std: right answers have all earned the same",
        ),
        (
            ["method=online_rft", "samples=policy_right", "rollout.dynamic_sampling=2"],
            "groups of right answers alone never differ",
        ),
        (["advantage=maxrl", "advantage.ddof=1"], "advantage.ddof changes nothing with advantage.scale=group_mean"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(overrides: list[str], told: str) -> None:
    with pytest.raises(InputError) as caught:
        compose(overrides)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 and told in lines[0], lines


def test_what_goes_together_is_not_refused() -> None:
    for fine in (
        RFT_ALL,
        ["method=rft", "rollout.top_p=0.9"],
        ["method=online_rft", "samples=policy_right", "samples.per_question=1"],
        ["method=sft", "optim.updates_per_rollout=2", "optim.minibatch=response"],
        ["method=sft", "beta=0.04"],
        ["method=grpo", "clip=none"],
        ["advantage=maxrl", "advantage.eps=0.01"],
    ):
        checks.check(compose(fine))


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        (["method=sft", "loss_norm=constant"], "SFT over a constant"),
        (["method=sft", "loss_norm=token_mean"], "SFT with the token mean of the optimizer batch"),
        (["method=rft", "beta=0.04"], "RFT and a KL term"),
        (RFT_ALL, "RFT, with wrong answers in the normaliser"),
        (["method=online_rft", "samples=policy_right"], "Online RFT, with distinct right answers alone"),
        # rewards that are no rule of right and wrong make it REINFORCE
        (
            ["method=online_rft", "reward=math_answer_and_format"],
            "REINFORCE with GRPO's loss norm (each response's length), with no ratio",
        ),
        (["method=reinforce", "loss_norm=constant"], "REINFORCE"),
        (["method=rloo", "clip=none", "beta=0"], "RLOO"),
        (["method=maxrl", "clip=none"], "MaxRL"),
        (
            ["method=maxrl", "loss_norm=sequence_mean"],
            "MaxRL's advantage with GRPO's loss norm (each response's length)",
        ),
        (
            ["samples=base", "samples.keep=all", "samples.per_question=null", "clip=none", "beta=0"],
            "GRPO's advantage with GRPO's loss norm (each response's length), with no ratio and the base's own answers",
        ),
    ],
)
def test_names_by_the_switches(overrides: list[str], name: str) -> None:
    assert method_name(compose(overrides)) == name


# (objective, its gradient, what must be said of the letters); 8 questions of 8, L = 32
SHOWN = {
    ("method=sft",): ("1/8 Σ_i 1/|o_i| Σ_t A log π, A = 1", "1/8 Σ_i 1/|o_i| Σ_t A ∇log π", "o the data's worked"),
    ("method=sft", "loss_norm=constant"): (
        "1/(8·32) Σ_i Σ_t A log π, A = 1", "1/(8·32) Σ_i Σ_t A ∇log π", "o the data's worked solutions",
    ),
    ("method=rft",): (
        "1/N Σ_i 1/|o_i| Σ_t A log π, A = R", "1/N Σ_i 1/|o_i| Σ_t A ∇log π",
        "o what the base answered before the first step; Σ_i of the right answers, equal ones once, at most 4 a question",
    ),
    ("method=online_rft",): ("1/64 Σ_i 1/|o_i| Σ_t A log π, A = R", "1/64 Σ_i 1/|o_i| Σ_t A ∇log π", "R the reward"),
    ("method=reinforce",): ("1/64 Σ_i Σ_t A log π, A = R", "1/64 Σ_i Σ_t A ∇log π", "R the reward"),
    ("method=reinforce_baseline",): (
        "1/64 Σ_i Σ_t A log π, A = R − mean of the step's R", "1/64 Σ_i Σ_t A ∇log π", "R the reward",
    ),
    ("method=maxrl",): (
        "1/Σ|o_i| Σ_i Σ_t min(r A, clip(r, 0.8, 1.2) A), A = (R − mean(R))/mean(R)",
        "1/Σ|o_i| Σ_i Σ_t A ∇log π at π = π_old", "r = π/π_old of a token",
    ),
    # DeepSeekMath eq. 20: A + β(π_ref/π - 1)
    ("method=grpo",): (
        "1/64 Σ_i 1/|o_i| Σ_t [ min(r A, clip(r, 0.8, 1.2) A) − 0.04 (ρ − log ρ − 1) ], A = (R − mean(R))/std(R)",
        "1/64 Σ_i 1/|o_i| Σ_t (A + 0.04 (ρ − 1)) ∇log π at π = π_old", "ρ = π_ref/π",
    ),
    ("method=grpo", "beta.estimator=k2", "rollout.importance=token", "rollout.importance_cap=2", "entropy_bonus=0.1"): (
        (
            "1/64 Σ_i 1/|o_i| Σ_t [ min(π_old/μ, 2) · min(r A, clip(r, 0.8, 1.2) A) − 0.04 ½(log ρ)² + 0.1 H ], "
            "A = (R − mean(R))/std(R)"
        ),
        "1/64 Σ_i 1/|o_i| Σ_t [ (min(π_old/μ, 2) A + 0.04 log ρ) ∇log π + 0.1 ∇H ] at π = π_old", "H the entropy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("overrides", SHOWN, ids=" ".join)
def test_plan_shows_the_objective_its_gradient_and_its_letters(overrides: tuple[str, ...]) -> None:
    config = compose([*overrides])
    objective, gradient, letters = SHOWN[overrides]
    assert (formula(config), coefficient(config)) == (f"J = {objective}", f"∇J = {gradient}")
    assert letters in symbols(config) and ("r = π/π_old" in symbols(config)) == (config.clip.kind == "token")


def test_counts_of_answers_that_are_not_sampled_in_the_steps() -> None:
    """200 questions of the generator, 8 answers of the base to each; answers have 32 tokens at most."""
    rft, sft, online = (happens(compose([f"method={name}", "steps=10"])) for name in ("rft", "sft", "online_rft"))
    assert (rft.samples, sft.samples, online.samples) == (1600, 0, 640)
    assert (rft.sampled_tokens, sft.sampled_tokens) == (1600 * 32, 0)
    assert (rft.training_tokens, sft.training_tokens) == (640 * 32, 80 * 32)
    assert "there is no ratio" in sft.clip and not sft.compared


@pytest.mark.parametrize(
    ("overrides", "needle", "count"),
    [
        (["method=sft"], "clip range cannot act", 0),
        (["method=online_rft", "optim.updates_per_rollout=2"], "the answers are another policy's", 1),
        (["method=rft", "optim.updates_per_rollout=2"], "the answers are another policy's", 0),
        (["method=maxrl", "loss_norm=constant"], "This is not Dr. GRPO", 0),
        (["method=maxrl", "reward.truncated=soft"], "advantage.scale=group_mean with reward.truncated=soft", 1),
        (["method=maxrl", "beta=in_reward"], "advantage.scale=group_mean with beta.placement=reward", 1),
        (["method=maxrl", "+reward.parts.format=-0.5"], "advantage.scale=group_mean with reward.parts", 1),
        (["method=maxrl"], "rewards may be negative", 0),
        (["method=grpo_process", "loss_norm=constant"], "This is not Dr. GRPO", 0),
    ],
)
def test_advice(overrides: list[str], needle: str, count: int) -> None:
    assert sum(needle in text for text in advice.warnings(compose(overrides))) == count
