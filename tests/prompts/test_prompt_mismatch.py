"""Where a template and a tokenizer do not fit each other, and how prompts are counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grpo_runner.prompts import Prompter, lengths, mismatches, token_texts
from grpo_runner.schema import PromptConfig
from grpo_runner.types import Question
from tests.made_tokenizers import CHATML, tokenizer

TURNS = ("<|im_start|>", "<|im_end|>")
WRITTEN_OUT = "<|im_start|>user\n{{ question }}<|im_end|>\n<|im_start|>assistant\n"
NO_SYSTEM = "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"


def said(template="{{ question }}", **made):
    config = PromptConfig(template=template, system=None, chat=False, stop=())
    return mismatches(Prompter(config, tokenizer(**made)))


def test_turn_markers_of_another_family_are_told():
    [told] = said(WRITTEN_OUT)
    assert told.startswith("The prompt writes <|im_start|>, <|im_end|>, and this model's tokenizer has no single token")
    assert said(WRITTEN_OUT, markers=TURNS) == []  # control: its own family
    [told] = said(WRITTEN_OUT, markers=TURNS[:1])
    assert told.startswith("The prompt writes <|im_end|>, and this model's tokenizer has no single token for it:")


@pytest.mark.parametrize(
    "template",
    [
        "<｜User｜>{{ question }}<｜Assistant｜><think>\n",
        "<start_of_turn>user\n{{ question }}<end_of_turn>\n",
        "[INST] {{ question }} [/INST]",
        "<|start_header_id|>user<|end_header_id|>\n\n{{ question }}<|eot_id|>",
    ],
)
def test_the_markers_of_each_family_are_known(template):
    assert len(said(template)) == 1


@pytest.mark.parametrize(
    "template",
    ["{{ question }}", "<think> x </think> <answer> {{ question }} </answer>", "a < b | c > {{ question }}"],
)
def test_what_is_no_turn_marker_is_not_told(template):
    """Dr. GRPO's R1 template has <think> and <answer> as plain text."""
    assert said(template) == []


def test_markers_in_a_question_are_the_question():
    assert said("{{ question }}") == []
    config = PromptConfig(template="{{ question }}", system=None, chat=False, stop=())
    assert "<|im_end|>" in Prompter(config, tokenizer()).text(Question("q", "What is <|im_end|>?", "1"))


def test_a_chat_template_of_another_family_is_told():
    """A tokenizer that was given the chat template of another model."""
    config = PromptConfig(template="{{ question }}", system=None, chat=True, stop=())
    assert len(mismatches(Prompter(config, tokenizer(chat=CHATML)))) == 1
    assert mismatches(Prompter(config, tokenizer(chat=CHATML, markers=TURNS))) == []


def test_a_system_message_that_the_chat_template_leaves_out_is_told():
    config = PromptConfig(template="{{ question }}", system="Think first.", chat=True, stop=())
    [told] = mismatches(Prompter(config, tokenizer(chat=NO_SYSTEM)))
    assert told.startswith("prompt.system is left out")
    assert mismatches(Prompter(config, tokenizer(chat=CHATML, markers=TURNS))) == []


def test_a_bos_from_template_and_tokenizer_is_told():
    [told] = said("<s>{{ question }}", front="<s>")
    assert told.startswith("prompt.template writes <s> itself")
    assert said("<s>{{ question }}") == []  # the tokenizer adds none
    assert said("{{ question }}", front="<s>") == []
    assert said("<s>{{ question }}", bos=None, markers=("<s>",)) == []  # to this tokenizer it is no BOS


def test_adds_bos():
    config = PromptConfig(template="{{ question }}", system=None, chat=False, stop=())
    assert Prompter(config, tokenizer(front="<s>")).adds_bos
    assert not Prompter(config, tokenizer()).adds_bos
    assert not Prompter(config, tokenizer(bos=None)).adds_bos
    assert not Prompter(config, tokenizer(behind="</s>")).adds_bos


# --- counts


def test_lengths_by_hand():
    """Prompts of 1 to 20 bytes behind a BOS: 2 to 21 tokens. Nearest rank: the 10th and the 19th of 20."""
    config = PromptConfig(template="{{ question }}", system=None, chat=False, stop=())
    prompter = Prompter(config, tokenizer(front="<s>"))
    questions = [Question(str(size), "x" * size, "") for size in (*range(11, 21), *range(1, 11))]
    seen = []
    found = lengths(questions, prompter, 19, seen.append)
    assert (found.count, found.minimum, found.median, found.p95, found.maximum) == (20, 2, 11, 20, 21)
    assert (found.over, found.unknown) == (2, 0)  # 20 and 21 tokens
    assert seen == list(range(1, 21))
    one = lengths(questions[:1], prompter, 12)
    assert (one.minimum, one.median, one.p95, one.maximum, one.over) == (12, 12, 12, 12, 0)


def test_the_texts_of_tokens_are_the_text():
    """Bytes: of a character of several bytes the last adds it. A lone � is text, one in the middle of bytes is not."""
    made = tokenizer()
    for text in ("aé文😀b", "文文", "a\ufffdb", "\ufffd"):
        ids = made(text)["input_ids"]
        assert "".join(token_texts(made, ids)) == text
    assert token_texts(made, made("aé😀")["input_ids"]) == ["a", "", "é", "", "", "", "😀"]
    assert token_texts(made, made("a文")["input_ids"][:-1]) == ["a", "", "\ufffd"]  # cut off within it
    assert token_texts(made, []) == []


SMOLLM2 = os.environ.get("GRPO_RUNNER_SMOLLM2", "")


@pytest.mark.skipif(not Path(SMOLLM2, "tokenizer.json").is_file(), reason="GRPO_RUNNER_SMOLLM2 names no model folder")
def test_the_tokenizer_of_a_real_chat_model():
    """SmolLM2-135M-Instruct: ChatML, with <|im_start|> as the BOS that opens every turn."""
    from transformers import AutoTokenizer

    real = AutoTokenizer.from_pretrained(SMOLLM2)
    chat = Prompter(PromptConfig(template="{{ question }}", system=None, chat=True, stop=()), real)
    assert mismatches(chat) == [] and not chat.adds_bos
    ids = chat.encode(Question("q", "What is 2 + 2?", "4"))
    assert "".join(token_texts(real, ids)) == chat.text(Question("q", "What is 2 + 2?", "4"))
    assert ids.count(real.bos_token_id) == 3  # system, user, assistant
    deepseek = PromptConfig(template="<｜User｜>{{ question }}<｜Assistant｜>", system=None, chat=False, stop=())
    assert len(mismatches(Prompter(deepseek, real))) == 1
