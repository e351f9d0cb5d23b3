"""The embedded tiny model: a small folder that loads offline, a tokenizer that loses nothing, the accuracies of its card."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpo_runner.data import arithmetic

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "grpo_runner" / "policy" / "embedded"


sys.path.insert(0, str(ROOT / "scripts"))
script, tools = importlib.import_module("build_tiny_model"), importlib.import_module("measure_tiny_model")
TEXTS = ["29+22+6-20=?", "29+22=51\n51+6=57\n57-20=37\n\\boxed{37}", " 1 + 2 =  3\n\n", "}}\\boxed{\\boxed{0}", ""]


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(FOLDER, local_files_only=True).eval()


@pytest.fixture(scope="module")
def figures():
    return json.loads((FOLDER / "README.md").read_text().split("```json")[1].split("```")[0])


@pytest.fixture(scope="module")
def measured(model, tokenizer):
    return tools.measure(model, tokenizer, arithmetic.questions("eval", 7, 200), samples=8)


def test_the_folder_is_small_and_whole():
    files = {file.name: file.stat().st_size for file in FOLDER.iterdir() if file.is_file()}
    assert sum(files.values()) <= 2_000_000
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= set(files)


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip(tokenizer, text):
    plain = tokenizer(text, add_special_tokens=False).input_ids
    assert tokenizer.decode(plain) == text
    assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text
    assert "".join(tokenizer.decode([i]) for i in plain) == text


@pytest.mark.parametrize("text", TEXTS)
def test_one_bos_in_front_and_no_eos(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=True).input_ids
    assert ids == [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False).input_ids]
    assert ids.count(tokenizer.bos_token_id) == 1 and tokenizer.eos_token_id not in ids


def test_special_tokens(tokenizer, model):
    assert len({tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}) == 4
    assert len(tokenizer(r"\boxed{", add_special_tokens=False).input_ids) == 1
    assert tokenizer.chat_template is None
    assert model.config.vocab_size == len(tokenizer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


def test_characters_outside_the_alphabet_are_unknown(tokenizer):
    assert tokenizer("2a", add_special_tokens=False).input_ids[1] == tokenizer.unk_token_id


def test_the_longest_answer_fits(tokenizer):
    longest = arithmetic.worked_solution("29+29+29-19=?")
    assert len(tokenizer(longest, add_special_tokens=False).input_ids) + 1 == tools.MAX_NEW_TOKENS


def test_accuracies_are_those_of_the_card(measured, figures):
    # 1,600 samples of 200 other questions: a standard error of about 0.015
    assert measured["sampled"] == pytest.approx(figures["sampled"], abs=0.06)
    assert measured["worked share"] == pytest.approx(figures["worked share"], abs=0.05)
    assert measured["worked accuracy"] == pytest.approx(figures["worked accuracy"], abs=0.08)
    assert measured["greedy"] == pytest.approx(figures["greedy"], abs=0.1)


def test_there_is_room_to_learn(measured):
    assert 0.15 <= measured["sampled"] <= 0.5 and 0.15 <= measured["greedy"] <= 0.5
    assert measured["worked accuracy"] >= 0.8 > 0.5 >= measured["direct accuracy"]
    assert measured["mixed groups of 8"] > 0.5


def test_it_always_stops(measured):
    assert measured["stopped"] >= 0.995 and measured["greedy stopped"] >= 0.995
    assert measured["longest"] <= tools.MAX_NEW_TOKENS


def test_negative_control_a_model_with_a_blank_head_scores_nothing(model, tokenizer):
    blank = copy.deepcopy(model)
    torch.nn.init.zeros_(blank.lm_head.weight)
    found = tools.measure(blank, tokenizer, arithmetic.questions("eval", 7, 50), samples=4)
    assert found["sampled"] < 0.02 and found["greedy"] == 0


def test_negative_control_other_golds(model, tokenizer):
    questions = arithmetic.questions("eval", 7, 100)
    shifted = [type(q)(q.id, q.text, str(int(q.gold) + 50)) for q in questions]
    assert tools.measure(model, tokenizer, shifted, samples=4)["sampled"] < 0.05


def test_measuring_is_repeatable_and_leaves_the_generator_alone(model, tokenizer):
    questions = arithmetic.questions("eval", 0, 10)
    before = torch.get_rng_state()
    assert tools.measure(model, tokenizer, questions, 4) == tools.measure(model, tokenizer, questions, 4)
    assert torch.equal(before, torch.get_rng_state())


def test_decomposition_adds_up(measured):
    after = measured | {"sampled": 0.9, "worked share": 1.0, "right": [8] * 200}
    parts = tools.decompose(measured, after)
    assert parts["choosing"] + parts["doing"] == pytest.approx(parts["gain"])
    assert parts["new"] == pytest.approx(measured["never right"], abs=1e-4)
    same = tools.decompose(measured, measured)
    assert same["gain"] == same["choosing"] == same["new"] == 0


def test_pass_at_k_against_counting():
    from itertools import combinations

    import numpy as np

    outcomes = [True, True, False, False, False, False]
    hits = [any(c) for c in combinations(outcomes, 3)]
    assert tools.pass_at(3, np.array([2]), 6) == pytest.approx(sum(hits) / len(hits))


def test_training_is_a_function_of_the_seed_and_sees_only_train_questions():
    tokenizer = script.build_tokenizer()

    def weights(seed):
        model = script.build_model(tokenizer, seed)
        script.train(model, tokenizer, seed, [(2, 0.02, 0.5)])
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))
    ids, labels = script.batch(tokenizer, 0, 5, 0.5)
    texts = {
        tokenizer.decode(row[want == -100], skip_special_tokens=True) for row, want in zip(ids, labels, strict=True)
    }
    assert {arithmetic.split_of(t) for t in texts} == {"train"} and len(texts) == script.BATCH
    answers = [tokenizer.decode(want[want >= 0]) for want in labels]
    assert all(a.endswith("}<eos>") for a in answers)
    assert 0.3 < sum(a.startswith(tools.BOX) for a in answers) / len(answers) < 0.7
