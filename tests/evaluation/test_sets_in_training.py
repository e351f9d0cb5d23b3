"""evaluation.sets in a run: figures of each set and their mean, in evals.jsonl and on the terminal."""

from __future__ import annotations

import json

import pytest

from grpo_runner import compose, run
from grpo_runner.tracking.report import before_after, evaluation_line
from tests.helpers import changed

SMALL = (
    "debug=cpu_smoke", "tracking=off", "data.train_size=16", "data.eval_size=8", "max_new_tokens=12", "steps=1",
    "evaluation.every=1", "evaluation.samples=1", "evaluation.questions=3",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    parts = tmp_path_factory.mktemp("sets")
    rows = {"easy": [("11+12=?", "23"), ("20+3=?", "23")], "never": [(f"{n}+30=?", "1") for n in range(11, 16)]}
    words = []
    for name, asked in rows.items():
        lines = [json.dumps({"question": text, "answer": gold}) + "\n" for text, gold in asked]
        (parts / f"{name}.jsonl").write_text("".join(lines))
        words += [f"+evaluation.sets.{name}.path={parts / name}.jsonl"]
        words += [f"+evaluation.sets.{name}.question_column=question", f"+evaluation.sets.{name}.answer_column=answer"]
    run(changed(compose([*SMALL, *words]), run_dir=str(parts / "run")))
    return parts / "run"


def test_each_set_and_the_mean_without_weights(folder):
    rows = [json.loads(line) for line in (folder / "evals.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1]
    for row in rows:
        assert (row["easy/questions"], row["never/questions"], row["questions"]) == (2, 3, 5)  # 3 of a set at most
        for mode in ("greedy", "sampled"):
            assert row[f"never/{mode}/accuracy"] == 0
            assert row[f"{mode}/accuracy"] == pytest.approx(row[f"easy/{mode}/accuracy"] / 2)


def test_the_terminal_names_the_sets(folder):
    row = json.loads((folder / "evals.jsonl").read_text().splitlines()[0])
    line = evaluation_line(row)
    assert line.startswith("mean of 2 sets: sampled accuracy") and "(5 questions x 1); greedy: easy " in line
    assert line.endswith("never 0.0 %")
    found = before_after(folder)
    assert found is not None and {"easy, greedy accuracy", "never, greedy accuracy"} <= {name for name, *_ in found[2]}
