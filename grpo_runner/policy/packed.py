"""Log-probabilities from packed rows: no padding, each group's prompt once, the head at the completions alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

from .attention import Attention, Bucket, blocks, fused
from .batch import Batch
from .decoder import Decoder, Layer, Shape
from .kernels import add_norm, linears, rms, rotate_half, swiglu_down, token_logprobs
from .shards import enter, leave

# Padded places for a token, at most, where groups are attended to together: many small products cost more than that.
WASTE = 1.5


@dataclass(frozen=True)
class Packed:
    """Rows of a rollout as one line of M tokens: for each group its prompt, then its completions without their ends.

    The last token of a completion predicts nothing that was sampled, and is left out. ids, positions: (M,).
    sources: (R,) which of the M predicts each sampled token; targets: (R,) those tokens; lines, columns: (R,) their
    places in (B, T). kept: (K,) the tokens whose hidden state is used, sources without repetition; use: (R,) into kept.
    """

    ids: Tensor
    positions: Tensor
    buckets: tuple[Bucket, ...]
    kept: Tensor
    use: Tensor
    targets: Tensor
    lines: Tensor
    columns: Tensor
    shape: tuple[int, int]


def pack(batch: Batch, rows: Tensor, device: torch.device) -> Packed:
    """rows: in any order; a group whose rows are not next to each other has its prompt several times."""
    ids: list[Tensor] = []
    positions: list[Tensor] = []
    groups: list[tuple[int, list[int]]] = []
    sources: list[Tensor] = []
    at = 0
    for _, members in groupby(rows.tolist(), key=lambda row: int(batch.groups_N[row])):
        group = list(members)
        prompt, lengths = batch.prompts[group[0]], [len(batch.completions[row]) - 1 for row in group]
        groups.append((len(prompt), lengths))
        ids.append(prompt)
        positions.append(torch.arange(len(prompt)))
        last, at = at + len(prompt) - 1, at + len(prompt)
        for row, length in zip(group, lengths, strict=True):
            ids.append(batch.completions[row][:-1])
            positions.append(torch.arange(len(prompt), len(prompt) + length))
            sources.append(torch.cat([torch.tensor([last]), torch.arange(at, at + length)]))
            at += length
    lengths_B = [len(source) for source in sources]
    kept, use = torch.cat(sources).unique(return_inverse=True)
    parts = (
        torch.cat(ids),
        torch.cat(positions),
        kept,
        use,
        torch.cat([batch.completions[row] for row in rows.tolist()]),
        torch.arange(len(sources)).repeat_interleave(torch.tensor(lengths_B)),
        torch.cat([torch.arange(length) for length in lengths_B]),
    )
    ids_M, positions_M, kept, use, targets, lines, columns = (part.to(device) for part in parts)
    shape = (len(sources), max(lengths_B))
    return Packed(ids_M, positions_M, buckets(groups, device), kept, use, targets, lines, columns, shape)


def buckets(groups: Sequence[tuple[int, list[int]]], device: torch.device) -> tuple[Bucket, ...]:
    """Groups, each as (tokens of its prompt, tokens of each completion), in the order in which they lie packed.

    On a CPU, neighbours go into one bucket while padding adds less than half to them; on a GPU each has its own.
    """
    made: list[Bucket] = []
    members: list[tuple[int, list[int]]] = []
    at = 0
    for group in [*groups, None]:
        more = [*members, group] if group is not None else members
        if group is None or (members and (device.type != "cpu" or _padded(more) > WASTE * _tokens(more))):
            made.append(_bucket(at, members, device))
            at, members = at + _tokens(members), []
        if group is not None:
            members.append(group)
    return tuple(made)


def _tokens(members: Sequence[tuple[int, list[int]]]) -> int:
    return sum(prompt + sum(lengths) for prompt, lengths in members)


def _size(members: Sequence[tuple[int, list[int]]]) -> tuple[int, int, int, int]:
    """Q, P, G and T."""
    longest = max(max(lengths, default=0) for _, lengths in members)
    return len(members), max(prompt for prompt, _ in members), max(len(lengths) for _, lengths in members), longest


def _padded(members: Sequence[tuple[int, list[int]]]) -> int:
    questions, prompt, rows, width = _size(members)
    return questions * (prompt + rows * width)


def _bucket(at: int, members: Sequence[tuple[int, list[int]]], device: torch.device) -> Bucket:
    size = _size(members)
    _, longest, rows, width = size
    prompt, own, prompt_to, own_to = [], [], [], []
    for line, (length, lengths) in enumerate(members):
        prompt.append(torch.arange(at, at + length))
        prompt_to.append(torch.arange((line + 1) * longest - length, (line + 1) * longest))
        at += length
        for row, tokens in enumerate(lengths):
            own.append(torch.arange(at, at + tokens))
            own_to.append(torch.arange(tokens) + (line * rows + row) * width)
            at += tokens
    starts = torch.tensor([longest - length for length, _ in members])
    beyond = (torch.arange(longest) < starts[:, None]).to(device) if starts.any() else None
    empty = [torch.zeros(0, dtype=torch.long)]
    at_prompt, at_own, to_prompt, to_own = (
        torch.cat(part or empty).to(device) for part in (prompt, own, prompt_to, own_to)
    )
    return Bucket(size, at_prompt, at_own, to_prompt, to_own, beyond)


def packed_logprobs(
    decoder: Decoder, packed: Packed, temperature: float, entropy: bool
) -> tuple[Tensor, Tensor | None]:
    """((B, T) log-probabilities, (B, T) entropies in nats or None), float32, 0 where a row has no token."""
    hidden = _states(decoder, packed)[packed.use]
    logprobs, entropies = token_logprobs(hidden, decoder.head, packed.targets, temperature, entropy)
    return _unpacked(packed, logprobs), None if entropies is None else _unpacked(packed, entropies)


def packed_values(decoder: Decoder, packed: Packed, head: nn.Linear) -> Tensor:
    """(B, T) a linear head at the state before each token, in the head's precision, 0 where a row has no token."""
    states = _states(decoder, packed).to(head.weight.dtype)
    values: Tensor = head(states).squeeze(1)
    return _unpacked(packed, values[packed.use])


def _states(decoder: Decoder, packed: Packed) -> Tensor:
    """(K, hidden) of the tokens that are kept, after the last norm."""
    hidden = forward(decoder, decoder.layers(), packed.ids, packed.positions, packed.buckets)
    return rms(hidden[packed.kept], decoder.body.norm)


def _unpacked(packed: Packed, values: Tensor) -> Tensor:
    """(B, T) of (R,) values of the sampled tokens."""
    return values.new_zeros(packed.shape).index_put((packed.lines, packed.columns), values)


def forward(
    decoder: Decoder,
    layers: Collection[Layer],
    ids: Tensor,
    positions: Tensor,
    buckets: Sequence[Bucket],
    keep: list[tuple[Tensor, Tensor]] | None = None,
    attend: Attention | None = None,
) -> Tensor:
    """(M, hidden) before the last norm. keep: takes each layer's keys (rotated) and values, (M, kv heads, width)."""
    x = decoder.embed(ids)
    cos, sin = decoder.rotary(positions, x)
    attend = attend or (blocks if x.device.type == "cpu" else fused)
    for number, layer in enumerate(layers):
        x = enter(layers, number, x)
        if decoder.checkpointing and torch.is_grad_enabled():
            from torch.utils.checkpoint import checkpoint

            x = checkpoint(_layer, x, layer, decoder.shape, cos, sin, buckets, attend, keep, use_reentrant=False)
        else:
            x = _layer(x, layer, decoder.shape, cos, sin, buckets, attend, keep)
        x = leave(layers, number, x)
    return x


def _layer(
    x: Tensor,
    layer: Layer,
    shape: Shape,
    cos: Tensor,
    sin: Tensor,
    buckets: Sequence[Bucket],
    attend: Attention,
    keep: list[tuple[Tensor, Tensor]] | None,
) -> Tensor:
    x, normed = add_norm(x, None, layer.input_norm)
    q, k, v = heads(linears(normed, layer.qkv), layer, shape)
    if keep is not None:
        keep.append((rotate(k, cos, sin), v))
    attended = attend(q, k, v, cos, sin, buckets).flatten(1)
    (delta,) = linears(attended, [layer.output])
    x, normed = add_norm(x, delta, layer.post_norm)
    gate, up = halves(linears(normed, layer.gate_up))
    return x + swiglu_down(gate, up, layer.down)


def heads(outputs: Sequence[Tensor], layer: Layer, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v as (M, heads, width), normed where the model does so."""
    parts = outputs[0].split(shape.splits, dim=-1) if len(outputs) == 1 else outputs
    q, k, v = (part.unflatten(-1, (-1, shape.width)) for part in parts)
    return (
        rms(q, layer.q_norm) if layer.q_norm is not None else q,
        rms(k, layer.k_norm) if layer.k_norm is not None else k,
        v,
    )


def halves(outputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """gate and up."""
    return outputs[0].chunk(2, dim=-1) if len(outputs) == 1 else outputs


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of (M, heads, width) by cos and sin (M, width)."""
    return x * cos[:, None] + rotate_half(x) * sin[:, None]
