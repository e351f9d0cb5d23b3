"""Checks of speed and memory: this device's limits, decoding, and the update of large models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from grpo_runner.policy.update import Trainer
from grpo_runner.rollout import NativeEngine

from . import making
from .numbers import ask
from .rows import Row, Setting

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import flops

# Bytes that may be used on a card sold with 80 and with 24 GB: one GB stays for CUDA itself.
CARDS = {80: 79e9, 24: 23e9}


def limits(setting: Setting) -> Iterator[Row]:
    """What the device does at most: a bf16 product of large matrices, and a copy."""
    yield setting.fact("device", _name(setting))
    yield setting.least("bf16 matrix product, TFLOP a second", matmul_rate(setting) / 1e12, 50, timed=True)
    yield setting.least("memory, GB a second", bandwidth(setting) / 1e9, 300, timed=True)


def small_decode(setting: Setting) -> Iterator[Row]:
    """Decoding with the 0.5B model."""
    yield from decode("qwen2_5_0_5b", setting, making.model("qwen2_5_0_5b", setting, torch.bfloat16), 4000, 0.02)


def large(setting: Setting) -> Iterator[Row]:
    """The 7B model with LoRA: decoding, then the update of 8 × 1024 tokens, in 80 GB."""
    name = "qwen2_5_7b"
    with making.room(setting, CARDS[80]):
        making.gigabytes(setting, begin=True)
        policy = making.model(name, setting, torch.bfloat16)
        yield from decode(name, setting, policy, 1500, 0.2)
        yield setting.most("peak of model and sampling, GB", making.gigabytes(setting), 80, timed=True)
        yield from eight_rows(name, setting, policy, most=80, share=0.25)


def middle(setting: Setting) -> Iterator[Row]:
    """The 1.5B model with LoRA: the update of 8 × 1024 tokens, in 24 GB."""
    name = "qwen2_5_1_5b"
    with making.room(setting, CARDS[24]):
        making.gigabytes(setting, begin=True)
        policy = making.model(name, setting, torch.bfloat16)
        engine = NativeEngine(policy, making.tokenizer(), frozenset(), 64)
        ask(engine, policy.config.vocab_size, (64 if not setting.dry else 4,), 1.0, 128 if not setting.dry else 8, 8)
        yield setting.most("peak of model and sampling, GB", making.gigabytes(setting), 24, timed=True)
        yield from eight_rows(name, setting, policy, most=24, share=0.2)


def decode(name: str, setting: Setting, policy: Any, least: float, share: float) -> Iterator[Row]:
    """Tokens a second of whole calls of `sample` (merging and prompts in it), and how near memory's speed they come."""
    vocab, sizes = policy.config.vocab_size, making.sizes(name, setting)
    prompt, tokens = (4, 8) if setting.dry else (64, 128)
    memory = bandwidth(setting)
    for rows in (4, 8) if setting.dry else (64, 256):
        engine = NativeEngine(policy, making.tokenizer(), frozenset(), rows)

        def call(engine: Any = engine, rows: int = rows) -> None:
            made = ask(engine, vocab, (prompt,) * (rows // 4), 1.0, tokens, 4)
            assert sum(len(answer.token_ids) for answer in made) == rows * tokens

        call()  # warms up
        spent = making.seconds(call, setting)
        needed = tokens * bytes_a_step(sizes, rows, prompt + tokens // 2) / memory
        yield setting.least(f"{rows} rows, tokens a second", rows * tokens / spent, least, timed=True)
        yield setting.least(f"{rows} rows, share of memory's speed", needed / spent, share, timed=True)


def eight_rows(name: str, setting: Setting, policy: Any, most: float, share: float) -> Iterator[Row]:
    """One question, 8 answers of 1024 tokens: time, share of the measured matrix product, and memory."""
    prompt, tokens, count = (4, 8, 8) if setting.dry else (128, 1024, 8)
    rows = making.batch(policy.config.vocab_size, 1, count, prompt, tokens)
    told: list[str] = []
    making.gigabytes(setting, begin=True)
    trainer = Trainer(policy, 0, making.config("optim.lr=1e-6"), setting.device, False, told.append)
    steps = [making.update(trainer, rows)]
    peak = making.gigabytes(setting)
    spent = making.seconds(lambda: steps.append(making.update(trainer, rows)), setting)
    work = flops.step_flops(flops.shapes(making.sizes(name, setting)), making.RANK, prompt, count, tokens)["update"]
    used = work / spent / matmul_rate(setting)
    yield setting.least("updates made", sum(step.updates for step in steps), 2)
    yield setting.fact("tokens of a micro-batch", trainer.budget.tokens)
    yield setting.fact("falls for lack of memory", len(told))
    yield setting.fact("update of 8 × 1024 tokens, s", spent)
    yield setting.least("the same, tokens a second", count * tokens / spent, 2000, timed=True)
    yield setting.least("the same, share of the matrix product's speed", used, share, timed=True)
    yield setting.most("peak of the update, GB", peak, most, timed=True)


def bytes_a_step(sizes: dict[str, Any], rows: int, context: int) -> int:
    """What a decoding step reads in bf16: each weight once, and keys and values of `context` tokens of each row."""
    model = flops.shapes(sizes)
    width = sizes.get("head_dim") or sizes["hidden_size"] // sizes["num_attention_heads"]
    cached = rows * context * sizes["num_hidden_layers"] * 2 * sizes["num_key_value_heads"] * width
    return 2 * (model.base + model.head[0] * model.head[1] + cached)


def matmul_rate(setting: Setting) -> float:
    """FLOP a second of the fastest of some products in bf16."""
    size, repeated = (64, 1) if setting.dry else (8192, 4)
    a, b = (torch.randn(size, size, device=setting.device, dtype=torch.bfloat16) for _ in range(2))

    def several() -> None:
        for _ in range(repeated):
            torch.mm(a, b)

    several()
    return repeated * 2 * size**3 / min(making.seconds(several, setting) for _ in range(5))


def bandwidth(setting: Setting) -> float:
    """Bytes a second, read and written, of the fastest of some copies."""
    source = torch.zeros(2**12 if setting.dry else 2**29, device=setting.device, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * source.nbytes / min(making.seconds(lambda: target.copy_(source), setting) for _ in range(5))


def _name(setting: Setting) -> str:
    if setting.device.type != "cuda":
        return "CPU"
    found = torch.cuda.get_device_properties(setting.device)
    return f"{found.name}, {found.total_memory / 1e9:.0f} GB, CUDA {torch.version.cuda}"
