"""The tokens that memory is counted for: of known questions the mean, else the most there can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_runner.config import compose
from grpo_runner.planning import prompt_length
from grpo_runner.planning.made import make
from grpo_runner.planning.words import read

LAPTOP = ["experiment=laptop_gsm8k", "device=cpu"]
# bytes: the high-water mark (/usr/bin/time -v) of runs of experiment=laptop_gsm8k with model.path=FOLDER of
# SmolLM2-135M, GSM8K from local files, tracking=off, one thread: two steps without an evaluation, and one step between
# two greedy evaluations of 256 questions
MEASURED = {
    ("evaluation=never", "dtype=float32"): 2_548_960 * 1024,
    ("evaluation=never", "dtype=bfloat16"): 1_674_484 * 1024,
    ("evaluation.samples=0", "dtype=float32"): 5_990_564 * 1024,
    ("evaluation.samples=0", "dtype=bfloat16"): 3_493_020 * 1024,
}


def told(*words: str) -> int:
    """Bytes on a CPU."""
    made = make(read([*LAPTOP, *words]), memory=24 * 10**9, remembered=False)
    return made.needs[0].most


@pytest.mark.parametrize("words", MEASURED, ids=" ".join)
def test_the_laptop_run_needs_what_was_measured_within_a_fifth(words):
    assert abs(told(*words) / MEASURED[words] - 1) < 0.2


def test_the_longest_prompt_would_be_off_by_more():
    """Negative control: as it was counted before."""
    assert told("evaluation.samples=0", "dtype=float32", "--prompt-tokens", "256") > 1.8 * max(MEASURED.values())


def test_a_local_file_is_read_and_the_longer_set_counts(tmp_path: Path):
    for name, characters in (("train", 35), ("eval", 350)):
        rows = [{"q": "x" * (characters - 7)}, {"q": "x" * (characters + 7)}]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["data=jsonl", "prompt=none", "prompt.template='{{ question }}'", "data.question_column=q"]
    words += [f"data.{name}.path={tmp_path / name}.jsonl" for name in ("train", "eval")]
    assert prompt_length.usual(compose(words)) == (100, "about the mean of data.eval")
    assert prompt_length.usual(compose([*words, "evaluation=never"])) == (10, "about the mean of data.train")
    assert prompt_length.usual(compose([*words, "data.max_prompt_tokens=50"])).tokens == 50


@pytest.mark.parametrize("text", ["", "not JSON\n", '{"other": "x"}\n', '{"question": 1}\n'])
def test_what_is_not_known_is_the_most_there_can_be(tmp_path: Path, text: str):
    (tmp_path / "train.jsonl").write_text(text)
    words = ["data=gsm8k", f"data.train.path={tmp_path / 'train.jsonl'}", "data.max_prompt_tokens=300"]
    assert prompt_length.usual(compose(words)).tokens == 300
    assert prompt_length.usual(compose(["data.max_prompt_tokens=99"])).tokens == 99  # a generator's


def test_one_set_that_is_not_known_is_enough():
    assert prompt_length.usual(compose(["data=gsm8k", "evaluation=aime"])).said.startswith("data.max_prompt_tokens")


def test_every_set_with_a_count_is_one_whose_rows_are_known():
    from grpo_runner.planning.sets import ROWS

    assert set(prompt_length.CHARACTERS) <= {(name, split) for name, _, split in ROWS}
