"""A run with process rewards: the coefficient that each token had, against its answer's lines read anew."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import zstandard

from grpo_runner.errors import InputError
from tests.train.test_run import go, rows

PROCESS = ["advantage=process", "reward.steps=lines", "loss_norm=sequence_mean", "beta=no_kl", "max_new_tokens=40"]


def completions(folder: Path, step: int) -> list[dict]:
    packed = (folder / "completions" / f"step_{step:06d}.jsonl.zst").read_bytes()
    return [json.loads(line) for line in zstandard.ZstdDecompressor().stream_reader(packed).read().splitlines()]


def is_so(line: str) -> float:
    """Whether a line such as 29+22=51 is, by its parts."""
    left, _, right = line.partition("=")
    sign = "+" if "+" in left else "-"
    a, b = left.split(sign)
    return float(int(a) + (int(b) if sign == "+" else -int(b)) == int(right))


def steps_of(row: dict) -> list[tuple[int, float]]:
    """(index of the last token, reward) of each step, from the texts of the tokens."""
    made, text, last = [], "", len(row["token_texts"]) - 1
    lines = row["completion"].split("\n")
    for at, piece in enumerate(row["token_texts"]):
        text += piece
        if piece == "\n" and text.count("\n") < len(lines):
            made.append((at, is_so(lines[text.count("\n") - 1])))
    return [*made, (last, float(row["status"] == "correct"))]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("process") / "run"
    words = ["steps=2", "questions_per_step=4", "group_size=8", "tracking.completions_every=1", "optim.lr=0.003"]
    go(folder, *PROCESS, *words)
    return folder


def test_each_token_has_the_steps_that_end_at_it_or_later(run):
    seen = 0
    for step in range(2):
        of_step = completions(run, step)
        for slot in range(4):
            group = [row for row in of_step if row["slot"] == slot]
            steps = [steps_of(row) for row in group]
            everything = [reward for answer in steps for _, reward in answer]
            middle = sum(everything) / len(everything)
            spread = math.sqrt(sum((reward - middle) ** 2 for reward in everything) / len(everything))
            for row, answer in zip(group, steps, strict=True):
                for t, found in enumerate(row["coefficient"] or [0.0] * row["tokens"]):
                    later = sum((reward - middle) / spread for end, reward in answer if end >= t) if spread else 0.0
                    assert found == pytest.approx(later / row["tokens"] / 32, abs=1e-6)
                seen += len(answer) > 1
    assert seen > 10


def test_what_is_told_of_the_steps(run):
    for step, row in enumerate(rows(run)):
        steps = [steps_of(answer) for answer in completions(run, step)]
        before = [reward for answer in steps for _, reward in answer[:-1]]
        assert row["steps/mean"] == pytest.approx(sum(map(len, steps)) / len(steps))
        assert row["steps/right"] == pytest.approx(sum(before) / len(before))


def test_outcome_runs_have_no_such_figures_and_other_weights(run, tmp_path):
    """Negative control: the same answers at step 0, another update."""
    words = ["steps=2", "questions_per_step=4", "group_size=8", "optim.lr=0.003"]
    go(tmp_path / "run", *(word for word in PROCESS if word != "advantage=process" and "steps" not in word), *words)
    theirs, ours = rows(tmp_path / "run")[0], rows(run)[0]
    assert "steps/mean" not in theirs and theirs["accuracy"] == ours["accuracy"]
    assert abs(theirs["grad_norm"] - ours["grad_norm"]) > 1e-3


def test_a_function_of_ones_own_that_fails_is_told_with_its_key(tmp_path, monkeypatch):
    (tmp_path / "steps_of_mine.py").write_text("def named(questions, completions, outcomes):\n    return 1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    words = [word.replace("=lines", "=steps_of_mine:named") for word in PROCESS]
    with pytest.raises(InputError, match="reward.steps steps_of_mine:named raised ZeroDivisionError"):
        go(tmp_path / "run", *words)
