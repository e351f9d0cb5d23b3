"""What a run needs on a device: the parts of `needs.py` from its keys, whether that fits, what to change first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .. import checks
from ..schema import RunConfig
from ..sizes import LEAST, Sizes, automatic
from . import models
from .needs import WIDE, Work, itself, kept, lasting, peak, sampling, saving, updating

GB = 10**9
GPUS = (16, 24, 48, 80)


@dataclass(frozen=True)
class Place:
    """A device. size: bytes of its memory; None where that is not known, and then nothing is said to fit."""

    name: str
    kind: str
    size: int | None


@dataclass(frozen=True)
class Needs:
    """One process on one device. micro: tokens of a micro-batch of the update. peaks: bytes of the moments that count.

    saving: {} on a GPU, whose checkpoints are made in the machine's memory.
    """

    place: Place
    lasting: dict[str, int]
    sampling: dict[str, int]
    updating: dict[str, int]
    saving: dict[str, int]
    micro: int

    @property
    def peaks(self) -> dict[str, int]:
        kind = self.place.kind
        found = {
            "sampling": peak(kind, self.lasting, self.sampling),
            "update": peak(kind, self.lasting, self.updating),
        }
        if self.saving:
            found["saving"] = peak(kind, self.lasting, self.saving, self.updating)
        return found

    @property
    def most(self) -> int:
        return max(self.peaks.values())

    @property
    def fits(self) -> bool | None:
        return None if self.place.size is None else self.most <= self.place.size


def places(device: str, memory: int | None) -> list[Place]:
    """Where a run may go by its `device`: the CPU, with so many bytes, and GPUs of the usual sizes."""
    own = [Place("CPU", "cpu", memory)]
    return {"cpu": own, "mps": own}.get(device) or ([] if device == "cuda" else own) + [
        Place(f"GPU, {size} GB", "cuda", size * GB) for size in GPUS
    ]


def own_memory() -> int | None:
    """Bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def needs(config: RunConfig, sizes: Sizes, place: Place, prompt: int, world: int = 1) -> Needs:
    """What one of `world` processes needs, prompts being `prompt` tokens long and answers as long as they may be.

    The micro-batch is what `optim.microbatch_tokens` gives on this device, halved as a run halves it where memory would
    not do, down to a single answer.
    """
    work = _work(config, sizes, place, prompt, world)
    stays = lasting(work)
    sampled = max((sampling(occasion) for occasion in _occasions(config, work, world)), key=lambda p: sum(p.values()))
    limit = _limit(config, work, place)
    single = prompt + config.max_new_tokens - (1 if work.packed else 0)
    while True:
        sized = _with_micro(config, work, max(limit, single), world)
        found = Needs(place, stays, sampled, updating(sized), saving(work), sized.micro)
        if found.fits is not False or limit <= single:
            return found
        limit //= 2


def to_fit(config: RunConfig, sizes: Sizes, place: Place, prompt: int, world: int = 1) -> tuple[tuple[str, ...], bool]:
    """(what to change, in order and as typed; whether the run then fits) for a run that does not fit.

    As few as will do of `_CHANGES`, the later ones only where the earlier are not enough; where all are not enough,
    those that lower the peak.
    """

    def most(changes: Sequence[_Change]) -> int:
        return needs(_changed(config, place, changes)[1], sizes, place, prompt, world).most

    size = place.size or 0
    taken: Sequence[_Change] = [change for change in _CHANGES if world > 1 or change is not _share_out]
    taken = next((taken[:end] for end in range(1, len(taken)) if most(taken[:end]) <= size), taken)
    enough = max(size, most(taken))
    for change in reversed(taken):
        fewer = [other for other in taken if other is not change]
        if most(fewer) <= enough:
            taken = fewer
    return _changed(config, place, taken)[0], enough == size


# --- from keys to what has to be held


def _work(config: RunConfig, sizes: Sizes, place: Place, prompt: int, world: int) -> Work:
    full, rollout, beta = not config.lora.enabled, config.rollout, config.beta
    wide = config.dtype == "float32" or (config.dtype == "auto" and place.kind == "cpu")
    moved = beta.refresh_every > 0 or beta.reference not in ("initial", "base")
    begun = config.lora.adapter is not None and beta.reference == "initial"
    nf4 = config.model.quantize == "nf4"
    return Work(
        sizes=sizes,
        item=4 if wide else 2,
        rows=1,
        groups=1,
        prompt=prompt,
        budget=config.max_new_tokens,
        micro=1,
        micro_rows=1,
        adapter=0 if full else sizes.lora(config.lora.rank, config.lora.targets),
        full=full,
        nf4=nf4,
        packed=config.optim.packing,
        checkpointing=config.model.gradient_checkpointing,
        reference=beta.value > 0 and (full or moved or begun),
        critic=config.critic.kind != "none",
        own_base=config.critic.kind == "own_model",
        judge=_judge(config, wide),
        merged=rollout.merge_lora and not full and not nf4,
        ahead=rollout.ahead,
        cast=full and not wide,
        engine=rollout.engine,
        share=int(rollout.vllm_memory * (place.size or 0)),
        shared=world > 1,
        slices=world if config.shard_base != "none" else 1,
        kind=place.kind,
    )


def _judge(config: RunConfig, wide: bool) -> int:
    """Bytes of the reward model; where it is trained on, with gradients and AdamW's moments. 0 where not known."""
    count = models.weights_of(config.reward.model) or 0
    return count * (4 * WIDE if config.reward.refresh_every else WIDE if wide else 2)


def _occasions(config: RunConfig, work: Work, world: int) -> Iterator[Work]:
    """Training's sampling, and that of evaluation."""
    size, most, evaluation = config.group_size.value, config.rollout.batch_rows, config.evaluation
    asked = [(_shared(config.questions_per_step, world), size, config.max_new_tokens)]
    if evaluation.every:
        modes = [1] * evaluation.greedy + [evaluation.samples] * (evaluation.samples > 0)
        asked += [(_shared(evaluation.questions, world), count, config.evaluation_tokens) for count in modes]
    for questions, count, budget in asked:
        if work.engine == "native":  # whole groups, at least one
            groups = min(questions, max(1, most // count))
            rows = groups * count
        else:
            rows = min(questions * count, most)
            groups = -(-rows // count)
        yield replace(work, rows=rows, groups=groups, budget=budget)


def _limit(config: RunConfig, work: Work, place: Place) -> int:
    """Tokens that `optim.microbatch_tokens` allows a micro-batch on this device."""
    if isinstance(config.optim.microbatch_tokens, int):
        return config.optim.microbatch_tokens
    if place.size is None:
        return LEAST
    there = {name: size for name, size in lasting(work).items() if not name.startswith("AdamW")}
    free = place.size - sum(itself(place.kind).values()) - sum(there.values())
    return automatic(max(0, free), kept(work), place.kind, config.lora.enabled and config.lora.dropout > 0)


def _with_micro(config: RunConfig, work: Work, limit: int, world: int) -> Work:
    """The work with a micro-batch of at most `limit` tokens, and no more than an optimizer step has."""
    updates = config.optim.updates_per_rollout if config.optim.minibatch != "whole" else 1
    questions = _shared(config.questions_per_step, world)
    rows = -(-questions * config.group_size.value // updates)
    groups = -(-questions // updates) if config.optim.minibatch == "group" else min(questions, rows)
    answer = max(1, work.budget - 1) if work.packed else work.prompt + work.budget
    every = rows * answer + (groups * work.prompt if work.packed else 0)
    micro = min(limit, every)
    most = (micro - (work.prompt if work.packed else 0)) // answer
    return replace(work, micro=micro, micro_rows=min(rows, max(1, most)))


def _shared(count: int, world: int) -> int:
    return -(-count // world)


# --- what would need less

# (the key as typed, the run with it); None where the run has it already, or cannot have it
_Change = Callable[[RunConfig, Place], tuple[str, RunConfig] | None]


def _changed(config: RunConfig, place: Place, changes: Sequence[_Change]) -> tuple[tuple[str, ...], RunConfig]:
    """(the words of those that act, the run with all of them)."""
    words = []
    for change in changes:
        if made := change(config, place):
            words.append(made[0])
            config = made[1]
    return tuple(words), config


def _checkpointing(config: RunConfig, place: Place) -> tuple[str, RunConfig] | None:
    if config.model.gradient_checkpointing:
        return None
    words = "model.gradient_checkpointing=true"
    return words, replace(config, model=replace(config.model, gradient_checkpointing=True))


def _one_group_at_once(config: RunConfig, place: Place) -> tuple[str, RunConfig] | None:
    rollout, size = config.rollout, config.group_size.value
    if rollout.engine != "native" or rollout.batch_rows <= size:
        return None
    return f"rollout.batch_rows={size}", replace(config, rollout=replace(rollout, batch_rows=size))


def _adapter_beside(config: RunConfig, place: Place) -> tuple[str, RunConfig] | None:
    rollout = config.rollout
    if rollout.engine != "native" or not rollout.merge_lora or not config.lora.enabled or rollout.ahead:
        return None
    return "rollout.merge_lora=false", replace(config, rollout=replace(rollout, merge_lora=False))


def _narrow(config: RunConfig, place: Place) -> tuple[str, RunConfig] | None:
    if config.dtype == "bfloat16" or (config.dtype == "auto" and place.kind != "cpu"):
        return None
    return "dtype=bfloat16", replace(config, dtype="bfloat16")


def _adapter(config: RunConfig, place: Place) -> tuple[str, RunConfig] | None:
    if config.lora.enabled:
        return None
    return "lora=default", replace(config, lora=replace(config.lora, enabled=True))


def _four_bits(config: RunConfig, place: Place) -> tuple[str, RunConfig] | None:
    model, rollout = config.model, config.rollout
    if place.kind != "cuda" or not config.lora.enabled or model.quantize == "nf4":
        return None
    if rollout.engine == "vllm" or rollout.ahead or config.shard_base != "none":
        return None
    return "model.quantize=nf4", replace(config, model=replace(model, quantize="nf4"))


def _share_out(config: RunConfig, place: Place) -> tuple[str, RunConfig] | None:
    """Of several processes alone."""
    shared = replace(config, shard_base="machine")
    possible = config.shard_base == "none" and not any(checks.shard_base(shared))
    return ("shard_base=machine", shared) if possible else None


def _half_as_long(config: RunConfig, place: Place) -> tuple[str, RunConfig] | None:
    half = config.max_new_tokens // 2
    return (f"max_new_tokens={half}", replace(config, max_new_tokens=half)) if half >= 256 else None


# in this order: what leaves the run as it is, what changes its rounding, what is trained, what is sampled
_CHANGES: tuple[_Change, ...] = (
    _checkpointing,
    _one_group_at_once,
    _adapter_beside,
    _share_out,
    _narrow,
    _adapter,
    _adapter_beside,  # of the adapter that the run has by now
    _share_out,
    _four_bits,
    _half_as_long,
)
