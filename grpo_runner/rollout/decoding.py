"""A decoding step of many rows: a static cache of each row's own tokens, one of the prompt that a group shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..policy.attention import Span
from ..policy.decoder import Decoder, Layer, Projection
from ..policy.kernels import add_norm, linears, rms, swiglu_down
from ..policy.packed import forward, halves, heads, rotate

# Keys and values of one layer: (kv heads, tokens, width) each.
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Prompt:
    """A prompt that was computed once: keys and values of each layer, and the logits (V,) that follow it."""

    length: int
    layers: list[Pair]
    logits: Tensor


def prefill(decoder: Decoder, layers: Sequence[Layer], prompts: Sequence[Sequence[int]]) -> list[Prompt]:
    """All prompts in one pass, without padding."""
    device = decoder.head.weight.device
    starts, spans = 0, []
    for prompt in prompts:
        spans.append(Span(starts, len(prompt), 0, 0, 0, None))
        starts += len(prompt)
    ids = torch.tensor([token for prompt in prompts for token in prompt], device=device)
    positions = torch.cat([torch.arange(len(prompt)) for prompt in prompts]).to(device)
    kept: list[Pair] = []
    hidden = forward(decoder, layers, ids, positions, spans, keep=kept)
    last = torch.tensor([span.start + span.prompt - 1 for span in spans], device=device)
    logits = _product(rms(hidden[last], decoder.body.norm), decoder.head.weight, None)
    return [
        Prompt(
            span.prompt,
            # copies: views would keep the pass of all prompts alive
            [(_own(k, span).transpose(0, 1).contiguous(), _own(v, span).transpose(0, 1).contiguous()) for k, v in kept],
            logits[line],
        )
        for line, span in enumerate(spans)
    ]


def _own(x: Tensor, span: Span) -> Tensor:
    return x[span.start : span.start + span.prompt]


class Cache:
    """Keys and values of B rows in the order of their prompts, `counts[i]` rows of prompt i. room: own tokens a row."""

    def __init__(self, decoder: Decoder, layers: Sequence[Layer], room: int) -> None:
        self.decoder, self.layers, self.room, self.shape = decoder, layers, room, decoder.shape
        self.device, self.dtype = decoder.head.weight.device, decoder.head.weight.dtype
        self.own: list[Pair] = [self._empty(0) for _ in layers]
        self.prompts: list[Pair] = []

    def _empty(self, rows: int) -> Pair:
        size = (rows * self.shape.kv_heads, self.room, self.shape.width)
        return torch.empty(size, device=self.device, dtype=self.dtype), torch.empty(
            size, device=self.device, dtype=self.dtype
        )

    def arrange(self, kept: Tensor, added: int, used: int, prompts: Sequence[Prompt], counts: Sequence[int]) -> None:
        """Rows `kept` (their places so far, the first `used` of their own tokens) and after them `added` new ones.

        prompts, counts: of all rows together, in their order.
        """
        heads_ = self.shape.kv_heads
        places = (kept[:, None] * heads_ + torch.arange(heads_, device=self.device)).flatten()
        for number, pair in enumerate(self.own):
            self.own[number] = fresh = self._empty(len(kept) + added)
            for new, old in zip(fresh, pair, strict=True):
                new[: len(places), :used] = old[places, :used]
        self._share(prompts, counts)

    def _share(self, prompts: Sequence[Prompt], counts: Sequence[int]) -> None:
        """Tables of the prompts, (prompts · kv heads, longest, width), and which rows belong to which."""
        lengths = torch.tensor([prompt.length for prompt in prompts], device=self.device)
        longest, most = max(prompt.length for prompt in prompts), max(counts)
        self.prompts = [
            (
                torch.cat([F.pad(prompt.layers[layer][0], (0, 0, 0, longest - prompt.length)) for prompt in prompts]),
                torch.cat([F.pad(prompt.layers[layer][1], (0, 0, 0, longest - prompt.length)) for prompt in prompts]),
            )
            for layer in range(len(self.layers))
        ]
        counts_Q = torch.tensor(counts, device=self.device)
        self.lengths_B = lengths.repeat_interleave(counts_Q)
        ragged = min(counts) < most
        firsts = counts_Q.cumsum(0) - counts_Q
        column = torch.arange(int(counts_Q.sum()), device=self.device) - firsts.repeat_interleave(counts_Q)
        # places of the rows in (prompts, most rows), and the row at each of those places
        self.places = torch.arange(len(counts), device=self.device).repeat_interleave(counts_Q) * most + column
        self.rows_at = torch.zeros(len(counts) * most, dtype=torch.long, device=self.device)
        self.rows_at[self.places] = torch.arange(len(column), device=self.device)
        self.ragged, self.most = ragged, most
        beyond = torch.arange(longest, device=self.device) >= lengths[:, None]
        self.beyond_prompt = beyond[:, None, None] if min(prompt.length for prompt in prompts) < longest else None

    def step(self, ids: Tensor, lengths: Tensor, width: int, even: bool) -> Tensor:
        """(B, V) logits after one more token of each row, which becomes its own token number `lengths` (B,).

        width: more than each of `lengths`; so many columns are looked at. even: all rows are at width - 1.
        """
        decoder = self.decoder
        x = decoder.embed(ids)
        cos, sin = decoder.rotary(self.lengths_B + lengths, x)
        columns = torch.arange(width, device=self.device)
        unseen = None if even else (columns > lengths[:, None])[:, None, None]
        delta = None
        for number, layer in enumerate(self.layers):
            x, normed = add_norm(x, delta, layer.input_norm)
            q, k, v = heads(products(normed, layer.qkv), layer, self.shape)
            self._write(number, rotate(k, cos, sin), v, lengths, width, even)
            attended = self._attend(number, rotate(q, cos, sin).mul_(self.shape.width**-0.5), width, unseen)
            x, normed = add_norm(x, products(attended, [layer.output])[0], layer.post_norm)
            gate, up = halves(products(normed, layer.gate_up))
            delta = _down(gate, up, layer.down)
        _, normed = add_norm(x, delta, decoder.body.norm)
        return _product(normed, decoder.head.weight, None)

    def _write(self, number: int, k: Tensor, v: Tensor, lengths: Tensor, width: int, even: bool) -> None:
        for table, values in zip(self.own[number], (k, v), strict=True):
            values = values.flatten(0, 1)
            if even:
                table[:, width - 1] = values
            else:
                lines = torch.arange(len(table), device=self.device)
                table[lines, lengths.repeat_interleave(self.shape.kv_heads)] = values

    def _attend(self, number: int, q: Tensor, width: int, unseen: Tensor | None) -> Tensor:
        """(B, heads · width) from q (B, heads, width), scaled: softmax over the prompt's keys and the row's own."""
        (Kp, Vp), (Ko, Vo) = self.prompts[number], self.own[number]
        heads_, rows = self.shape.kv_heads, len(q)
        own = q.reshape(rows * heads_, -1, self.shape.width)
        of_own = torch.bmm(own, Ko[:, :width].transpose(1, 2)).view(rows, heads_, -1, width)
        if unseen is not None:
            of_own.masked_fill_(unseen, -torch.inf)
        of_prompt = torch.bmm(self._by_prompt(q.view(rows, heads_, -1, self.shape.width)), Kp.transpose(1, 2))
        scores = torch.cat([self._by_row(of_prompt, own.shape[1], masked=True), of_own], dim=-1)
        probs = torch.softmax(scores, dim=-1)
        first, rest = probs.split([Kp.shape[1], width], dim=-1)
        made = torch.bmm(rest.flatten(0, 1), Vo[:, :width]).view(rows, heads_, -1, self.shape.width)
        return (made + self._by_row(torch.bmm(self._by_prompt(first), Vp), own.shape[1], masked=False)).flatten(1)

    def _by_prompt(self, x: Tensor) -> Tensor:
        """(prompts · kv heads, most rows · queries, …) of (B, kv heads, queries, …)."""
        x = x[self.rows_at] if self.ragged else x
        return x.unflatten(0, (-1, self.most)).transpose(1, 2).flatten(0, 1).flatten(1, 2)

    def _by_row(self, x: Tensor, queries: int, masked: bool) -> Tensor:
        """Inverse of `_by_prompt`; masked: what lies beyond a prompt's end is ruled out."""
        x = x.unflatten(1, (self.most, queries)).unflatten(0, (-1, self.shape.kv_heads))
        if masked and self.beyond_prompt is not None:
            x = x.masked_fill(self.beyond_prompt[:, None], -torch.inf)
        x = x.transpose(1, 2).flatten(0, 1)
        return x[self.places] if self.ragged else x


def products(x: Tensor, projections: Sequence[Projection]) -> list[Tensor]:
    """As `linears`, without gradients."""
    if any(p.weight is None or p.A is not None for p in projections):
        return linears(x, projections)
    return [_product(x, p.weight, p.bias) for p in projections if p.weight is not None]


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b. On CPUs as (W xᵀ)ᵀ: for few rows that is up to twice as fast, and what follows keeps the order."""
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    made = weight @ x.t()
    return (made if bias is None else made.add_(bias[:, None])).t()


def _down(gate: Tensor, up: Tensor, down: Projection) -> Tensor:
    if down.weight is None or down.A is not None:
        return swiglu_down(gate, up, down)
    return _product(F.silu(gate).mul_(up), down.weight, down.bias)
