"""`explain RUN --step N` fits a screen or two; `--all` and `--question` have the rest."""

from __future__ import annotations

import pytest

from grpo_runner.errors import InputError
from grpo_runner.lessons import explain
from tests.lessons.folders import answer, printed

LONG = "word " * 400


def rows() -> list[dict]:
    """Five questions of two answers: weights grow with the reward of the first; the second of them is a tie."""
    rewards = (0.5, 0.0, 1.0, 0.25, 0.75)
    return [
        answer(slot, sample, reward if sample == 0 else 0, 10, completion=f"text {slot}.{sample} {LONG}")
        for slot, reward in enumerate(rewards)
        for sample in (0, 1)
    ]


def test_the_weightiest_question_is_shown(folder):
    text = printed(str(folder(rows=rows(), overrides=["advantage=dr_grpo"])), "--step", "4")
    assert "text 2.0" in text and not any(f"text {slot}.0" in text for slot in (0, 1, 3, 4))
    assert "4 more questions of smaller or no weight: --all, --question ID, or the page." in text
    assert len(text.splitlines()) < 45 and "--all has all" in text


def test_all_and_one_question_have_whole_answers(folder):
    path = str(folder(rows=rows()))
    everything = printed(path, "--step", "4", "--all")
    assert all(f"text {slot}.1" in everything for slot in range(5))
    assert everything.count("word") == 10 * 400 and "more question" not in everything
    assert printed(path, "--step", "4", "--question", "q1").count("word") == 2 * 400


@pytest.mark.parametrize(
    ("words", "said"), [(["--all=1"], "--all takes no value."), (["--all", "--question=q1"], "--all and --question")]
)
def test_wrong_words(folder, words, said):
    with pytest.raises(InputError, match=f"^{said}"):
        explain([str(folder()), "--step", "4", *words])
