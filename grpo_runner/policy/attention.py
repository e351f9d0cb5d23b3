"""Causal attention of packed groups: a prompt attends to itself, its completions to it and each to itself alone.

The prompt's keys and values are computed once and shared by the group's completions. Two ways: `blocks`, plain matrix
products whose probabilities are made again in the backward pass (CPU, where it is faster than the fused kernels: their
backward pass in bf16 takes several times as long), and `fused`, torch's scaled_dot_product_attention (GPUs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
            for part in _parts(q, k, v, bucket):
                out[part.tokens] = part.back(_forward(part.q, part.k, part.v, part.beyond))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, cos, sin = ctx.saved_tensors
        (g,) = gradients
        gq, gk, gv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for bucket in ctx.buckets:
            shared: tuple[Tensor, Tensor] | None = None
            # completions before their prompts, whose keys and values have a gradient from them too
            for part in reversed(_parts(q, k, v, bucket)):
                slope = part.queries(g)
                found_q, *found = _backward(slope, part.q, part.k, part.v, part.beyond)
                gq[part.tokens] = part.back(found_q)
                for number, (target, made) in enumerate(zip((gk, gv), found, strict=True)):
                    own = made[:, made.shape[1] - part.width :]
                    if shared is not None:
                        own = own + shared[number]
                    target[part.tokens] = part.back(own.unsqueeze(1))
                # (Q · kv heads, P, width): the sum over a group's rows
                shared = part.of_prompt(found[0]), part.of_prompt(found[1])
        gq = (gq * cos).sub_(rotate_half(gq) * sin).mul_(ctx.scale)
        gk = (gk * cos).sub_(rotate_half(gk) * sin)
        return gq.to(ctx.types[0]), gk.to(ctx.types[1]), gv, None, None, None


class _Part:
    """The prompts of a bucket, or their completions after them, as padded queries, keys and values."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, bucket: Bucket, completions: bool) -> None:
        questions, prompt, rows, width = bucket.size
        self.heads, self.questions = k.shape[1], questions
        self.tokens, self.to = (bucket.own, bucket.own_to) if completions else (bucket.prompt, bucket.prompt_to)
        self.rows, self.width = (rows, width) if completions else (1, prompt)
        self.prompt = prompt if completions else 0
        beyond = bucket.beyond
        if beyond is not None:  # of each line of scores, over the prompt's keys
            beyond = beyond[:, None].expand(-1, self.rows * self.heads, -1).flatten(0, 1)[:, None]
        self.beyond = beyond
        self.q, self.k, self.v = self.queries(q), self._own(k), self._own(v)
        if completions:
            before = _Part.__new__(_Part)
            before.__dict__.update(self.__dict__, tokens=bucket.prompt, to=bucket.prompt_to, rows=1, width=prompt)
            self.k, self.v = (
                torch.cat([self._for_all(before._own(x)), own], 1) for x, own in ((k, self.k), (v, self.v))
            )

    def queries(self, x: Tensor) -> Tensor:
        """(Z, heads a kv head, T, width), Z = Q · rows · kv heads."""
        return self._padded(x).unflatten(2, (self.heads, -1)).permute(0, 2, 3, 1, 4).flatten(0, 1).contiguous()

    def back(self, values: Tensor) -> Tensor:
        """(tokens, heads, width) of (Z, heads a kv head, T, width)."""
        lines = values.unflatten(0, (-1, self.heads)).permute(0, 3, 1, 2, 4)
        return lines.flatten(0, 1).flatten(1, 2)[self.to]

    def of_prompt(self, gradient: Tensor) -> Tensor:
        """(Q · kv heads, P, width): the prompt's part of a gradient by keys or values, summed over a group's rows."""
        part = gradient[:, : self.prompt].unflatten(0, (self.questions, self.rows, self.heads))
        return part.sum(1).flatten(0, 1)

    def _for_all(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (self.questions, 1, self.heads)).expand(-1, self.rows, -1, -1, -1).flatten(0, 2)

    def _own(self, x: Tensor) -> Tensor:
        """(Z, T, width)."""
        return self._padded(x).transpose(1, 2).flatten(0, 1)

    def _padded(self, x: Tensor) -> Tensor:
        """(Q · rows, T, heads, width)."""
        lines = self.questions * self.rows
        return _pad(x, self.tokens, self.to, lines * self.width).unflatten(0, (lines, self.width))


def _parts(q: Tensor, k: Tensor, v: Tensor, bucket: Bucket) -> list[_Part]:
    """Prompts, then completions if there are any tokens of them."""
    return [_Part(q, k, v, bucket, completions) for completions in (False, True)[: 1 + (len(bucket.own) > 0)]]


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
    gq, gk, gv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, q.shape[2], BLOCK):
        piece = q[:, :, first : first + BLOCK]
        end = before + first + piece.shape[2]
        probs, pull = _probabilities(piece, k[:, :end], beyond), g[:, :, first : first + BLOCK].flatten(1, 2)
        gv[:, :end].baddbmm_(probs.transpose(1, 2), pull)
        slope = torch.bmm(pull, v[:, :end].transpose(1, 2))
        slope = torch.ops.aten._softmax_backward_data(slope, probs, -1, probs.dtype)
        gq[:, :, first : first + BLOCK] = torch.bmm(slope, k[:, :end]).unflatten(1, piece.shape[1:3])
        gk[:, :end].baddbmm_(slope.transpose(1, 2), piece.flatten(1, 2))
    return gq, gk, gv
