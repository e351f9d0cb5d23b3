"""Switches of the objective through whole small runs: the named methods, the plan, and what is counted where."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_runner import cli, run
from grpo_runner.config import compose
from grpo_runner.train import loop, runner

SMALL = [
    "debug=cpu_smoke",
    "tracking=off",
    "data.train_size=16",
    "data.eval_size=8",
    "max_new_tokens=8",
    "evaluation.every=0",
]


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def go(folder: Path, *overrides: str) -> list[dict]:
    run(replace(compose([*SMALL, *overrides]), run_dir=str(folder)))
    return rows(folder)


@pytest.mark.parametrize(
    ("experiment", "name", "updates"),
    [
        # each runs in tests/config/test_experiments.py too
        pytest.param("grpo", "GRPO", 1, marks=pytest.mark.slow),
        pytest.param("dr_grpo", "Dr. GRPO", 1, marks=pytest.mark.slow),
        ("rloo", "RLOO with the KL in the reward", 1),
        ("dapo", "DAPO", 2),
        pytest.param("gspo", "GSPO", 4, marks=pytest.mark.slow),
        pytest.param("cispo", "CISPO", 2, marks=pytest.mark.slow),
    ],
)
def test_a_whole_method_runs_on_the_embedded_model(capsys, tmp_path, experiment, name, updates):
    words = [f"experiment={experiment}", "debug=cpu_smoke", "evaluation=never", f"hydra.run.dir={tmp_path / 'run'}"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out.startswith(f"{name}\n")
    for row in rows(tmp_path / "run"):
        assert 0 < row["updates"] <= updates and math.isfinite(row["grad_norm"])
        assert ("refills" in row) == ("reward/overlong" in row) == (experiment in ("dapo", "cispo"))
        assert ("reward/after_kl" in row) == (experiment == "rloo")
        assert (row["kl"] is None) == (experiment not in ("grpo", "rloo"))


def test_pb037_several_updates_are_said_before_the_run_starts(capsys, tmp_path, monkeypatch):
    """mu=4 on 58 steps: 58 rollouts, 232 optimizer steps."""
    said = []

    def not_yet(*arguments):
        said.append(capsys.readouterr().out)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "train", not_yet)
    words = ["steps=58", "optim.updates_per_rollout=4", f"hydra.run.dir={tmp_path / 'run'}"]
    assert cli.main([*SMALL, *words]) == 130
    plan = {line.strip().partition("  ")[0]: line.split("  ")[-1].strip() for line in said[0].splitlines()}
    assert plan["steps"] == "58" and plan["optimizer steps"] == "232 (4 a rollout)"


@pytest.fixture
def trained(monkeypatch) -> Iterator[list]:
    """What `step_metrics` is given at each step."""
    seen: list = []
    measure = loop.step_metrics
    monkeypatch.setattr(loop, "step_metrics", lambda made, *rest: seen.append(made) or measure(made, *rest))
    yield seen


def test_pb041_a_kl_in_the_loss_is_not_in_the_rewards(tmp_path, trained):
    loss = go(tmp_path / "loss", "beta=0.5", "optim.lr=0.01", "questions_per_step=8", "steps=3")
    assert all(row["kl"] is not None and "reward/after_kl" not in row for row in loss) and loss[-1]["kl"] > 0
    for made in trained:
        scored = [[reward.total for reward in row] for row in made.rollout.rewards]
        assert made.rewards_QG.tolist() == scored
    trained.clear()
    words = ["beta=in_reward", "optim.lr=0.01", "questions_per_step=8", "steps=3", "beta.value=0.5"]
    reward = go(tmp_path / "reward", *words)
    last = trained[-1]
    assert last.update.kl is None  # counted once: nothing of it in the loss
    assert reward[-1]["reward/after_kl"] != reward[-1]["reward/mean"]
    assert last.rewards_QG.tolist() != [[reward.total for reward in row] for row in last.rollout.rewards]


@pytest.mark.parametrize("lora", ["default", "off"])
def test_pb043_without_a_kl_no_reference_is_made(tmp_path, monkeypatch, lora):
    def made(*arguments):
        raise AssertionError("a reference was made")

    monkeypatch.setattr("grpo_runner.policy.update.Reference", made)
    found = go(tmp_path / "run", "beta=0", f"lora={lora}", "optim=full_finetune", "beta.placement=reward")
    assert all(row["kl"] is None and "reward/after_kl" not in row for row in found)
    with pytest.raises(AssertionError, match="a reference was made"):  # negative control
        go(tmp_path / "other", "beta=0.04", f"lora={lora}", "optim=full_finetune")


def test_pb026_the_constant_counts_no_prompt(tmp_path, trained):
    """Every token of an answer counts 1 / (answers · max_new_tokens), whatever room the prompts have."""
    for room in (64, 32):
        words = [f"data.max_prompt_tokens={room}", "max_new_tokens=24", "questions_per_step=4", "steps=1"]
        go(tmp_path / str(room), "experiment=dr_grpo", *words)
    assert len(trained) == 2 and all(made.advantages_QG.any() for made in trained)
    for made in trained:
        weight_N = made.weights_NT.abs().sum(dim=1)
        expected_N = made.advantages_QG.flatten().abs() * made.mask_NT.sum(dim=1) / (4 * 4 * 24)
        assert weight_N.tolist() == pytest.approx(expected_N.tolist())
