"""The written-out backward passes against autograd on the plain formulas, and packed attention against plain attention.

Each gradient is also asked for with something left out or changed, which must be seen.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from grpo_runner.policy import attention
from grpo_runner.policy.attention import blocks, fused
from grpo_runner.policy.decoder import Projection
from grpo_runner.policy.kernels import add_norm, linears, rms, rotate_half, swiglu_down, token_logprobs
from grpo_runner.policy.packed import buckets

CPU = torch.device("cpu")
TIGHT = {"rtol": 1e-10, "atol": 1e-12}


def draw(*size, seed=0, grad=False):
    found = torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return found.requires_grad_(grad)


def gradients(outputs, inputs, seed=99):
    """Of Σ output · fixed random numbers, so that no element of the outputs can hide."""
    total = sum((output * draw(*output.shape, seed=seed + n)).sum() for n, output in enumerate(outputs))
    return torch.autograd.grad(total, inputs, retain_graph=True)


def assert_same(ours, plain, inputs, **tolerance):
    """Outputs and gradients of two ways to compute the same."""
    for mine, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, other, **(tolerance or TIGHT))
    for mine, other in zip(gradients(ours, inputs), gradients(plain, inputs), strict=True):
        torch.testing.assert_close(mine, other, **(tolerance or TIGHT))


def differs(ours, wrong, inputs):
    """Negative control: some gradient is off by far more than the tolerance."""
    pairs = zip(gradients(ours, inputs), gradients(wrong, inputs), strict=True)
    return any((mine - other).abs().max() > 1e-3 for mine, other in pairs)


# ---- norms


class Norm(nn.Module):
    """RMSNorm as transformers writes it, in the type of its input."""

    def __init__(self, size, trained=False):
        super().__init__()
        self.weight = nn.Parameter(draw(size, seed=7), requires_grad=trained)
        self.variance_epsilon = 1e-3

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("with_delta", [False, True])
def test_add_norm(with_delta, trained):
    x, delta, norm = draw(5, 6, grad=True), draw(5, 6, seed=1, grad=True), Norm(6, trained)
    inputs = [x, *([delta] if with_delta else []), *([norm.weight] if trained else [])]
    total = x + delta if with_delta else x
    ours, plain = add_norm(x, delta if with_delta else None, norm), (total + 0, norm(total))
    assert_same(ours, plain, inputs)
    torch.autograd.gradcheck(lambda *given: add_norm(given[0], given[1] if with_delta else None, norm), tuple(inputs))
    assert differs(ours, (total.detach(), plain[1]), inputs)  # the sum's own gradient left out is seen
    scale = torch.rsqrt(total.detach().pow(2).mean(-1, keepdim=True) + 1e-3)
    assert differs(ours, (total + 0, norm.weight * total * scale), inputs)  # so is the norm's


def test_add_norm_of_a_delta_alone():
    """The hidden state of the embeddings needs no gradient; what a layer adds to it does."""
    x, delta, norm = draw(5, 6), draw(5, 6, seed=1, grad=True), Norm(6)
    assert_same(add_norm(x, delta, norm), (x + delta, norm(x + delta)), [delta])
    torch.testing.assert_close(rms(draw(2, 3, 6), norm), norm(draw(2, 3, 6)), **TIGHT)  # any number of axes


# ---- linear maps


def projection(seed, inputs=6, outputs=5, bias=False, adapter=True, scale=0.7):
    A, B = (
        (draw(2, inputs, seed=seed + 2, grad=True), draw(outputs, 2, seed=seed + 3, grad=True))
        if adapter
        else 2 * (None,)
    )
    return Projection(draw(outputs, inputs, seed=seed), draw(outputs, seed=seed + 1) if bias else None, A, B, scale)


def plainly(x, p, scale=None):
    """x Wᵀ + b + scale · (x Aᵀ) Bᵀ."""
    y = x @ p.weight.T + (0 if p.bias is None else p.bias)
    return y if p.A is None else y + (p.scale if scale is None else scale) * (x @ p.A.T @ p.B.T)


def adapters(projections):
    return [tensor for p in projections for tensor in (p.A, p.B) if tensor is not None]


KINDS = {
    "q, k and v with biases": [
        {"bias": True},
        {"bias": True, "outputs": 3},
        {"bias": True, "outputs": 3, "scale": 2.0},
    ],
    "q and v alone": [{}, {"adapter": False, "outputs": 3}, {"outputs": 3}],
    "no adapter": [{"adapter": False}, {"adapter": False, "bias": True}],
    "one": [{}],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("needs_x", [True, False])
def test_linears(kind, needs_x):
    x = draw(4, 6, grad=needs_x)
    projections = [projection(10 * n, **options) for n, options in enumerate(KINDS[kind])]
    inputs = [*([x] if needs_x else []), *adapters(projections)]
    ours, plain = linears(x, projections), [plainly(x, p) for p in projections]
    if not inputs:  # nothing is trained below: outputs alone
        torch.testing.assert_close(ours, plain, **TIGHT)
        assert not any(y.requires_grad for y in ours)
        return
    trained = [n for n, y in enumerate(plain) if y.requires_grad]
    ours, plain = [linears(x, projections)[n] for n in trained], [plain[n] for n in trained]
    assert_same(ours, plain, inputs)
    if adapters(projections):
        wrong = [plainly(x, projections[n], scale=1.0) for n in trained]
        assert differs(ours, wrong, inputs)  # a scale left out is seen


def test_linears_by_gradcheck():
    x, (p, q) = draw(4, 6, grad=True), (projection(0, bias=True), projection(10, outputs=3))

    def run(x, *abs_):
        return tuple(linears(x, [p._replace(A=abs_[0], B=abs_[1]), q._replace(A=abs_[2], B=abs_[3])]))

    torch.autograd.gradcheck(run, (x, *adapters([p, q])))


def test_an_adapter_in_float32_beside_a_base_in_bfloat16():
    """Its gradient has its own type, and is the plain one up to bf16's rounding."""
    x = draw(64, 32, grad=True).bfloat16().detach().requires_grad_()
    p = projection(0, 32, 16)
    narrow = Projection(p.weight.bfloat16(), None, *(t.detach().float().requires_grad_() for t in (p.A, p.B)), p.scale)
    wide = Projection(
        narrow.weight.double(), None, *(t.detach().double().requires_grad_() for t in (narrow.A, narrow.B)), p.scale
    )
    (y,) = linears(x, [narrow])
    other = x.detach().double().requires_grad_()
    found = torch.autograd.grad(y.double().square().sum(), [x, narrow.A, narrow.B])
    plain = torch.autograd.grad(plainly(other, wide).square().sum(), [other, wide.A, wide.B])
    assert [value.dtype for value in found] == [torch.bfloat16, torch.float32, torch.float32]
    for mine, reference in zip(found, plain, strict=True):
        assert (mine.double() - reference).norm() < 0.02 * reference.norm()


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"adapter": False}])
def test_swiglu_down(options):
    gate, up, down = draw(4, 6, grad=True), draw(4, 6, seed=1, grad=True), projection(20, **options)
    inputs = [gate, up, *adapters([down])]
    ours, plain = [swiglu_down(gate, up, down)], [plainly(gate * torch.sigmoid(gate) * up, down)]
    assert_same(ours, plain, inputs)
    torch.autograd.gradcheck(
        lambda gate, up, *ab: swiglu_down(gate, up, down._replace(A=ab[0], B=ab[1]) if ab else down), tuple(inputs)
    )
    wrong = [plainly(gate * torch.sigmoid(gate).detach() * up, down)]
    assert differs(ours, wrong, inputs)  # a silu whose sigmoid is taken as constant is seen
    if down.A is not None:
        assert differs(ours, [plainly(F.silu(gate) * up, down, scale=1.0)], inputs)


# ---- the head


def plain_head(hidden, weight, targets, temperature):
    """(log-probabilities, entropies), with 0 · -inf left out by leaving out those entries of the vocabulary."""
    logits = hidden @ weight.T / temperature
    logprobs = logits.gather(1, targets[:, None]).squeeze(1) - logits.exp().sum(1).log()
    probs = logits.exp() / logits.exp().sum(1, keepdim=True)
    return logprobs, -(probs * (logits - logits.exp().sum(1, keepdim=True).log())).sum(1)


@pytest.mark.parametrize("chunk", [1, 30, 2**22])  # one token at a time, two, all
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("trained", [False, True])
def test_token_logprobs(trained, temperature, chunk):
    hidden, head = draw(7, 6, grad=True), nn.Linear(6, 13, bias=False).double()
    head.weight = nn.Parameter(draw(13, 6, seed=3), requires_grad=trained)
    targets, inputs = torch.tensor([0, 12, 5, 5, 1, 7, 3]), [hidden, *([head.weight] if trained else [])]
    plain = plain_head(hidden, head.weight, targets, temperature)
    ours = token_logprobs(hidden, head, targets, temperature, True, chunk)
    assert_same(ours, plain, inputs)
    alone = token_logprobs(hidden, head, targets, temperature, False, chunk)
    assert alone[1] is None
    assert_same(alone[:1], plain[:1], inputs)
    assert differs(ours, plain_head(hidden, head.weight, targets, temperature + 0.1), inputs)
    assert differs(ours, (plain[0], plain[1].detach()), inputs)  # the entropy's gradient left out
    with torch.no_grad():
        torch.testing.assert_close(token_logprobs(hidden, head, targets, temperature, True, chunk), plain, **TIGHT)


def test_token_logprobs_by_gradcheck():
    head, targets = nn.Linear(6, 13, bias=False).double().requires_grad_(False), torch.tensor([0, 12, 5])
    torch.autograd.gradcheck(lambda x: token_logprobs(x, head, targets, 0.6, True, 26), (draw(3, 6, grad=True),))


@pytest.mark.parametrize("trained", [False, True])
def test_entries_that_a_model_rules_out(trained):
    """Logits of -inf: log-probabilities, entropies and gradients are those of the vocabulary without those entries."""
    hidden, head = draw(4, 6).abs().requires_grad_(), nn.Linear(6, 13, bias=False).double()
    weight, open_ = draw(13, 6, seed=3), torch.ones(13, dtype=torch.bool)
    head.weight = nn.Parameter(weight, requires_grad=trained)
    # as a very negative but finite weight: 0 · inf in weight sums would be NaN for any way to compute it
    head.weight.data[4], open_[4] = -1e300, False
    targets = torch.tensor([0, 12, 5, 1])
    kept = (open_.cumsum(0) - 1)[targets]
    plain = plain_head(hidden, weight[open_], kept, 1.0)
    found = token_logprobs(hidden * 1e10, head, targets, 1e10, True)  # logits of entry 4 overflow to -inf
    assert torch.isinf(hidden * 1e10 @ head.weight.T)[:, 4].all()
    torch.testing.assert_close(found, plain, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients(found, [hidden]), gradients(plain, [hidden]), rtol=1e-8, atol=1e-8)


# ---- attention


def turned(x, cos, sin):
    return x * cos[:, None] + rotate_half(x) * sin[:, None]


def plain_attention(q, k, v, cos, sin, groups):
    """(M, heads, width): each row's prompt and completion by themselves, as one causal sequence, head by head."""
    q, k = turned(q, cos, sin), turned(k, cos, sin)
    made, at = [], 0
    for prompt, lengths in groups:
        start, at = at, at + prompt
        for length in [None, *lengths]:  # None: the prompt's own outputs
            places = [*range(start, start + prompt), *range(at, at + (length or 0))]
            made.append(torch.stack([one_head(q, k, v, places, head) for head in range(q.shape[1])], dim=1))
            made[-1] = made[-1] if length is None else made[-1][prompt:]
            at += length or 0
    return torch.cat(made)


def one_head(q, k, v, places, head):
    """(T, width) of the tokens at `places`."""
    kv = head * k.shape[1] // q.shape[1]
    scores = q[places, head] @ k[places, kv].T / math.sqrt(q.shape[2])
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(1) @ v[places, kv]


def positions_of(groups):
    return torch.cat(
        [torch.cat([torch.arange(p), *(torch.arange(p, p + t) for t in lengths)]) for p, lengths in groups]
    )


def tensors(groups, heads=4, kv_heads=2, width=6):
    """q, k, v with gradient, cos and sin by position."""
    total = sum(p + sum(lengths) for p, lengths in groups)
    q, k, v = (draw(total, count, width, seed=n, grad=True) for n, count in enumerate((heads, kv_heads, kv_heads)))
    angles = positions_of(groups)[:, None] * torch.tensor([1.0, 0.3, 0.05] * 2, dtype=torch.float64)
    return (q, k, v), angles.cos(), angles.sin()


GROUPS = {
    "ragged": [(5, [3, 0, 7, 1])],
    "level": [(4, [5, 5, 5])],
    "one row": [(6, [9])],
    "a prompt of one token": [(1, [4, 2])],
    "completions of one token": [(4, [0, 0, 0])],
    "prompts alone": [(4, []), (2, []), (7, [])],
    "several groups": [(5, [3, 0, 7]), (2, [6, 6]), (9, [0]), (1, [1, 5, 2]), (4, [0, 0])],
    "groups in one bucket": [(5, [3, 4, 4]), (4, [4, 3]), (3, [4, 4, 4, 1]), (5, [4, 0, 4])],
    "a short group beside a long one": [(1, [1]), (12, [11, 10])],
}


@pytest.mark.parametrize("block", [3, 256])
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_blocks_and_fused_are_causal_attention_of_each_row(groups, kv_heads, block, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", block)
    inputs, cos, sin = tensors(groups, kv_heads=kv_heads)
    plain = plain_attention(*inputs, cos, sin, groups)
    assert_same([blocks(*inputs, cos, sin, buckets(groups, CPU))], [plain], inputs)
    alone = one_each(groups)
    assert_same([fused(*inputs, cos, sin, alone)], [plain], inputs)
    assert_same([blocks(*inputs, cos, sin, alone)], [plain], inputs)


def one_each(groups):
    """Each group in a bucket of its own, as on a GPU, with its tensors on the CPU."""
    found, at = [], 0
    for group in groups:
        (bucket,) = buckets([group], CPU)
        found.append(
            bucket.__class__(
                bucket.size, bucket.prompt + at, bucket.own + at, bucket.prompt_to, bucket.own_to, bucket.beyond
            )
        )
        at += group[0] + sum(group[1])
    return found


def test_buckets_of_one_and_of_several_groups_are_both_tried():
    """Of the cases above: groups that share a bucket, with padding in prompts and rows, and groups that do not."""
    (together,) = buckets(GROUPS["groups in one bucket"], CPU)
    assert together.size == (4, 5, 4, 4) and together.beyond is not None
    assert len(buckets(GROUPS["a short group beside a long one"], CPU)) == 2
    assert len(buckets(GROUPS["groups in one bucket"], torch.device("meta"))) == 4  # as on a GPU


@pytest.mark.parametrize("attend", [blocks, fused])
def test_attention_without_positions_or_beyond_its_row_would_be_seen(attend):
    groups = GROUPS["ragged"]
    inputs, cos, sin = tensors(groups)
    plain = plain_attention(*inputs, cos, sin, groups)
    ours = attend(*inputs, torch.ones_like(cos), torch.zeros_like(sin), one_each(groups))
    assert differs([plain], [ours], inputs)
    shifted = [(4, [4, 0, 7, 1])]  # a token of the prompt counted to the first row
    assert differs([plain], [attend(*inputs, cos, sin, one_each(shifted))], inputs)


@pytest.mark.parametrize("attend", [blocks, fused])
def test_a_group_split_over_pieces_attends_as_a_whole_one(attend):
    """The prompt comes with each piece; its gradients add up, and the rows' are the same."""
    whole, pieces = [(5, [3, 4, 7, 1])], [(5, [3, 4]), (5, [7, 1])]
    inputs, cos, sin = tensors(whole)
    places = [*range(5), *range(5, 12), *range(5), *range(12, 20)]
    weights = draw(20, 4, 6, seed=5)
    weights[:5] = 0  # what the prompt's own outputs are used for is counted once in either
    split = attend(*(x[places] for x in inputs), cos[places], sin[places], one_each(pieces))
    together = attend(*inputs, cos, sin, one_each(whole))
    torch.testing.assert_close(split[5:12], together[5:12], **TIGHT)
    torch.testing.assert_close(split[17:], together[12:], **TIGHT)
    ours = torch.autograd.grad((split * weights[places]).sum(), inputs)
    torch.testing.assert_close(ours, torch.autograd.grad((together * weights).sum(), inputs), **TIGHT)


def test_attention_in_bfloat16_is_near():
    groups = GROUPS["several groups"]
    inputs, cos, sin = tensors(groups)
    plain = plain_attention(*inputs, cos, sin, groups)
    narrow = [x.detach().bfloat16().requires_grad_() for x in inputs]
    ours = blocks(*narrow, cos.bfloat16(), sin.bfloat16(), buckets(groups, CPU))
    assert ours.dtype is torch.bfloat16
    for mine, other in zip(gradients([ours.double()], narrow), gradients([plain], inputs), strict=True):
        assert (mine.double() - other).norm() < 0.05 * other.norm()
