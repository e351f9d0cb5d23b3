"""The native engine on a GPU, which looks at what it drew every 16 tokens, against `generate`."""

from __future__ import annotations

import pytest
import torch

from grpo_runner import compose
from grpo_runner.policy.models import attach_lora
from grpo_runner.rollout import NativeEngine, Sampling, TransformersEngine
from grpo_runner.types import Finish, Question
from tests.helpers import tiny_llama

DEVICE = torch.device("cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
LORA = compose(["lora.rank=4", "lora.alpha=8"]).lora
RAGGED = [(1, 5, 6, 7, 8), (1,), (1, 9), (1, 3, 4, 5, 6, 7, 8, 9, 10)]
EQUAL = [(1, 5, 6), (1, 7, 8)]
# more than a prompt that is copied to each of its rows may have: keys and values are shared by the group
LONG = [tuple(3 + i % 10 for i in range(150)), (1, 4), tuple(3 + i % 7 for i in range(131))]


class Letters:
    """A tokenizer for random models: token i is the letter i."""

    pad_token_id = 0

    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(97 + i) for i in ids if i > 2)


def policy(dtype=torch.float32):
    model = attach_lora(tiny_llama(vocab=40, dtype=dtype).to(DEVICE), LORA, 0).eval()
    draw = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = (torch.randn(parameter.shape, generator=draw) * 0.2).to(DEVICE)
    return model


def ask(engine, prompts, tokens, temperature=1.0, stop=(), rows=5):
    sampling = Sampling(temperature, 1.0, 0, tokens, stop, seed=0, purpose="rollout", step=3)
    groups = engine.sample([Question(str(i), "", "") for i in range(len(prompts))], prompts, rows, sampling)
    return [answer for group in groups for answer in group.completions]


@pytest.mark.parametrize("prompts", [RAGGED, EQUAL, LONG], ids=["ragged", "equal", "long"])
@pytest.mark.parametrize("tokens", [1, 16, 17, 50])  # around the ends of bursts
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_same_answers_as_generate(prompts, tokens, temperature):
    model = policy()
    native, reference = (
        ask(cls(model, Letters(), frozenset({2, 11}), 64), prompts, tokens, temperature)
        for cls in (NativeEngine, TransformersEngine)
    )
    for a, b in zip(native, reference, strict=True):
        assert (a.token_ids, a.text, a.finish) == (b.token_ids, b.text, b.finish)
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
        assert a.entropy == pytest.approx(b.entropy, abs=1e-4)
    if tokens == 50 and temperature:  # else rows that leave at unequal times were not tried
        assert len({len(answer.token_ids) for answer in native}) > 3


@pytest.mark.parametrize("prompts", [RAGGED, LONG], ids=["ragged", "long"])
@pytest.mark.parametrize("rows", [5, 10, 15])
def test_groups_that_wait_draw_the_same(prompts, rows):
    """Fewer rows at once than there are: groups begin as rows end, and no answer changes."""
    model = policy()
    at_once = ask(NativeEngine(model, Letters(), frozenset({2, 11}), 64), prompts, 40)
    in_turns = ask(NativeEngine(model, Letters(), frozenset({2, 11}), rows), prompts, 40)
    assert [a.token_ids for a in at_once] == [b.token_ids for b in in_turns]


def test_a_stop_string_ends_an_answer_inside_a_burst():
    model, stop = policy(), ("f", "hj")
    native, reference = (
        ask(cls(model, Letters(), frozenset({2}), 64), RAGGED, 40, stop=stop)
        for cls in (NativeEngine, TransformersEngine)
    )
    assert [(a.token_ids, a.text, a.finish) for a in native] == [(b.token_ids, b.text, b.finish) for b in reference]
    assert any(answer.finish is Finish.STOP and len(answer.token_ids) % 16 for answer in native)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sampling_leaves_the_model_bit_identical_and_takes_the_adapter_along(dtype):
    model = policy(dtype)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with_it = ask(NativeEngine(model, Letters(), frozenset(), 64), RAGGED, 20, 0.0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with model.disable_adapter():
        without = ask(NativeEngine(model, Letters(), frozenset(), 64), RAGGED, 20, 0.0)
    assert [a.logprobs for a in with_it] != [b.logprobs for b in without]


def test_bf16_log_probabilities_are_near_those_of_generate():
    """Up to where two answers part: in bf16 near ties fall differently."""
    model = policy(torch.bfloat16)
    native, reference = (
        ask(cls(model, Letters(), frozenset({2}), 64), LONG, 40) for cls in (NativeEngine, TransformersEngine)
    )
    apart = []
    for a, b in zip(native, reference, strict=True):
        for token, twin, here, there in zip(a.token_ids, b.token_ids, a.logprobs, b.logprobs, strict=False):
            if token != twin:
                break
            apart.append(abs(here - there))
    assert len(apart) > 100 and sum(apart) / len(apart) < 0.05
