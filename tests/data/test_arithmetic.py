"""Made-up arithmetic questions: right golds, values in range, disjoint splits, and the same ones for the same seed."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from grpo_runner.data import arithmetic
from grpo_runner.errors import InputError

SEEDS = (0, 1, 2**70)


def walk(text: str) -> list[int]:
    """The running values of a question, by Python's own arithmetic on every prefix of it."""
    expression = text.removesuffix("=?")
    cuts = [m.start() for m in re.finditer(r"[+-]", expression)] + [len(expression)]
    return [eval(expression[:cut]) for cut in cuts]


@pytest.mark.parametrize("split", ["train", "eval"])
@pytest.mark.parametrize("seed", SEEDS)
def test_golds_and_intermediate_values(split, seed):
    for question in arithmetic.questions(split, seed, 300):
        assert re.fullmatch(r"\d+([+-]\d+){1,3}=\?", question.text)
        assert all(2 <= int(n) <= 29 for n in re.findall(r"\d+", question.text))
        assert all(0 <= value <= 99 for value in walk(question.text)), question.text
        assert question.gold == str(walk(question.text)[-1])
        assert question.id == "arithmetic/" + question.text[:-2]


def test_splits_are_disjoint_for_all_seeds():
    train = {q.text for seed in range(20) for q in arithmetic.questions("train", seed, 400)}
    held_out = {q.text for seed in range(20) for q in arithmetic.questions("eval", seed, 400)}
    assert not train & held_out
    assert {arithmetic.split_of(t) for t in train} == {"train"} and {arithmetic.split_of(t) for t in held_out} == {
        "eval"
    }


def test_one_text_in_eight_is_held_out():
    texts = [f"{a}+{b}+{c}=?" for a in range(2, 30) for b in range(2, 30) for c in range(2, 30)]
    share = sum(arithmetic.split_of(t) == "eval" for t in texts) / len(texts)
    assert share == pytest.approx(1 / 8, abs=0.01)


def test_a_function_of_the_seed():
    first = arithmetic.questions("train", 0, 200)
    assert first == arithmetic.questions("train", 0, 200)
    assert first[:50] == arithmetic.questions("train", 0, 50)
    other = arithmetic.questions("train", 1, 200)
    assert first != other and len({q.text for q in first} & {q.text for q in other}) < 40


@pytest.mark.parametrize(("split", "count"), [("train", 3000), ("eval", 1000)])
def test_distinct_and_mixed(split, count):
    found = arithmetic.questions(split, 3, count)
    assert len(found) == len({q.text for q in found}) == len({q.id for q in found}) == count


def test_the_mix_of_operands():
    kinds = Counter(len(re.findall(r"\d+", q.text)) for q in arithmetic.questions("train", 0, 1500))
    for operands, share in arithmetic.SHARES.items():
        assert kinds[operands] / 1500 == pytest.approx(share, abs=0.05)


def test_a_kind_that_runs_out_is_made_up_by_the_others():
    kinds = Counter(len(re.findall(r"\d+", q.text)) for q in arithmetic.questions("eval", 0, 2000))
    assert kinds[2] <= 145 and sum(kinds.values()) == 2000


def test_solutions():
    assert arithmetic.worked_solution("29+22+6-20=?") == "29+22=51\n51+6=57\n57-20=37\n\\boxed{37}"
    assert arithmetic.direct_solution("29+22+6-20=?") == "\\boxed{37}"
    assert arithmetic.worked_solution("5-5=?") == "5-5=0\n\\boxed{0}"


def test_every_line_of_a_worked_solution_is_true():
    for question in arithmetic.questions("eval", 0, 200):
        *lines, last = arithmetic.worked_solution(question.text).split("\n")
        assert last == arithmetic.direct_solution(question.text) == f"\\boxed{{{question.gold}}}"
        for line in lines:
            left, right = line.split("=")
            assert eval(left) == int(right)


@pytest.mark.parametrize("text", ["", "12=?", "1+2", "1*2=?", "+1+2=?", "1+2=? "])
def test_other_texts_are_refused(text):
    with pytest.raises(InputError, match="arithmetic question"):
        arithmetic.worked_solution(text)


@pytest.mark.parametrize(("split", "count"), [("train", 100_001), ("eval", 10_001), ("eval", -1)])
def test_counts_that_cannot_be_distinct_are_refused(split, count):
    with pytest.raises(InputError, match="distinct"):
        arithmetic.questions(split, 0, count)


def test_the_largest_counts_can_be_made():
    assert len({q.text for q in arithmetic.questions("eval", 0, 10_000)}) == 10_000


def test_other_splits_are_refused():
    with pytest.raises(InputError, match='Did you mean "train"'):
        arithmetic.questions("trian", 0, 1)  # type: ignore[arg-type]
