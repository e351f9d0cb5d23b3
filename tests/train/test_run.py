"""Whole runs of a few steps on the embedded model, in this process, through the two lines that a notebook uses."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import yaml
from safetensors.torch import load_file

from grpo_runner import compose, run
from grpo_runner.errors import InputError, NonFiniteError
from grpo_runner.policy.merge import merge
from grpo_runner.policy.models import EMBEDDED
from grpo_runner.validate import load
from tests.helpers import changed

SMALL = [
    "debug=cpu_smoke",
    "tracking=off",
    "data.train_size=64",
    "data.eval_size=16",
    "max_new_tokens=16",
    "evaluation.every=0",
]


def go(folder: Path, *overrides: str, **parts):
    return run(changed(compose([*SMALL, *overrides]), run_dir=str(folder), **parts))


def rows(folder: Path, name: str = "metrics.jsonl") -> list[dict]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def timeless(folder: Path) -> list[dict]:
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows(folder)]


@pytest.fixture(scope="module")
def grpo(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("grpo") / "run"
    go(folder, "steps=4", "questions_per_step=4", "optim.lr=0.01", "evaluation.every=2")
    return folder


def test_a_run_leaves_what_the_readme_says(grpo):
    names = {file.name for file in grpo.iterdir()}
    assert names >= {
        "config.yaml",
        "metrics.jsonl",
        "questions.parquet",
        "completions",
        "evals.jsonl",
        "checkpoints",
        "adapter",
    }
    assert names >= {"data.json", "code.diff", "summary.json", "DONE", "weights.png"}
    assert [row["step"] for row in rows(grpo, "evals.jsonl")] == [0, 2, 4]
    assert load(grpo / "config.yaml") == changed(load(grpo / "config.yaml"), run_dir=str(grpo))


def test_every_promised_metric_is_there(grpo):
    promised = """step reward/mean reward/correct accuracy tokens/sampled length/mean length/correct length/wrong truncated no_answer kl
    entropy clip_fraction ratio/mean grad_norm lr zero_variance_fraction weight/total time/step_s time/rollout_s time/reward_s time/update_s"""
    for row in rows(grpo):
        assert set(promised.split()) <= set(row)
        assert row["length/correct"] is not None or row["accuracy"] == 0


def test_question_rows_agree_with_the_metrics(grpo):
    table = pq.read_table(grpo / "questions.parquet").to_pylist()
    assert len(table) == 4 * 4
    for row in rows(grpo):
        mine = [line for line in table if line["step"] == row["step"]]
        assert sum(line["successes"] for line in mine) / 16 == pytest.approx(row["accuracy"])
        assert sum(line["weight"] for line in mine) == pytest.approx(row["weight/total"])
        for line in mine:
            p = line["success_rate"]
            assert line["advantage_weight"] == pytest.approx(2 * 4 * (p * (1 - p)) ** 0.5)
            assert line["weight"] == pytest.approx(line["advantage_weight"] / 16)  # under 1/|o| over 16 responses


def test_the_adapter_loads_in_peft_and_merge_writes_the_same_policy(grpo, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = AutoModelForCausalLM.from_pretrained(EMBEDDED)
    ids = AutoTokenizer.from_pretrained(EMBEDDED)("12+7-5=?", return_tensors="pt").input_ids
    with torch.no_grad():
        untrained = base(ids).logits
        adapted = PeftModel.from_pretrained(base, grpo / "adapter")(ids).logits
        merged = AutoModelForCausalLM.from_pretrained(merge(str(grpo), str(tmp_path / "full")))(ids).logits
    torch.testing.assert_close(merged, adapted, rtol=1e-4, atol=1e-4)
    assert (adapted - untrained).abs().max() > 1e-2  # and it is not the base


def test_the_last_checkpoint_is_the_adapter(grpo):
    newest = sorted((grpo / "checkpoints").iterdir())[-1]
    saved = load_file(newest / "adapter.safetensors")
    exported = load_file(grpo / "adapter" / "adapter_model.safetensors")
    assert newest.name == "step_000004"
    assert {name.replace(".default.", "."): value.tolist() for name, value in saved.items()} == {
        name: value.tolist() for name, value in exported.items()
    }


def test_pb074_evaluation_does_not_disturb_training(grpo, tmp_path):
    go(tmp_path / "never", "steps=4", "questions_per_step=4", "optim.lr=0.01", "evaluation.every=0")
    assert timeless(tmp_path / "never") == timeless(grpo)
    assert not (tmp_path / "never" / "evals.jsonl").exists()


def test_the_engines_train_alike(grpo, tmp_path):
    go(tmp_path / "other", "steps=4", "questions_per_step=4", "optim.lr=0.01", "rollout=transformers")
    for mine, other in zip(rows(grpo), rows(tmp_path / "other"), strict=True):
        for key in ("reward/mean", "tokens/sampled", "grad_norm", "kl", "entropy"):
            assert other[key] == pytest.approx(mine[key], rel=1e-3, abs=1e-6)


def test_micro_batches_and_rollout_chunks_change_nothing_that_counts(grpo, tmp_path):
    go(
        tmp_path / "cut",
        "steps=4",
        "questions_per_step=4",
        "optim.lr=0.01",
        "optim.microbatch_tokens=40",
        "rollout.batch_rows=4",
    )
    for mine, other in zip(rows(grpo), rows(tmp_path / "cut"), strict=True):
        assert other["grad_norm"] == pytest.approx(mine["grad_norm"], rel=1e-3)
        assert other["tokens/sampled"] == mine["tokens/sampled"]


@pytest.mark.parametrize(
    "overrides",
    [
        ["lora=off", "optim.lr=1e-4"],
        ["lora=off", "beta=no_kl"],
        ["optim.updates_per_rollout=4", "optim.minibatch=response"],
        pytest.param(["advantage=dr_grpo", "loss_norm=constant", "beta=no_kl"], marks=pytest.mark.slow),
        ["advantage=rloo", "loss_norm=token_mean"],
        ["model.gradient_checkpointing=true", "lora.dropout=0.1"],
        ["reward=math_answer_and_format"],
        ["rollout.top_p=0.9", "rollout.top_k=5"],
        ["lora.rank=2", "lora.targets=[q_proj,v_proj]"],
        pytest.param(["beta.estimator=k2"], marks=pytest.mark.slow),
        pytest.param(["clip=gspo", "optim.updates_per_rollout=3"], marks=pytest.mark.slow),
        pytest.param(["clip=cispo", "optim.updates_per_rollout=3"], marks=pytest.mark.slow),
        ["clip.dual=3.0", "optim.updates_per_rollout=2", "advantage=batch_std"],
        pytest.param(["advantage=reinforce_baseline", "loss_norm=sequence_sum", "beta=no_kl"], marks=pytest.mark.slow),
        ["loss_norm=group_token_mean", "optim.updates_per_rollout=2", "optim.minibatch=response"],
        ["lora=off", "optim.lr=1e-4", "beta.refresh_every=1", "tracking.probe_every=1"],
        ["rollout.importance=sequence", "optim.updates_per_rollout=2", "entropy_bonus=0.01"],
    ],
)
def test_every_switch_runs(tmp_path, overrides):
    assert go(tmp_path / "run", *overrides).status == "done"
    assert len(rows(tmp_path / "run")) == 2


def test_a_run_begins_from_an_adapter_and_is_held_near_it(grpo, tmp_path):
    """pb044 in a whole run: the reference is the adapter that was loaded, so that the first step's KL is 0."""
    adapter = ["lora.adapter=" + str(grpo / "adapter"), "beta=0.5"]
    go(tmp_path / "near", *adapter)
    go(tmp_path / "base", *adapter, "beta.reference=base")
    go(tmp_path / "fixed", "beta=0.5", f"beta.reference={grpo / 'adapter'}")
    near, base, fixed = (rows(tmp_path / name)[0]["kl"] for name in ("near", "base", "fixed"))
    assert near == pytest.approx(0, abs=1e-9) and base > 1e-3 and fixed > 1e-3
    with pytest.raises(InputError, match="lora.adapter=.*: the adapter has lora.rank=16, the run 2"):
        go(tmp_path / "other", adapter[0], "lora.rank=2")
    with pytest.raises(InputError, match="beta.reference=.*no_such: not the folder of a LoRA adapter"):
        go(tmp_path / "none", "beta=0.5", f"beta.reference={tmp_path / 'no_such'}")
    assert not (tmp_path / "other").exists() and not (tmp_path / "none").exists()


def test_the_probe_changes_nothing_that_trains(grpo, tmp_path):
    """pb074's kin: the same run with the probe at every step, to the last bit of metrics, adapter and question rows."""
    go(
        tmp_path / "probed",
        "steps=4",
        "questions_per_step=4",
        "optim.lr=0.01",
        "evaluation.every=2",
        "tracking.probe_every=1",
    )
    for mine, other in zip(timeless(tmp_path / "probed"), timeless(grpo), strict=True):
        assert {key: value for key, value in mine.items() if not key.startswith("probe/")} == other
        assert {"probe/norm/grpo", "probe/cosine/grpo~dr_grpo", "probe/group_cosine/grpo~dr_grpo"} <= set(mine)
    for name in ("adapter/adapter_model.safetensors", "questions.parquet", "evals.jsonl"):
        assert (tmp_path / "probed" / name).read_bytes() == (grpo / name).read_bytes()
    assert [row["step"] for row in rows(tmp_path / "probed", "probe.jsonl")] == [0, 1, 2, 3]


def test_full_fine_tuning_leaves_a_model_that_loads(tmp_path):
    from transformers import AutoModelForCausalLM

    go(tmp_path / "run", "steps=4", "questions_per_step=4", "lora=off", "optim.lr=1e-3")
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model").state_dict()
    base = AutoModelForCausalLM.from_pretrained(EMBEDDED).state_dict()
    assert any(not torch.equal(trained[name], base[name]) for name in base)


def test_a_step_without_weight_leaves_the_policy_as_it_was(tmp_path, capsys):
    """Nothing is right within one token, so every group earns 0 throughout."""
    go(tmp_path / "run", "beta=no_kl", "max_new_tokens=1", "optim.weight_decay=0.1")
    assert all(
        row["updates"] == 0 and row["grad_norm"] is None and row["zero_variance_fraction"] == 1.0
        for row in rows(tmp_path / "run")
    )
    adapter = load_file(tmp_path / "run" / "adapter" / "adapter_model.safetensors")
    assert all((value == 0).all() for name, value in adapter.items() if "lora_B" in name)
    assert "no update" in capsys.readouterr().out


def test_a_users_reward_function(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "def short(questions, golds, completions):\n    return [1.0 / (1 + len(text)) for text in completions]\n"
        "def few(questions, golds, completions):\n    return [1.0]\n"
        "def nan(questions, golds, completions):\n    return [float('nan')] * len(completions)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    go(tmp_path / "run", "reward=custom", "reward.function=mine:short")
    assert all(
        row["reward/function"] == pytest.approx(row["reward/mean"]) and row["accuracy"] <= 1
        for row in rows(tmp_path / "run")
    )
    with pytest.raises(InputError, match=r"mine:few[\s\S]*8"):
        go(tmp_path / "few", "reward=custom", "reward.function=mine:few")
    with pytest.raises(NonFiniteError, match="mine:nan"):
        go(tmp_path / "nan", "reward=custom", "reward.function=mine:nan")


def test_a_run_that_stops_itself_keeps_its_last_good_checkpoint(tmp_path, monkeypatch):
    from grpo_runner.policy.optimizer import Stepper

    step, made = Stepper.step, []

    def spoil(self):
        made.append(self)
        if len(made) == 2:
            next(iter(self.named.values())).grad.fill_(torch.nan)
        return step(self)

    monkeypatch.setattr(Stepper, "step", spoil)
    with pytest.raises(NonFiniteError, match="step 1"):
        go(tmp_path / "run", "steps=3")
    assert [folder.name for folder in (tmp_path / "run" / "checkpoints").iterdir()] == ["step_000001"]
    assert not (tmp_path / "run" / "DONE").exists()
    monkeypatch.undo()
    assert go(tmp_path / "run", "steps=3").status == "done"  # the fault mended, the same command goes on


def test_a_configuration_that_never_made_a_step_may_be_corrected(tmp_path):
    with pytest.raises(InputError):
        go(tmp_path / "run", "reward=custom", "reward.function=nowhere:nothing")
    assert go(tmp_path / "run").status == "done"


def test_other_settings_are_refused_by_name(grpo):
    with pytest.raises(InputError, match=r"optim.lr: there 0.01, here 0.02"):
        go(grpo, "steps=4", "questions_per_step=4", "optim.lr=0.02", "evaluation.every=2")


def test_summary_says_what_ran(grpo):
    summary = json.loads((grpo / "summary.json").read_text())
    assert summary["method"] == "GRPO" and summary["steps"] == 4 and summary["status"] == "done"
    assert summary["before"]["step"] == 0 and summary["after"]["step"] == 4 and "torch" in summary["versions"]
    assert "run_dir" not in yaml.safe_load((grpo / "config.yaml").read_text())


def test_a_refused_first_start_leaves_no_folder_not_even_the_one_around_it(tmp_path):
    with pytest.raises(InputError, match="no_such_module"):
        go(tmp_path / "around" / "another" / "run", "advantage.baseline=no_such_module:f")
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_lost_its_figures_stops_a_resume_before_anything_is_said_to_go_on(tmp_path, capsys):
    go(tmp_path / "run")
    file = tmp_path / "run" / "metrics.jsonl"
    first, second = file.read_text().splitlines()
    file.write_text(first + '\n{"step": 1}\n')
    capsys.readouterr()
    with pytest.raises(InputError, match="step 1: the figures of its row are lost"):
        go(tmp_path / "run", "steps=3")
    assert "going on" not in capsys.readouterr().out and (tmp_path / "run" / "DONE").exists()
    file.write_text(f"{first}\n{second}\n")
    go(tmp_path / "run", "steps=3")
    assert "going on from step 2" in capsys.readouterr().out and len(rows(tmp_path / "run")) == 3
