"""One step of every method on a real model and GSM8K questions, so that nothing is tied to the embedded one.

Long, so in `make test-all`; skipped where no model is named: GRPO_RUNNER_SMOLLM2 is a folder of SmolLM2-135M-Instruct.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from grpo_runner import compose
from grpo_runner.train import run

MODEL = os.environ.get("GRPO_RUNNER_SMOLLM2")
METHODS = sorted(path.stem for path in (Path(__file__).parents[2] / "conf" / "method").glob("*.yaml"))
# sums after two worked ones, in which a base this small is often right
ROWS = [
    {"question": f"{a} + {b}", "answer": f"{a + b}\n#### {a + b}"} for a, b in ((2, 3), (4, 1), (5, 5), (7, 2), (3, 3))
]
SMALL = (
    *("model=smollm2_135m", "data=gsm8k", "prompt=none", "reward.extract=whole", "steps=1", "questions_per_step=4"),
    "max_new_tokens=8",
    *("group_size=8", "evaluation=never", "tracking=off", "device=cpu", "optim.updates_per_rollout=1"),
)
SUMS = "1 + 1 = 2\n4 + 3 = 7\n{{ question }} ="


def adapter(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "adapter" / "adapter_model.safetensors")


@pytest.mark.slow
@pytest.mark.skipif(MODEL is None, reason="GRPO_RUNNER_SMOLLM2 names no folder of SmolLM2-135M-Instruct")
@pytest.mark.parametrize("method", METHODS)
def test_one_step(method: str, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)))
    words = [*SMALL, f"method={method}", f"model.path={MODEL}", f"data.train.path={file}", "data.train.hub_id=null"]
    if method in ("dapo", "gspo", "cispo", "ppo"):
        words.remove("optim.updates_per_rollout=1")
    if method == "sft":
        words.append("group_size=1")
    config = compose([*words, f"hydra.run.dir={tmp_path / 'run'}"])
    run(replace(config, prompt=replace(config.prompt, template=SUMS, stop=("\n",))))
    (row,) = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert row["step"] == 0 and (row["tokens/sampled"] > 0) == (method != "sft")  # which draws none
    assert 1 <= row["updates"] <= config.optim.updates_per_rollout  # fewer: a part whose answers have no weight
    assert math.isfinite(row["grad_norm"]) and row["grad_norm"] > 0
    # an adapter's B begins at 0
    assert any(tensor.any() for name, tensor in adapter(tmp_path / "run").items() if "lora_B" in name)
