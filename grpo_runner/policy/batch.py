"""The rows of one rollout as tensors, and how they are cut into micro-batches and optimizer batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..rng import generator
from ..types import Group


@dataclass(frozen=True)
class Padded:
    """A micro-batch: prompts padded on the left and completions on the right, so that completions share their columns.

    input_ids, attention_mask, position_ids: (B, P + T). completion_mask: (B, T).
    """

    input_ids: Tensor
    attention_mask: Tensor
    position_ids: Tensor
    completion_mask: Tensor


@dataclass(frozen=True)
class Batch:
    """All N rows of a rollout, row = slot · G + sample, on the CPU.

    mask_NT: True on completion tokens, the EOS included; T is the longest completion of the rollout.
    sampled_NT: log-probabilities of the tokens as the engine that drew them had it, 0 outside the mask.
    groups_N: the slot of each row; question_ids: of each row, for messages.
    """

    prompts: tuple[Tensor, ...]
    completions: tuple[Tensor, ...]
    mask_NT: Tensor
    sampled_NT: Tensor
    groups_N: Tensor
    question_ids: tuple[str, ...]

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Batch:
        """Rows in the order of the groups. All groups have the same number of completions."""
        answers = [(group, completion) for group in groups for completion in group.completions]
        lengths_N = torch.tensor([len(completion.token_ids) for _, completion in answers])
        sampled_NT = torch.zeros(len(answers), int(lengths_N.max()), dtype=torch.float64)
        for row, (_, completion) in enumerate(answers):
            sampled_NT[row, : len(completion.logprobs)] = torch.tensor(completion.logprobs, dtype=torch.float64)
        return cls(
            prompts=tuple(torch.tensor(group.prompt_ids, dtype=torch.long) for group, _ in answers),
            completions=tuple(torch.tensor(completion.token_ids, dtype=torch.long) for _, completion in answers),
            mask_NT=torch.arange(int(lengths_N.max()))[None, :] < lengths_N[:, None],
            sampled_NT=sampled_NT,
            groups_N=torch.arange(len(answers)) // len(groups[0].completions),
            question_ids=tuple(group.question.id for group, _ in answers),
        )

    @property
    def lengths_N(self) -> Tensor:
        """Tokens of each completion, as sampled."""
        return self.mask_NT.sum(dim=1)

    def microbatches(self, rows: Tensor, tokens: int) -> Iterator[Tensor]:
        """Cut rows into pieces of at most `tokens` padded positions (at least one row), like lengths together."""
        sizes = [(len(self.prompts[row]), len(self.completions[row]), row) for row in rows.tolist()]
        sizes.sort(key=lambda size: (size[0] + size[1], size[2]))
        piece: list[int] = []
        widest_prompt = widest_completion = 0
        for prompt, completion, row in sizes:
            widest = max(widest_prompt, prompt) + max(widest_completion, completion)
            if piece and widest * (len(piece) + 1) > tokens:
                yield torch.tensor(piece)
                piece, widest_prompt, widest_completion = [], 0, 0
            piece.append(row)
            widest_prompt, widest_completion = max(widest_prompt, prompt), max(widest_completion, completion)
        if piece:
            yield torch.tensor(piece)

    def packed_microbatches(self, rows: Tensor, tokens: int) -> Iterator[Tensor]:
        """Pieces of at most `tokens` tokens (at least one row), a group's rows together and its prompt counted once.

        As few as filling each piece gives, cut at the lowest limit that gives no more: the largest decides how much
        memory is needed.
        """
        ordered = sorted((int(self.groups_N[row]), row) for row in rows.tolist())
        sizes = [(group, row, len(self.prompts[row]), len(self.completions[row]) - 1) for group, row in ordered]
        filled = _filled(sizes, tokens)
        low, high = 1, tokens if len(filled) > 1 else 1  # one piece is what it is
        while low < high:
            middle = (low + high) // 2
            if len(tried := _filled(sizes, middle)) <= len(filled):
                filled, high = tried, middle
            else:
                low = middle + 1
        yield from map(torch.tensor, filled)

    def pad(self, rows: Tensor, pad_id: int, device: torch.device) -> Padded:
        """Collate rows. Masks come from lengths, never from token values: pad may be the EOS."""
        indices = rows.tolist()
        width_P = max(len(self.prompts[row]) for row in indices)
        width_T = max(len(self.completions[row]) for row in indices)
        ids = torch.full((len(indices), width_P + width_T), pad_id, dtype=torch.long)
        attention = torch.zeros_like(ids)
        for line, row in enumerate(indices):
            prompt, completion = self.prompts[row], self.completions[row]
            ids[line, width_P - len(prompt) : width_P] = prompt
            ids[line, width_P : width_P + len(completion)] = completion
            attention[line, width_P - len(prompt) : width_P + len(completion)] = 1
        return Padded(
            input_ids=ids.to(device),
            attention_mask=attention.to(device),
            position_ids=(attention.cumsum(dim=1) - 1).clamp(min=0).to(device),
            completion_mask=attention[:, width_P:].bool().to(device),
        )


def minibatches(included_N: Tensor, group_size: int, updates: int, kind: str, seed: int, step: int) -> list[Tensor]:
    """Row indices of each optimizer step of a rollout; rows that are not included (False) are in none.

    `whole`: every update sees all rows (μ of DeepSeekMath's Algorithm 1). `response`: a permutation of the rows cut
    into `updates` parts, groups split over them (Oat-Zero). `group`: the same with whole groups.
    """
    rows = included_N.nonzero().squeeze(1)
    if kind == "whole":
        return [rows] * updates
    units = rows if kind == "response" else (rows // group_size).unique()
    order = units[torch.from_numpy(generator(seed, "minibatch", step).permutation(len(units)))]
    parts = torch.tensor_split(order, updates)
    if kind == "response":
        return [part.sort().values for part in parts]
    return [rows[torch.isin(rows // group_size, part)] for part in parts]


def _filled(sizes: Sequence[tuple[int, int, int, int]], tokens: int) -> list[list[int]]:
    """The rows of (group, row, tokens of its prompt, own tokens), in order, each into the last piece while it fits."""
    pieces: list[list[int]] = []
    size, last = 0, -1
    for group, row, prompt, own in sizes:
        more = own + (prompt if group != last else 0)
        if not pieces or size + more > tokens:
            pieces.append([])
            size, more = 0, own + prompt
        pieces[-1].append(row)
        size, last = size + more, group
    return pieces
