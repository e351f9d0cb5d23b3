"""DPO's keys: together they are a method with a name, apart they are refused, and so is what would change its gradient."""

from __future__ import annotations

import pytest

from grpo_runner import advice, metric
from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.method import method_name
from grpo_runner.planning.what import what
from tests.helpers import changed

THREE = ["advantage=pairs", "beta=dpo", "samples=base_pairs", "loss_norm=sequence_sum", "clip=none"]


def test_the_groups_together_are_the_method() -> None:
    assert method_name(compose(THREE)) == method_name(compose(["method=dpo"])) == "DPO"
    assert method_name(compose(["method=online_dpo"])) == "online DPO"
    mean = compose(["method=dpo", "loss_norm=sequence_mean"])
    assert method_name(mean) == "DPO with the mean over each answer's tokens"
    refills = compose(["method=online_dpo", "rollout.dynamic_sampling=2"])
    assert method_name(refills) == "online DPO, with dynamic sampling"


@pytest.mark.parametrize("away", ["advantage=reinforce", "beta=in_reward", "samples=base"])
def test_each_of_the_three_keys_is_refused_without_the_others(away: str) -> None:
    with pytest.raises(InputError, match="pairs are DPO's, which is all three. Take method=dpo."):
        compose([*THREE, away])


@pytest.mark.parametrize("alone", ["advantage=pairs", "beta=dpo", "samples=policy_pairs"])
def test_each_of_them_alone_is_refused(alone: str) -> None:
    with pytest.raises(InputError) as caught:
        compose([alone])
    assert "without" in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("typed", "needle"),
    [
        ("beta=0", "beta=0.0 with advantage.credit=pairs: every weight would be 0. Allowed: a number above 0."),
        ("beta.estimator=k3", "beta.estimator=k3 with advantage.credit=pairs"),
        ("loss_norm=token_mean", "loss_norm.kind=token_mean with advantage.credit=pairs: answers would weigh by each"),
        ("loss_norm=group_token_mean", "Allowed: sequence_sum, sequence_mean, constant."),
        ("loss_norm.kind=my.norms:own", "loss_norm.kind=my.norms:own with advantage.credit=pairs"),
        ("clip=ppo", "clip.kind=token with advantage.credit=pairs: DPO has no ratio. Allowed: clip=none."),
        ("advantage.baseline=group_mean", "advantage.baseline=group_mean with advantage.credit=pairs"),
        ("advantage.scale=group_std", "advantage.scale=group_std with advantage.credit=pairs"),
        ("optim.updates_per_rollout=2", "weights are made anew for each optimizer step. Allowed: 1."),
        ("group_size=1", "group_size=1 with advantage.credit=pairs: a pair is two answers. Allowed: at least 2."),
        ("rollout.importance=token", "rollout.importance=token with advantage.credit=pairs"),
        ("reward.truncated=soft", "reward.truncated=soft with advantage.credit=pairs"),
        ("samples.source=solutions", "no solution is wrong. Allowed: base, policy."),
    ],
)
def test_what_would_change_the_gradient_is_refused(typed: str, needle: str) -> None:
    with pytest.raises(InputError) as caught:
        compose(["method=online_dpo", typed])
    assert needle in str(caught.value) and len(str(caught.value).splitlines()) <= 5


@pytest.mark.parametrize(
    "typed",
    [
        *("loss_norm=sequence_mean", "loss_norm=constant", "beta=0.5", "beta.refresh_every=5", "lora=off"),
        *("group_size=2", "rollout.dynamic_sampling=3", "reward.truncated=mask", "reward.truncated=keep"),
        *("samples.per_question=1", "rollout.ahead=true rollout.merge_lora=true", "entropy_bonus=0.01"),
    ],
)
def test_what_leaves_it_is_not(typed: str) -> None:
    compose(["method=online_dpo", *typed.split()])


def test_other_parts_of_the_reward_are_told_to_have_no_say() -> None:
    told = [
        sum("trains nothing" in text for text in advice.warnings(compose([*words, "reward=math_answer_and_format"])))
        for words in (["method=dpo"], ["method=rft"])
    ]
    assert told == [1, 0]
    assert not any(
        "trains nothing" in text or "cannot act" in text for text in advice.warnings(compose(["method=dpo"]))
    )
    refills = compose(["method=online_dpo", "rollout.dynamic_sampling=2"])
    assert not any("would carry weight" in text for text in advice.warnings(refills))


def test_plan_has_its_formula_and_no_baseline() -> None:
    found = what(compose(["method=dpo", "beta=0.2"]))
    assert found.formula == "J = 1/N Σ_pairs log σ(0.2 (Δ+ − Δ−)), Δ = Σ_t log π/π_ref"
    assert what(compose(["method=dpo", "loss_norm=sequence_mean"])).formula.endswith("Δ = 1/|o| Σ_t log π/π_ref")
    keys = {switch.key for switch in found.switches}
    assert {"advantage.credit", "samples.source", "beta"} <= keys
    assert not keys & {"advantage.baseline", "advantage.scale", "clip.low", "clip.high"}


def test_its_figures_are_metrics() -> None:
    for name in ("dpo/margin", "dpo/accuracy", "dpo/right", "dpo/wrong", "dpo/loss"):
        assert metric.is_known(changed(compose(["method=dpo"]), metric=name))
