"""The memory of a step by part, worked out from sizes: what stays, what sampling adds, what the update adds. No torch.

Counted are the tensors that the passes of `policy/` and `rollout/` make. On a CPU also the interpreter and its
libraries, and what the allocator keeps of what was freed: `LIBRARIES` and `KEPT_BACK`, which are set by what
`scripts/plan_check.py` measured (tests/planning/peaks.json).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..sizes import CHUNK, COPY_UP_TO, SHARE, Sizes, bytes_a_token

WIDE = 4  # bytes of a float32 number
# QLoRA with double quantisation: 4.127 bits a number (Dettmers et al. 2023, sec. 3)
NF4 = 4.127 / 8
CUDA_ITSELF = 10**9
# Of a CPU process of this package: Python, torch, transformers, PEFT, pyarrow, and what torch sets up at its first
# passes. It is the measured peak of the smallest run, two answers of four tokens of the embedded model, whose tensors
# are next to nothing (importing alone takes 477 MiB).
LIBRARIES = 565 * 2**20
# What a CPU process holds beyond the tensors that are there at the peak, as a share of those that come and go: freed
# blocks that the allocator has not given back. Peaks of SmolLM2-135M with an adapter lie .13 to .24 above without it.
KEPT_BACK = 0.15
# Queries that `policy/attention.py` scores at once on a CPU.
BLOCK = 256


@dataclass(frozen=True)
class Work:
    """What one process has to hold. Bytes are counted for it alone.

    item: bytes of a number of the weights as they are computed with; full: all weights are trained, in float32.
    nf4: the linear layers are stored in 4 bits. adapter: parameters of the LoRA adapter, 0 in full fine-tuning.
    rows, groups: answers decoded at once, and the questions they belong to; prompt, budget: tokens of a prompt, and of
    an answer. micro: tokens of one micro-batch of the update, in micro_rows answers. reference: a copy of what is
    trained stands beside it. critic: there is PPO's value model; own_base: on a base of its own. merged: sampling
    adds the adapter into a copy of the linear layers. judge: bytes of a learned reward model. ahead: that copy stays
    for the update. engine: native, transformers or vllm; share: bytes that vLLM takes. shared: gradients are summed
    over several processes. slices: over how many processes the base's linear layers are shared out. kind: cpu or
    cuda.
    """

    sizes: Sizes
    item: int
    rows: int
    groups: int
    prompt: int
    budget: int
    micro: int
    micro_rows: int
    adapter: int
    full: bool = False
    nf4: bool = False
    packed: bool = True
    checkpointing: bool = False
    reference: bool = False
    critic: bool = False
    own_base: bool = False
    judge: int = 0
    merged: bool = True
    ahead: bool = False
    cast: bool = False
    engine: str = "native"
    share: int = 0
    shared: bool = False
    slices: int = 1
    kind: str = "cuda"

    @property
    def trained(self) -> int:
        return self.sizes.parameters if self.full else self.adapter

    @property
    def stored(self) -> int:
        """Bytes of a number of the weights as they stand."""
        return WIDE if self.full else self.item


def lasting(work: Work) -> dict[str, int]:
    """Bytes that are there all the time."""
    parts = {}
    sliced = f"weights, 1/{work.slices} of the linear layers" if work.slices > 1 else "weights"
    parts["weights, linear layers in 4 bits" if work.nf4 else sliced] = _base(work)
    if not work.full:
        parts["LoRA adapter"] = work.adapter * WIDE
    parts["AdamW's two moments"] = work.trained * WIDE * 2
    if work.reference:
        parts["reference policy"] = work.trained * WIDE
    if work.critic:
        parts["critic, with its two moments"] = work.trained * WIDE * 3
    if work.own_base and not work.full:
        parts["critic's own base"] = _base(work)
    if work.judge:
        parts["reward model"] = work.judge
    return parts


def _base(work: Work) -> int:
    size = work.sizes
    if not work.nf4:
        return (size.parameters - size.base + -(-size.base // work.slices)) * work.stored
    return int(size.base * NF4 + (size.parameters - size.base) * work.stored)


def _gathered(work: Work) -> dict[str, int]:
    """The layer that computes and the next one, where layers are shared out."""
    if work.slices == 1:
        return {}
    return {"two layers, gathered": 2 * work.sizes.base // work.sizes.num_hidden_layers * work.stored}


def itself(kind: str) -> dict[str, int]:
    """Bytes that the process takes before there is a model."""
    return {"Python, torch and libraries": LIBRARIES} if kind == "cpu" else {"CUDA itself, about": CUDA_ITSELF}


def sampling(work: Work) -> dict[str, int]:
    """Bytes that sampling adds, all answers as long as they may be."""
    if work.engine == "vllm":
        return {"vLLM's share": work.share}
    size, rows, prompt = work.sizes, work.rows, work.prompt
    parts = _gathered(work)
    if work.merged and work.engine == "native":
        parts["merged copy of the linear layers"] = size.base * work.item
    if work.engine == "native":
        # a short prompt is copied to each of its rows; a long one stands once in the cache, and once as it was computed
        cached = rows * (work.budget - 1) + prompt * (rows + work.groups if prompt <= COPY_UP_TO else 2 * work.groups)
        computed = work.groups * prompt
    else:
        cached, computed = rows * (prompt + work.budget), rows * prompt
    parts["keys and values"] = cached * size.cache_a_token(work.stored)
    # a layer's sum, normed input and what was attended, gate, up and their product
    parts["a pass over the prompts"] = computed * (4 * size.hidden_size + 3 * size.intermediate_size) * work.stored
    # logits, and in float32 themselves, their log-probabilities and probabilities
    parts["logits of a token of each row"] = rows * size.vocab_size * (work.stored + 3 * WIDE)
    return parts


def updating(work: Work) -> dict[str, int]:
    """Bytes that the update adds at its peak, with a micro-batch of `micro` tokens."""
    size, tokens = work.sizes, work.micro
    parts = {"kept for the backward pass": holds(work) * tokens} | _gathered(work)
    if work.packed and work.kind == "cuda":
        layers = 1 if work.checkpointing else size.num_hidden_layers
        parts["more that fused attention keeps"] = fused_attention(work) * layers
    if work.packed and work.kind == "cpu":
        parts["scores of a block of attention"] = _scores(work)
    # gate's, up's and their product's gradients, silu(gate) and the product: (tokens, inner size) each
    parts["passing gradients of one layer"] = 5 * tokens * size.intermediate_size * work.item
    parts["gradient"] = work.trained * WIDE * (2 if work.shared else 1)
    if work.cast:
        parts["weights cast to bfloat16"] = size.parameters * work.item
    if work.packed or work.full:
        made = min(CHUNK[work.kind], tokens * size.vocab_size)
        parts["logits of a chunk of the head"] = made * (2 * work.item + 3 * WIDE)
    if work.ahead:
        parts["merged copy of the linear layers"] = size.base * work.item
    return parts


def saving(work: Work) -> dict[str, int]:
    """Bytes that a checkpoint adds: its largest file stands in memory once more, on a CPU beside what it is made of."""
    if work.kind != "cpu":
        return {}
    return {"a checkpoint's moments, as written": work.trained * WIDE * 2 * (2 if work.critic else 1)}


def kept(work: Work) -> int:
    """Bytes that a token keeps for the backward pass, as `optim.microbatch_tokens=auto` counts them."""
    return bytes_a_token(work.sizes, work.stored, work.packed and not (work.full or work.nf4), work.checkpointing)


def holds(work: Work) -> int:
    """Bytes that a token keeps. Under autocast most are bfloat16, and the chunks of a trained head are made again."""
    if not (work.full and work.packed):
        return kept(work)
    counted = bytes_a_token(work.sizes, work.item, False, work.checkpointing)
    return counted - 8 * work.sizes.vocab_size + 4 * work.sizes.hidden_size


def fused_attention(work: Work) -> int:
    """Bytes that a layer's `attention.fused` keeps beyond what `bytes_a_token` counts.

    Keys and values stand once for each query head, and the prompt's before those of each answer; what was attended
    stands twice, as the kernel's output and as the input of the next product.
    """
    heads, kv_heads = work.sizes.num_attention_heads, work.sizes.num_key_value_heads
    places = work.micro + work.micro_rows * work.prompt
    keys = 2 * (heads * places - kv_heads * work.micro)
    return (keys + heads * work.micro) * work.sizes.head_dim * work.item


def at_once(work: Work) -> int:
    """Bytes of a GPU on which `optim.microbatch_tokens=auto` takes `micro` tokens in one pass."""
    return sum(lasting(work).values()) + int(kept(work) * work.micro / SHARE)


def peak(kind: str, stays: Mapping[str, int], comes: Mapping[str, int], gone: Mapping[str, int] | None = None) -> int:
    """Bytes of a moment: what stays, what comes and goes, and what the process takes by itself.

    gone: what came and went before it, of which the allocator keeps some; None: that was less than what comes.
    """
    back = KEPT_BACK if kind == "cpu" else 0
    freed = comes if gone is None else gone
    return sum(itself(kind).values()) + sum(stays.values()) + sum(comes.values()) + int(back * sum(freed.values()))


def _scores(work: Work) -> int:
    """Probabilities, their slopes and one more of a block of queries of all heads and rows of a micro-batch."""
    queries = min(BLOCK, work.budget)
    return 3 * work.micro_rows * work.sizes.num_attention_heads * queries * (work.prompt + work.budget) * work.item
