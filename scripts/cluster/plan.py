"""What a step of a model on so many GPUs needs and takes: rates from data sheets, then `simulate.py`. No torch.

Two layouts are counted. "whole": every GPU is a process with the whole base, and vLLM beside it. "sharded": the
matrices of the frozen base are cut over the GPUs of a machine for the update (`shard_base=machine`), and vLLM cuts the
model over `tensor` GPUs for sampling (`rollout.vllm_tensor_parallel`); docs/parallel.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from grpo_runner.planning import models
from grpo_runner.planning.needs import CUDA_ITSELF, Work, lasting, updating
from grpo_runner.sizes import Sizes

from . import simulate
from .hardware import MACHINE, NETWORK, NVLINK, USUAL, Assumed, Gpu
from .simulate import Numbers, Rates, Step, Whole

MODELS = {"7B": "Qwen/Qwen2.5-7B", "32B": "Qwen/Qwen2.5-32B", "70B": "meta-llama/Llama-3.1-70B"}
RANK = 16
ITEM, WIDE = 2, 4
PROMPT, MEDIAN, BUDGET = 256, 1_500, 8_192
MICRO = PROMPT + BUDGET  # tokens of a micro-batch, with gradient checkpointing: the least that an answer can be
STRIDE = 16
SPARE = 0.05  # of the memory, left free
# bytes of a sampled token as pickled: id, log-probability, its part of the text (tests/scripts/test_scale.py)
PICKLED = 17
# meetings of a step with one update (`Ranks._meet`): stop, rollout, gradient, tally, largest ratio, waiting
MEETINGS = 6


@dataclass(frozen=True)
class Load:
    """Questions of a step and answers of each."""

    name: str
    questions: int
    size: int

    @property
    def answers(self) -> int:
        return self.questions * self.size


LOADS = {"small": Load("128 × 8", 128, 8), "large": Load("512 × 16", 512, 16)}


@dataclass(frozen=True)
class Layout:
    """gpus in all; tensor: GPUs of one sampling replica; sharded: the update's base is cut over a machine's GPUs."""

    gpus: int
    tensor: int
    sharded: bool

    @property
    def replicas(self) -> int:
        return self.gpus // self.tensor

    @property
    def shards(self) -> int:
        return min(MACHINE, self.gpus) if self.sharded else 1


@dataclass(frozen=True)
class Plan:
    """memory: bytes of a GPU by part; rooms: answers of a replica at once. bytes_: of a step, by what they are."""

    layout: Layout
    memory: dict[str, float]
    rooms: int
    bytes_: dict[str, float]
    step: Step
    tokens: int

    @property
    def rollout_rate(self) -> float:
        """Sampled tokens a second of all GPUs while they sample."""
        return self.tokens / self.step.rollout

    @property
    def update_rate(self) -> float:
        return self.tokens / self.step.update


@cache
def sizes(name: str) -> Sizes:
    found = models.find(MODELS[name]).sizes
    assert found is not None
    return found


@cache
def lengths(load: Load) -> Whole:
    return simulate.lengths(load.questions, load.size, MEDIAN, BUDGET)


# --- memory


def memory(size: Sizes, gpu: Gpu, layout: Layout) -> dict[str, float]:
    """Bytes of a GPU by part. vLLM sleeps in the machine's memory while the update runs (docs/vllm.md), so that there
    are two moments; the last two are what each leaves, below 0 where it does not fit.
    """
    work = Work(
        sizes=size, item=ITEM, rows=1, groups=1, prompt=PROMPT, budget=BUDGET, micro=MICRO,
        micro_rows=1, adapter=size.lora(RANK), checkpointing=True, engine="vllm", shared=True,
    )  # fmt: skip
    stays = lasting(work)
    always: dict[str, float] = {
        "base, for the update": stays.pop("weights") - ITEM * size.base * (1 - 1 / layout.shards),
        "adapter and its moments": sum(stays.values()),
        "CUDA, and what is left free": 2 * CUDA_ITSELF + SPARE * gpu.memory,
    }
    sampling = size.parameters * ITEM / layout.tensor
    # two layers whole at a time: the one that is computed and the one that is fetched ahead
    gathered = 2 * ITEM * size.base / size.num_hidden_layers if layout.sharded else 0.0
    update = sum(updating(work).values()) + gathered
    left = gpu.memory - sum(always.values())
    return {
        **always,
        "sampling: the engine's base": sampling,
        "update: what it adds": update,
        "left beside the update": left - update,
        "left for keys and values": left - sampling,
    }


def rooms(size: Sizes, layout: Layout, keys: float, mean: float) -> int:
    """Answers that a replica decodes at once: pages of keys and values for the mean context at its end."""
    return max(0, int(keys * layout.tensor / (size.cache_a_token(ITEM) * (PROMPT + mean))))


# --- rates


def update_flops(size: Sizes, checkpointing: bool = True, context: float = 0.0) -> float:
    """Operations of a token of the update: forward and backward through the frozen base, the head, and the adapter with
    its own gradient; with checkpointing the layers forward once more. context: tokens that it attends to.
    """
    adapter, head = size.lora(RANK), size.hidden_size * size.vocab_size
    attended = 4 * size.num_hidden_layers * size.num_attention_heads * size.head_dim * context  # forward
    again = 2 * (size.base + adapter) + attended if checkpointing else 0.0
    return 4 * size.base + 6 * adapter + 4 * head + 3 * attended + again


def round_seconds(
    size: Sizes, gpu: Gpu, tensor: int, rows: Numbers, context: Numbers, assumed: Assumed = USUAL
) -> Numbers:
    """A decoding round: the slower of reading weights and keys and of the products, the sums of a tensor-parallel
    group (two a layer), and what a round takes besides.
    """
    read = (ITEM * size.parameters + size.cache_a_token(ITEM) * context) / (tensor * gpu.read * assumed.read)
    products = 2 * size.parameters * rows / (tensor * gpu.flops * assumed.mfu)
    sums = (
        2 * size.num_hidden_layers * (assumed.sum_s + 2 * rows * size.hidden_size * ITEM / NVLINK)
        if tensor > 1
        else 0.0
    )
    return np.maximum(read, products) + sums + assumed.round_s


def ring(size: float, members: int, speed: float) -> float:
    """Seconds of a sum of so many bytes over a ring: each member sends and receives 2 (n − 1)/n of them."""
    return 2 * (members - 1) / members * size / speed


def exchange_bytes(lengths_RM: Whole) -> float:
    """Bytes of answers that each process receives: shares are filled up to the largest, so that all are as long."""
    return PICKLED * float(lengths_RM.sum(1).max()) * len(lengths_RM)


def bytes_a_step(size: Sizes, layout: Layout, lengths_QG: Whole) -> dict[str, float]:
    """What a GPU (answers: a process) receives in a step, in bytes."""
    adapter, tokens = size.lora(RANK) * WIDE, float(lengths_QG.sum()) + PROMPT * len(lengths_QG)
    passes = 2 * np.ceil(tokens / layout.gpus / MICRO)  # forward, and backward, where layers are gathered again
    return {
        "adapter to the engine": adapter,
        "gradient": 2 * (layout.gpus - 1) / layout.gpus * adapter,
        "answers": exchange_bytes(simulate.by_replica(lengths_QG, layout.gpus)),
        "base, gathered": passes * ITEM * size.base * (layout.shards - 1) / layout.shards,
    }


def rates(size: Sizes, gpu: Gpu, layout: Layout, lengths_QG: Whole, whole_s: float, assumed: Assumed = USUAL) -> Rates:
    """whole_s: seconds that a process takes for a token of the whole step, as measured."""
    moved = bytes_a_step(size, layout, lengths_QG)
    adapter = moved["adapter to the engine"]
    token = update_flops(size, context=PROMPT + float(lengths_QG.mean()) / 2) / (gpu.flops * assumed.mfu)
    tokens = (float(lengths_QG.sum()) + PROMPT * len(lengths_QG)) / layout.gpus
    # gathers overlap with the products: only where they are slower do they count
    token = max(token, moved["base, gathered"] / NVLINK / tokens)
    speed = NVLINK if layout.gpus <= MACHINE else NETWORK
    # a meeting goes round the ring twice: how much each has to say, and what
    # each pass over a base in slices begins with one (policy/shards.py)
    meetings = MEETINGS + (2 * np.ceil(tokens / MICRO) if layout.sharded else 0)
    hops = float(meetings) * 2 * (layout.gpus - 1) * assumed.hop_s
    return Rates(
        round_s=lambda rows, context: round_seconds(size, gpu, layout.tensor, rows, context, assumed),
        prompt_s=2 * size.parameters / (layout.tensor * gpu.flops * assumed.mfu),
        update_s=token,
        whole_s=whole_s,
        exchange_s=moved["answers"] / assumed.gloo + hops,
        reduce_s=ring(adapter, layout.gpus, speed),
        saving_s=3 * adapter / assumed.disk,
        # the adapter is written to a folder and read by the engine, which wakes before and sleeps afterwards
        begin_s=2 * adapter / assumed.disk + 2 * size.parameters * ITEM / layout.tensor / assumed.host,
    )


# --- a plan


def plan(name: str, gpu: Gpu, layout: Layout, load: Load, whole_s: float, assumed: Assumed = USUAL) -> Plan | None:
    """None where it does not fit: no room for the keys and values of one answer of full length."""
    size, lengths_QG = sizes(name), lengths(load)
    parts = memory(size, gpu, layout)
    keys = parts["left for keys and values"]
    if parts["left beside the update"] < 0 or keys * layout.tensor < size.cache_a_token(ITEM) * (PROMPT + BUDGET):
        return None
    found, many = (
        rates(size, gpu, layout, lengths_QG, whole_s, assumed),
        rooms(size, layout, keys, float(lengths_QG.mean())),
    )
    own_RM = simulate.by_replica(lengths_QG, layout.replicas)
    prompts_R = (own_RM > 0).sum(1) / load.size
    sampled_R = simulate.rollout(own_RM, PROMPT, prompts_R, many, found, STRIDE)
    updated_P = simulate.update_seconds(simulate.update_loads(lengths_QG, PROMPT, layout.gpus), found)
    tokens = int(lengths_QG.sum())
    return Plan(
        layout, parts, many, bytes_a_step(size, layout, lengths_QG),
        simulate.step(sampled_R, updated_P, tokens, found), tokens,
    )  # fmt: skip


def layouts(gpus: int) -> list[Layout]:
    """From the simplest on: the whole base on each GPU, then the sharded ones by the width of a sampling replica."""
    return [Layout(gpus, 1, False), *(Layout(gpus, tensor, True) for tensor in (1, 2, 4, 8) if tensor <= gpus)]


def fitting(name: str, gpu: Gpu, gpus: int, load: Load, whole_s: float, assumed: Assumed = USUAL) -> list[Plan]:
    """The plans of all layouts that fit, the simplest first."""
    plans = (plan(name, gpu, layout, load, whole_s, assumed) for layout in layouts(gpus))
    return [found for found in plans if found is not None]


def floor_seconds(name: str, gpu: Gpu, layout: Layout) -> float:
    """What no number of GPUs takes away: one answer of full length, decoded alone."""
    size = sizes(name)
    at = np.arange(BUDGET, dtype=float)
    return float(round_seconds(size, gpu, layout.tensor, np.ones(BUDGET), PROMPT + at).sum())


def stops_at(seconds: dict[int, float], gain: float = 1.5) -> int:
    """The last number of GPUs of which twice as many make the step `gain` times as fast; the first where none does."""
    counts = sorted(seconds)
    held = counts[0]
    for few, many in pairwise(counts):
        if seconds[few] / seconds[many] < gain:
            break
        held = many
    return held
