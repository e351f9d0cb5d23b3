"""Floating-point operations of a step, and how fast this machine multiplies matrices.

Counted are the linear layers and the head, with LoRA on frozen weights, a multiplication and an addition each:
    forward: 2 a parameter (of base and adapter) and token; backward: 2 a parameter and token for the gradient of the
    activations, and 2 more for the adapter's own; nothing for the gradient of frozen weights.
    Sampling: each prompt once a question, each sampled token but a row's last through layers and head (the adapter is
    merged). Update: each prompt once a question, each sampled token; the head on sampled tokens alone.
Attention, norms, softmax and what is computed again are not counted: a share is of the least that has to be done.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple


class Shapes(NamedTuple):
    """(inputs, outputs) of the linear layers of one block, number of blocks, and the head."""

    linears: list[tuple[int, int]]
    layers: int
    head: tuple[int, int]

    @property
    def base(self) -> int:
        return self.layers * sum(a * b for a, b in self.linears)

    def lora(self, rank: int) -> int:
        """Parameters of an adapter on all linear layers but the head."""
        return self.layers * sum(rank * (a + b) for a, b in self.linears)


def shapes(config: dict[str, Any]) -> Shapes:
    """From a Llama-like config.json."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or hidden // heads
    q, kv = heads * width, (config.get("num_key_value_heads") or heads) * width
    linears = [(hidden, q), (hidden, kv), (hidden, kv), (q, hidden), (hidden, inner), (hidden, inner), (inner, hidden)]
    return Shapes(linears, config["num_hidden_layers"], (hidden, config["vocab_size"]))


def step_flops(model: Shapes, rank: int, prompt_tokens: int, rows: int, new_tokens: int) -> dict[str, int]:
    """Of sampling and of the update. prompt_tokens: of all questions, each counted once."""
    head, lora, sampled = model.head[0] * model.head[1], model.lora(rank), rows * new_tokens
    again = rows * (new_tokens - 1)  # tokens that are fed back; a row's first is drawn from its prompt's logits
    rollout = 2 * model.base * (prompt_tokens + again) + 2 * head * sampled
    passed = prompt_tokens + sampled
    update = passed * (4 * (model.base + lora) + 2 * lora) + 4 * head * sampled
    return {"rollout": rollout, "update": update}


def rate(rows: int, shape: tuple[int, int], dtype: str, seconds: float = 0.3) -> float:
    """FLOP a second of `linear` at this shape: the fastest of what fits into so many seconds, of three at least."""
    import torch

    x = torch.randn(rows, shape[0], dtype=getattr(torch, dtype))
    weight = torch.randn(shape[1], shape[0], dtype=getattr(torch, dtype))
    taken: list[float] = []
    with torch.no_grad():
        torch.nn.functional.linear(x, weight)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(taken) < 3:
            began = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            taken.append(time.perf_counter() - began)
    return 2 * rows * shape[0] * shape[1] / min(taken)


def limits(model: Shapes, dtype: str, update_rows: int, decode_rows: int) -> dict[str, float]:
    """GFLOP a second: at 2048³, and over the model's own matrices with the rows of the update and of decoding."""

    def own(rows: int) -> float:
        flops = seconds = 0.0
        measured = {shape: rate(rows, shape, dtype) for shape in {*model.linears, model.head}}
        for shape, count in [*((shape, model.layers) for shape in model.linears), (model.head, 1)]:
            work = count * 2 * rows * shape[0] * shape[1]
            flops, seconds = flops + work, seconds + work / measured[shape]
        return flops / seconds / 1e9

    square = rate(2048, (2048, 2048), dtype, seconds=1.0) / 1e9
    return {"square": square, "own": own(update_rows), "decode": own(decode_rows)}
