"""Random models of real shapes made on the device, batches for them, and their gradients, times and memory."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grpo_runner import compose
from grpo_runner.algorithm import token_weights
from grpo_runner.policy import budget
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.models import attach_lora, load_tokenizer
from grpo_runner.policy.update import Trainer, Update
from grpo_runner.schema import RunConfig
from grpo_runner.types import Completion, Finish, Group, Question

from .rows import Setting

CONFIGS = Path(__file__).parent / "configs"
# What the dry form makes in place of a model: the same relations between the sizes, all of them small.
TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "max_position_embeddings": 2048,
}
RANK = 16


def sizes(name: str, setting: Setting) -> dict[str, Any]:
    """The config.json of one of `configs/`, made small in dry form."""
    return json.loads((CONFIGS / f"{name}.json").read_text()) | (TINY if setting.dry else {})


def model(name: str, setting: Setting, dtype: torch.dtype, lora: bool = True, seed: int = 0) -> Any:
    """A random Qwen2 made on the device in its type; lora: with an adapter whose B is not 0."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    before = torch.get_default_dtype()
    torch.manual_seed(seed)
    torch.set_default_dtype(dtype)
    try:
        with torch.device(setting.device):
            made = Qwen2ForCausalLM(Qwen2Config(**sizes(name, setting))).eval()
    finally:
        torch.set_default_dtype(before)
    if not lora:
        return made
    policy = attach_lora(made, config().lora, seed).eval()
    with torch.no_grad():
        for name_, parameter in policy.named_parameters():
            if "lora_B" in name_:
                parameter.normal_(std=0.01)
    return policy


def tokenizer() -> Any:
    """The embedded model's: engines decode what they sampled, and what the text is does not matter here."""
    return load_tokenizer(compose([]).model)


def config(*overrides: str) -> RunConfig:
    """The default job without KL and without a limit of the gradient's norm, by whose size it could not be told."""
    made = compose(["beta=no_kl", f"lora.rank={RANK}", "optim.max_grad_norm=null", *overrides])
    return dataclasses.replace(made, run_dir="unused")


def batch(vocab: int, questions: int, group_size: int, prompt: int, tokens: int, ragged: bool = False) -> Batch:
    """Random tokens. ragged: prompts and completions of unequal lengths, one of a single token among them."""
    draw = torch.Generator().manual_seed(1)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, vocab, (length,), generator=draw).tolist())

    def answer(number: int) -> Completion:
        length = 1 + (number * 5 * tokens // 16) % tokens if ragged else tokens
        return Completion(ids(length), "", (), Finish.LENGTH)

    groups = [
        Group(
            Question(f"q{slot}", "", ""),
            ids(max(1, prompt - slot * (prompt // 3)) if ragged else prompt),
            tuple(answer(slot * group_size + sample) for sample in range(group_size)),
        )
        for slot in range(questions)
    ]
    return Batch.of(groups)


def update(trainer: Trainer, rows: Batch) -> Update:
    """One update with advantages from -1 to 1."""
    count = len(rows.completions)
    everything = torch.arange(count)
    advantages_N = torch.linspace(-1, 1, count, dtype=torch.float64) + 0.1
    weights_NT, norm_NT = token_weights(
        advantages_N, rows.mask_NT, rows.groups_N, [everything], "sequence_mean", rows.mask_NT.shape[1]
    )
    return trainer.update(rows, [everything], weights_NT, norm_NT, step=0)


def gradient(policy: Any, rows: Batch, setting: Setting, *overrides: str, autocast: bool = False) -> Tensor:
    """(parameters,) the gradient of one update in float32, caught before the optimizer's step, which is not made."""
    trainer = Trainer(policy, 0, config(*overrides), setting.device, autocast)
    return caught(trainer, rows)


def caught(trainer: Trainer, rows: Batch) -> Tensor:
    """The same of a trainer that there is; its optimizer makes no step from then on."""
    found: list[Tensor] = []

    def catch() -> None:
        found.extend(p.grad.float().flatten() for p in trainer.named.values() if p.grad is not None)

    trainer.optimizer.step = catch  # type: ignore[method-assign, assignment]
    update(trainer, rows)
    return torch.cat(found)


def cosine(a: Tensor, b: Tensor) -> float:
    """Of the angle between two gradients."""
    return float(torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=0))


def relative(a: Tensor, b: Tensor) -> float:
    """Norm of the difference over the norm of b."""
    return float((a - b).double().norm() / b.double().norm())


def finish(setting: Setting) -> None:
    """Wait for the device."""
    if setting.device.type == "cuda":
        torch.cuda.synchronize()


def seconds(call: Callable[[], Any], setting: Setting) -> float:
    """Of one call, the device's work included."""
    finish(setting)
    began = time.perf_counter()
    call()
    finish(setting)
    return time.perf_counter() - began


def gigabytes(setting: Setting, begin: bool = False) -> float | None:
    """The most that tensors held since the last call with begin, in 10⁹ bytes; None on a CPU, where nobody counts."""
    if setting.device.type != "cuda":
        return None
    if begin:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated() / 1e9


@contextmanager
def room(setting: Setting, size: float) -> Iterator[None]:
    """So many bytes for this process, as on a smaller GPU: what is more is refused, and `auto` reckons with it."""
    if setting.device.type != "cuda":
        yield
        return
    whole, free = torch.cuda.get_device_properties(setting.device).total_memory, budget.free_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(1.0, size / whole))
    budget.free_memory = lambda device: min(free(device), int(size) - torch.cuda.memory_allocated(device))
    try:
        yield
    finally:
        budget.free_memory = free
        torch.cuda.set_per_process_memory_fraction(1.0)
