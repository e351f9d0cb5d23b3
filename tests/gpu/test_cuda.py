"""The device itself; everything else about GPU paths is tested on the CPU."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from grpo_runner import compose, run
from grpo_runner.policy.models import eos_ids, load_model, load_tokenizer
from grpo_runner.rollout import NativeEngine, Sampling, TransformersEngine
from grpo_runner.types import Question

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


@pytest.mark.parametrize(
    "extra",
    [
        [],
        ["lora=off"],
        ["model.gradient_checkpointing=true", "tracking.probe_every=1"],
        ["optim.updates_per_rollout=2", "rollout.importance=token", "rollout.importance_cap=2", "entropy_bonus=0.01"],
        ["beta=in_reward", "beta.refresh_every=1", "rollout.dynamic_sampling=2"],
    ],
)
def test_two_steps_in_bfloat16(tmp_path, extra):
    config = compose(["debug=cpu_smoke", "device=cuda", "dtype=bfloat16", *extra])
    summary = run(dataclasses.replace(config, run_dir=str(tmp_path / "run")))
    rows = [json.loads(line) for line in (Path(summary.run_dir) / "metrics.jsonl").read_text().splitlines()]
    assert summary.status == "done" and len(rows) == 2


def test_engines_agree_on_the_device():
    config, device = compose([]).model, torch.device("cuda")
    model, tokenizer = load_model(config, device, torch.float32), load_tokenizer(config)
    questions = [Question(text, text, "") for text in ("2+3=?", "29+22+6-20=?")]
    prompts = [tuple(tokenizer.encode(question.text)) for question in questions]
    sampling = Sampling(1.0, 1.0, 0, 40, (), seed=0, purpose="rollout", step=0)
    native, reference = (
        cls(model, tokenizer, eos_ids(model, tokenizer), 64).sample(questions, prompts, 8, sampling)
        for cls in (NativeEngine, TransformersEngine)
    )
    for mine, other in zip(native, reference, strict=True):
        for a, b in zip(mine.completions, other.completions, strict=True):
            assert a.token_ids == b.token_ids and a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
