"""Worked solutions: from a column of the training file to what is trained on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from grpo_runner import data
from grpo_runner.config import compose
from grpo_runner.data.load import digest
from grpo_runner.errors import InputError
from grpo_runner.reward import unreadable
from grpo_runner.train import run

# rows as GSM8K's own files have them: the answer is a worked solution with marks for a calculator, then the number
GSM8K = [
    {
        "question": "How many clips in April and May?",
        "answer": "May: 48/2 = <<48/2=24>>24.\nAll: 48+24 = <<48+24=72>>72.\n#### 72",
    },
    {
        "question": "How much for 50 minutes?",
        "answer": "A minute: 12/60 = $<<12/60=0.2>>0.2.\nSo 0.2 x 50 = $<<0.2*50=10>>10.\n#### 10",
    },
]
PLAIN = ["May: 48/2 = 24.\nAll: 48+24 = 72.\n#### 72", "A minute: 12/60 = $0.2.\nSo 0.2 x 50 = $10.\n#### 10"]


def words(folder, rows=GSM8K, group="gsm8k"):
    for name in ("train", "eval"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [f"data.{name}.path={folder / f'{name}.jsonl'}" for name in ("train", "eval")]
    return [f"data={group}", *files, "data.eval_size=1"]


def loaded(config, solved=True):
    return data.load(config.data, 0, unreadable, solved=solved)


def refused(config):
    with pytest.raises(InputError) as caught:
        loaded(config)
    return str(caught.value)


def test_gsm8ks_solutions_are_its_answers_without_the_calculators_marks(tmp_path):
    made = loaded(compose(["method=sft", *words(tmp_path)])).train
    assert [question.solution for question in made] == PLAIN
    assert [question.gold for question in made] == ["72", "10"]
    assert [q.solution for q in loaded(compose(words(tmp_path)), solved=False).train] == [None, None]


def test_maths_solutions_are_a_column_of_their_own(tmp_path):
    rows = [{"problem": "1+1?", "solution": r"It is $\boxed{2}$.", "answer": "2", "level": "Level 1"}]
    [question] = loaded(compose(["method=sft", *words(tmp_path, rows, "math")])).train
    assert (question.solution, question.gold) == (r"It is $\boxed{2}$.", "2")


def test_solutions_go_with_their_rows_where_some_are_left_out(tmp_path):
    rows = [
        {"problem": "long " * 9, "solution": "a", "answer": "1", "level": 1},
        {"problem": "p", "solution": "b", "answer": "2", "level": 5},
        {"problem": "q", "solution": "c", "answer": "", "level": 1},
        {"problem": "r", "solution": "d", "answer": "4", "level": 1},
    ]
    chosen = ["data.levels=[1]", "data.max_question_characters=9", "data.unreadable_gold=drop"]
    config = compose(["method=sft", *words(tmp_path, rows, "math_12k"), *chosen])
    assert [(q.text, q.solution) for q in loaded(config).train] == [("r", "d")]


def test_a_set_without_worked_solutions_is_refused_with_what_to_do(tmp_path):
    rows = [{"question": "q", "answer": "7"}]
    config = compose(["method=sft", *words(tmp_path, rows)])
    assert refused(config).endswith("train.jsonl:1: the worked solution (data.solution_column) is the bare answer '7'.\n"
        "Allowed: a column of worked solutions (data.solution_column=NAME), or a file that has them.")  # fmt: skip
    assert "data.solution_column is null" in refused(compose(["method=sft", *words(tmp_path, rows, "jsonl")]))
    named = compose(["method=sft", *words(tmp_path, rows, "jsonl"), "data.solution_column=worked"])
    assert "data.solution_column" in refused(named) and "worked" in refused(named)
    empty = [{"question": "q", "answer": "7", "worked": " "}]
    named = compose(["method=sft", *words(tmp_path, empty, "jsonl"), "data.solution_column=worked"])
    assert "train.jsonl:1: the worked solution (data.solution_column) is empty or not text" in refused(named)


def test_solutions_are_part_of_the_digest_where_they_are_trained_on(tmp_path):
    config = compose(words(tmp_path))
    before = [loaded(config, solved).digest for solved in (True, False)]
    other = [{**row, "answer": row["answer"].replace("May", "In May")} for row in GSM8K]
    words(tmp_path, other)
    after = [loaded(config, solved).digest for solved in (True, False)]
    assert before[0] != after[0] and before[1] == after[1] and before[0] != before[1]


def test_the_arithmetic_generators_digest_is_that_of_its_questions():
    """Runs of before have it in their folder; a solution follows from the question."""
    made = loaded(compose(), solved=False)
    assert made.digest == data.load(compose().data, 0, unreadable, solved=True).digest
    assert made.digest == digest([replace(question, solution=None) for question in made.train])


def test_a_run_on_gsm8ks_own_files(tmp_path):
    """The embedded model's alphabet has its digits and signs only: questions and solutions of those."""
    rows = [
        {"question": f"{a}+{b}=?", "answer": f"{a}+{b}=<<{a}+{b}={a + b}>>{a + b}\n\\boxed{{{a + b}}}"}
        for a, b in ((1, 2), (3, 4), (5, 6), (7, 8))
    ]
    small = [
        "method=sft",
        "debug=cpu_smoke",
        "tracking=off",
        "evaluation=never",
        "steps=1",
        "tracking.completions_every=1",
    ]
    pattern = [r"data.answer_pattern='\\boxed\{(\d+)\}'", "data.max_prompt_tokens=64", "prompt=tiny"]
    config = compose([*small, *words(tmp_path, rows), *pattern, f"hydra.run.dir={tmp_path / 'run'}"])
    run(config)
    [row] = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert (row["accuracy"], row["reward/mean"], row["updates"]) == (1.0, 1.0, 1)
