"""The reward model trained on by round: what it is trained on, that it learns, and that a resumed run has all of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from grpo_runner.tracking import jsonl
from grpo_runner.train.rounds import FILE, Rounds
from tests.policy.test_reward_model import classifier, loaded
from tests.train.test_run import go, rows, timeless

EVERY, SIZE = 2, 18  # steps of a round, answers of a step


class Recorder:
    """In place of a model: what it was trained on."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[tuple[str, str]], list[bool], float]] = []

    def train_on(self, pairs, right, lr):
        self.calls.append((list(pairs), list(right), lr))
        return 0.5


def rounds(folder: Path, start: int = 0, replay: float = 0.1, seed: int = 0) -> Rounds:
    reward = SimpleNamespace(refresh_every=EVERY, replay=replay, model_lr=0.25)
    config = SimpleNamespace(run_dir=str(folder), reward=reward, seed=seed)
    return Rounds(config, Recorder(), start, True)


def rollout(step: int):
    """Answers that say from which step they are; every third is right."""
    answers = [SimpleNamespace(text=f"{step}.{at}") for at in range(SIZE)]
    verdicts = [SimpleNamespace(correct=at % 3 == 0) for at in range(SIZE)]
    question = SimpleNamespace(text=f"question {step}")
    return SimpleNamespace(groups=[SimpleNamespace(question=question, completions=answers)], verdicts=[verdicts])


def driven(made: Rounds, first: int, stop: int) -> list[float | None]:
    found = []
    for step in range(first, stop):
        found.append(made.begin(step)["reward/model_loss"])
        made.note(step, rollout(step))
    return found


def test_a_round_is_trained_on_with_a_tenth_of_older_answers(tmp_path):
    made = rounds(tmp_path)
    assert driven(made, 0, 5) == [None, None, 0.5, None, 0.5]
    (first, right, lr), (second, later, _) = made.model.calls
    assert lr == 0.25 and len(first) == 2 * SIZE and len(set(first)) == 2 * SIZE
    assert {pair[1].split(".")[0] for pair in first} == {"0", "1"}
    old = [pair for pair in second if pair[1][0] in "01"]
    # 36 new ones and 4 old: a tenth of 40
    assert len(second) == 40 and len(old) == 4 == len(set(old)) and set(old) <= set(first)
    assert {pair[0] for pair in second if pair not in old} == {"question 2", "question 3"}
    for pairs, labels in ((first, right), (second, later)):
        assert labels == [int(answer.split(".")[1]) % 3 == 0 for _, answer in pairs]
    assert first != sorted(first)  # they are shuffled


def test_without_replay_only_the_round(tmp_path):
    made = rounds(tmp_path, replay=0.0)
    driven(made, 0, 5)
    assert all(pair[1][0] in "23" for pair in made.model.calls[1][0])


@pytest.mark.parametrize("stopped", [1, 2, 3, 4])
def test_a_resumed_one_trains_on_the_same(tmp_path, stopped):
    """Stopped before that step's checkpoint: the answers of the step are there, and are made again."""
    whole = rounds(tmp_path / "a")
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    driven(whole, 0, 7)
    part = rounds(tmp_path / "b")
    driven(part, 0, stopped + 1)
    again = rounds(tmp_path / "b", start=stopped)
    driven(again, stopped, 7)
    assert (tmp_path / "a" / FILE).read_bytes() == (tmp_path / "b" / FILE).read_bytes()
    assert again.model.calls == whole.model.calls[-len(again.model.calls) :]
    assert rounds(tmp_path / "b", start=0).rows == [] == jsonl.rows(tmp_path / "b" / FILE)  # from the beginning


def test_another_seed_replays_others(tmp_path):
    made = []
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        one = rounds(tmp_path / str(seed), seed=seed)
        driven(one, 0, 5)
        made.append({pair for pair in one.model.calls[1][0] if pair[1][0] in "01"})
    assert made[0] != made[1]


@pytest.mark.parametrize("labels", [1, 2])
def test_the_model_learns_what_it_is_told(tmp_path, labels):
    """Its loss falls, and answers that are told to be right score above the others."""
    model = loaded(classifier(tmp_path / "model", labels))
    numbers = np.random.default_rng(0).integers(2, 40, (64, 2)).tolist()
    right = [at % 2 == 0 for at in range(64)]
    pairs = [
        (f"{a}+{b}=?", f"\\boxed{{{a + b}}}" if of else f"{a}+{b}={a}")
        for (a, b), of in zip(numbers, right, strict=True)
    ]
    before = dict(model.state())
    kept = {name: value.clone() for name, value in before.items()}
    losses = [model.train_on(pairs, right, 3e-4) for _ in range(6)]
    assert losses[-1] < 0.5 * losses[0]
    scores = model(pairs)
    told = list(zip(scores, right, strict=True))
    assert min(s for s, of in told if of) > max(s for s, of in told if not of)
    assert not any(parameter.requires_grad for parameter in model.model.parameters())
    changed = model(pairs)
    model.load_state(kept)  # and back
    assert model(pairs) == loaded(tmp_path / "model")(pairs) != changed


def test_a_run_that_went_on_equals_one_that_was_left_alone(tmp_path):
    """Iterative GRPO with its reward model, four steps and then seven: model, answers and reference are restored."""
    model = classifier(tmp_path / "model", 2)
    words = ["method=grpo_iterative", "reward=model", f"reward.model={model}", "reward.refresh_every=3"]
    words += ["reward.model_lr=0.001", "beta.refresh_every=3", "questions_per_step=4", "optim.lr=0.003"]
    go(tmp_path / "whole", *words, "steps=7")
    go(tmp_path / "run", *words, "steps=5")
    saved = load_file(tmp_path / "run" / "checkpoints" / "step_000005" / "reward_model.safetensors")
    first = loaded(model).state()
    assert any(not torch.equal(value, first[name]) for name, value in saved.items())
    go(tmp_path / "run", *words, "steps=7")
    assert timeless(tmp_path / "run") == timeless(tmp_path / "whole")
    for name in ("adapter/adapter_model.safetensors", FILE):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    losses = [row["reward/model_loss"] for row in rows(tmp_path / "whole")]
    assert [loss is not None for loss in losses] == [False, False, False, True, False, False, True]
    go(
        tmp_path / "fixed",
        *(word for word in words if "reward.refresh" not in word and "model_lr" not in word),
        "steps=7",
    )
    assert rows(tmp_path / "fixed")[3]["reward/model"] != rows(tmp_path / "whole")[3]["reward/model"]  # it matters
