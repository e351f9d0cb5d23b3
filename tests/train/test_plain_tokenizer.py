"""Whole runs with a tokenizer as of many base models: it has no pad token, and puts its BOS in front of a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from grpo_runner import compose, run
from grpo_runner.policy.models import eos_ids, load_tokenizer
from grpo_runner.policy.update import Trainer
from grpo_runner.rollout import NativeEngine, TransformersEngine
from tests.helpers import changed
from tests.made_tokenizers import BOS, EOS, tokenizer

QUESTIONS = ["1+1=?", "20+2=?", "3=?"]  # prompts of unequal lengths, so that some are padded


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=258, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=128, bos_token_id=BOS, eos_token_id=EOS, initializer_range=0.3,
        )
    ).save_pretrained(folder)  # fmt: skip
    tokenizer(front="<s>").save_pretrained(folder)
    return folder


@pytest.fixture
def go(model, tmp_path, monkeypatch):
    """go(*overrides) -> rows of metrics: two steps, rewarded by the first byte of an answer so that groups differ."""
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps({"question": q, "answer": "2"}) + "\n" for q in QUESTIONS))
    (tmp_path / "first_byte.py").write_text(
        "def score(questions, golds, completions): return [float(ord((c or ' ')[0]) % 2) for c in completions]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("grpo_runner.tracking.charts.draw", lambda *_, **__: {})  # half of the time of such a run
    words = ["debug=cpu_smoke", "tracking=off", "max_new_tokens=8", "evaluation.every=1", "evaluation.questions=3"]
    words += ["data=jsonl", "data.train_size=null", "data.eval_size=null", "questions_per_step=3", "optim.lr=0.01"]
    words += [f"data.{split}.path={questions}" for split in ("train", "eval")]
    words += [f"model.path={model}", "reward=custom", "reward.function=first_byte:score"]

    def start(*overrides: str) -> list[dict]:
        folder = tmp_path / "_".join(overrides)
        run(changed(compose([*words, *overrides]), run_dir=str(folder)))
        return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    return start


def test_pb049_without_a_pad_token_padded_and_packed_rows_train_alike(model, go):
    assert AutoTokenizer.from_pretrained(model).pad_token is None
    made = load_tokenizer(compose([f"model.path={model}"]).model)
    assert (made.pad_token_id, made.padding_side) == (EOS, "left")
    packed, padded = go("rollout=native"), go("rollout=transformers", "optim.packing=false")
    assert packed[0]["grad_norm"] > 0 and packed[1]["kl"] > 0
    for mine, other in zip(packed, padded, strict=True):
        for key in ("length/mean", "reward/mean", "entropy", "grad_norm", "kl", "mismatch"):
            assert other[key] == pytest.approx(mine[key], rel=1e-3, abs=1e-5), key


def test_pb056_rollout_update_and_evaluation_see_the_same_prompts_with_one_bos(go, monkeypatch):
    seen: dict[str, set[tuple]] = {}
    sample, update = NativeEngine.sample, Trainer.update

    def sampled(self, questions, prompts, size, sampling):
        pairs = zip([question.text for question in questions], map(tuple, prompts), strict=True)
        seen.setdefault(sampling.purpose.partition("/")[0], set()).update(pairs)
        return sample(self, questions, prompts, size, sampling)

    def updated(self, batch, *rest):
        texts = {f"questions/{number}": text for number, text in enumerate(QUESTIONS, 1)}
        pairs = zip(batch.question_ids, batch.prompts, strict=True)
        seen.setdefault("update", set()).update((texts.get(name, name), tuple(ids.tolist())) for name, ids in pairs)
        return update(self, batch, *rest)

    monkeypatch.setattr(NativeEngine, "sample", sampled)
    monkeypatch.setattr(Trainer, "update", updated)
    go("rollout=native")
    expected = {(text, (BOS, *tokenizer()(text)["input_ids"])) for text in QUESTIONS}
    assert all(ids.count(BOS) == 1 for _, ids in expected)
    assert seen == dict.fromkeys(["evaluation", "rollout", "update"], expected)


def test_pb050_every_id_that_ends_an_answer_is_known(model):
    """The list of the generation config, the model's own, and the tokenizer's."""
    made = LlamaForCausalLM.from_pretrained(model)
    made.generation_config.eos_token_id, made.config.eos_token_id = [7, 9], 11
    assert eos_ids(made, tokenizer()) == {7, 9, 11, EOS}


def test_pb088_under_gradient_checkpointing_generate_keeps_its_cache(model, go, monkeypatch):
    """After the prompt, a step of decoding computes one token a row, and not the whole answer again."""
    widths: list[int] = []
    generate = TransformersEngine._generate

    def watched(self, prompts, keys, sampling):
        layer = self.model.get_base_model().model.layers[0]
        assert layer.gradient_checkpointing
        hook = layer.register_forward_pre_hook(lambda module, given: widths.append(given[0].shape[1]))
        try:
            return generate(self, prompts, keys, sampling)
        finally:
            hook.remove()

    monkeypatch.setattr(TransformersEngine, "_generate", watched)
    go("rollout=transformers", "model.gradient_checkpointing=true", "evaluation.every=0", "steps=1")
    assert widths[0] == 1 + max(map(len, QUESTIONS)) and len(widths) == 8 and set(widths[1:]) == {1}
