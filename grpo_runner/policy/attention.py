"""Causal attention of packed groups: a prompt attends to itself, its completions to it and each to itself alone.

The prompt's keys and values are computed once and shared by the group's completions. Two ways: `blocks`, plain matrix
products whose probabilities are made again in the backward pass (CPU, where it is faster than the fused kernels: their
backward pass in bf16 takes several times as long), and `fused`, torch's scaled_dot_product_attention (GPUs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from .kernels import rotate_half

# Queries that are scored at once: bounds memory at (rows × heads × BLOCK × keys), and leaves out keys that come later.
BLOCK = 256


@dataclass(frozen=True)
class Bucket:
    """Groups that are attended to together: Q prompts of up to P tokens, each with up to G completions of up to T.

    prompt, own: (tokens,) places among the M packed tokens of what belongs to prompts, and to completions.
    prompt_to: (tokens,) their places in (Q · P), at the end of each line; own_to: in (Q · G · T), at the beginning.
    beyond: (Q, P) True before a prompt begins; None where all are equally long.
    """

    size: tuple[int, int, int, int]
    prompt: Tensor
    own: Tensor
    prompt_to: Tensor
    own_to: Tensor
    beyond: Tensor | None
    known: dict[tuple[int, int], list[_Part]] = field(default_factory=dict, compare=False, repr=False)

    def parts(self, heads: int, kv_heads: int) -> list[_Part]:
        """Prompts, then completions if there are any tokens of them. Made once, since every layer asks."""
        if (heads, kv_heads) not in self.known:
            which = (False, True)[: 1 + (len(self.own) > 0)]
            self.known[heads, kv_heads] = [_Part(self, heads, kv_heads, completions) for completions in which]
        return self.known[heads, kv_heads]


Attention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Sequence[Bucket]], Tensor]


def blocks(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, buckets: Sequence[Bucket]) -> Tensor:
    """(M, heads, width) from q (M, heads, width), k and v (M, kv heads, width), rotated by cos and sin (M, width)."""
    return _Blocks.apply(q, k, v, cos, sin, buckets)


def fused(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, buckets: Sequence[Bucket]) -> Tensor:
    """The same through scaled_dot_product_attention, for buckets of one group."""
    cos, sin = cos[:, None], sin[:, None]
    q, k = (q * cos + rotate_half(q) * sin).to(v.dtype), (k * cos + rotate_half(k) * sin).to(v.dtype)
    places, made = [], []
    for bucket in buckets:
        _, _, rows, width = bucket.size
        first = [x.index_select(0, bucket.prompt)[None].transpose(1, 2) for x in (q, k, v)]
        places.append(bucket.prompt)
        made.append(_sdpa(*first)[0])
        if len(bucket.own):
            own = [_pad(x, bucket.own, bucket.own_to, rows * width).unflatten(0, (rows, width)) for x in (q, k, v)]
            found = _sdpa(*(x.transpose(1, 2) for x in own), *first[1:])
            places.append(bucket.own)
            made.append(found.flatten(0, 1).index_select(0, bucket.own_to))
    # once, since each index_put copies the whole; index_copy would keep what it copies for the backward pass
    return torch.zeros_like(q).index_put((torch.cat(places),), torch.cat(made))


def _sdpa(q: Tensor, k: Tensor, v: Tensor, *prompt: Tensor) -> Tensor:
    """(rows, T, heads, width). prompt: keys and values that come before the own ones."""
    if prompt:
        k, v = (torch.cat([first.expand(len(x), -1, -1, -1), x], 2) for first, x in zip(prompt, (k, v), strict=True))
    mask = causal_lower_right(q.shape[2], k.shape[2])
    # the lower-right bias takes no grouped heads
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


def _pad(x: Tensor, tokens: Tensor, places: Tensor, size: int) -> Tensor:
    """(size, heads, width): the tokens at their places, 0 elsewhere."""
    return x.new_zeros(size, *x.shape[1:]).index_put((places,), x.index_select(0, tokens))


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, buckets: Sequence[Bucket]
    ) -> Tensor:
        cos, sin, scale = cos[:, None], sin[:, None], q.shape[-1] ** -0.5
        ctx.types = (q.dtype, k.dtype)
        # under autocast norms give float32 beside values in bfloat16
        q = (q * cos).addcmul_(rotate_half(q), sin).mul_(scale).to(v.dtype)
        k = (k * cos).addcmul_(rotate_half(k), sin).to(v.dtype)
        ctx.save_for_backward(q, k, v, cos, sin)
        ctx.buckets, ctx.scale = buckets, scale
        out = torch.empty_like(q)
        for bucket in buckets:
            for part in bucket.parts(q.shape[1], k.shape[1]):
                made = _forward(part.queries(q), part.keys(k), part.keys(v), part.beyond)
                out[part.tokens] = part.of_queries(made)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, cos, sin = ctx.saved_tensors
        (g,) = gradients
        gq, gk, gv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for bucket in ctx.buckets:
            shared: tuple[Tensor, Tensor] | None = None
            # completions before their prompts, whose keys and values have a gradient from them too
            for part in reversed(bucket.parts(q.shape[1], k.shape[1])):
                slope = part.queries(g, zeros=True)
                found_q, *found = _backward(slope, part.queries(q), part.keys(k), part.keys(v), part.beyond)
                gq[part.tokens] = part.of_queries(found_q)
                for number, (target, made) in enumerate(zip((gk, gv), found, strict=True)):
                    target[part.tokens] = part.of_keys(made if shared is None else made + shared[number])
                # (Q · kv heads, P, width): the sum over a group's rows
                shared = part.of_prompt(found[0]), part.of_prompt(found[1])
        gq = (gq * cos).sub_(rotate_half(gq) * sin).mul_(ctx.scale)
        gk = (gk * cos).sub_(rotate_half(gk) * sin)
        return gq.to(ctx.types[0]), gk.to(ctx.types[1]), gv, None, None, None


class _Part:
    """The prompts of a bucket, or their completions after them: where in (tokens · heads) each padded place is read.

    Lines Z = Q · rows · kv heads; a line has the r query heads of its kv head, T queries and S keys. What is padded
    reads some token that is there: as a key it is ruled out, as a query its result is not looked at.
    """

    def __init__(self, bucket: Bucket, heads: int, kv_heads: int, completions: bool) -> None:
        self.questions, prompt, rows, width = bucket.size
        self.tokens, to = (bucket.own, bucket.own_to) if completions else (bucket.prompt, bucket.prompt_to)
        self.rows, width = (rows, width) if completions else (1, prompt)
        self.prompt, self.kv_heads, lines = prompt if completions else 0, kv_heads, self.questions * self.rows
        own = _filled(self.tokens, to, lines * width).view(lines, width)
        keys = own
        if completions:
            before = _filled(bucket.prompt, bucket.prompt_to, self.questions * prompt).view(-1, prompt)
            keys = torch.cat([before.repeat_interleave(rows, dim=0), own], dim=1)
        self.q_shape, self.k_shape = (lines * kv_heads, heads // kv_heads, width), (lines * kv_heads, keys.shape[1])
        self.q_at = _by_head(own, heads)
        self.k_at = _by_head(keys, kv_heads)
        # of each token and head, its place among the queries (Z · r · T) and the keys (Z · S)
        line, column = to // width, to % width
        self.q_from = _place(line, column, heads, width)
        self.k_from = _place(line, column + self.prompt, kv_heads, keys.shape[1])
        empty = torch.ones(lines * width, dtype=torch.bool, device=to.device)
        empty[to] = False
        self.empty = None if len(to) == len(empty) else empty.view(lines, 1, 1, width, 1)
        beyond = bucket.beyond
        if beyond is not None:  # of each line of scores, over the prompt's keys
            beyond = beyond[:, None].expand(-1, self.rows * kv_heads, -1).flatten(0, 1)[:, None]
        self.beyond = beyond

    def queries(self, x: Tensor, zeros: bool = False) -> Tensor:
        """(Z, r, T, width) of (M, heads, width). zeros: what is padded is 0."""
        found = x.reshape(-1, x.shape[2]).index_select(0, self.q_at).view(*self.q_shape, -1)
        if zeros and self.empty is not None:
            found.unflatten(0, (-1, self.kv_heads)).masked_fill_(self.empty, 0.0)
        return found

    def keys(self, x: Tensor) -> Tensor:
        """(Z, S, width) of (M, kv heads, width): the prompt's before the own ones."""
        return x.reshape(-1, x.shape[2]).index_select(0, self.k_at).view(*self.k_shape, -1)

    def of_queries(self, values: Tensor) -> Tensor:
        """(tokens, heads, width) of (Z, r, T, width)."""
        return values.reshape(-1, values.shape[-1]).index_select(0, self.q_from).unflatten(0, (len(self.tokens), -1))

    def of_keys(self, values: Tensor) -> Tensor:
        """(tokens, kv heads, width) of (Z, S, width), the own ones."""
        return values.reshape(-1, values.shape[-1]).index_select(0, self.k_from).unflatten(0, (len(self.tokens), -1))

    def of_prompt(self, gradient: Tensor) -> Tensor:
        """(Q · kv heads, P, width): the prompt's part of a gradient by keys or values, summed over a group's rows."""
        part = gradient[:, : self.prompt].unflatten(0, (self.questions, self.rows, self.kv_heads))
        return part.sum(1).flatten(0, 1)


def _filled(tokens: Tensor, to: Tensor, size: int) -> Tensor:
    """(size,): the token at each place, some token where there is none."""
    return tokens.new_zeros(size).index_put((to,), tokens)


def _by_head(tokens: Tensor, heads: int) -> Tensor:
    """(lines · heads · width,) places in (M · heads) of tokens (lines, width)."""
    return (tokens[:, None] * heads + torch.arange(heads, device=tokens.device)[:, None]).flatten().int()


def _place(line: Tensor, column: Tensor, heads: int, width: int) -> Tensor:
    """(tokens · heads,) places in (lines · heads · width)."""
    head = torch.arange(heads, device=line.device)
    return ((line[:, None] * heads + head) * width + column[:, None]).flatten().int()


def _probabilities(q: Tensor, k: Tensor, beyond: Tensor | None) -> Tensor:
    """(Z, r · t, keys): of the last t of the positions that k covers. beyond: (Z, 1, P), first keys to rule out."""
    keys, width = k.shape[1], q.shape[2]
    scores = torch.bmm(q.flatten(1, 2), k.transpose(1, 2))
    # finite: a line of padding, from which everything is ruled out, must not become NaN
    never = torch.finfo(q.dtype).min / 2
    later = torch.full((width, width), never, dtype=q.dtype, device=q.device).triu_(1)
    scores.unflatten(1, (-1, width))[..., keys - width :] += later
    if beyond is not None:
        size = min(beyond.shape[2], keys)
        scores[..., :size].masked_fill_(beyond[..., :size], never)
    return torch.softmax(scores, dim=-1)


def _forward(q: Tensor, k: Tensor, v: Tensor, beyond: Tensor | None) -> Tensor:
    """q (Z, r, T, width), k and v (Z, S, width): query t sees the keys up to S - T + t."""
    before = k.shape[1] - q.shape[2]
    made = []
    for first in range(0, q.shape[2], BLOCK):
        piece = q[:, :, first : first + BLOCK]
        end = before + first + piece.shape[2]
        found = torch.bmm(_probabilities(piece, k[:, :end], beyond), v[:, :end])
        made.append(found.unflatten(1, piece.shape[1:3]))
    return made[0] if len(made) == 1 else torch.cat(made, dim=2)


def _backward(g: Tensor, q: Tensor, k: Tensor, v: Tensor, beyond: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `_forward` by q, k and v, the probabilities made again."""
    before = k.shape[1] - q.shape[2]
    if q.shape[2] <= BLOCK:  # nothing to add up
        return _slopes(g.flatten(1, 2), q, k, v, beyond)
    gq, gk, gv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, q.shape[2], BLOCK):
        at = slice(first, first + BLOCK)
        end = before + first + q[:, :, at].shape[2]
        found = _slopes(g[:, :, at].flatten(1, 2), q[:, :, at], k[:, :end], v[:, :end], beyond)
        gq[:, :, at] = found[0]
        gk[:, :end] += found[1]
        gv[:, :end] += found[2]
    return gq, gk, gv


def _slopes(g: Tensor, q: Tensor, k: Tensor, v: Tensor, beyond: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Of one block of queries: g (Z, r · t, width)."""
    probs = _probabilities(q, k, beyond)
    gv = torch.bmm(probs.transpose(1, 2), g)
    slope = torch.bmm(g, v.transpose(1, 2))
    slope = torch.ops.aten._softmax_backward_data(slope, probs, -1, probs.dtype)
    return torch.bmm(slope, k).unflatten(1, q.shape[1:3]), torch.bmm(slope.transpose(1, 2), q.flatten(1, 2)), gv
