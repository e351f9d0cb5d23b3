"""The weights of a Llama-like model (Llama, SmolLM, Qwen2 to Qwen3, Mistral) as our own forward passes read them.

The forward passes of the update (`packed.py`) and of the native engine compute what the model's own `forward` computes;
the weights stay in the modules that transformers and PEFT made, and are read anew for each pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .shards import Gathered, Shards, shards_of

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
# rotary embeddings whose angles do not depend on the length of the sequence
ROTARY = ("default", "linear", "llama3", "yarn")
_PROJECTIONS = {"self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"), "mlp": ("gate_proj", "up_proj", "down_proj")}


class Projection(NamedTuple):
    """One linear map, x Wᵀ + b + scale · (x Aᵀ) Bᵀ. (out, in), (out,), (rank, in), (out, rank); b, A and B may be None.

    module: what to call instead, where the weights are trained themselves or are stored in another form than a matrix.
    """

    weight: Tensor | None
    bias: Tensor | None
    A: Tensor | None
    B: Tensor | None
    scale: float
    module: nn.Module | None = None


class Layer(NamedTuple):
    """One decoder layer. qkv, gate_up: their projections one by one, or a single one with the outputs joined."""

    input_norm: nn.Module
    qkv: Sequence[Projection]
    q_norm: nn.Module | None
    k_norm: nn.Module | None
    output: Projection
    post_norm: nn.Module
    gate_up: Sequence[Projection]
    down: Projection


@dataclass(frozen=True)
class Shape:
    """Sizes of the attention: heads of queries, heads of keys and values, and their width."""

    heads: int
    kv_heads: int
    width: int

    @property
    def splits(self) -> list[int]:
        """Columns of q, k and v."""
        return [self.heads * self.width, self.kv_heads * self.width, self.kv_heads * self.width]


class Decoder:
    """A view of a model. Raises ValueError, with the reason, for a model that it does not know: see `unsupported`."""

    def __init__(self, model: Any) -> None:
        if reason := unsupported(model):
            raise ValueError(reason)
        causal = causal_of(model)
        self.body, self.head, self.config = causal.model, causal.lm_head, causal.config
        self.shards = shards_of(causal)
        config = self.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.shape = Shape(config.num_attention_heads, config.num_key_value_heads, width)
        self.checkpointing = any(getattr(layer, "gradient_checkpointing", False) for layer in self.body.layers)

    def layers(self) -> Collection[Layer]:
        """The layers with the present weights, the adapter included where it is on.

        Of a base that is shared out (shards.py), a layer's weights are there until the next layer is asked for, and to
        go through the layers is a pass that all processes make.
        """
        if isinstance(self.shards, Shards):
            return Gathered(self.shards, self._layer)
        return [self._layer(module) for module in self.body.layers]

    def merged(self) -> list[Layer]:
        """The layers with the adapter added into a copy of the weights: fewer, larger products. The base is untouched.

        Without an adapter, and for weights that are no plain matrices, these are the layers as they stand, or copies
        where the base is shared out. That is a pass of all processes.
        """
        return [_merge(layer, self.shards.on) for layer in self.layers()]

    def embed(self, ids: Tensor) -> Tensor:
        """(..., hidden) of token ids (...)."""
        return self.body.embed_tokens(ids)

    def rotary(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """(cos, sin) of positions (M,), each (M, width), in the type of `like`."""
        cos, sin = self.body.rotary_emb(like, positions[None])
        return cos[0], sin[0]

    def _layer(self, module: Any) -> Layer:
        attention, mlp = module.self_attn, module.mlp
        q, k, v, output = (_projection(getattr(attention, name)) for name in _PROJECTIONS["self_attn"])
        gate, up, down = (_projection(getattr(mlp, name)) for name in _PROJECTIONS["mlp"])
        return Layer(
            module.input_layernorm,
            (q, k, v),
            getattr(attention, "q_norm", None),
            getattr(attention, "k_norm", None),
            output,
            module.post_attention_layernorm,
            (gate, up),
            down,
        )


def unsupported(model: Any) -> str | None:
    """Why our own forward passes cannot stand in for this model's, in a few words; None where they can."""
    causal = causal_of(model)
    config = causal.config
    if getattr(config, "model_type", None) not in FAMILIES:
        return f"its type is {getattr(config, 'model_type', None)}"
    if config.hidden_act not in ("silu", "swish"):
        return f"its activation is {config.hidden_act}"
    rotary = getattr(causal.model.rotary_emb, "rope_type", "default")
    if rotary not in ROTARY:
        return f"its rotary embedding is {rotary}"
    sliding = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    if sliding and config.sliding_window < config.max_position_embeddings:
        return "its attention has a sliding window"
    if causal.lm_head.__class__ is not nn.Linear or causal.lm_head.bias is not None:
        return "its head is not a plain matrix"
    return _odd_adapter(causal)


def _odd_adapter(causal: Any) -> str | None:
    from peft.tuners.lora import LoraLayer
    from peft.utils import ModulesToSaveWrapper

    known = {
        id(getattr(getattr(layer, part), name))
        for layer in causal.model.layers
        for part, names in _PROJECTIONS.items()
        for name in names
    }
    for name, module in causal.named_modules():
        if isinstance(module, ModulesToSaveWrapper):
            return f"{name} is trained beside the adapter"
        if not isinstance(module, LoraLayer):
            continue
        if id(module) not in known:
            return f"the adapter is on {name}"
        if list(module.lora_A) != ["default"] or module.use_dora.get("default") or module.lora_bias.get("default"):
            return f"the adapter on {name} is not plain LoRA"
    return None


def causal_of(model: Any) -> Any:
    """The causal LM of transformers, behind a PEFT wrapper or not."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _projection(module: Any) -> Projection:
    base = getattr(module, "base_layer", module)
    if base.__class__ is not nn.Linear or base.weight.requires_grad or _drops_out(module):
        return Projection(None, None, None, None, 0.0, module)
    if base is module or module.disable_adapters:
        return Projection(base.weight, base.bias, None, None, 0.0)
    name = "default"
    return Projection(
        base.weight, base.bias, module.lora_A[name].weight, module.lora_B[name].weight, module.scaling[name]
    )


def _drops_out(module: Any) -> bool:
    return any(
        part.training and part.p > 0 for part in getattr(module, "lora_dropout", {}).values() if hasattr(part, "p")
    )


def _merge(layer: Layer, copied: bool) -> Layer:
    """copied: nothing of it is the weight itself, which is about to go."""

    def join(projections: Sequence[Projection]) -> Sequence[Projection]:
        joined = _join(projections)
        if copied and joined is projections:
            joined = [p._replace(weight=p.weight.clone() if p.weight is not None else None) for p in joined]
        return joined

    return layer._replace(
        qkv=join(layer.qkv), output=join([layer.output])[0], gate_up=join(layer.gate_up), down=join([layer.down])[0]
    )


def _join(projections: Sequence[Projection]) -> Sequence[Projection]:
    """One projection that gives the outputs of all, the adapters added in; the same ones where that cannot be."""
    if any(p.weight is None for p in projections) or all(p.A is None for p in projections):
        return projections
    weights = [p.weight for p in projections if p.weight is not None]
    whole = torch.cat(weights)  # a copy also of one
    for p, part in zip(projections, whole.split([len(weight) for weight in weights]), strict=True):
        if p.A is not None and p.B is not None:
            part.copy_(torch.addmm(part.to(p.A.dtype), p.B, p.A, alpha=p.scale))
    biases = [p.bias if p.bias is not None else w.new_zeros(len(w)) for p, w in zip(projections, weights, strict=True)]
    bias = torch.cat(biases) if any(p.bias is not None for p in projections) else None
    return [Projection(whole, bias, None, None, 0.0)]
