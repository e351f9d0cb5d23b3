"""Steps of answers by line, in tokens, and a user's own function with all that it can do wrong."""

from __future__ import annotations

import sys

import pytest

from grpo_runner.errors import InputError, NonFiniteError
from grpo_runner.policy.models import EMBEDDED, load_tokenizer
from grpo_runner.prompts import token_texts
from grpo_runner.reward.compose import build
from grpo_runner.reward.steps import lines, step_tokens, steps_of
from grpo_runner.schema import ModelConfig
from tests.reward.test_compose import BUDGET, config, group, rewards


def of(text, outcome=1.0):
    """(the text of each step, its reward)."""
    [steps] = lines(["?"], [text], [outcome])
    starts = [0, *(end for end, _ in steps)]
    return [(text[start:end], reward) for start, (end, reward) in zip(starts, steps, strict=False)]


def test_lines_of_the_embedded_task():
    assert of("29+22=51\n51+6=58\n\\boxed{58}", 0.0) == [("29+22=51\n", 1), ("51+6=58\n", 0), ("\\boxed{58}", 0)]
    assert of("\\boxed{37}", 1.0) == [("\\boxed{37}", 1)]


def test_a_line_without_a_statement_belongs_to_the_next_step():
    text = "Let us see.\n\n48/2 = <<48/2=24>>24 clips.\nNow both.\n48+24=71\n#### 72\n"
    assert of(text, 0.5) == [
        ("Let us see.\n\n48/2 = <<48/2=24>>24 clips.\n", 1), ("Now both.\n48+24=71\n", 0), ("#### 72\n", 0.5),
    ]  # fmt: skip


def test_the_last_line_earns_the_outcome_whatever_it_states():
    assert of("1+1=2\n2+2=5", 1.0) == [("1+1=2\n", 1), ("2+2=5", 1.0)]
    assert of("1+1=2\n2+2=4 \n\n ", 0.0) == [("1+1=2\n", 1), ("2+2=4 \n\n ", 0.0)]
    assert of("57-20=", 0.0) == [("57-20=", 0.0)]  # cut off


def test_an_empty_answer_is_one_step():
    assert lines(["?"], [""], [0.25]) == [((0, 0.25),)]


# --- from characters to tokens


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(
        ModelConfig(path="embedded", revision=None, gradient_checkpointing=False, quantize="none",
                    attn_implementation="auto")
    )  # fmt: skip


def test_tokens_of_the_embedded_model(tokenizer):
    """Each step ends with its line break, the last with the EOS."""
    text = "29+22=51\n51+6=57\n\\boxed{57}"
    ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    pieces = token_texts(tokenizer, ids)
    assert pieces[-1] == "<eos>"
    found = step_tokens([end for end, _ in lines(["?"], [text], [1.0])[0]], text, pieces)
    assert [pieces[at] for at in found] == ["\n", "\n", "<eos>"]
    assert ["".join(pieces[: at + 1]) for at in found[:2]] == ["29+22=51\n", "29+22=51\n51+6=57\n"]
    assert EMBEDDED.is_dir()


CASES = [
    # a character of several tokens is added by its last, and a token may hold the end of one step and more
    ("3€ ×2=6\nyes", ["3", "", "", "€", " ×", "2", "=6\ny", "es", "<eos>"], [8, 11], [6, 8]),
    # special tokens add nothing to the text
    ("1+1=2\nok", ["<think>", "1+1", "=2", "<|x|>", "\n", "ok", "</s>"], [6, 8], [4, 6]),
    # two steps that end with one token
    ("a\n\nb", ["a", "\n\n", "b"], [2, 3, 4], [1, 1, 2]),
    # the space that a tokenizer drops at the beginning, and one that it puts in
    ("Now\n2 ok", ["▁Now".replace("▁", " "), "\n", "2", " ok"], [4, 8], [1, 3]),
    # cut behind a stop string that ends within a token
    ("1\nEND", ["1", "\n", "END.\n"], [2, 5], [1, 2]),
    # what a step's end never reaches ends with the answer
    ("", ["</s>"], [0], [0]),
]


@pytest.mark.parametrize(("text", "pieces", "ends", "tokens"), CASES)
def test_the_token_with_which_a_step_ends(text, pieces, ends, tokens):
    assert step_tokens(ends, text, pieces) == tokens


def test_multi_byte_tokens_of_a_byte_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE({letter: at for at, letter in enumerate([*alphabet, "<s>"])}, []))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytes_.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token="<s>")
    text = "2×3=6€\n\\boxed{6}😀"
    ids = [*wrapped(text, add_special_tokens=False)["input_ids"], wrapped.eos_token_id]
    assert len(ids) == len(text.encode()) + 1
    found = step_tokens([1, 2, 6, 7, len(text)], text, token_texts(wrapped, ids))
    # bytes up to each end, less one; the last takes the EOS in
    assert found == [0, 2, 8, 9, len(ids) - 1]


# --- in the reward


def test_steps_stand_beside_the_reward():
    answered = [group("q", "4", "1+3=4\n\\boxed{4}", "1+3=5\n\\boxed{5}")]
    [[right, wrong]] = rewards(build(config(steps="lines"), BUDGET), answered)
    assert (right.total, right.steps) == (1.0, ((6, 1.0), (15, 1.0)))
    assert (wrong.total, wrong.steps) == (0.0, ((6, 0.0), (15, 0.0)))
    [[plain, _]] = rewards(build(config(), BUDGET), answered)
    assert plain.steps == ()


def own(monkeypatch, function):
    monkeypatch.setitem(sys.modules, "of_mine", type(sys)("of_mine"))
    sys.modules["of_mine"].named = function
    return steps_of("of_mine:named")


def test_a_function_of_ones_own(monkeypatch):
    def halves(questions, completions, outcomes):
        assert questions == ["q1", "q2"]
        both = zip(completions, outcomes, strict=True)
        return [[(len(text) // 2, 0.5), (len(text), earned)] if text else None for text, earned in both]

    assert own(monkeypatch, halves)(["q1", "q2"], ["abcd", ""], [1.0, 0.0]) == [((2, 0.5), (4, 1.0)), None]
    built = build(config(steps="of_mine:named", truncated="keep"), BUDGET)
    sys.modules["of_mine"].named = lambda questions, completions, outcomes: [None] * len(completions)
    [[lost]] = rewards(built, [group("q", "4", "no")])
    assert lost.total is None and lost.steps == ()  # it cannot be scored, so it is left out


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ([[(1, 1.0)]], "one entry a completion \\(2\\)"),
        ("ab", "not str"),
        ([[(3, 1.0)], None], "character 3 of an answer of 2"),
        ([[(2, 1.0), (1, 1.0)], None], "after one that ends at 2"),
        ([[], None], "no step"),
        ([[1], None], "must be \\(characters"),
        ([[(1, "x")], None], "must be \\(characters"),
        (1, "raised TypeError"),
    ],
)
def test_what_it_may_not_return(monkeypatch, returned, said):
    with pytest.raises(InputError, match=said) as caught:
        own(monkeypatch, lambda **lists: returned)(["q", "q"], ["ab", "cd"], [1.0, 1.0])
    assert "reward.steps" in str(caught.value) and str(caught.value).count("\n") < 5


def test_a_reward_that_is_no_number_stops_the_run(monkeypatch):
    for reward in (float("nan"), float("inf"), 1e16):
        with pytest.raises(NonFiniteError, match="reward.steps"):
            own(monkeypatch, lambda reward=reward, **lists: [[(1, reward)]])(["q"], ["ab"], [1.0])


def test_one_that_is_not_there_is_told_at_once():
    with pytest.raises(InputError, match="reward.steps"):
        build(config(steps="no_such_module:named"), BUDGET)
