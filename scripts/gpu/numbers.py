"""Checks of what is computed: gradients, what the engines sample, the base that sampling leaves, a lack of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from grpo_runner.policy.budget import bytes_a_token
from grpo_runner.policy.update import Trainer
from grpo_runner.rollout import NativeEngine, Sampling, TransformersEngine
from grpo_runner.types import Completion, Question

from . import making
from .rows import Row, Setting

COSINE = 0.99
# fp32, matrix products in full precision: rounding of a few thousand terms
FP32_GRADIENT = 1e-4
FP32_LOGPROB = 1e-4


def gradients(setting: Setting) -> Iterator[Row]:
    """Packed against padded rows, in both types; and bf16 against fp32 of the same weights."""
    precise = making.model("qwen2_5_0_5b", setting, torch.float32)
    vocab = precise.config.vocab_size
    rows = making.batch(vocab, 3, 4, *((5, 9) if setting.dry else (100, 48)), ragged=True)
    exact = making.gradient(precise, rows, setting, "optim.packing=true")
    padded = making.gradient(precise, rows, setting, "optim.packing=false")
    yield setting.most("fp32 packed - padded, of the norm", making.relative(exact, padded), FP32_GRADIENT)
    in_pieces = making.gradient(precise, rows, setting, f"optim.microbatch_tokens={12 if setting.dry else 256}")
    yield setting.most("fp32 in micro-batches - at once, of the norm", making.relative(in_pieces, exact), FP32_GRADIENT)
    state = precise.state_dict()
    coarse = making.model("qwen2_5_0_5b", setting, torch.bfloat16)
    coarse.load_state_dict(state)
    # the same weights in both types: the wide ones take over what bf16 has made of them
    precise.load_state_dict(coarse.state_dict())
    del state
    exact = making.gradient(precise, rows, setting)
    del precise
    fast = making.gradient(coarse, rows, setting, "optim.packing=true")
    padded = making.gradient(coarse, rows, setting, "optim.packing=false")
    yield setting.least("bf16 packed with padded, cosine", making.cosine(fast, padded), COSINE)
    yield setting.least("bf16 packed with fp32, cosine", making.cosine(fast, exact), COSINE)
    yield setting.fact("bf16 padded with fp32, cosine", making.cosine(padded, exact))


def engines(setting: Setting) -> Iterator[Row]:
    """native against transformers in fp32: short prompts (copied to each row) and long ones (shared by a group)."""
    policy = making.model("qwen2_5_0_5b", setting, torch.float32)
    vocab = policy.config.vocab_size
    ends = frozenset(range(3, vocab, 40))  # many ids that end an answer, so that rows leave at unequal times
    pair = [cls(policy, making.tokenizer(), ends, 64) for cls in (NativeEngine, TransformersEngine)]
    tokens = 20 if setting.dry else 48
    for kind, lengths in (("short", (20, 1, 7)), ("long", (200, 130, 3))):
        mine, other = (ask(engine, vocab, lengths, 0.0, tokens) for engine in pair)
        yield setting.most(f"{kind} prompts, greedy: answers that differ", different(mine, other), 0)
        mine, other = (ask(engine, vocab, lengths, 1.0, tokens) for engine in pair)
        yield setting.most(f"{kind} prompts, sampled: |Δ log-prob|", largest(mine, other), FP32_LOGPROB)
        # a draw on the border of two tokens may fall to either side
        yield setting.most(f"{kind} prompts, sampled: answers that differ", different(mine, other), 1)
    beside = NativeEngine(policy, making.tokenizer(), ends, 64, merge=False)
    mine, other = (ask(engine, vocab, (20, 1, 7), 0.0, tokens) for engine in (pair[0], beside))
    yield setting.most("adapter merged - beside: |Δ log-prob|", largest(mine, other), FP32_LOGPROB)


def merged(setting: Setting) -> Iterator[Row]:
    """Sampling with a merged adapter leaves every tensor of the model as it was, bit by bit."""
    policy = making.model("qwen2_5_0_5b", setting, torch.bfloat16)
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    engine = NativeEngine(policy, making.tokenizer(), frozenset(), 64)
    vocab, tokens = policy.config.vocab_size, 4 if setting.dry else 32
    with_it = ask(engine, vocab, (9, 5), 0.0, tokens)
    odd = [name for name, value in policy.state_dict().items() if not torch.equal(value, before[name])]
    yield setting.most("tensors that sampling changed", len(odd), 0)
    with policy.disable_adapter():
        without = ask(engine, vocab, (9, 5), 0.0, tokens)
    # else an adapter that is left out would pass as well
    yield setting.least("what the adapter adds: |Δ log-prob|", largest(with_it, without), 1e-3)


def halving(setting: Setting) -> Iterator[Row]:
    """A micro-batch that does not fit is made again with half the tokens, and the gradient is the same."""
    policy = making.model("qwen2_5_0_5b", setting, torch.bfloat16)
    rows = making.batch(policy.config.vocab_size, 2, 4, *((4, 12) if setting.dry else (64, 448)))
    whole = sum(len(answer) for answer in rows.completions) + 2 * len(rows.prompts[0])
    told: list[str] = []
    asked = making.config(f"optim.microbatch_tokens={whole}")
    free = making.caught(Trainer(policy, 0, asked, setting.device, False), rows)
    trainer = Trainer(policy, 0, asked, setting.device, False, told.append)
    if setting.device.type == "cuda":
        each = bytes_a_token(policy.config, 2, True, False)
        size = torch.cuda.memory_allocated() + whole * each * 0.7
    else:
        size = 0.0
        trainer.score = _Refusing(trainer.score, whole // 2)  # type: ignore[assignment]
    with making.room(setting, size):
        found = making.caught(trainer, rows)
    yield setting.fact("tokens of a micro-batch, at first", whole)
    yield setting.most("tokens of a micro-batch, at last", trainer.budget.tokens, whole // 2)
    yield setting.least("times that this was told", len(told), 1)
    yield setting.least("gradient with and without, cosine", making.cosine(found, free), 0.999)


class _Refusing:
    """A scorer that has no memory for more than so many completion tokens: what a CPU cannot be made to show."""

    def __init__(self, scorer: Any, most: int) -> None:
        self.scorer, self.most = scorer, most

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scorer, name)

    def __call__(self, batch: Any, piece: torch.Tensor, entropy: bool = False) -> Any:
        if sum(len(batch.completions[row]) for row in piece.tolist()) > self.most:
            raise torch.OutOfMemoryError("refused")
        return self.scorer(batch, piece, entropy)


def ask(
    engine: Any, vocab: int, lengths: Sequence[int], temperature: float, tokens: int, rows: int = 4
) -> list[Completion]:
    """Answers to random prompts of these lengths, `rows` each."""
    draw = torch.Generator().manual_seed(2)
    prompts = [tuple(torch.randint(4, vocab, (length,), generator=draw).tolist()) for length in lengths]
    questions = [Question(str(number), "", "") for number in range(len(prompts))]
    sampling = Sampling(temperature, 1.0, 0, tokens, (), seed=0, purpose="rollout", step=0)
    return [answer for group in engine.sample(questions, prompts, rows, sampling) for answer in group.completions]


def different(mine: Sequence[Completion], other: Sequence[Completion]) -> int:
    """Answers that are not the same tokens."""
    return sum(a.token_ids != b.token_ids for a, b in zip(mine, other, strict=True))


def largest(mine: Sequence[Completion], other: Sequence[Completion]) -> float:
    """The largest difference between log-probabilities of a token up to where two answers part."""
    found = 0.0
    for a, b in zip(mine, other, strict=True):
        for token, twin, here, there in zip(a.token_ids, b.token_ids, a.logprobs, b.logprobs, strict=False):
            if token != twin:
                break
            found = max(found, abs(here - there))
    return found
