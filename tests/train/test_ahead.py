"""`rollout.ahead`: each step's answers are of the policy before the last update, in a resumed run too."""

import json
import shutil

import pytest
from safetensors.torch import load_file

from grpo_runner import checks, compose
from grpo_runner.errors import InputError
from grpo_runner.train import run

ARGS = (
    *(
        "questions_per_step=4",
        "group_size=4",
        "max_new_tokens=16",
        "tracking=off",
        "optim.lr=0.005",
        "entropy_bonus=0.1",
        "steps=4",
    ),
    *("evaluation.every=2", "evaluation.questions=4", "checkpoint.keep=9", "tracking.completions_every=1"),
)


def go(folder, *overrides):
    run(compose([*ARGS, *overrides, f"hydra.run.dir={folder}"]))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]


@pytest.fixture(scope="module")
def ahead(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ahead") / "run"
    return folder, go(folder, "rollout.ahead=true", "rollout.importance=token")


def test_answers_are_one_update_old(ahead, tmp_path):
    """The first step is on its policy; from then on engine and trainer differ. Without the key they never do."""
    _, rows = ahead
    assert rows[0]["mismatch"] < 1e-5 and all(row["mismatch"] > 1e-4 for row in rows[1:])
    assert all(row["mismatch"] < 1e-5 for row in go(tmp_path / "now"))


def test_the_second_steps_answers_are_those_of_the_policy_that_has_not_moved(ahead, tmp_path):
    """At a rate too small to move anything, sampling at once gives what was sampled ahead; at the real one it does not."""
    _, rows = ahead
    still, moved = go(tmp_path / "still", "optim.lr=1e-12", "steps=2"), go(tmp_path / "moved", "steps=2")
    seen = ("reward/mean", "length/mean", "entropy", "tokens/sampled")
    assert [rows[1][key] for key in seen] == pytest.approx([still[1][key] for key in seen], abs=1e-5)
    assert rows[1]["entropy"] != pytest.approx(moved[1]["entropy"], abs=1e-5)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_resumed_run_draws_the_same_answers(ahead, tmp_path, at):
    folder, rows = ahead
    again = tmp_path / "run"
    shutil.copytree(folder, again)
    (again / "DONE").unlink()
    for checkpoint in (again / "checkpoints").iterdir():
        if int(checkpoint.name.removeprefix("step_")) > at:
            shutil.rmtree(checkpoint)
    assert go(again, "rollout.ahead=true", "rollout.importance=token") == rows
    one, other = (load_file(path / "adapter" / "adapter_model.safetensors") for path in (folder, again))
    assert all(one[name].equal(other[name]) for name in one)


def test_without_the_adapter_sampled_from_the_resumed_run_differs(ahead, tmp_path, monkeypatch):
    """Negative control: a resume that samples from the policy as it stands draws other answers."""
    from grpo_runner.train import ahead as module

    folder, rows = ahead
    again = tmp_path / "run"
    shutil.copytree(folder, again)
    (again / "DONE").unlink()
    for number in (3, 4):
        shutil.rmtree(again / "checkpoints" / f"step_{number:06d}")
    monkeypatch.setattr(module.Ahead, "_swap", lambda self: None)
    found = go(again, "rollout.ahead=true", "rollout.importance=token")
    assert found[:2] == rows[:2] and found[2]["entropy"] != rows[2]["entropy"]


@pytest.mark.parametrize("overrides", [["rollout=transformers"], ["lora=off"], ["rollout.merge_lora=false"]])
def test_what_cannot_hold_a_copy_is_refused(overrides):
    with pytest.raises(InputError, match=r"rollout\.ahead=true"):
        checks.check(compose(["rollout.ahead=true", *overrides]))
