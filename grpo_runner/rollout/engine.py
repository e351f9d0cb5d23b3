"""The Protocol of a sampling engine, and what all engines share: the draws, the end of an answer, the decoded text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import NonFiniteError
from ..rng import generator
from ..types import Completion, Finish, Group, Question

# Entries of the vocabulary that are summed together before a token is looked for among them.
BLOCK = 128


@dataclass(frozen=True)
class Sampling:
    """How to sample. temperature 0 is greedy; top_p 1 and top_k 0 are off.

    seed, purpose and step key the draws: sample i of the question in slot s uses the numbers of
    (seed, purpose, step, s, i), one uniform a token, whatever the engine, the batch or its order. first_slot: the slot
    of the first question that the engine is given, where it is given a part of the step's.
    """

    temperature: float
    top_p: float
    top_k: int
    max_new_tokens: int
    stop: tuple[str, ...]
    seed: int
    purpose: str
    step: int
    first_slot: int = 0

    def draws(self, slot: int, sample: int) -> np.ndarray:
        """(max_new_tokens,) uniforms in [0, 1) for one completion; slot: among the questions that the engine has."""
        return generator(self.seed, self.purpose, self.step, self.first_slot + slot, sample).random(self.max_new_tokens)


class Engine(Protocol):
    """Anything that samples groups from the present policy."""

    def sample(
        self, questions: Sequence[Question], prompts: Sequence[tuple[int, ...]], group_size: int, sampling: Sampling
    ) -> list[Group]:
        """One Group per question, in order; `prompts` are the questions' token ids, BOS included.

        Called in all processes of a run, with no questions in one that has none: a base that is shared out needs all.
        """
        ...


def choose(logits_BV: Tensor, uniforms_B: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor]:
    """(tokens_B, logprobs_B, entropy_B) of one decoding step, by inverting the cumulative distribution at a uniform.

    Log-probabilities and entropy (nats) are of the full vocabulary at the sampling temperature (at 1 when greedy), as
    the trainer computes them; top-k and top-p only restrict which token is drawn.
    """
    logprobs_BV = torch.log_softmax(logits_BV.float() / (sampling.temperature or 1.0), dim=1)
    probs_BV = logprobs_BV.exp()
    entropy_B = -torch.linalg.vecdot(probs_BV, logprobs_BV)
    if entropy_B.isnan().any():
        # 0 · -inf: a vocabulary entry that a model rules out adds nothing; a NaN stays one, and is seen
        entropy_B = -torch.where(probs_BV == 0, 0.0, probs_BV * logprobs_BV).sum(dim=1)
    tokens_B = logits_BV.argmax(dim=1) if sampling.temperature == 0 else _invert(probs_BV, uniforms_B, sampling)
    return tokens_B, logprobs_BV.gather(1, tokens_B[:, None]).squeeze(1), entropy_B


def _invert(probs_BV: Tensor, uniforms_B: Tensor, sampling: Sampling) -> Tensor:
    order_BV = None
    if sampling.top_k or sampling.top_p < 1:
        probs_BV, order_BV = probs_BV.sort(dim=1, descending=True, stable=True)
        if sampling.top_k:
            probs_BV[:, sampling.top_k :] = 0
        # a token stays while the mass before it is below top_p, so that at least one does
        before_BV = probs_BV.cumsum(dim=1) - probs_BV
        probs_BV = probs_BV.masked_fill(before_BV >= sampling.top_p * probs_BV.sum(dim=1, keepdim=True), 0)
    picked_B1 = _searched(probs_BV, uniforms_B)
    return (picked_B1 if order_BV is None else order_BV.gather(1, picked_B1)).squeeze(1)


def _searched(probs_BV: Tensor, uniforms_B: Tensor) -> Tensor:
    """(B, 1) the token at which the cumulative distribution reaches each uniform.

    Over blocks, then inside one: a large vocabulary needs sums in double precision, and these are short.
    """
    wide = torch.float32 if probs_BV.device.type == "mps" else torch.float64
    size = probs_BV.shape[1]
    if size <= 2 * BLOCK:
        return _place(probs_BV.to(wide), uniforms_B.to(wide)[:, None], relative=True)[0]
    whole = size // BLOCK * BLOCK
    sums = probs_BV[:, :whole].unflatten(1, (-1, BLOCK)).sum(dim=2)
    if whole < size:
        sums = torch.cat([sums, probs_BV[:, whole:].sum(dim=1, keepdim=True)], dim=1)
    block_B1, left_B1 = _place(sums.to(wide), uniforms_B.to(wide)[:, None], relative=True)
    columns = block_B1 * BLOCK + torch.arange(BLOCK, device=probs_BV.device)
    inside = probs_BV.gather(1, columns.clamp(max=size - 1)).to(wide).masked_fill_(columns >= size, 0)
    return block_B1 * BLOCK + _place(inside, left_B1, relative=False)[0]


def _place(mass_BK: Tensor, targets_B1: Tensor, relative: bool) -> tuple[Tensor, Tensor]:
    """(where the running sum first exceeds the target, what of the target is left there), both (B, 1).

    relative: the target is a share of the whole. It stays just under the whole: rounding must not step past the last
    entry that has any mass.
    """
    sums_BK = mass_BK.cumsum(dim=1)
    under_B1 = sums_BK[:, -1:] * (1 - torch.finfo(sums_BK.dtype).eps * 4)
    targets_B1 = targets_B1 * under_B1 if relative else torch.minimum(targets_B1, under_B1)
    found_B1 = torch.searchsorted(sums_BK, targets_B1, right=True).clamp(max=mass_BK.shape[1] - 1)
    return found_B1, targets_B1 - (sums_BK - mass_BK).gather(1, found_B1)


def check_finite(groups: Sequence[Group], what: str) -> None:
    """Raise NonFiniteError where a sampled log-probability or an entropy is not finite: the policy itself is broken.

    It would otherwise go on unseen: such a policy answers nothing right, so that no answer has weight and no loss is
    ever computed.
    """
    broken = [group.question.id for group in groups if not all(map(_finite, group.completions))]
    if broken:
        raise NonFiniteError(
            f"{what}: the policy's log-probabilities are not finite.\nQuestions: {', '.join(broken[:4])}.\n"
            "The last good checkpoint is kept. A lower optim.lr often helps; in a fresh run, look at the weights."
        )


def _finite(answer: Completion) -> bool:
    return all(map(math.isfinite, answer.logprobs)) and (answer.entropy is None or math.isfinite(answer.entropy))


def find_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the first stop string in `text` ends, None if there is none. The stop string stays in the answer."""
    ends = [at + len(word) for word in stop if (at := text.find(word)) >= 0]
    return min(ends) if ends else None


def ended_by_stop(tokenizer: Any, ids: Sequence[int], stop: Sequence[str]) -> bool:
    """Whether the newest token completed a stop string; only the tail that could hold one is decoded.

    A token is at least a byte, and a few more than the string's bytes are looked at, since it may end inside a token.
    """
    tail = ids[-(max(len(word.encode()) for word in stop) + 8) :]
    return find_stop(tokenizer.decode(tail, skip_special_tokens=True), stop) is not None


def completion(
    tokenizer: Any,
    ids: Sequence[int],
    logprobs: Sequence[float],
    entropies: Sequence[float],
    eos: frozenset[int],
    stop: Sequence[str],
) -> Completion:
    """Close one answer: its text, and why it ended. An answer that only has the EOS is an empty text of one token."""
    ended = ids[-1] in eos
    text = tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=True)
    stopped = find_stop(text, stop) if stop else None
    finish = Finish.EOS if ended else Finish.STOP if stopped is not None else Finish.LENGTH
    return Completion(
        token_ids=tuple(ids),
        text=text[:stopped],
        logprobs=tuple(logprobs),
        finish=finish,
        entropy=sum(entropies) / len(entropies),
    )
