"""The native engine against `generate`, in every way that rows come, wait, leave and share; and its draws."""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np
import pytest
import torch

from grpo_runner.rollout import NativeEngine, Sampling, TransformersEngine, decoding
from grpo_runner.rollout.engine import BLOCK, _searched, choose
from grpo_runner.types import Finish, Question
from tests.policy.families import MODELS, build, with_lora

native = importlib.import_module("grpo_runner.rollout.native")  # the package has a function of that name
SAMPLING = Sampling(temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=12, stop=(), seed=0, purpose="rollout", step=3)
GREEDY = dataclasses.replace(SAMPLING, temperature=0.0)
EOS = frozenset({2, 7, 11})
# ragged, one token alone, twice the same
PROMPTS = [(1, 5, 6, 7, 8), (1,), (1, 9), (1, 3, 4, 5, 6, 7, 8, 9, 10), (1, 9), (4, 4, 4), (1, 12)]
LEVEL = [(1, 5, 6), (1, 9, 3), (4, 4, 4), (1, 12, 8), (3, 3, 4)]


class Letters:
    """A tokenizer for random models: token i is the letter i, and `wide` tokens are several letters."""

    pad_token_id = 0

    def __init__(self, wide=None):
        self.wide = wide or {}

    def decode(self, ids, skip_special_tokens=True):
        return "".join(self.wide.get(i, chr(97 + i)) for i in ids if i > 2)


WORDS = Letters({5: "xyz", 6: "zzx"})


def model_of(name="llama"):
    return with_lora(build(name, torch.float32, initializer_range=0.15))


def ask(engine, prompts=PROMPTS, group_size=4, sampling=SAMPLING):
    return engine.sample([Question(str(i), "", "") for i in range(len(prompts))], prompts, group_size, sampling)


def both(model, prompts=PROMPTS, group_size=4, sampling=SAMPLING, rows=64, eos=EOS, merge=True, tokenizer=None):
    """(native, generate) answers of the same questions."""
    tokenizer = tokenizer or Letters()
    ours = NativeEngine(model, tokenizer, eos, rows, merge)
    return (ask(e, prompts, group_size, sampling) for e in (ours, TransformersEngine(model, tokenizer, eos, 64)))


def assert_same(found, expected, near=1e-4):
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert (mine.question, mine.prompt_ids) == (other.question, other.prompt_ids)
        for a, b in zip(mine.completions, other.completions, strict=True):
            assert (a.token_ids, a.text, a.finish) == (b.token_ids, b.text, b.finish)
            assert a.logprobs == pytest.approx(b.logprobs, abs=near)
            assert a.entropy == pytest.approx(b.entropy, abs=near)


def tokens(groups):
    return [answer.token_ids for group in groups for answer in group.completions]


@pytest.fixture
def seen(monkeypatch):
    """Each arrangement of the cache, as (rows kept, prompts of new groups); `even` of each step; each look for ends."""
    found = {"arranged": [], "even": [], "looks": []}
    arrange, step, look = decoding.Cache.arrange, decoding.Cache.step, native._Sampled._look

    def looked(sampled, lines, count):
        found["looks"].append(count)
        look(sampled, lines, count)

    def arranged(cache, kept, used, prompts, counts, old):
        found["arranged"].append((len(kept), len(prompts) - old))
        return arrange(cache, kept, used, prompts, counts, old)

    def stepped(cache, ids, at, width, even):
        found["even"].append(even)
        return step(cache, ids, at, width, even)

    monkeypatch.setattr(decoding.Cache, "arrange", arranged)
    monkeypatch.setattr(decoding.Cache, "step", stepped)
    monkeypatch.setattr(native._Sampled, "_look", looked)
    return found


# ---- the same answers as generate


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("merge", [True, False])
def test_models(name, copied, merge, monkeypatch):
    monkeypatch.setattr(decoding, "COPY_UP_TO", 128 if copied else 0)
    monkeypatch.setattr(decoding, "TURN_FROM", 1 if copied else 2**17)  # both orders of a product
    model = model_of(name)
    assert_same(*both(model, merge=merge, rows=12))
    if merge:
        assert_same(*both(model, sampling=GREEDY))


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("prompts", [PROMPTS, LEVEL], ids=["ragged", "level"])
@pytest.mark.parametrize("rows", [1, 5, 12, 14, 64])
def test_rows_that_wait_come_and_leave_at_different_times(rows, prompts, copied, seen, monkeypatch):
    monkeypatch.setattr(decoding, "COPY_UP_TO", 128 if copied else 0)
    model, sampling = model_of(), dataclasses.replace(SAMPLING, max_new_tokens=20)
    found, expected = both(model, prompts, sampling=sampling, rows=rows)
    assert_same(found, expected)
    assert len({len(answer) for answer in tokens(found)}) > 5 and {answer[-1] for answer in tokens(found)} >= {2, 7, 11}
    waited = any(kept and new for kept, new in seen["arranged"])
    assert waited == (not all(seen["even"])) == (rows in (5, 12, 14))  # beside rows that go on; else all together
    assert any(kept and not new for kept, new in seen["arranged"])  # and rows left


def test_another_draw_or_another_adapter_would_be_seen():
    """Negative control of `assert_same`: with another seed, and with an adapter that is merged in half."""
    model = model_of()
    found, expected = both(model)
    with pytest.raises(AssertionError):
        assert_same(
            ask(NativeEngine(model, Letters(), EOS, 64), sampling=dataclasses.replace(SAMPLING, seed=1)), expected
        )
    engine = NativeEngine(model, Letters(), EOS, 64)
    engine.hold()
    assert_same(ask(engine), expected)
    engine.held[1].down.weight.mul_(1.05)
    with pytest.raises(AssertionError):
        assert_same(ask(engine), found)


@pytest.mark.parametrize("merge", [True, False])
def test_long_prompts_are_shared_and_short_ones_copied(merge, seen):
    """Longer than COPY_UP_TO beside one of a single token; once as it is, without a patched limit."""
    draw = torch.Generator().manual_seed(5)
    longest = decoding.COPY_UP_TO
    for length in (longest, longest + 1):
        prompts = [tuple(torch.randint(3, 13, (size,), generator=draw).tolist()) for size in (length, 1, 40)]
        model = with_lora(build("llama", torch.float32, initializer_range=0.15, max_position_embeddings=256))
        assert_same(*both(model, prompts, 3, merge=merge, rows=6))
        cache = decoding.Cache(NativeEngine(model, Letters(), EOS, 6).decoder, [], 4, length)
        assert (cache.offset > 0) == (length <= longest)


@pytest.mark.parametrize("burst", [2, 5, 16])
@pytest.mark.parametrize("stop", [(), ("h", "ij")])
@pytest.mark.parametrize("copied", [True, False])
def test_bursts_give_exactly_the_same_answers(burst, stop, copied, seen, monkeypatch):
    """As on a GPU: what a row draws after its end, until somebody looks, is thrown away."""
    monkeypatch.setattr(decoding, "COPY_UP_TO", 128 if copied else 0)
    model, sampling = model_of(), dataclasses.replace(SAMPLING, max_new_tokens=13, stop=stop)
    for rows in (4, 12, 64):
        engine = NativeEngine(model, Letters(), EOS, rows)
        single = ask(engine, sampling=sampling)
        looks = len(seen["looks"])
        monkeypatch.setattr(native, "BURST", {"cpu": burst})
        assert_same(ask(engine, sampling=sampling), single, near=1e-5)
        assert len(seen["looks"]) - looks < looks  # negative control: it did look less often
        monkeypatch.setattr(native, "BURST", {})
        seen["looks"].clear()


@pytest.mark.parametrize("most", [1, 2])
def test_a_budget_of_one_or_two_tokens(most):
    for rows in (1, 8, 64):
        found, expected = both(model_of(), sampling=dataclasses.replace(SAMPLING, max_new_tokens=most), rows=rows)
        assert_same(found, expected)
        assert {len(answer) for answer in tokens(found)} == set(range(1, most + 1))


def test_a_group_of_one_and_a_question_alone():
    model = model_of()
    assert_same(*both(model, group_size=1, rows=3))
    assert_same(*both(model, PROMPTS[:1], 9, rows=2))  # a group larger than the rows is decoded as a whole


@pytest.mark.parametrize("stop", [("y",), ("xyzzz",), ("hx", "zh"), ("zi", "yz")])
@pytest.mark.parametrize("rows", [12, 64])
def test_stop_strings_that_end_inside_a_token(stop, rows):
    """Tokens of several letters: the text ends with the stop string, the token that completed it is kept."""
    sampling = dataclasses.replace(SAMPLING, stop=stop, max_new_tokens=20)
    found, expected = both(model_of(), PROMPTS, 12, sampling, rows, frozenset({2}), tokenizer=WORDS)
    assert_same(found, expected)
    answers = [answer for group in found for answer in group.completions]
    stopped = [answer for answer in answers if answer.finish is Finish.STOP]
    assert stopped and len(stopped) < len(answers)
    for answer in stopped:
        whole = WORDS.decode(answer.token_ids)
        first = min(whole.find(word) + len(word) for word in stop if word in whole)
        assert answer.text == whole[:first] and not any(word in WORDS.decode(answer.token_ids[:-1]) for word in stop)
    assert any(len(answer.text) < len(WORDS.decode(answer.token_ids)) for answer in stopped) or stop == ("zi", "yz")


@pytest.mark.parametrize(("top_p", "top_k"), [(0.7, 0), (1.0, 3), (0.9, 5)])
def test_top_p_and_top_k(top_p, top_k):
    sampling = dataclasses.replace(SAMPLING, temperature=0.8, top_p=top_p, top_k=top_k)
    found, expected = both(model_of(), sampling=sampling, rows=12)
    assert_same(found, expected)
    plain = ask(NativeEngine(model_of(), Letters(), EOS, 12), sampling=dataclasses.replace(SAMPLING, temperature=0.8))
    assert tokens(plain) != tokens(found)


def test_bfloat16_is_near_generate():
    """Log-probabilities of the same tokens; where rounding turns a draw, the two go separate ways."""
    model = with_lora(build("llama", torch.bfloat16, initializer_range=0.1))
    found, expected = both(model)
    pairs = [
        (a, b)
        for mine, other in zip(found, expected, strict=True)
        for a, b in zip(mine.completions, other.completions, strict=True)
        if a.token_ids == b.token_ids
    ]
    assert len(pairs) > 14
    assert all(a.logprobs == pytest.approx(b.logprobs, abs=0.1) for a, b in pairs)


# ---- the adapter


def move(model, seed):
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
            parameter.data += 0.5 * noise.to(parameter.dtype)


@pytest.mark.parametrize("merge", [True, False])
def test_an_adapter_is_read_anew_for_each_call(merge):
    model = model_of()
    engine = NativeEngine(model, Letters(), EOS, 12, merge)
    first = ask(engine)
    move(model, 3)
    second = ask(engine)
    assert_same(second, ask(TransformersEngine(model, Letters(), EOS, 64)))
    assert tokens(first) != tokens(second)  # negative control: a stale one would be seen
    with model.disable_adapter():
        base = ask(engine)
    assert_same(
        base, ask(TransformersEngine(build("llama", torch.float32, initializer_range=0.15), Letters(), EOS, 64))
    )
    assert tokens(base) != tokens(second)


def test_a_policy_that_is_held_stays_until_it_is_released():
    model = model_of()
    engine = NativeEngine(model, Letters(), EOS, 12)
    first = ask(engine)
    engine.hold()
    move(model, 3)
    assert_same(ask(engine), first)
    engine.release()
    assert_same(ask(engine), ask(TransformersEngine(model, Letters(), EOS, 64)))


@pytest.mark.parametrize("name", ["llama", "qwen2", "tied"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("merge", [True, False])
def test_the_weights_are_bit_identical_after_sampling(name, dtype, merge):
    model = with_lora(build(name, dtype))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    engine = NativeEngine(model, Letters(), EOS, 12, merge)
    ask(engine)
    after = model.state_dict()
    assert after.keys() == before.keys() and all(torch.equal(after[key], value) for key, value in before.items())
    if merge:  # negative control: what is sampled from are other weights, in memory of their own
        with torch.no_grad():
            merged, own = engine.decoder.merged()[0].down.weight, engine.decoder.layers()[0].down.weight
        assert not torch.equal(merged, own) and merged.data_ptr() != own.data_ptr()


# ---- draws


def plain_inversion(probs, uniforms):
    """(token, distance of the target to the nearest step) in float64: the first whose running sum exceeds it."""
    sums = np.cumsum(probs.double().numpy(), axis=1)
    targets = uniforms.numpy() * sums[:, -1]
    found = [int(np.searchsorted(row, target, side="right")) for row, target in zip(sums, targets, strict=True)]
    return torch.tensor(found), torch.from_numpy(np.abs(sums - targets[:, None]).min(axis=1))


def distributions(count, vocab, seed=0, ruled_out=0.0):
    """Logits, peaked and flat ones; a share of the entries, whole blocks at either end among them, is -inf."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, vocab, generator=draw) * torch.logspace(-1, 1, count)[:, None]
    if ruled_out:
        logits[torch.rand(count, vocab, generator=draw) < ruled_out] = -torch.inf
        edge = min(BLOCK + 9, vocab // 3)
        logits[: count // 2, :edge] = -torch.inf
        logits[count // 3 :, -edge:] = -torch.inf
        logits[:, vocab // 2] = 0.0
    return logits


def uniforms_of(count, seed=0):
    """Random ones, 0, and the largest double below 1."""
    found = torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found[0:6:2], found[1:6:2] = 0.0, 1 - 2**-53
    return found


VOCABULARIES = [40, 2 * BLOCK, 2 * BLOCK + 1, 1000, 8 * BLOCK, 5003]


@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_a_draw_is_the_plain_inversion(vocab):
    count = 3000 if vocab < 2000 else 600
    probs, uniforms = distributions(count, vocab).softmax(1), uniforms_of(count)
    for given, rounding in ((probs, 1e-6), (probs.double(), 1e-14)):
        expected, distance = plain_inversion(given, uniforms)
        found, clear = _searched(given, uniforms).squeeze(1), distance > rounding
        assert torch.equal(found[clear], expected[clear]) and clear.double().mean() > 0.98
        # nearer to a step than float32 sums can tell: the token on its other side
        sums = given.double().cumsum(1)
        off = sums.gather(1, found[:, None]).squeeze(1) - uniforms * sums[:, -1]
        mass = given.double().gather(1, found[:, None]).squeeze(1)
        assert (off >= -rounding).all() and (off - mass <= rounding).all()
    # negative control: another uniform gives other tokens
    assert (_searched(probs, uniforms * 0.99).squeeze(1) != expected).any()


@pytest.mark.parametrize("vocab", VOCABULARIES)
@pytest.mark.parametrize("ruled_out", [0.5, 0.99])
def test_a_token_of_probability_0_is_never_drawn(vocab, ruled_out):
    count = 2000 if vocab < 2000 else 400
    logits = distributions(count, vocab, 1, ruled_out)
    for uniforms in (uniforms_of(count), torch.zeros(count).double(), torch.full((count,), 1 - 2**-53).double()):
        found, logprobs, entropy = choose(logits, uniforms, SAMPLING)
        assert not logits.gather(1, found[:, None]).isneginf().any()
        assert logprobs.isfinite().all() and entropy.isfinite().all()
    assert logits.isneginf().any(dim=1).all()


def allowed(probs, top_p, top_k):
    """(tokens from the most likely on, how many of them may be drawn, whether rounding could allow one more)."""
    order = np.argsort(-probs, kind="stable")[: top_k or len(probs)]
    before, limit = np.cumsum(probs[order]) - probs[order], top_p * probs[order].sum()
    if top_p == 1:
        return order, len(order), False
    return order, int((before < limit).sum()), bool(np.abs(before - limit).min() < 1e-6)


@pytest.mark.parametrize("vocab", [40, 1000, 5003])
@pytest.mark.parametrize(("top_p", "top_k"), [(0.7, 0), (1.0, 5), (0.9, 300), (0.05, 0), (1.0, 1), (1.0, 10_000)])
def test_top_p_and_top_k_of_any_vocabulary(vocab, top_p, top_k):
    """The most likely k, of these as many as have mass top_p, and in them the draw in the order of probability."""
    count = 300
    logits, uniforms = distributions(count, vocab, 2), uniforms_of(count, 1)
    found, logprobs, _ = choose(logits, uniforms, dataclasses.replace(SAMPLING, top_p=top_p, top_k=top_k))
    logs = torch.log_softmax(logits, 1)
    torch.testing.assert_close(logprobs, logs.gather(1, found[:, None]).squeeze(1))
    clear = 0
    for row, token in enumerate(found.tolist()):
        order, cut, near = allowed(logs[row].exp().double().numpy(), top_p, top_k)
        assert token in order[: cut + near]
        sums = np.cumsum(logs[row].exp().double().numpy()[order[:cut]])
        target = float(uniforms[row]) * sums[-1]
        if not near and np.abs(sums - target)[:-1].min(initial=1.0) > 2e-6:
            clear += 1
            assert token == int(order[min(np.searchsorted(sums, target, side="right"), cut - 1)])
    assert clear > 0.9 * count
    if top_p < 1 or 0 < top_k < vocab:  # negative control: without the limits, others are drawn
        assert (choose(logits, uniforms, SAMPLING)[0] != found).any()
