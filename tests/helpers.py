"""Small models and configurations that tests of several rooms share."""

from __future__ import annotations

import dataclasses

import torch

from grpo_runner.reward import Policy
from grpo_runner.schema import RewardConfig
from grpo_runner.types import Completion, Finish, Group, Question


def tiny_llama(seed: int = 0, vocab: int = 13, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    """A random Llama of one layer, small enough for float64 checks."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocab,
                hidden_size=16,
                intermediate_size=24,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=128,
                initializer_range=0.3,
                bos_token_id=1,
                eos_token_id=2,
                pad_token_id=0,
            )
        )
    return (in_double(model) if dtype is torch.float64 else model.to(dtype)).eval()


def in_double(model: torch.nn.Module) -> torch.nn.Module:
    """The model in float64 throughout: transformers' norms of these families would go through float32."""
    model = model.double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.__class__ = _double(type(module))
    return model


def _double(kind: type) -> type:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    return type(kind.__name__, (kind,), {"forward": forward})


def random_groups(questions: int, group_size: int, seed: int = 0, vocab: int = 13, longest: int = 9) -> list[Group]:
    """Groups of random tokens with unequal prompts and completions, one-token ones among them."""
    draw = torch.Generator().manual_seed(seed)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, vocab, (length,), generator=draw).tolist())

    groups = []
    for slot in range(questions):
        completions = tuple(
            Completion(ids(1 + (slot * 5 + sample * 3) % longest), "", (), Finish.EOS) for sample in range(group_size)
        )
        groups.append(Group(Question(f"q{slot}", f"question {slot}", "1"), (1, *ids(1 + slot % 4)), completions))
    return groups


def changed(config, **parts):
    """A RunConfig with some fields replaced; nested ones as `optim__lr=1.0`."""
    for name, value in parts.items():
        *path, leaf = name.split("__")
        if path:
            inner = getattr(config, path[0])
            config = dataclasses.replace(config, **{path[0]: dataclasses.replace(inner, **{leaf: value})})
        else:
            config = dataclasses.replace(config, **{leaf: value})
    return config


def reward_config(**changes: object) -> RewardConfig:
    """A reward as typed by hand, every key of it named here alone: a new key is added in one place."""
    values: dict[str, object] = {
        "parts": {"correct": 1.0}, "function": None, "model": None, "model_revision": None, "refresh_every": 0,
        "model_lr": 2e-5, "replay": 0.1, "steps": "none", "truncated": "zero", "deadline_s": 5.0, "workers": 1,
        "overlong_buffer": None, **dataclasses.asdict(Policy()),
    }  # fmt: skip
    return RewardConfig(**(values | changes))  # type: ignore[arg-type]
