#!/usr/bin/env python3
"""The memory of a step on a GPU, worked out from a model's sizes: memory.py MODEL_CONFIG [...] (--help says what of).

A table in Markdown: what stays, what sampling adds, what the update adds with and without gradient checkpointing. The
parts come from the package's own functions where it has one (`policy.budget`), and from the shapes of what it keeps.
Nothing is measured: `scripts/gpu_check.py` does that. Needs neither a GPU nor weights.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts" / "bench")]

import flops  # noqa: E402
import torch  # noqa: E402

from grpo_runner.policy import budget  # noqa: E402
from grpo_runner.policy.kernels import CHUNK  # noqa: E402
from grpo_runner.rollout.decoding import COPY_UP_TO  # noqa: E402

CONFIGS = ROOT / "scripts" / "gpu" / "configs"
ITEM = 2  # bytes of a bf16 number
WIDE = 4  # and of a float32 one


@dataclass(frozen=True)
class Step:
    """One question, `rows` answers of `tokens` tokens each after a prompt of `prompt` tokens; LoRA of rank `rank`."""

    rows: int
    prompt: int
    tokens: int
    rank: int

    @property
    def packed(self) -> int:
        """Tokens of the update: the prompt once, each answer without its last token."""
        return self.prompt + self.rows * (self.tokens - 1)


@dataclass(frozen=True)
class Model:
    """A config.json. config: as transformers reads it; parameters: those of the model that it makes."""

    name: str
    config: Any
    shapes: flops.Shapes
    parameters: int

    @property
    def width(self) -> int:
        return getattr(self.config, "head_dim", None) or self.config.hidden_size // self.config.num_attention_heads


def read(path: Path) -> Model:
    """A model from its config.json or the folder that holds one; made on the meta device, which takes no memory."""
    from transformers import AutoConfig, AutoModelForCausalLM

    path = path / "config.json" if path.is_dir() else path
    values = json.loads(path.read_text())
    config = AutoConfig.for_model(**values)
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(config)
    name = path.stem if path.stem != "config" else path.parent.name
    return Model(name, config, flops.shapes(values), sum(parameter.numel() for parameter in made.parameters()))


def lasting(model: Model, step: Step) -> dict[str, int]:
    """Bytes that are there all the time."""
    adapter = model.shapes.lora(step.rank)
    return {
        "weights, bf16": model.parameters * ITEM,
        f"adapter of rank {step.rank} and AdamW's two moments, fp32": adapter * WIDE * 3,
    }


def sampling(model: Model, step: Step) -> dict[str, int]:
    """Bytes that sampling adds: merged linear layers, keys and values, and the distribution that is drawn from."""
    config = model.config
    # a short prompt is copied to each of its rows, a long one stands once
    cached = step.rows * (step.tokens - 1) + step.prompt * (step.rows + 1 if step.prompt <= COPY_UP_TO else 2)
    each = config.num_hidden_layers * 2 * config.num_key_value_heads * model.width * ITEM
    return {
        "merged copy of the linear layers": model.shapes.base * ITEM,
        "keys and values": cached * each,
        # logits, and in fp32 themselves, their log-probabilities and probabilities
        "logits of a token of each row": step.rows * config.vocab_size * (ITEM + 3 * WIDE),
    }


def updating(model: Model, step: Step, checkpointing: bool) -> dict[str, int]:
    """Bytes that the update adds at its peak, all of its tokens in one micro-batch."""
    config, tokens = model.config, step.packed
    chunk = CHUNK["cuda"]
    return {
        "kept for the backward pass": budget.bytes_a_token(config, ITEM, True, checkpointing) * tokens,
        "more that fused attention keeps": attention(model, step) * (1 if checkpointing else config.num_hidden_layers),
        # gate's, up's and their product's gradients, silu(gate) and the product: (tokens, inner size) each
        "passing gradients of one layer": 5 * tokens * config.intermediate_size * ITEM,
        "gradient of the adapter": model.shapes.lora(step.rank) * WIDE,
        "logits of a chunk of the head": chunk * (2 * ITEM + 3 * WIDE),
    }


def attention(model: Model, step: Step) -> int:
    """Bytes that a layer's `attention.fused` keeps beyond what `bytes_a_token` counts.

    Keys and values stand once for each query head, and the prompt's before those of each answer; what was attended
    stands twice, as the kernel's output and as the input of the next product.
    """
    heads, kv_heads = model.config.num_attention_heads, model.config.num_key_value_heads
    places = step.prompt + step.rows * (step.prompt + step.tokens - 1)
    keys = 2 * (heads * places - kv_heads * step.packed)
    return (keys + heads * step.packed) * model.width * ITEM


def total(model: Model, step: Step) -> dict[str, int]:
    """Bytes of the three moments that count."""
    stays = sum(lasting(model, step).values())
    return {
        "sampling": stays + sum(sampling(model, step).values()),
        "update": stays + sum(updating(model, step, False).values()),
        "update, gradient checkpointing": stays + sum(updating(model, step, True).values()),
    }


def at_once(model: Model, step: Step, checkpointing: bool) -> int:
    """Bytes of a GPU on which `optim.microbatch_tokens=auto` takes all tokens in one pass; with less, in several."""
    kept = budget.bytes_a_token(model.config, ITEM, True, checkpointing) * step.packed
    return sum(lasting(model, step).values()) + int(kept / budget.SHARE)


def lines(models: Sequence[Model], step: Step) -> list[str]:
    """The table."""
    rows = [("**always**", [""] * len(models))]
    sections = {
        "": lambda model: lasting(model, step),
        "sampling": lambda model: sampling(model, step),
        "update": lambda model: updating(model, step, False),
        "update, gradient checkpointing": lambda model: updating(model, step, True),
    }
    for section, parts in sections.items():
        found = [parts(model) for model in models]
        if section:
            rows.append((f"**{section}**", [""] * len(models)))
        rows += [(name, [_gb(values[name]) for values in found]) for name in found[0]]
    totals = [total(model, step) for model in models]
    rows.append(("**together**", [""] * len(models)))
    rows += [(name, [f"**{_gb(values[name])}**" for values in totals]) for name in totals[0]]
    rows.append(("**a GPU that takes the update in one pass by `auto`**", [""] * len(models)))
    for name, checkpointing in (("update", False), ("update, gradient checkpointing", True)):
        rows.append((name, [_gb(at_once(model, step, checkpointing)) for model in models]))
    head = [
        "| GB (10⁹ bytes) | " + " | ".join(model.name for model in models) + " |",
        "| --- |" + " ---: |" * len(models),
    ]
    return head + [f"| {name} | " + " | ".join(values) + " |" for name, values in rows]


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.json")))
    parser.add_argument("models", nargs="+", metavar="MODEL_CONFIG", help=f"a config.json, its folder, or {known}")
    parser.add_argument("--rows", type=int, default=8, help="answers of the question (8)")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of its prompt (128)")
    parser.add_argument("--tokens", type=int, default=1024, help="tokens of each answer (1024)")
    parser.add_argument("--rank", type=int, default=16, help="of the adapter on all linear layers (16)")
    asked = parser.parse_args(arguments)
    step = Step(asked.rows, asked.prompt, asked.tokens, asked.rank)
    paths = [CONFIGS / f"{name}.json" if (CONFIGS / f"{name}.json").is_file() else Path(name) for name in asked.models]
    for path in paths:
        if not path.exists():
            parser.error(f"{path}: no such file. Known by name: {known}.")
    print("\n".join(lines([read(path) for path in paths], step)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
