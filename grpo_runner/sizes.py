"""A Llama-like model's sizes, and the bytes that follow from them. No torch: what is worked out before anything loads.

`policy/budget.py` (how large a micro-batch may be), `planning/needs.py` (what a run will need) and `scripts/memory.py`
count with the same functions. Constants that the passes are made with stand here too, since the counts depend on them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Tokens of a micro-batch from which more bring no speed: the products are large enough, and caches hold less.
MOST = {"cpu": 1024, "cuda": 65536}
LEAST = 256
# Of small models, on a CPU: as many tokens as keep so many bytes.
CACHED = 2**26
# The share of free memory that `optim.microbatch_tokens=auto` fills by `bytes_a_token`; what the count leaves out is in
# the rest.
SHARE = 0.6
# Logits made at once: more on a GPU, where each chunk reads the whole head; on a CPU what its caches hold.
CHUNK = {"cuda": 2**27, "cpu": 2**22}
# Prompts up to this long are copied to each of their rows: attention over one table is then faster than over two. Keys
# and values of longer ones are shared, and read once a group.
COPY_UP_TO = 128

# families whose attention has a bias on q, k and v whatever else the config says, and those that norm q and k
_QKV_BIAS, _QK_NORM = ("qwen2",), ("qwen3",)
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class Sizes:
    """Names and meanings as in a config.json. head_dim: width of a head. biases, norms: parameters of a layer."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tie_word_embeddings: bool
    biases: int
    norms: int
    max_position_embeddings: int | None

    @property
    def linears(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of the linear layers of one block: q, k, v, output, gate, up, down."""
        h, f = self.hidden_size, self.intermediate_size
        q, kv = self.num_attention_heads * self.head_dim, self.num_key_value_heads * self.head_dim
        return [(h, q), (h, kv), (h, kv), (q, h), (h, f), (h, f), (f, h)]

    @property
    def base(self) -> int:
        """Numbers in the linear layers of all blocks, without the head."""
        return self.num_hidden_layers * sum(a * b for a, b in self.linears)

    @property
    def parameters(self) -> int:
        """All of the model; a head that is tied to the embedding counts once."""
        embedding = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return self.base + embedding + self.num_hidden_layers * (self.biases + self.norms) + self.hidden_size

    def lora(self, rank: int, targets: str | tuple[str, ...] = "all-linear") -> int:
        """Parameters of an adapter: on all linear layers but the head, or on those named."""
        names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
        wanted = names if targets == "all-linear" else targets
        pairs = [pair for name, pair in zip(names, self.linears, strict=True) if name in wanted]
        return self.num_hidden_layers * sum(rank * (a + b) for a, b in pairs)

    def cache_a_token(self, item: int) -> int:
        """Bytes of the keys and values of one token, in all layers."""
        return self.num_hidden_layers * 2 * self.num_key_value_heads * self.head_dim * item


def read(values: Mapping[str, Any]) -> Sizes | None:
    """The sizes that a config.json states; None for a model of another build than the families here."""
    if values.get("model_type") not in FAMILIES:
        return None
    try:
        h, heads, f = values["hidden_size"], values["num_attention_heads"], values["intermediate_size"]
        width, kv = values.get("head_dim") or h // heads, values.get("num_key_value_heads") or heads
        own, biased = values["model_type"], bool(values.get("attention_bias"))
        qkv = (heads + 2 * kv) * width
        biases = qkv if own in _QKV_BIAS else (qkv + h) * biased
        return Sizes(
            h, f, values["num_hidden_layers"], heads, kv, width, values["vocab_size"],
            bool(values.get("tie_word_embeddings")), biases + (2 * f + h) * bool(values.get("mlp_bias")),
            2 * h + 2 * width * (own in _QK_NORM), values.get("max_position_embeddings"),
        )  # fmt: skip
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def read_folder(folder: Path) -> Sizes | None:
    """The same of a model's folder; None where its config.json is missing or cannot be read."""
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return read(values) if isinstance(values, dict) else None


def bytes_a_token(config: Any, item: int, packed: bool, checkpointing: bool) -> int:
    """What a token keeps for the backward pass, in bytes. config: Sizes, or a model's own as transformers has it.

    A packed layer keeps, in numbers of the model's type, its two sums and two normed inputs (4 h), q, k and v, what was
    attended, and gate and up (2 f); transformers' and PEFT's layers about twice that. With gradient checkpointing a
    layer keeps its input alone, and one layer at a time the rest. The head: a vector of 4 h bytes, or its logits in
    float32, twice. The sizes that a model does not state are taken as Llama's.
    """
    h, layers = config.hidden_size, config.num_hidden_layers
    heads = getattr(config, "num_attention_heads", 1)
    width = getattr(config, "head_dim", None) or h // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    f = getattr(config, "intermediate_size", None) or 4 * h
    layer = (4 * h + (2 * heads + 2 * kv_heads) * width + 2 * f) * item * (1 if packed else 2)
    body = layers * h * item + layer if checkpointing else layers * layer
    return body + (4 * h if packed else 8 * config.vocab_size)


def automatic(free: int, kept: int, kind: str, dropout: bool = False) -> int:
    """Tokens of a micro-batch under `optim.microbatch_tokens=auto`: what `free` bytes hold, at least 256 and at most
    what still brings speed. kept: bytes that a token keeps, as much again with LoRA's dropout; kind: of the device.
    """
    kept *= 2 if dropout else 1
    most = MOST.get(kind, 8192)
    if kind == "cpu":
        most = max(most, CACHED // kept)
    return max(LEAST, min(int(SHARE * free / kept), most))
