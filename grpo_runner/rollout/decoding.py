"""A decoding step of many rows: a static cache of each row's own tokens, one of the prompt that a group shares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..policy.decoder import Decoder, Layer, Projection, Shape
from ..policy.kernels import add_norm, linears, rms, swiglu_down
from ..policy.packed import buckets, forward, halves, heads
from ..sizes import COPY_UP_TO

# Numbers in a matrix from which the other order of a product is faster; below, only what follows would be slower.
TURN_FROM = 2**17

# Keys and values of one layer: (kv heads, tokens, width) each.
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Prompt:
    """A prompt that was computed once: keys and values of each layer, and the logits (V,) that follow it."""

    length: int
    layers: list[Pair]
    logits: Tensor


def prefill(decoder: Decoder, layers: Collection[Layer], prompts: Sequence[Sequence[int]]) -> list[Prompt]:
    """All prompts in one pass, without padding."""
    device = decoder.head.weight.device
    lengths = [len(prompt) for prompt in prompts]
    ids = torch.tensor([token for prompt in prompts for token in prompt], device=device)
    positions = torch.cat([torch.arange(length) for length in lengths]).to(device)
    kept: list[Pair] = []
    packed = buckets([(length, []) for length in lengths], device)
    hidden = forward(decoder, layers, ids, positions, packed, keep=kept)
    ends = torch.tensor(lengths, device=device).cumsum(0)
    logits = F.linear(rms(hidden[ends - 1], decoder.body.norm), decoder.head.weight)
    # copies: views would keep the pass of all prompts alive
    pairs = [[[x.transpose(0, 1).contiguous() for x in table.split(lengths)] for table in pair] for pair in kept]
    return [Prompt(length, [(k[line], v[line]) for k, v in pairs], logits[line]) for line, length in enumerate(lengths)]


class Cache:
    """Keys and values of B rows in the order of their prompts.

    room: own tokens a row, at most. longest: tokens of the longest prompt that will come.
    """

    def __init__(self, decoder: Decoder, layers: Collection[Layer], room: int, longest: int) -> None:
        self.decoder, self.layers, self.shape = decoder, layers, decoder.shape
        self.device, self.dtype = decoder.head.weight.device, decoder.head.weight.dtype
        # own columns come after those of the copied prompt, which ends at `offset`
        self.offset = longest if longest <= COPY_UP_TO else 0
        self.columns = self.offset + room
        self.own: list[Pair] = [self._empty(0) for _ in layers]
        self.prompts: list[Pair] = []

    def _empty(self, rows: int) -> Pair:
        size = (rows * self.shape.kv_heads, self.columns, self.shape.width)
        # zeros: what is masked is multiplied by 0 all the same, and memory may hold NaN
        k, v = (torch.zeros(size, device=self.device, dtype=self.dtype) for _ in range(2))
        return k, v

    def arrange(self, kept: Tensor, used: int, prompts: Sequence[Prompt], counts: Sequence[int], old: int) -> None:
        """Keep rows `kept` (their places so far, with the first `used` of their own tokens), and have new ones after.

        prompts, counts: of all rows together, in their order, `counts[i]` rows of prompts[i]; the first `old` of the
        prompts are those of the kept rows.
        """
        heads_, rows = self.shape.kv_heads, sum(counts)
        places = (kept[:, None] * heads_ + torch.arange(heads_, device=self.device)).flatten()
        for number, pair in enumerate(self.own):
            self.own[number] = self._empty(rows)
            for new, before in zip(self.own[number], pair, strict=True):
                new[: len(places), : self.offset + used] = before[places, : self.offset + used]
        counts_Q = torch.tensor(counts, device=self.device)
        lengths = torch.tensor([prompt.length for prompt in prompts], device=self.device)
        self.lengths_B = lengths.repeat_interleave(counts_Q)
        self.level = min(prompt.length for prompt in prompts) == max(prompt.length for prompt in prompts)
        self.level &= prompts[0].length == self.offset or not self.offset
        if self.offset:
            self._copy(prompts[old:], counts[old:], len(places))
        else:
            self._share(prompts, counts)

    def _copy(self, prompts: Sequence[Prompt], counts: Sequence[int], first: int) -> None:
        """Into the columns up to `offset`, for the lines from `first` on."""
        for number, pair in enumerate(self.own):
            line = first
            for prompt, count in zip(prompts, counts, strict=True):
                size = count * self.shape.kv_heads
                for table, values in zip(pair, prompt.layers[number], strict=True):
                    at = table[line : line + size].unflatten(0, (count, -1))
                    at[:, :, : self.offset - prompt.length] = 0  # never seen, but 0 · NaN would be
                    at[:, :, self.offset - prompt.length : self.offset] = values
                line += size

    def _share(self, prompts: Sequence[Prompt], counts: Sequence[int]) -> None:
        """Tables of the prompts, (prompts · kv heads, longest, width), and which rows belong to which."""
        longest, most = max(prompt.length for prompt in prompts), max(counts)

        def table(layer: int, which: int) -> Tensor:
            return torch.cat([F.pad(p.layers[layer][which], (0, 0, 0, longest - p.length)) for p in prompts])

        self.prompts = [(table(layer, 0), table(layer, 1)) for layer in range(len(self.layers))]
        counts_Q = torch.tensor(counts, device=self.device)
        firsts = (counts_Q.cumsum(0) - counts_Q).repeat_interleave(counts_Q)
        rows = torch.arange(len(firsts), device=self.device)
        # places of the rows in (prompts, most rows), and the row at each of those places
        self.places = torch.arange(len(counts), device=self.device).repeat_interleave(counts_Q) * most + rows - firsts
        self.rows_at = torch.zeros(len(counts) * most, dtype=torch.long, device=self.device)
        self.rows_at[self.places] = rows
        self.ragged, self.most = min(counts) < most, most
        lengths = torch.tensor([prompt.length for prompt in prompts], device=self.device)
        beyond = torch.arange(longest, device=self.device) >= lengths[:, None]
        self.beyond_prompt = None if self.level else beyond[:, None, None]

    def step(self, ids: Tensor, at: Tensor, width: int, even: bool) -> Tensor:
        """(B, V) logits after one more token of each row, its own token number `at` (B,).

        width: more than each of `at`; so many of the own tokens are looked at. even: all rows are at width - 1.
        """
        decoder, shape = self.decoder, self.shape
        x = decoder.embed(ids)
        cos, sin = decoder.rotary(self.lengths_B + at, x)
        tables = _tables(cos, sin, shape.heads, shape.kv_heads, shape.width**-0.5)
        unseen = self._unseen(at, width, even)
        delta = None
        for number, layer in enumerate(self.layers):
            x, normed = _add_norm(x, delta, layer.input_norm)
            q, k, v = _rotated(products(normed, layer.qkv), layer, shape, tables)
            self._write(number, k, v, at, width, even)
            attended = self._attend(number, q, width, unseen)
            x, normed = _add_norm(x, products(attended, [layer.output])[0], layer.post_norm)
            gate, up = halves(products(normed, layer.gate_up))
            delta = _down(gate, up, layer.down)
        _, normed = _add_norm(x, delta, decoder.body.norm)
        return F.linear(normed, decoder.head.weight)

    def _unseen(self, at: Tensor, width: int, even: bool) -> Tensor | None:
        """(B, 1, 1, columns) what is added to scores: -inf for columns that hold nothing of the row; None: all do."""
        if even and (self.level or not self.offset):
            return None
        columns = torch.arange(-self.offset, width, device=self.device)
        hidden = columns > at[:, None]
        if self.offset:
            hidden |= columns < -self.lengths_B[:, None]
        return torch.zeros_like(hidden, dtype=self.dtype).masked_fill_(hidden, -torch.inf)[:, None, None]

    def _write(self, number: int, k: Tensor, v: Tensor, at: Tensor, width: int, even: bool) -> None:
        for table, values in zip(self.own[number], (k, v), strict=True):
            if even:
                table[:, self.offset + width - 1] = values.flatten(0, 1)
            else:
                lines = torch.arange(len(table), device=self.device)
                table[lines, self.offset + at.repeat_interleave(self.shape.kv_heads)] = values.flatten(0, 1)

    def _attend(self, number: int, q: Tensor, width: int, unseen: Tensor | None) -> Tensor:
        """(B, heads · width) from q (B, heads, width), scaled: softmax over the prompt's keys and the row's own."""
        K, V = (table[:, : self.offset + width].unflatten(0, (len(q), -1)) for table in self.own[number])
        # contiguous: the fused kernel is not taken for another layout
        q = q.contiguous().unflatten(1, (self.shape.kv_heads, -1))
        # on CPUs two products take less time in float32, and more in bfloat16
        if self.offset and not (q.device.type == "cpu" and q.dtype is torch.float32):
            return F.scaled_dot_product_attention(q, K, V, attn_mask=unseen, scale=1.0).reshape(len(q), -1)
        own = torch.matmul(q, K.transpose(2, 3))
        if unseen is not None:
            own += unseen
        if self.offset:
            return torch.matmul(own.softmax(dim=-1), V).reshape(len(q), -1)
        Kp, Vp = self.prompts[number]
        prompt = self._by_row(torch.bmm(self._by_prompt(q), Kp.transpose(1, 2)), q.shape[2], masked=True)
        first, rest = torch.cat([prompt, own], dim=-1).softmax(dim=-1).split([Kp.shape[1], width], dim=-1)
        of_prompt = self._by_row(torch.bmm(self._by_prompt(first), Vp), q.shape[2], masked=False)
        return (torch.matmul(rest, V) + of_prompt).reshape(len(q), -1)

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


def _tables(cos: Tensor, sin: Tensor, heads: int, kv_heads: int, scale: float) -> Pair:
    """(B, heads + kv heads, width) factors that rotate queries and keys at once, and scale the queries."""
    sizes = cos.new_ones(heads + kv_heads)
    sizes[:heads] = scale
    first, second = sin.chunk(2, dim=-1)
    turned = torch.cat([-first, second], dim=-1)
    return cos[:, None] * sizes[:, None], turned[:, None] * sizes[:, None]


def _rotated(outputs: Sequence[Tensor], layer: Layer, shape: Shape, tables: Pair) -> tuple[Tensor, Tensor, Tensor]:
    """q, scaled, and k, both rotated, and v: (B, heads, width)."""
    if len(outputs) == 1 and layer.q_norm is None:
        both = outputs[0].contiguous().unflatten(-1, (-1, shape.width))
        qk, v = both[:, : -shape.kv_heads], both[:, -shape.kv_heads :]
    else:
        q, k, v = heads(outputs, layer, shape)
        qk = torch.cat([q, k], dim=1)
    cos, sin = tables
    # a roll by half of the width exchanges the halves; the sign is in the table
    qk = (qk * cos).addcmul_(qk.roll(shape.width // 2, dims=-1), sin)
    return qk[:, : shape.heads], qk[:, shape.heads :], v


def _add_norm(x: Tensor, delta: Tensor | None, norm: Any) -> tuple[Tensor, Tensor]:
    """As `add_norm`, without gradients."""
    if norm.weight.requires_grad or x.dtype is not torch.float32:
        return add_norm(x, delta, norm)
    x = x if delta is None else x + delta
    return x, F.rms_norm(x, x.shape[-1:], norm.weight, norm.variance_epsilon)


def products(x: Tensor, projections: Sequence[Projection]) -> list[Tensor]:
    """As `linears`, without gradients."""
    if any(p.weight is None or p.A is not None for p in projections):
        return linears(x, projections)
    return [_product(x, p.weight, p.bias) for p in projections if p.weight is not None]


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b. A large W on a CPU as (W xᵀ)ᵀ: faster for few rows, and what follows keeps the order."""
    if x.device.type != "cpu" or weight.numel() < TURN_FROM or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    made = weight @ x.t()
    return (made if bias is None else made.add_(bias[:, None])).t()


def _down(gate: Tensor, up: Tensor, down: Projection) -> Tensor:
    if down.weight is None or down.A is not None:
        return swiglu_down(gate, up, down)
    return _product(F.silu(gate).mul_(up), down.weight, down.bias)
