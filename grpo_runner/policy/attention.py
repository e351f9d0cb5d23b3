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
class Span:
    """Where a group lies in the packed tokens: `prompt` tokens from `start`, then the completions one after the other.

    places: (tokens,) where each of the completions' tokens stands in the padded (G · T); None where all completions are
    equally long.
    """

    start: int
    prompt: int
    rows: int
    width: int
    tokens: int
    places: Tensor | None


Attention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Sequence[Span]], Tensor]


def blocks(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, spans: Sequence[Span]) -> Tensor:
    """(M, heads, width) from q (M, heads, width), k and v (M, kv heads, width), rotated by cos and sin (M, width)."""
    return _Blocks.apply(q, k, v, cos, sin, spans)


def fused(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, spans: Sequence[Span]) -> Tensor:
    """The same through scaled_dot_product_attention."""
    cos, sin = cos[:, None], sin[:, None]
    q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
    sizes = [size for span in spans for size in (span.prompt, span.tokens)]
    pieces = zip(q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
    outputs = []
    for span in spans:
        first, rest = next(pieces), next(pieces)
        outputs.append(_sdpa(*(x[None].transpose(1, 2) for x in first))[0])
        if span.tokens:
            own = [_pad(x, span.places, span.rows, span.width).transpose(1, 2) for x in rest]
            prompt = (x[None].transpose(1, 2) for x in first[1:])
            made = _sdpa(*own, *prompt).flatten(0, 1)
            outputs.append(made if span.places is None else made[span.places])
    return torch.cat(outputs)


def _pad(x: Tensor, places: Tensor | None, rows: int, width: int) -> Tensor:
    """(rows, T, heads, width) of packed (tokens, heads, width), 0 where a row has no token."""
    if places is not None:
        x = x.new_zeros(rows * width, *x.shape[1:]).index_copy(0, places, x)
    return x.view(rows, width, *x.shape[1:])


def _sdpa(q: Tensor, k: Tensor, v: Tensor, *prompt: Tensor) -> Tensor:
    """(rows, T, heads, width). prompt: keys and values that come before the own ones."""
    if prompt:
        k, v = (torch.cat([first.expand(len(x), -1, -1, -1), x], 2) for first, x in zip(prompt, (k, v), strict=True))
    mask = causal_lower_right(q.shape[2], k.shape[2])
    # the lower-right bias takes no grouped heads
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, spans: Sequence[Span]) -> Tensor:
        cos, sin, scale = cos[:, None], sin[:, None], q.shape[-1] ** -0.5
        ctx.types = (q.dtype, k.dtype)
        # under autocast norms give float32 beside values in bfloat16
        q = (q * cos).addcmul_(rotate_half(q), sin).mul_(scale).to(v.dtype)
        k = (k * cos).addcmul_(rotate_half(k), sin).to(v.dtype)
        ctx.save_for_backward(q, k, v, cos, sin)
        ctx.spans, ctx.scale = spans, scale
        out = torch.empty_like(q)
        for part, prefix in _parts(spans):
            _put(out, part, _forward(_queries(q, part, k.shape[1]), _keys(k, part, prefix), _keys(v, part, prefix)))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, cos, sin = ctx.saved_tensors
        (g,) = gradients
        gq, gk, gv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        # completions before their prompts, whose keys' gradients they add to
        for part, prefix in reversed(list(_parts(ctx.spans))):
            heads = k.shape[1]
            given = (_queries(q, part, heads), _keys(k, part, prefix), _keys(v, part, prefix))
            made = _backward(_queries(g, part, heads), *given)
            _put(gq, part, made[0])
            for target, found in ((gk, made[1]), (gv, made[2])):
                own = found[:, prefix:] if prefix else found
                if part.shared is not None:
                    _put(target, part, own.unsqueeze(1))
                    target[part.shared] = found[:, :prefix].unflatten(0, (part.rows, heads)).sum(0).transpose(0, 1)
                elif part.adds:
                    target[part.at] += own.transpose(0, 1)
                else:
                    _put(target, part, own.unsqueeze(1))
        gq = (gq * cos).sub_(rotate_half(gq) * sin).mul_(ctx.scale)
        gk = (gk * cos).sub_(rotate_half(gk) * sin)
        return gq.to(ctx.types[0]), gk.to(ctx.types[1]), gv, None, None, None


@dataclass(frozen=True)
class _Part:
    """A prompt, or the completions of a group: tokens `at`, as (rows, T). shared: the prompt's tokens before them."""

    at: slice
    rows: int
    width: int
    places: Tensor | None
    shared: slice | None
    adds: bool


def _parts(spans: Sequence[Span]) -> list[tuple[_Part, int]]:
    """Each with the number of tokens that its rows share before their own."""
    parts = []
    for span in spans:
        prompt = slice(span.start, span.start + span.prompt)
        parts.append((_Part(prompt, 1, span.prompt, None, None, span.tokens > 0), 0))
        if span.tokens:
            own = slice(prompt.stop, prompt.stop + span.tokens)
            parts.append((_Part(own, span.rows, span.width, span.places, prompt, False), span.prompt))
    return parts


def _padded(x: Tensor, part: _Part) -> Tensor:
    """(rows, T, heads, width)."""
    return _pad(x[part.at], part.places, part.rows, part.width)


def _queries(x: Tensor, part: _Part, kv_heads: int) -> Tensor:
    """(rows · kv heads, heads a kv head, T, width)."""
    split = _padded(x, part).unflatten(2, (kv_heads, -1))
    return split.permute(0, 2, 3, 1, 4).flatten(0, 1).contiguous()


def _keys(x: Tensor, part: _Part, prefix: int) -> Tensor:
    """(rows · kv heads, prefix + T, width)."""
    own = _padded(x, part).transpose(1, 2)
    if part.shared is not None:
        shared = x[part.shared].transpose(0, 1).expand(part.rows, -1, -1, -1)
        own = torch.cat([shared, own], dim=2)
    return own.flatten(0, 1)


def _put(target: Tensor, part: _Part, values: Tensor) -> None:
    """Write (rows · kv heads, heads a kv head, T, width) to its tokens."""
    made = values.unflatten(0, (part.rows, -1)).permute(0, 3, 1, 2, 4).flatten(0, 1).flatten(1, 2)
    target[part.at] = made if part.places is None else made[part.places]


def _probabilities(q: Tensor, k: Tensor) -> Tensor:
    """(Z, r · t, keys): of the last t of the positions that k covers."""
    keys, width = k.shape[1], q.shape[2]
    scores = torch.bmm(q.flatten(1, 2), k.transpose(1, 2))
    later = torch.full((width, width), -torch.inf, dtype=q.dtype, device=q.device).triu_(1)
    scores.unflatten(1, (-1, width))[..., keys - width :] += later
    return torch.softmax(scores, dim=-1)


def _forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q (Z, r, T, width), k and v (Z, S, width): query t sees the keys up to S - T + t."""
    before = k.shape[1] - q.shape[2]
    made = []
    for first in range(0, q.shape[2], BLOCK):
        piece = q[:, :, first : first + BLOCK]
        end = before + first + piece.shape[2]
        found = torch.bmm(_probabilities(piece, k[:, :end]), v[:, :end])
        made.append(found.unflatten(1, piece.shape[1:3]))
    return made[0] if len(made) == 1 else torch.cat(made, dim=2)


def _backward(g: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `_forward` by q, k and v, the probabilities made again."""
    before = k.shape[1] - q.shape[2]
    gq, gk, gv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, q.shape[2], BLOCK):
        piece = q[:, :, first : first + BLOCK]
        end = before + first + piece.shape[2]
        probs, pull = _probabilities(piece, k[:, :end]), g[:, :, first : first + BLOCK].flatten(1, 2)
        gv[:, :end].baddbmm_(probs.transpose(1, 2), pull)
        slope = torch.bmm(pull, v[:, :end].transpose(1, 2))
        slope = torch.ops.aten._softmax_backward_data(slope, probs, -1, probs.dtype)
        gq[:, :, first : first + BLOCK] = torch.bmm(slope, k[:, :end]).unflatten(1, piece.shape[1:3])
        gk[:, :end].baddbmm_(slope.transpose(1, 2), piece.flatten(1, 2))
    return gq, gk, gv
