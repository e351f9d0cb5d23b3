"""Checkpoints: what is written comes back, a torn or damaged one never counts."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from grpo_runner.errors import MachineError, NonFiniteError
from grpo_runner.train.checkpoint import Checkpoints

STATE = {"a.weight": torch.arange(6.0).view(2, 3), "b.weight": torch.tensor([1.5])}
MOMENTS = {"a.weight.exp_avg": torch.ones(2, 3), "a.weight.step": torch.tensor(3.0)}


def three(tmp_path, keep=3):
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep)
    for step in (1, 2, 3):
        checkpoints.save(step, {name: value + step for name, value in STATE.items()}, MOMENTS)
    return checkpoints


def test_what_was_saved_comes_back(tmp_path):
    found = three(tmp_path).latest(pytest.fail)
    assert found.step == 3
    assert all(torch.equal(found.policy[name], value + 3) for name, value in STATE.items())
    assert all(torch.equal(found.optimizer[name], value) for name, value in MOMENTS.items())


def test_a_reference_that_moves_is_saved_with_it_and_a_fixed_one_is_not(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", 3)
    checkpoints.save(1, STATE, MOMENTS)
    assert checkpoints.latest(pytest.fail).reference == {}
    folder = checkpoints.save(2, STATE, MOMENTS, {"a.weight": STATE["a.weight"] - 1})
    assert torch.equal(checkpoints.latest(pytest.fail).reference["a.weight"], STATE["a.weight"] - 1)
    # listed in the manifest: where it is damaged, the checkpoint counts no more
    (folder / "reference.safetensors").write_bytes(b"")
    said = []
    assert checkpoints.latest(said.append).step == 1 and "reference.safetensors differs" in said[0]


def test_layout_and_retention(tmp_path):
    checkpoints = three(tmp_path, keep=2)
    assert checkpoints.steps() == [2, 3]
    folder = tmp_path / "checkpoints" / "step_000003"
    assert sorted(file.name for file in folder.iterdir()) == [
        "MANIFEST.json",
        "adapter.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]
    assert set(json.loads((folder / "MANIFEST.json").read_text())["files"]) == {
        "adapter.safetensors",
        "optimizer.safetensors",
        "state.json",
    }


def test_nothing_yet(tmp_path):
    assert Checkpoints(tmp_path / "checkpoints", 3).latest(pytest.fail) is None


@pytest.mark.parametrize("name", ["adapter.safetensors", "optimizer.safetensors", "state.json", "MANIFEST.json"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "empty"])
def test_a_damaged_newest_is_named_and_the_one_before_it_taken(tmp_path, name, damage):
    checkpoints = three(tmp_path)
    file = tmp_path / "checkpoints" / "step_000003" / name
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    else:
        content[len(content) // 2] ^= 255
        file.write_bytes({"cut": content[: len(content) // 2], "flipped": bytes(content), "empty": b""}[damage])
    said = []
    assert checkpoints.latest(said.append).step == 2
    assert len(said) == 1 and "step_000003" in said[0]


def test_all_damaged_is_refused(tmp_path):
    checkpoints = three(tmp_path)
    for file in (tmp_path / "checkpoints").glob("*/state.json"):
        file.write_text("{}")
    with pytest.raises(MachineError, match="all 3 checkpoints are damaged"):
        checkpoints.latest(lambda _: None)


def test_a_save_that_was_killed_leaves_nothing_that_counts(tmp_path):
    three(tmp_path)
    shutil.copytree(tmp_path / "checkpoints" / "step_000003", tmp_path / "checkpoints" / ".tmp_step_000004")
    again = Checkpoints(tmp_path / "checkpoints", 3)
    assert again.steps() == [1, 2, 3] and not list((tmp_path / "checkpoints").glob(".tmp_*"))


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    checkpoints = three(tmp_path)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("grpo_runner.train.checkpoint.save_file", full)
    with pytest.raises(MachineError, match="No space left on device"):
        checkpoints.save(4, STATE, MOMENTS)
    assert checkpoints.latest(pytest.fail).step == 3


def test_the_same_step_can_be_saved_again(tmp_path):
    checkpoints = three(tmp_path)
    checkpoints.save(3, STATE, MOMENTS)
    assert torch.equal(checkpoints.latest(pytest.fail).policy["b.weight"], STATE["b.weight"])


def test_what_is_no_checkpoint_is_passed_over(tmp_path):
    checkpoints = three(tmp_path)
    for name in ("step_000002 (copy)", "step_x"):
        (tmp_path / "checkpoints" / name).mkdir()
    assert checkpoints.steps() == [1, 2, 3]


def test_damaged_later_checkpoints_do_not_push_a_good_one_out(tmp_path):
    three(tmp_path)
    for step in (2, 3):
        (tmp_path / "checkpoints" / f"step_{step:06d}" / "state.json").write_text("{}")
    kept = Checkpoints(tmp_path / "checkpoints", keep=1)
    assert kept.latest(lambda _: None).step == 1
    kept.save(2, STATE, MOMENTS)  # the run goes on from step 1
    assert kept.latest(pytest.fail).step == 2 and kept.steps() == [2]


def test_all_is_durable_before_the_rename_and_the_rename_after_it(tmp_path, monkeypatch):
    """What a power cut leaves cannot be tried here; the order of the calls can (nothing else tells a missing fsync)."""
    root, calls = tmp_path / "checkpoints", []
    final = root / "step_000001"
    monkeypatch.setattr("grpo_runner.train.checkpoint.fsync", lambda path: calls.append((path.name, final.exists())))
    Checkpoints(root, 3).save(1, STATE, MOMENTS)
    *before, aside, after = calls
    # the manifest is synced by write_json
    assert {("adapter.safetensors", False), ("optimizer.safetensors", False), ("state.json", False)} == set(before)
    assert aside == (".tmp_step_000001", False) and after == ("checkpoints", True)


@pytest.mark.parametrize("part", ["policy", "optimizer", "reference", "critic"])
@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_what_is_not_finite_is_never_saved(tmp_path, part, value):
    checkpoints = three(tmp_path)
    spoilt = {"policy": STATE, "optimizer": MOMENTS, part: {"sound": torch.ones(2), "it": torch.tensor([0.0, value])}}
    with pytest.raises(NonFiniteError, match=f"step 3: after it, it of the {'adapter' if part == 'policy' else part}"):
        checkpoints.save(4, **spoilt)
    assert checkpoints.latest(pytest.fail).step == 3 and not list((tmp_path / "checkpoints").glob(".tmp_*"))
    spoilt[part]["it"] = torch.tensor([0.0, torch.finfo(torch.float32).max])  # negative control
    assert checkpoints.save(4, **spoilt).is_dir()
