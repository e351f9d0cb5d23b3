"""The reward function for TRL that the documentation shows, called as TRL's GRPOTrainer calls one (trl 1.16.0)."""

from __future__ import annotations

import re
import types

import pytest

from tests.grading.rows import DOC

TITLE = "## In another trainer"
COMPLETIONS = [r"so \boxed{\frac{1}{2}}", "The answer is 3.", "nothing", r"\boxed{7} or \boxed{8}"]
ANSWERS = ["0.5", "4", "4", "7"]


@pytest.fixture
def reward():
    """The function, from the first block of Python behind the title."""
    block = re.search(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8").partition(TITLE)[2], re.DOTALL)
    space: dict[str, object] = {}
    exec(block[1], space)
    yield space["right_answer"]
    space["grader"].close()


def called(function, completions: list, columns: dict[str, list], prompts: list | None = None) -> list:
    """As GRPOTrainer._calculate_rewards does: keywords only, the columns but `prompt` as lists, and three of its own."""
    return function(
        prompts=prompts or ["?"] * len(completions),
        completions=completions,
        completion_ids=[[1, 2]] * len(completions),
        **columns,
        trainer_state=types.SimpleNamespace(global_step=0),
        log_extra=lambda name, values: None,
        log_metric=lambda name, value: None,
    )


def test_texts(reward):
    assert called(reward, COMPLETIONS, {"answer": ANSWERS, "level": [1, 2, 3, 4]}) == [1.0, 0.0, 0.0, 0.0]


def test_conversations(reward):
    turns = [[{"role": "assistant", "content": text}] for text in COMPLETIONS]
    prompts = [[{"role": "user", "content": "?"}]] * len(turns)
    assert called(reward, turns, {"answer": ANSWERS}, prompts) == [1.0, 0.0, 0.0, 0.0]


def test_the_last_message_is_the_answer(reward):
    called_a_tool = [
        {"role": "assistant", "content": r"\boxed{1}", "tool_calls": []},
        {"role": "tool", "name": "f", "content": "2"},
        {"role": "assistant", "content": r"\boxed{2}"},
    ]
    silent = [{"role": "assistant", "content": None}]
    bare = [{"role": "assistant", "tool_calls": []}]
    assert called(reward, [called_a_tool, silent, bare], {"answer": ["2", "2", "2"]}) == [1.0, 0.0, 0.0]


def test_several_accepted_answers(reward):
    assert called(reward, [r"\boxed{7}", r"\boxed{8}"], {"answer": [["5", "7"], ["5", "7"]]}) == [1.0, 0.0]


def test_it_gives_what_trl_can_make_a_tensor_of(reward):
    import torch

    rewards = called(reward, [r"\boxed{9^{9^{9}}}", r"\boxed{\sqrt{8}}"], {"answer": ["1", r"2\sqrt{2}"]})
    assert torch.tensor(rewards).tolist() == [0.0, 1.0]


def test_unequal_lists_are_no_rewards(reward):
    """Negative control of the harness: a column that does not go with the completions is not graded silently."""
    with pytest.raises(ValueError):
        called(reward, COMPLETIONS, {"answer": ANSWERS[:2]})


def test_the_lines_are_five():
    block = re.search(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8").partition(TITLE)[2], re.DOTALL)
    lines = [line for line in block[1].splitlines() if line.strip() and not line.startswith(("from", "import"))]
    assert len(lines) == 5
