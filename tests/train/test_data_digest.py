"""The digest of the training questions in a run's folder: a run goes on with the questions it began with, or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from grpo_runner import compose, run
from grpo_runner.errors import InputError
from tests.helpers import changed

SMALL = [
    "debug=cpu_smoke", "tracking=off", "max_new_tokens=4", "evaluation.every=0", "data=jsonl", "data.max_prompt_tokens=64",
]  # fmt: skip


def write(path: Path, *sums: str) -> str:
    """A set of sums; gives the digest that it must have."""
    pairs = [(f"{text}=?", str(eval(text))) for text in sums]
    path.write_text("".join(json.dumps({"question": text, "answer": gold}) + "\n" for text, gold in pairs))
    lines = "".join(json.dumps([text, gold]) + "\n" for text, gold in pairs)
    return hashlib.sha256(lines.encode()).hexdigest()


def go(tmp_path: Path, steps: int):
    train = tmp_path / "train.jsonl"
    words = [*SMALL, f"data.train.path={train}", f"data.eval.path={train}", f"steps={steps}"]
    return run(changed(compose(words), run_dir=str(tmp_path / "run")))


def test_a_run_goes_on_with_its_own_questions_only(tmp_path):
    first = write(tmp_path / "train.jsonl", "1+1", "2+2", "3+3")
    assert go(tmp_path, 1).data == first
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["data"] == first
    assert json.loads((tmp_path / "run" / "data.json").read_text()) == {"sha256": first, "questions": 3}

    second = write(tmp_path / "train.jsonl", "1+1", "2+2", "3+4")  # the file has changed, its name has not
    with pytest.raises(InputError) as error:
        go(tmp_path, 2)
    message = str(error.value)
    assert f"there: 3 questions, sha256 {first}" in message and f"here:  3 questions, sha256 {second}" in message
    assert len(message.splitlines()) <= 5

    assert write(tmp_path / "train.jsonl", "1+1", "2+2", "3+3") == first
    assert go(tmp_path, 2).steps == 2  # negative control: the questions are back


def test_a_folder_from_before_the_digest_is_gone_on_from(tmp_path):
    write(tmp_path / "train.jsonl", "1+1", "2+2")
    go(tmp_path, 1)
    (tmp_path / "run" / "data.json").write_text("{")
    with pytest.raises(InputError, match="data.json cannot be read"):
        go(tmp_path, 2)
    (tmp_path / "run" / "data.json").unlink()
    later = write(tmp_path / "train.jsonl", "1+1", "2+3")
    assert go(tmp_path, 2).data == later


def test_a_run_says_which_questions_are_not_held_out(tmp_path, capsys):
    write(tmp_path / "train.jsonl", "1+1", "2+2")
    train = tmp_path / "train.jsonl"
    words = [*SMALL, f"data.train.path={train}", f"data.eval.path={train}", "steps=1", "evaluation.every=1"]
    run(changed(compose(words), run_dir=str(tmp_path / "run")))
    assert "2 of the 2 questions of data.eval are also trained on" in " ".join(capsys.readouterr().out.split())
