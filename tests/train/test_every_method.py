"""One step of every method on a real model and GSM8K questions, so that nothing is tied to the embedded one.

Long, so in `make test-all`; skipped where no model is named: GRPO_RUNNER_SMOLLM2 is a folder of SmolLM2-135M-Instruct.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from grpo_runner import compose
from grpo_runner.train import run

MODEL = os.environ.get("GRPO_RUNNER_SMOLLM2")
METHODS = sorted(path.stem for path in (Path(__file__).parents[2] / "conf" / "method").glob("*.yaml"))
ROWS = [
    {
        "question": f"Ann has {a} apples and buys {b} more. How many has she?",
        "answer": f"{a} + {b} = {a + b}\n#### {a + b}",
    }
    for a, b in ((2, 3), (4, 1), (5, 5), (7, 2))
]
SMALL = (
    *("model=smollm2_135m", "data=gsm8k", "prompt=chat_boxed", "steps=1", "questions_per_step=2", "max_new_tokens=48"),
    *("group_size=4", "evaluation=never", "tracking=off", "device=cpu", "optim.updates_per_rollout=1"),
)
KEEPS = {"dpo", "online_dpo", "rft"}  # some right answer has to be there


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
    if method == "sft" or method in KEEPS:
        words[words.index("group_size=4")] = "group_size=1" if method == "sft" else "group_size=16"
    config = compose([*words, f"hydra.run.dir={tmp_path / 'run'}"])
    run(config)
    (row,) = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert row["step"] == 0 and (row["tokens/sampled"] > 0) == (method != "sft")  # which draws none
    assert row["updates"] in (0, config.optim.updates_per_rollout)  # 0: nothing was right, so nothing has weight
    assert method != "sft" or row["updates"] == 1  # worked solutions always have
    # an adapter's B begins at 0: it has moved where something was pushed, and nowhere else
    moved = any(tensor.any() for name, tensor in adapter(tmp_path / "run").items() if "lora_B" in name)
    assert moved == bool(row["updates"]) and (not moved or (math.isfinite(row["grad_norm"]) and row["grad_norm"] > 0))
