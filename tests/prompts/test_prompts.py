"""Prompts: the published templates to the letter, exactly one BOS, chat templates, and the rules for long prompts."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from grpo_runner.data import countdown
from grpo_runner.errors import InputError
from grpo_runner.prompts import Prompter, fit
from grpo_runner.schema import PromptConfig
from grpo_runner.types import Question
from tests.made_tokenizers import BOS, CHATML, EOS, tokenizer

CONF = Path(__file__).parents[2] / "conf" / "prompt"
Q = Question("q", "1+1=?", "2")

CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CHAT_WITH_BOS = "{{ bos_token }}" + CHAT
CHAT_WITHOUT_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHAT
)


def config(template="{{ question }}", system=None, chat=False, stop=()):
    return PromptConfig(template=template, system=system, chat=chat, stop=stop)


def preset(name):
    values = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    return TypeAdapter(PromptConfig).validate_json(json.dumps(values))


def refused(*args):
    with pytest.raises(InputError) as error:
        Prompter(*args)
    assert 1 <= len(str(error.value).splitlines()) <= 5
    return str(error.value)


# templates

GOLDEN = Path(__file__).parents[1] / "golden" / "prompts"
ASKED = {"tinyzero": Question("q", "Using the numbers [19, 36, 55, 7], create an equation that equals 65.", "65")}
NAMES = sorted(path.stem for path in CONF.glob("*.yaml"))


def rendered(name, **changed):
    """The prompt of a choice of conf/prompt, as bytes, for its fixed question and the chat template of Qwen2.5."""
    prompter = Prompter(replace(preset(name), **changed), tokenizer(chat=CHATML))
    return prompter.text(ASKED.get(name, Q)).encode()


def golden(name):
    """The same prompt, written by hand after the published source."""
    return (GOLDEN / f"{name}.txt").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_gives_the_published_prompt(name):
    assert rendered(name) == golden(name)


def test_every_golden_prompt_belongs_to_a_preset():
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_byte_is_seen(name):
    """Negative control: white space at an end, where YAML and jinja2 are apt to lose it."""
    template = preset(name).template
    assert rendered(name, template=template + "\n") != golden(name)
    assert rendered(name, template=" " + template) != golden(name)


def test_where_an_answer_ends():
    assert {name: preset(name).stop for name in NAMES} == dict.fromkeys(NAMES, ()) | {"r1": ("</answer>",)}


def test_tinyzero_goes_around_the_questions_of_the_generator():
    """The source writes the numbers and the target into one sentence; here data=countdown makes that sentence."""
    [question] = countdown.questions("train", 0, 1)
    sentence = r"Using the numbers \[\d+(, \d+)+\], create an equation that equals \d+\."
    assert re.fullmatch(sentence, question.text) and re.fullmatch(sentence, ASKED["tinyzero"].text)


def test_a_question_is_data_not_a_template():
    hostile = Question("q", "{{ 7*7 }} {% raw %} & <b> \\boxed{}\r\n", "2")
    assert Prompter(config("Q: {{ question }}!"), tokenizer()).text(hostile) == f"Q: {hostile.text}!"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ question", "is not a jinja2 template: line 1"),
        ("a\n{% if %}{{ question }}", "line 2"),
        ("{{ quesiton }}", 'uses "quesiton"; the one variable there is is "question". Did you mean "question"?'),
        ("{{ question }} {{ gold }}", 'uses "gold"'),
        ("solve it", "does not use the question"),
        ("{{ question.text }}", "prompt.template fails: UndefinedError"),
        ("{{ question.__class__.__mro__ }}", "prompt.template fails: SecurityError"),
        ("{{ question }}{{ 1 / 0 }}", "prompt.template fails: ZeroDivisionError"),
    ],
)
def test_a_bad_template_is_refused_at_once(template, said):
    assert said in refused(config(template), tokenizer())


def test_a_lone_surrogate_is_refused_and_shown_escaped():
    message = refused(config("{{ question }} {{ '\\ud800' }}"), tokenizer())
    assert message == 'What prompt.template gives is not UTF-8 text: "1+1=? \\ud800", character 7.'
    with pytest.raises(ValidationError, match="unicode"):  # control: one that stands there itself ends in the schema
        config(b"\xff {{ question }}".decode("utf-8", "surrogateescape"))


def test_jinja_works_in_templates():
    template = "{% set q = question | upper %}{% for i in range(2) %}{{ q }} {% endfor %}"
    assert Prompter(config(template), tokenizer()).text(Question("q", "ab", "2")) == "AB AB "


# chat templates


def test_a_chat_template_with_and_without_a_system_message():
    made = tokenizer(chat=CHAT)
    assert Prompter(config(chat=True), made).text(Q) == "<|user|>1+1=?\n<|assistant|>"
    with_system = Prompter(config("Q: {{ question }}", system="Be brief.", chat=True), made)
    assert with_system.text(Q) == "<|system|>Be brief.\n<|user|>Q: 1+1=?\n<|assistant|>"


def test_no_chat_template():
    message = refused(config(chat=True), tokenizer())
    assert len(message.splitlines()) == 1
    assert "no chat template" in message and "prompt=qwen_math" in message


def test_a_chat_template_that_takes_no_system_message():
    made = tokenizer(chat=CHAT_WITHOUT_SYSTEM)
    assert "no system role" in (message := refused(config(system="x", chat=True), made))
    assert "prompt.system=null" in message
    assert Prompter(config(chat=True), made).text(Q).startswith("<|user|>")


def test_a_system_message_without_chat_is_refused():
    assert "prompt.chat=true" in refused(config(system="Be brief."), tokenizer(chat=CHAT))


# BOS (PB056)

TEXT = tuple(tokenizer()("1+1=?")["input_ids"])


def ids(template, **kwargs):
    return Prompter(config(template), tokenizer(**kwargs)).encode(Q)


def test_one_bos_from_a_tokenizer_that_adds_it():
    assert ids("{{ question }}", front="<s>") == (BOS, *TEXT)


def test_one_bos_when_the_template_writes_it_too():
    made = tokenizer(front="<s>")
    assert made("<s>1+1=?")["input_ids"][:2] == [BOS, BOS]  # control: the tokenizer itself would give two
    assert ids("<s>{{ question }}", front="<s>") == (BOS, *TEXT)
    assert ids("<s><s>{{ question }}", front="<s>") == (BOS, *TEXT)


def test_one_bos_when_the_chat_template_writes_it():
    for front in ("", "<s>"):
        prompter = Prompter(config(chat=True), tokenizer(front=front, chat=CHAT_WITH_BOS))
        encoded = prompter.encode(Q)
        assert encoded[0] == BOS and encoded.count(BOS) == 1
    twice = Prompter(config("<s>{{ question }}"), tokenizer(chat=CHAT_WITH_BOS, front="<s>"))
    assert twice.encode(Q).count(BOS) == 1


def test_a_tokenizer_that_adds_no_bos_gets_none():
    assert ids("{{ question }}") == TEXT  # has a BOS token, does not use it, as SmolLM2
    assert ids("{{ question }}", bos=None) == TEXT  # has none, as Qwen2.5


def test_a_bos_that_also_marks_turns_stays_where_it_is():
    """SmolLM2's BOS is <|im_start|>, which opens every turn."""
    encoded = ids("<|im_start|>user\n{{ question }}\n<|im_start|>assistant\n", bos="<|im_start|>")
    assert encoded[0] == BOS and encoded.count(BOS) == 2


def test_a_front_of_several_tokens_stands_once():
    """Some tokenizers begin a text with more than a BOS."""
    assert ids("{{ question }}", front="<s> </s>") == (BOS, EOS, *TEXT)
    assert ids("<s></s>{{ question }}", front="<s> </s>") == (BOS, EOS, *TEXT)


def test_no_eos_behind_a_prompt():
    made = tokenizer(front="<s>", behind="</s>")
    assert made("1+1=?")["input_ids"][-1] == EOS  # control
    assert Prompter(config(), made).encode(Q) == (BOS, *TEXT)


def test_a_prompt_without_tokens():
    inner = Tokenizer(models.WordLevel({"1": 0, "?": 1}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(InputError, match="no tokens"):
        Prompter(config(), PreTrainedTokenizerFast(tokenizer_object=inner)).encode(Question("q", "  ", "2"))


# long prompts (PB055)

SHORT, LONG = Question("short", "1234", "1"), Question("long", "abcdefghij", "2")


def plain(template="{{ question }}"):
    return Prompter(config(template), tokenizer(front="<s>"))


def test_prompts_within_the_limit_are_kept_whole():
    prompter = plain()
    kept, prompt_ids, note = fit([SHORT, LONG], prompter, 11, "error")  # 10 bytes and a BOS: exactly the limit
    assert kept == (SHORT, LONG) and note is None
    assert prompt_ids == {"short": prompter.encode(SHORT), "long": prompter.encode(LONG)}


def test_drop_counts_what_it_leaves_out():
    kept, prompt_ids, note = fit([SHORT, LONG], plain(), 10, "drop")
    assert kept == (SHORT,) and set(prompt_ids) == {"short"}
    assert note.startswith("1 of 2 prompts are longer than 10 tokens (the longest: 11) and were left out")


def test_error_names_the_question():
    with pytest.raises(InputError, match=r"question long has 11 tokens; data.max_prompt_tokens is 10"):
        fit([SHORT, LONG], plain(), 10, "error")


def test_truncate_left_cuts_the_question_and_never_the_template():
    prompter = plain("Q: {{ question }} A:")
    kept, prompt_ids, note = fit([LONG], prompter, 12, "truncate_left")
    assert kept == (LONG,)  # the question itself, its text and its gold, are what they were
    # 12 tokens are the BOS, "Q: ", " A:" and so the last 5 letters
    assert prompt_ids["long"] == prompter.encode(Question("", "fghij", ""))
    assert len(prompt_ids["long"]) == 12
    assert "1 of 1 prompts" in note and "cut at the beginning of the question" in note


def test_a_template_that_leaves_no_room_for_a_question_is_refused():
    """The BOS, "Q: " and " A:" are 7 tokens."""
    assert fit([LONG], plain("Q: {{ question }} A:"), 8, "truncate_left")[1]["long"][4:-3] == plain().encode(LONG)[-1:]
    with pytest.raises(InputError, match="=7 leaves no room for a question: the prompt template with one .* 8 tokens"):
        fit([LONG], plain("Q: {{ question }} A:"), 7, "truncate_left")


def test_a_question_without_a_template_is_cut_too():
    """Nothing would be left of a tokenizer that adds no BOS: an empty text has no tokens."""
    prompter = Prompter(config(), tokenizer())
    assert fit([LONG], prompter, 3, "truncate_left")[1] == {"long": prompter.encode(Question("", "hij", ""))}


def test_no_prompt_within_the_limit_is_refused():
    with pytest.raises(InputError, match=r"None of the 1 prompts fits data.max_prompt_tokens=3; the longest has 11"):
        fit([LONG], plain(), 3, "drop")


def test_unknown_characters_are_noted():
    inner = Tokenizer(models.WordLevel({"1": 0, "+": 1, "<unk>": 2}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    prompter = Prompter(config(), PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>"))
    known, strange = Question("k", "1+1", "2"), Question("s", "1+x", "2")
    assert fit([known], prompter, 9, "error")[2] is None
    assert fit([known, strange], prompter, 9, "error")[2].startswith("Warning: 1 of 2 prompts hold characters")
