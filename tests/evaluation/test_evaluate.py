"""Evaluation metrics, worked out by counting."""

from __future__ import annotations

import dataclasses

import pytest

from grpo_runner.evaluation import Suite, evaluate
from grpo_runner.evaluation.evaluate import TEXT, summarise
from grpo_runner.parallel import Ranks
from grpo_runner.schema import EvaluationConfig
from grpo_runner.types import Completion, Finish, Group, Question, Status, Verdict

CONFIG = EvaluationConfig(
    every=1, sets={}, questions=9, samples=2, greedy=True, temperature=0.7, top_p=0.9, max_new_tokens=None
)


def test_pb073_groups_of_two_questions_scored_once_each():
    def group(name, *lengths):
        completions = tuple(
            Completion(tuple(range(n)), "", (), Finish.LENGTH if n == 9 else Finish.EOS) for n in lengths
        )
        return Group(Question(name, name, "1"), (1,), completions)

    right, wrong, none = Verdict(Status.CORRECT), Verdict(Status.WRONG), Verdict(Status.NO_ANSWER)
    found = summarise(
        [group("a", 3, 5), group("b", 9, 3), group("c", 1, 1)], [[right, wrong], [right, right], [wrong, none]]
    )
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert found["pass@2"] == pytest.approx(2 / 3)
    assert found["length_mean"] == pytest.approx(22 / 6)
    assert found["length_right"] == pytest.approx((3 + 9 + 3) / 3)
    assert found["length_wrong"] == pytest.approx((5 + 1 + 1) / 3)  # an answer without one is not right either
    assert found["truncated"] == pytest.approx(1 / 6) and found["no_answer"] == pytest.approx(1 / 6)
    only_right = summarise([group("a", 3)], [[right]])
    assert "pass@1" not in only_right and "maj@1" not in only_right
    assert only_right["length_right"] == 3 and only_right["length_wrong"] is None


def test_the_vote_of_an_evaluation_is_counted_by_hand():
    """Of four answers: two of one wrong text (spaces aside) against one right; a tie; right against silence."""

    def answers(*texts):
        return [
            Verdict(Status.CORRECT, text)
            if text == "7"
            else Verdict(Status.WRONG, text)
            if text
            else Verdict(Status.NO_ANSWER)
            for text in texts
        ]

    rows = [answers("7", "3", " 3", "4"), answers("7", "7", "3", "3"), answers("7", "", "", "")]
    groups = [Group(Question(n, n, "7"), (1,), (Completion((1,), "", (), Finish.EOS),) * 4) for n in "abc"]
    found = summarise(groups, rows)
    assert found["maj@4"] == pytest.approx((0 + 1 / 2 + 1) / 3)
    assert found["pass@4"] == 1.0 and found["accuracy"] == pytest.approx(4 / 12)  # three figures, none the other


class Echo:
    """Answers each question by its own text, and keeps how it was asked."""

    def __init__(self):
        self.asked = []

    def sample(self, questions, prompts, group_size, sampling):
        self.asked.append((sampling.purpose, sampling.temperature, sampling.top_p, group_size))
        answers = [Completion((1, 2), question.text, (-1.0, -1.0), Finish.EOS) for question in questions]
        return [
            Group(question, tuple(prompt), (made,) * group_size)
            for question, prompt, made in zip(questions, prompts, answers, strict=True)
        ]


def grade(groups):
    """Right where the text is the gold."""
    return [
        [Verdict(Status.CORRECT if one.text in group.question.golds else Status.WRONG) for one in group.completions]
        for group in groups
    ]


def suite(name, *texts):
    questions = tuple(Question(f"{name}/{text}", text, "1") for text in texts)
    return Suite(name, questions, [(5,)] * len(questions), (), 8, 0)


def test_the_mean_over_sets_has_no_weights_and_each_set_has_its_own_figures():
    engine = Echo()
    found, rows = evaluate(engine, grade, [suite("a", "1", "2"), suite("b", "3", "4", "5", "6")], CONFIG, Ranks())
    assert (found["questions"], found["a/questions"], found["b/questions"]) == (6, 2, 4)
    assert (found["a/greedy/accuracy"], found["b/greedy/accuracy"]) == (0.5, 0.0)
    assert found["greedy/accuracy"] == found["sampled/accuracy"] == 0.25  # not 1 of 6
    assert engine.asked == [
        (f"evaluation/{name}/{mode}", temperature, top_p, size)
        for name in "ab"
        for mode, temperature, top_p, size in (("greedy", 0.0, 1.0, 1), ("sampled", 0.7, 0.9, 2))
    ]
    # set b has no right answer, so that a mean over sets would be the length of other sets' answers
    assert (found["a/greedy/length_right"], found["b/greedy/length_right"], found["greedy/length_right"]) == (
        2,
        None,
        None,
    )
    assert found["greedy/length_wrong"] == 2
    assert [row["set"] for row in rows] == list("aabbbb")
    assert rows[0] == {
        "set": "a", "question_id": "a/1", "question": "1", "gold": "1", "text": "1", "text_right": True,
        "greedy/answers": 1, "greedy/right": 1, "greedy/truncated": 0,
        "greedy/length_mean": 2, "greedy/length_right": 2, "greedy/length_wrong": None,
        "sampled/answers": 2, "sampled/right": 2, "sampled/truncated": 0,
        "sampled/length_mean": 2, "sampled/length_right": 2, "sampled/length_wrong": None,
    }  # fmt: skip
    assert (rows[1]["sampled/right"], rows[1]["sampled/length_wrong"], rows[1]["text_right"]) == (0, 2, False)


def test_a_set_without_a_name_has_the_keys_and_the_draws_of_one_evaluation():
    engine = Echo()
    found, rows = evaluate(engine, grade, [suite("", "1", "2")], dataclasses.replace(CONFIG, samples=0), Ranks())
    assert set(found) == {"questions", "samples"} | {
        f"greedy/{name}"
        for name in ("accuracy", "length_mean", "length_right", "length_wrong", "truncated", "no_answer")
    }
    assert [asked[0] for asked in engine.asked] == ["evaluation/greedy"]
    assert len(rows) == 2 and "sampled/right" not in rows[0]


def test_the_text_of_a_question_is_bounded_and_says_that_it_was_cut():
    _, rows = evaluate(Echo(), grade, [suite("", "1" * TEXT, "1" * (TEXT + 1))], CONFIG, Ranks())
    assert rows[0]["text"] == "1" * TEXT
    assert len(rows[1]["text"]) == TEXT and rows[1]["text"].endswith("1 …")
