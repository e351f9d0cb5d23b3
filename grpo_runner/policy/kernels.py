"""The differentiable pieces of a Llama-like layer over a frozen base, each with its backward pass written out.

They compute what transformers' and PEFT's modules compute, and keep less for the backward pass: no copy of a product
whose factors are kept, no gradient of a frozen weight, no padding. `tests/policy/test_kernels.py` holds each against
autograd on the plain formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..sizes import CHUNK
from .decoder import Projection

Grads = tuple[Tensor | None, ...]


def add_norm(x: Tensor, delta: Tensor | None, norm: Any) -> tuple[Tensor, Tensor]:
    """(x + delta, RMSNorm(x + delta)), (M, hidden) each (Zhang & Sennrich 2019, eq. 4). delta None stands for 0."""
    weight = norm.weight
    if weight.requires_grad:
        total = x if delta is None else x + delta
        return total, norm(total)
    return _AddNorm.apply(x, delta, weight, norm.variance_epsilon)


def rms(x: Tensor, norm: Any) -> Tensor:
    """RMSNorm over the last axis."""
    return add_norm(x, None, norm)[1]


def linears(x: Tensor, projections: Sequence[Projection]) -> list[Tensor]:
    """The outputs of several projections of the same x (M, in), each (M, out)."""
    if any(p.weight is None for p in projections):
        return [p.module(x) if p.module is not None else linears(x, [p])[0] for p in projections]
    scales = tuple(p.scale for p in projections)
    return list(_Linears.apply(x, scales, *(tensor for p in projections for tensor in p[:4])))


def swiglu_down(gate: Tensor, up: Tensor, down: Projection) -> Tensor:
    """down(silu(gate) · up) (Shazeer 2020, eq. 6). The product is made again in the backward pass, not kept."""
    if down.weight is None:
        assert down.module is not None
        return down.module(F.silu(gate) * up)
    return _SwigluDown.apply(gate, up, down.scale, *down[:4])


def rotate_half(x: Tensor) -> Tensor:
    """(-second half, first half) of the last axis: with cos and sin, a rotation of pairs (RoFormer, eq. 34)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def token_logprobs(
    hidden: Tensor, head: nn.Linear, targets: Tensor, temperature: float, entropy: bool, chunk: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """((R,) log-probabilities of `targets`, (R,) entropies in nats or None), float32, from hidden states (R, hidden).

    Logits are made for a chunk of tokens at a time, `chunk` numbers at most (None: CHUNK), so that (R, V) never exists.
    Over a frozen head the derivative of each log-probability by its own hidden state is made in the same pass, since it
    is a vector of the hidden state's size; nothing is computed again. A trained head is recomputed chunk by chunk.
    """
    size = max(1, (chunk or CHUNK.get(hidden.device.type, 2**22)) // head.weight.shape[0])
    if head.weight.requires_grad and torch.is_grad_enabled():
        from torch.utils.checkpoint import checkpoint

        parts = [
            checkpoint(_plain_head, *part, head, temperature, entropy, use_reentrant=False)
            for part in zip(hidden.split(size), targets.split(size), strict=True)
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies) if entropy else None
    found = _Head.apply(hidden, head.weight, targets, temperature, entropy, size)
    return found if entropy else (found[0], None)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        total = x.view_as(x) if delta is None else x + delta
        wide = total.to(_wide(total))
        rstd = torch.linalg.vecdot(wide, wide).div_(total.shape[-1]).add_(eps).rsqrt_().unsqueeze(-1)
        ctx.save_for_backward(total, rstd, weight)
        return total, (wide * rstd).to(total.dtype) * weight

    @staticmethod
    def backward(ctx: Any, g_total: Tensor, g_normed: Tensor) -> Grads:
        total, rstd, weight = ctx.saved_tensors
        wide = total.to(_wide(total))
        g = (g_normed * weight).to(wide.dtype)
        pull = torch.linalg.vecdot(g, wide).unsqueeze(-1) * rstd.square() / total.shape[-1]
        g = g.addcmul_(wide, pull, value=-1).mul_(rstd).add_(g_total).to(total.dtype)
        return g, (g if ctx.needs_input_grad[1] else None), None, None


class _Linears(torch.autograd.Function):
    """tensors: weight, bias, A, B of each projection."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scales: tuple[float, ...], *tensors: Tensor | None) -> tuple[Tensor, ...]:
        outputs, inner = [], []
        for scale, (weight, bias, A, B) in zip(scales, _fours(tensors), strict=True):
            assert weight is not None
            y = F.linear(x, weight, bias)
            t = None
            if A is not None and B is not None:
                t = F.linear(x, A.to(x.dtype))
                y.addmm_(t, B.to(x.dtype).t(), alpha=scale)
            outputs.append(y)
            inner.append(t)
        ctx.scales = scales
        ctx.save_for_backward(x if any(t is not None for t in inner) else None, *inner, *tensors)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Grads:
        x, *rest = ctx.saved_tensors
        inner, tensors = rest[: len(gradients)], rest[len(gradients) :]
        gx: Tensor | None = None
        found: list[Tensor | None] = []
        for g, scale, t, (weight, _, A, B) in zip(gradients, ctx.scales, inner, _fours(tensors), strict=True):
            gA, gB, gt = _adapter_gradients(g, x, t, A, B, scale)
            assert weight is not None
            if ctx.needs_input_grad[0]:
                gx = g @ weight if gx is None else gx.addmm_(g, weight)
                if gt is not None and A is not None:
                    gx.addmm_(gt, A.to(g.dtype))
            found += [None, None, gA, gB]
        return gx, None, *found


class _SwigluDown(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gate: Tensor,
        up: Tensor,
        scale: float,
        weight: Tensor,
        bias: Tensor | None,
        A: Tensor | None,
        B: Tensor | None,
    ) -> Tensor:
        h = F.silu(gate).mul_(up)
        y, t = F.linear(h, weight, bias), None
        if A is not None and B is not None:
            t = F.linear(h, A.to(h.dtype))
            y.addmm_(t, B.to(h.dtype).t(), alpha=scale)
        ctx.scale = scale
        ctx.save_for_backward(gate, up, t, weight, A, B)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Grads:
        (g,) = gradients
        gate, up, t, weight, A, B = ctx.saved_tensors
        silu = F.silu(gate)
        gA, gB, gt = _adapter_gradients(g, silu * up if A is not None else None, t, A, B, ctx.scale)
        gh = g @ weight
        if gt is not None:
            gh.addmm_(gt, A.to(g.dtype))
        g_up = silu.mul_(gh)
        g_gate = torch.ops.aten.silu_backward(gh.mul_(up), gate)
        return g_gate, g_up, None, None, None, gA, gB


def _adapter_gradients(
    g: Tensor, x: Tensor | None, t: Tensor | None, A: Tensor | None, B: Tensor | None, scale: float
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Of y = … + scale · t Bᵀ, t = x Aᵀ: by A, by B, and by t."""
    if A is None or B is None or t is None or x is None:
        return None, None, None
    gt = (g @ B.to(g.dtype)).mul_(scale)
    return (gt.t() @ x).to(A.dtype), (g.t() @ t).mul_(scale).to(B.dtype), gt


class _Head(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float, entropy: bool, size: int
    ) -> tuple[Tensor, ...]:
        wide = _wide(hidden)
        count = len(hidden)
        logprobs, entropies = (hidden.new_empty(count, dtype=wide) for _ in range(2))
        slopes = (
            [hidden.new_empty(hidden.shape, dtype=wide) for _ in range(1 + entropy)] if ctx.needs_input_grad[0] else []
        )
        for first in range(0, count, size):
            at = slice(first, first + size)
            logits = F.linear(hidden[at], weight)
            if temperature != 1.0:
                logits = logits.to(wide).div_(temperature)
            logs = torch.log_softmax(logits.to(wide), dim=1)  # in two steps: in one it is slow for bf16 on CPUs
            logprobs[at] = logs.gather(1, targets[at, None]).squeeze(1)
            if not slopes and not entropy:
                continue
            probs = logs.exp()
            if slopes:
                mean = probs.to(weight.dtype) @ weight
                slopes[0][at] = (weight[targets[at]].to(wide) - mean).div_(temperature)
            if entropy:
                # 0 · -inf: a vocabulary entry that a model rules out adds nothing, to the gradient neither
                logs.masked_fill_(logs.isneginf(), 0.0)
                entropies[at] = -torch.linalg.vecdot(probs, logs)
                if slopes:
                    pull = probs.mul_(logs.add_(entropies[at, None])).to(weight.dtype)
                    slopes[1][at] = (pull @ weight).to(wide).div_(-temperature)
        ctx.save_for_backward(*slopes)
        ctx.dtype = hidden.dtype
        return (logprobs, entropies) if entropy else (logprobs,)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Grads:
        g = sum(slope * gradient[:, None] for slope, gradient in zip(ctx.saved_tensors, gradients, strict=True))
        assert isinstance(g, Tensor)
        return g.to(ctx.dtype), None, None, None, None, None


def _plain_head(
    hidden: Tensor, targets: Tensor, head: nn.Linear, temperature: float, entropy: bool
) -> tuple[Tensor, Tensor | None]:
    logits = head(hidden)
    logs = torch.log_softmax(logits.to(_wide(logits)) / temperature, dim=1)
    # 0 · -inf, as above
    spread = -(logs.exp() * logs.masked_fill(logs.isneginf(), 0.0)).sum(dim=1) if entropy else None
    return logs.gather(1, targets[:, None]).squeeze(1), spread


def _fours(tensors: Sequence[Tensor | None]) -> list[tuple[Tensor | None, ...]]:
    return [tuple(tensors[start : start + 4]) for start in range(0, len(tensors), 4)]


def _wide(x: Tensor) -> torch.dtype:
    """float32 at least, as transformers' norms and the log-probabilities are computed."""
    return torch.promote_types(x.dtype, torch.float32)
