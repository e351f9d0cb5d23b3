"""The native engine, for Llama-like models: a prompt computed once, rows that leave as they end, groups that wait."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..policy.decoder import Decoder, Layer
from ..types import Completion, Group, Question
from .decoding import Cache, Prompt, prefill
from .engine import Sampling, choose, completion, ended_by_stop

# Rows are taken out once a quarter of them is done, since moving the cache costs about a token's work.
COMPACT_BELOW = 0.75
# Tokens between two looks at what was drawn: on a GPU each look waits for the device, and what a row drew after its end
# is thrown away.
BURST = {"cuda": 16}


@dataclass
class _Line:
    """A row in work: which of the N it is, the place of its newest token, and whether it has ended."""

    row: int
    at: int = 0
    ended: bool = False


class NativeEngine:
    """Samples with our own forward pass over the model's weights; no `generate`.

    model: one that `policy.decoder.unsupported` has nothing against. Its adapter is read anew for each call, so that
    samples always come from the present policy: added into a copy of the weights for the time of the call (merge), or
    beside them. batch_rows: the most rows decoded at once, in whole groups; further groups begin as rows end.
    """

    def __init__(self, model: Any, tokenizer: Any, eos: frozenset[int], batch_rows: int, merge: bool = True) -> None:
        self.tokenizer, self.eos, self.batch_rows, self.merge = tokenizer, eos, batch_rows, merge
        self.decoder = Decoder(model)
        self.device = self.decoder.head.weight.device
        self.held: Collection[Layer] | None = None

    @torch.no_grad()
    def hold(self) -> None:
        """Sample from the policy as it stands now until `release`, whatever becomes of the adapter."""
        self.held = self.decoder.merged()

    def release(self) -> None:
        """Sample from the policy as it stands again."""
        self.held = None

    @torch.no_grad()
    def sample(
        self, questions: Sequence[Question], prompts: Sequence[tuple[int, ...]], group_size: int, sampling: Sampling
    ) -> list[Group]:
        """See Engine.sample."""
        answers = _Sampled(self, prompts, group_size, sampling).finish() if prompts else []
        self.decoder.shards.follow()
        return [
            Group(question, tuple(prompts[slot]), tuple(answers[slot * group_size : (slot + 1) * group_size]))
            for slot, question in enumerate(questions)
        ]


class _Sampled:
    """One call of `sample`: N = Q·G rows, row = slot · G + sample, of which some are in work."""

    def __init__(
        self, engine: NativeEngine, prompts: Sequence[tuple[int, ...]], group_size: int, sampling: Sampling
    ) -> None:
        self.engine, self.prompts, self.size, self.sampling = engine, prompts, group_size, sampling
        device, budget, count = engine.device, sampling.max_new_tokens, len(prompts) * group_size
        decoder = engine.decoder
        self.layers = engine.held or (decoder.merged() if engine.merge else decoder.layers())
        self.cache = Cache(decoder, self.layers, max(1, budget - 1), max(map(len, prompts)))
        uniforms = np.stack([sampling.draws(row // group_size, row % group_size) for row in range(count)])
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.uniforms_NT = torch.from_numpy(uniforms).to(device, wide)
        self.tokens_NT = torch.zeros(count, budget, dtype=torch.long, device=device)
        self.logprobs_NT, self.entropy_NT = (torch.zeros(count, budget, device=device) for _ in range(2))
        self.waiting = list(range(len(prompts)))
        self.known: dict[int, Prompt] = {}
        self.lines: list[_Line] = []
        self.lengths = [0] * count  # tokens drawn of each row; of an ended one, those that count
        # of the rows in work: which they are, the place and the id of their newest token
        self.rows_B = self.at_B = self.ids_B = torch.zeros(0, dtype=torch.long, device=device)

    def finish(self) -> list[Completion]:
        """Decode until every row has ended."""
        self._rearrange()
        while self.lines:
            self._burst()
            left = sum(not line.ended for line in self.lines)
            room = self.engine.batch_rows - left
            full = any(line.at + 1 == self.sampling.max_new_tokens for line in self.lines)
            if full or left < COMPACT_BELOW * len(self.lines) or (self.waiting and room >= max(self.size, left // 4)):
                self._rearrange()
        return self._close()

    def _rearrange(self) -> None:
        """Take out the rows that ended, and let waiting groups begin while there is room for whole ones."""
        device = self.engine.device
        kept = torch.tensor([i for i, line in enumerate(self.lines) if not line.ended], dtype=torch.long, device=device)
        lines = [line for line in self.lines if not line.ended]
        used = max((line.at for line in lines), default=0)
        parts = [(self.rows_B[kept], self.at_B[kept], self.ids_B[kept])]
        before = len(lines)
        while self.waiting and (not lines or len(lines) + self.size <= self.engine.batch_rows):
            room = max(1, (self.engine.batch_rows - len(lines)) // self.size)
            begun, self.waiting = self.waiting[:room], self.waiting[room:]
            new = self._begin(begun)
            lines += [line for line in new if not line.ended]
            open_rows = torch.tensor([line.row for line in new if not line.ended], dtype=torch.long, device=device)
            parts.append((open_rows, torch.zeros_like(open_rows), self.tokens_NT[open_rows, 0]))
        self.lines = lines
        self.rows_B, self.at_B, self.ids_B = (torch.cat(column) for column in zip(*parts, strict=True))
        groups = [(slot, len(list(rows))) for slot, rows in groupby(lines, key=lambda line: line.row // self.size)]
        self.known = {slot: self.known[slot] for slot, _ in groups}
        if groups:
            old = len({line.row // self.size for line in lines[:before]})
            self.cache.arrange(kept, used, list(self.known.values()), [count for _, count in groups], old)

    def _begin(self, slots: Sequence[int]) -> list[_Line]:
        """Compute the prompts of new groups and draw each row's first token."""
        found = prefill(self.engine.decoder, self.layers, [self.prompts[slot] for slot in slots])
        self.known.update(zip(slots, found, strict=True))
        rows = torch.tensor([slot * self.size + sample for slot in slots for sample in range(self.size)])
        rows = rows.to(self.engine.device)
        logits_QV = torch.stack([prompt.logits for prompt in found])
        self._draw(logits_QV.repeat_interleave(self.size, dim=0), rows, torch.zeros_like(rows))
        lines = [_Line(row) for row in rows.tolist()]
        self._look(lines, 1)
        return lines

    def _burst(self) -> None:
        """Draw a few tokens of each row in work; on a CPU, where looking costs nothing, one."""
        most = max(line.at for line in self.lines)
        even = min(line.at for line in self.lines) == most
        count = min(BURST.get(self.engine.device.type, 1), self.sampling.max_new_tokens - 1 - most)
        for number in range(count):
            logits = self.cache.step(self.ids_B, self.at_B, most + number + 1, even)
            self.at_B = self.at_B + 1
            self.ids_B = self._draw(logits, self.rows_B, self.at_B)
        self._look(self.lines, count)

    def _draw(self, logits_BV: Tensor, rows: Tensor, at: Tensor) -> Tensor:
        """Draw token number `at` of each row and write it down."""
        tokens, logprobs, entropy = choose(logits_BV, self.uniforms_NT[rows, at], self.sampling)
        self.tokens_NT[rows, at], self.logprobs_NT[rows, at], self.entropy_NT[rows, at] = tokens, logprobs, entropy
        return tokens

    def _look(self, lines: Sequence[_Line], count: int) -> None:
        """Find the ends among the `count` newest tokens of each row."""
        written = self.tokens_NT[[line.row for line in lines]].tolist()
        for line, ids in zip(lines, written, strict=True):
            before, line.at = self.lengths[line.row], line.at + count if self.lengths[line.row] else count - 1
            if line.ended:
                continue
            for length in range(before + 1, before + count + 1):
                self.lengths[line.row] = length
                line.ended = ids[length - 1] in self.engine.eos or length == self.sampling.max_new_tokens
                if self.sampling.stop and not line.ended:
                    line.ended = ended_by_stop(self.engine.tokenizer, ids[:length], self.sampling.stop)
                if line.ended:
                    break

    def _close(self) -> list[Completion]:
        columns = (self.tokens_NT.tolist(), self.logprobs_NT.tolist(), self.entropy_NT.tolist(), self.lengths)
        engine = self.engine
        return [
            completion(engine.tokenizer, ids[:n], logprobs[:n], entropy[:n], engine.eos, self.sampling.stop)
            for ids, logprobs, entropy, n in zip(*columns, strict=True)
        ]
