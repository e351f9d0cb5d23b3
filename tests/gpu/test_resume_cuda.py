"""A run on a GPU that was stopped and goes on: the optimizer's state comes back to the device."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from grpo_runner import compose, run
from grpo_runner.policy.update import Trainer

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


class Broken(Exception):
    """What stops the first of the two runs."""


def job(folder: Path, *extra: str):
    made = compose(["debug=cpu_smoke", f"device={DEVICE}", "evaluation.every=0", "steps=4", "optim.lr=1e-2", *extra])
    return dataclasses.replace(made, run_dir=str(folder))


def left(folder: Path, name: str) -> tuple[list[dict], torch.Tensor]:
    """Metrics without times, and all that was trained."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]
    weights = load_file(next((folder / name).glob("*.safetensors")))
    return rows, torch.cat([weights[key].float().flatten() for key in sorted(weights)])


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        (["dtype=float32"], "adapter"),
        (["dtype=float32", "lora=off"], "model"),
        (["dtype=float32", "optim.fused=false", "beta=in_reward", "beta.refresh_every=1"], "adapter"),
    ],
)
def test_a_run_that_was_stopped_ends_like_one_that_was_not(tmp_path, monkeypatch, extra, name):
    run(job(tmp_path / "whole", *extra))
    update = Trainer.update

    def until_the_third(self, *arguments):
        if arguments[4] == 2:
            raise Broken
        return update(self, *arguments)

    monkeypatch.setattr(Trainer, "update", until_the_third)
    with pytest.raises(Broken):
        run(job(tmp_path / "stopped", *extra))
    monkeypatch.setattr(Trainer, "update", update)
    assert run(job(tmp_path / "stopped", *extra)).steps == 4
    (rows, weights), (others, twins) = (left(tmp_path / folder, name) for folder in ("whole", "stopped"))
    assert [row["step"] for row in others] == [0, 1, 2, 3]
    # kernels add in any order on a GPU, so that equal runs are equal to rounding
    for row, other in zip(rows, others, strict=True):
        assert {k: v for k, v in other.items() if isinstance(v, float)} == pytest.approx(
            {k: v for k, v in row.items() if isinstance(v, float)}, rel=1e-2, abs=1e-4
        )
    assert (weights - twins).norm() < 1e-3 * weights.norm()
    run(job(tmp_path / "other", *extra, "seed=1"))  # negative control
    assert (weights - left(tmp_path / "other", name)[1]).norm() > 1e-2 * weights.norm()
