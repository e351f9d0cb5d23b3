"""scripts/reasoning_gym_table.py with a stand-in for the library: two tables without a question in common."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import reasoning_gym_table  # noqa: E402


@pytest.fixture
def library(monkeypatch):
    """Entries as the library's: every third comes again, every fifth has no text as its answer; "few" has but six."""
    asked = []

    def create_dataset(task, size, seed):
        asked.append((task, size, seed))
        return [
            {"question": f"{task} {seed + i - (i % 3 == 1)}", "answer": None if i % 5 == 0 else str(i), "metadata": {}}
            for i in range(min(size, 10 if task == "few" else size))
        ]

    monkeypatch.setitem(sys.modules, "reasoning_gym", SimpleNamespace(create_dataset=create_dataset))
    return asked


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_two_tables_without_a_question_in_common(library, tmp_path, capsys):
    words = ["chain_sum", "--train", "4", "--eval", "4", "--seed", "3", "--folder", str(tmp_path / "new")]
    with pytest.raises(SystemExit, match="80 entries have only 6 different questions"):
        reasoning_gym_table.main(["few", *words[1:]])
    reasoning_gym_table.main(words)
    train, held_out = read(tmp_path / "new" / "train.jsonl"), read(tmp_path / "new" / "eval.jsonl")
    assert (len(train), len(held_out)) == (4, 4)
    assert not {row["question"] for row in train} & {row["question"] for row in held_out}
    assert all(set(row) == {"question", "answer"} and row["answer"] for row in train + held_out)
    assert library == [("few", 80, 3), ("chain_sum", 80, 3)]


def test_without_the_library(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(SystemExit, match="pip install"):
        reasoning_gym_table.main(["chain_sum", "--train", "1", "--eval", "1", "--folder", str(tmp_path)])
