"""The native engine: one prefill a question, its KV cache given to all G samples, rows that leave when they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..policy.models import forward_keywords
from ..types import Completion, Group, Question
from .engine import Sampling, choose, completion, ended_by_stop

# Finished rows are taken out of the cache once a quarter of them is done: copying the cache costs about a token's work.
COMPACT_BELOW = 0.75


class NativeEngine:
    """Samples with the model's own forward pass and transformers' cache object; no `generate`.

    model: any causal LM whose forward takes `past_key_values` and `position_ids` (the Llama family). Its adapter, if it
    has one, is used as it stands, so that samples always come from the present policy. batch_rows: the most rows that
    are decoded at once; prompts are cut into chunks of whole groups.
    """

    def __init__(self, model: Any, tokenizer: Any, eos: frozenset[int], batch_rows: int) -> None:
        self.model, self.tokenizer, self.eos, self.batch_rows = model, tokenizer, eos, batch_rows
        self.device = next(model.parameters()).device
        # transformers 5.2x renames `past_key_values` to `cache`
        self.cache_keyword = "cache" if "cache" in forward_keywords(model) else "past_key_values"

    @torch.no_grad()
    def sample(
        self, questions: Sequence[Question], prompts: Sequence[tuple[int, ...]], group_size: int, sampling: Sampling
    ) -> list[Group]:
        """See Engine.sample."""
        per_chunk = max(1, self.batch_rows // group_size)
        groups: list[Group] = []
        for first in range(0, len(questions), per_chunk):
            chunk = range(first, min(first + per_chunk, len(questions)))
            answers = self._decode([prompts[slot] for slot in chunk], first, group_size, sampling)
            for index, slot in enumerate(chunk):
                own = tuple(answers[index * group_size : (index + 1) * group_size])
                groups.append(Group(questions[slot], tuple(prompts[slot]), own))
        return groups

    def _decode(
        self, prompts: list[tuple[int, ...]], first: int, group_size: int, sampling: Sampling
    ) -> list[Completion]:
        """All completions of one chunk, row = question · G + sample."""
        count = len(prompts) * group_size
        uniforms = np.stack([sampling.draws(first + row // group_size, row % group_size) for row in range(count)])
        uniforms_NT = torch.from_numpy(uniforms).to(self.device, _wide(self.device))
        cache, mask, logits = self._prefill(prompts, group_size)
        positions = mask.sum(dim=1, keepdim=True)
        rows = torch.arange(count, device=self.device)  # which row each line of the cache belongs to
        alive = torch.ones(count, dtype=torch.bool, device=self.device)
        tokens_NT = torch.zeros(count, sampling.max_new_tokens, dtype=torch.long, device=self.device)
        logprobs_NT = torch.zeros(count, sampling.max_new_tokens, device=self.device)
        entropy_NT = torch.zeros_like(logprobs_NT)
        lengths_N = torch.full((count,), sampling.max_new_tokens, device=self.device)
        eos = torch.tensor(sorted(self.eos), device=self.device)
        for t in range(sampling.max_new_tokens):
            tokens, logprobs_NT[rows, t], entropy_NT[rows, t] = choose(logits, uniforms_NT[rows, t], sampling)
            tokens_NT[rows, t] = tokens
            ended = torch.isin(tokens, eos)
            if sampling.stop:
                written = tokens_NT[rows, : t + 1].tolist()
                ended |= torch.tensor(
                    [ended_by_stop(self.tokenizer, ids, sampling.stop) for ids in written], device=self.device
                )
            lengths_N[rows[alive & ended]] = t + 1
            alive &= ~ended
            left = int(alive.sum())
            if left == 0 or t + 1 == sampling.max_new_tokens:
                break
            if left < COMPACT_BELOW * len(rows):
                kept = alive.nonzero().squeeze(1)
                cache.batch_select_indices(kept)
                rows, mask, positions, tokens, alive = (
                    rows[kept],
                    mask[kept],
                    positions[kept],
                    tokens[kept],
                    alive[kept],
                )
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            logits, positions = self._forward(cache, tokens[:, None], mask, positions), positions + 1
        return self._close(tokens_NT, logprobs_NT, entropy_NT, lengths_N, sampling)

    def _prefill(self, prompts: list[tuple[int, ...]], group_size: int) -> tuple[Any, Tensor, Tensor]:
        """(cache, mask, logits) of N = Q·G rows from one pass over the Q prompts, padded on the left."""
        from transformers import DynamicCache

        width = max(len(prompt) for prompt in prompts)
        ids = torch.zeros(len(prompts), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for line, prompt in enumerate(prompts):
            ids[line, width - len(prompt) :] = torch.tensor(prompt)
            mask[line, width - len(prompt) :] = 1
        mask = mask.to(self.device)
        cache = DynamicCache(config=self.model.config)
        logits = self._forward(cache, ids.to(self.device), mask, (mask.cumsum(dim=1) - 1).clamp(min=0))
        cache.batch_repeat_interleave(group_size)
        return cache, mask.repeat_interleave(group_size, dim=0), logits.repeat_interleave(group_size, dim=0)

    def _forward(self, cache: Any, ids: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        """(B, V) logits after the last of `ids`; the cache grows by them."""
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, self.cache_keyword: cache}
        return self.model(**inputs, use_cache=True, logits_to_keep=1).logits[:, -1]

    def _close(
        self, tokens_NT: Tensor, logprobs_NT: Tensor, entropy_NT: Tensor, lengths_N: Tensor, sampling: Sampling
    ) -> list[Completion]:
        columns = (tokens_NT.tolist(), logprobs_NT.tolist(), entropy_NT.tolist(), lengths_N.tolist())
        return [
            completion(self.tokenizer, ids[:length], logprobs[:length], entropy[:length], self.eos, sampling.stop)
            for ids, logprobs, entropy, length in zip(*columns, strict=True)
        ]


def _wide(device: torch.device) -> torch.dtype:
    """MPS has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64
