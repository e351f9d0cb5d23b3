"""Both engines give the same answers for the same draws, and those that plain arithmetic gives."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from grpo_runner.policy.batch import Batch
from grpo_runner.policy.logprobs import completion_logprobs
from grpo_runner.policy.models import eos_ids, load_model, load_tokenizer
from grpo_runner.rollout import NativeEngine, Sampling, TransformersEngine
from grpo_runner.rollout.engine import choose, ended_by_stop, find_stop
from grpo_runner.schema import ModelConfig
from grpo_runner.types import Finish, Question
from tests.helpers import tiny_llama

SAMPLING = Sampling(temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=12, stop=(), seed=0, purpose="rollout", step=3)
EMBEDDED = ModelConfig("embedded", None, False, "none", "auto")


class Letters:
    """A tokenizer for random models: token i is the letter i."""

    pad_token_id = 0

    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(97 + i) for i in ids if i > 2)


def engines(model, tokenizer, eos, rows=64):
    return [NativeEngine(model, tokenizer, eos, rows), TransformersEngine(model, tokenizer, eos, rows)]


def ask(engine, prompts, group_size=4, sampling=SAMPLING):
    return engine.sample([Question(str(i), "", "") for i in range(len(prompts))], prompts, group_size, sampling)


PROMPTS = [(1, 5, 6, 7, 8), (1,), (1, 9), (1, 3, 4, 5, 6, 7, 8, 9, 10)]  # ragged, and one token alone


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, 0), (0.8, 0), (1.0, 3)])
def test_engines_agree(temperature, top_p, top_k):
    model = tiny_llama(dtype=torch.float32)
    sampling = dataclasses.replace(SAMPLING, temperature=temperature, top_p=top_p, top_k=top_k)
    native, reference = (ask(engine, PROMPTS, 4, sampling) for engine in engines(model, Letters(), frozenset({2})))
    for mine, other in zip(native, reference, strict=True):
        for a, b in zip(mine.completions, other.completions, strict=True):
            assert (a.token_ids, a.text, a.finish) == (b.token_ids, b.text, b.finish)
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
            assert a.entropy == pytest.approx(b.entropy, abs=1e-4)


@pytest.mark.parametrize("engine", [0, 1])
def test_pb046_the_trainer_recomputes_the_sampling_logprobs(engine):
    model = tiny_llama(dtype=torch.float32)
    groups = ask(
        engines(model, Letters(), frozenset({2}))[engine], PROMPTS, 3, dataclasses.replace(SAMPLING, temperature=0.6)
    )
    batch = Batch.of(groups)
    with torch.no_grad():
        logprobs = completion_logprobs(model, batch.pad(torch.arange(12), 0, torch.device("cpu")), 0.6)
        wrong = completion_logprobs(model, batch.pad(torch.arange(12), 0, torch.device("cpu")), 1.0)
    sampled = torch.tensor(
        [[*c.logprobs, *[0.0] * (logprobs.shape[1] - len(c.logprobs))] for g in groups for c in g.completions]
    )
    assert (logprobs - sampled)[batch.mask_NT].abs().max() < 1e-4
    assert (wrong - sampled)[batch.mask_NT].abs().max() > 1e-2  # negative control: another temperature is seen


def test_a_row_alone_and_in_a_batch_draws_the_same():
    """A draw is keyed by slot and sample, not by the batch it is decoded in."""
    model = tiny_llama(dtype=torch.float32)
    together = ask(NativeEngine(model, Letters(), frozenset({2}), 64), PROMPTS)
    chunked = ask(NativeEngine(model, Letters(), frozenset({2}), 4), PROMPTS)
    assert [c.token_ids for g in together for c in g.completions] == [
        c.token_ids for g in chunked for c in g.completions
    ]


def test_pb082_the_seed_reaches_the_sampler():
    model = tiny_llama(dtype=torch.float32)

    def tokens(**parts):
        return [
            c.token_ids
            for g in ask(
                NativeEngine(model, Letters(), frozenset({2}), 64), PROMPTS, 4, dataclasses.replace(SAMPLING, **parts)
            )
            for c in g.completions
        ]

    assert tokens() == tokens()
    assert all(tokens() != tokens(**other) for other in ({"seed": 1}, {"step": 4}, {"purpose": "evaluation"}))


@pytest.mark.parametrize("engine", [0, 1])
def test_pb083_two_processes_with_one_seed_answer_the_same_prompt_differently(engine):
    """Each has slots of its own in the step: the second's answers are those that one process would give there."""
    sampler = engines(tiny_llama(dtype=torch.float32), Letters(), frozenset({2}))[engine]
    prompt = PROMPTS[0]
    first, second = (ask(sampler, [prompt], 4, dataclasses.replace(SAMPLING, first_slot=slot)) for slot in (0, 1))
    tokens = [[answer.token_ids for answer in group.completions] for group in (*first, *second)]
    assert not set(tokens[0]) & set(tokens[1])
    alone = ask(sampler, [prompt, prompt], 4)
    assert tokens == [[answer.token_ids for answer in group.completions] for group in alone]


def test_pb050_pb053_several_eos_ids_and_stop_strings_are_not_truncation():
    model = tiny_llama(dtype=torch.float32)
    for engine in engines(model, Letters(), frozenset({2, 7})):
        for group in ask(engine, PROMPTS, 8):
            for answer in group.completions:
                ended = answer.token_ids[-1] in (2, 7)
                assert not any(token in (2, 7) for token in answer.token_ids[:-1])
                assert answer.finish is (Finish.EOS if ended else Finish.LENGTH)
                assert ended or len(answer.token_ids) == 12
    stop = dataclasses.replace(SAMPLING, stop=("h", "ij"))
    results = [ask(engine, PROMPTS, 8, stop) for engine in engines(model, Letters(), frozenset({2}))]
    finishes = {answer.finish for group in results[0] for answer in group.completions}
    assert Finish.STOP in finishes and results[0] == [
        dataclasses.replace(
            g,
            completions=tuple(
                dataclasses.replace(c, logprobs=m.logprobs, entropy=m.entropy)
                for c, m in zip(g.completions, mine.completions, strict=True)
            ),
        )
        for g, mine in zip(results[1], results[0], strict=True)
    ]
    for group in results[0]:
        for answer in group.completions:
            assert ("h" in answer.text or "ij" in answer.text) == (answer.finish is Finish.STOP)
            assert answer.finish is not Finish.STOP or answer.text.endswith(("h", "ij"))  # the stop string stays


def test_pb052_an_answer_that_is_only_the_eos():
    model = tiny_llama(dtype=torch.float32)
    everything = frozenset(range(13))  # every token ends
    for engine in engines(model, Letters(), everything):
        for group in ask(engine, PROMPTS, 2):
            assert all(len(c.token_ids) == 1 and c.text == "" and c.finish is Finish.EOS for c in group.completions)


def test_choose_follows_the_distribution():
    """Uniforms on a grid give each token its share; top-k and top-p leave out the tail and renormalise."""
    probs = torch.tensor([0.1, 0.4, 0.05, 0.3, 0.15])
    grid = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    logits = probs.log().expand(2000, 5)

    def shares(**parts):
        tokens, logprobs, _ = choose(logits, grid, dataclasses.replace(SAMPLING, **parts))
        torch.testing.assert_close(logprobs, probs.log()[tokens])  # always of the full vocabulary
        return [round(float((tokens == token).double().mean()), 3) for token in range(5)]

    assert shares() == pytest.approx([0.1, 0.4, 0.05, 0.3, 0.15], abs=2e-3)
    assert shares(top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7, 0], abs=2e-3)
    assert shares(top_p=0.75) == pytest.approx([0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85], abs=2e-3)
    assert shares(temperature=0.0) == [0, 1, 0, 0, 0]


def test_choose_at_the_edges_of_the_uniform():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).repeat(2, 1)
    tokens, _, entropy = choose(logits, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64), SAMPLING)
    assert tokens.tolist() == [1, 3]  # never a token of probability 0
    assert entropy.tolist() == pytest.approx([0.6931472] * 2)


def test_the_first_stop_string_counts():
    assert find_stop("ab</answer> c</answer>", ("</answer>",)) == 11
    assert find_stop("abc", ("x",)) is None


def test_the_embedded_model_answers():
    model = load_model(EMBEDDED, torch.device("cpu"), torch.float32)
    tokenizer = load_tokenizer(EMBEDDED)
    prompt = tuple(tokenizer.encode("2+3=?"))
    answers = ask(
        NativeEngine(model, tokenizer, eos_ids(model, tokenizer), 64),
        [prompt],
        16,
        dataclasses.replace(SAMPLING, max_new_tokens=40),
    )
    assert sum("\\boxed{" in answer.text for answer in answers[0].completions) >= 12


def test_a_models_own_generation_settings_do_not_reach_the_draws():
    """A repetition penalty in generation_config.json would change what `generate` samples from."""
    model = tiny_llama(dtype=torch.float32)
    plain = ask(TransformersEngine(model, Letters(), frozenset({2}), 64), PROMPTS)
    own = model.generation_config
    own.repetition_penalty, own.min_new_tokens, own.suppress_tokens, own.num_beams = 1.5, 8, [5, 6], 3
    native, reference = (ask(engine, PROMPTS) for engine in engines(model, Letters(), frozenset({2})))
    assert reference == plain
    assert [c.token_ids for g in native for c in g.completions] == [c.token_ids for g in plain for c in g.completions]
    assert model.generation_config is own  # and the model keeps them


def test_a_policy_that_is_not_finite_is_seen_though_it_has_no_weight():
    from grpo_runner.errors import NonFiniteError
    from grpo_runner.rollout import check_finite

    model = tiny_llama(dtype=torch.float32)
    engine = NativeEngine(model, Letters(), frozenset({2}), 64)
    check_finite(ask(engine, PROMPTS), "step 3")  # negative control
    next(model.parameters()).data[5] = torch.nan
    with pytest.raises(NonFiniteError, match="step 3"):
        check_finite(ask(engine, PROMPTS), "step 3")


class Bytes:
    """A tokenizer of bytes: token i is the byte i."""

    def decode(self, ids, skip_special_tokens=True):
        return bytes(ids).decode("utf-8", "replace")


@pytest.mark.parametrize("stop", ["</answer>", "最终答案是这个", "🙂🙂🙂"])
def test_a_stop_string_is_found_at_any_width_of_its_characters(stop):
    ids = [*b"so it is ", *stop.encode()]
    assert ended_by_stop(Bytes(), ids, (stop,)) and not ended_by_stop(Bytes(), ids[:-1], (stop,))
