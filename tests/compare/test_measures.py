"""Values in the final window, worked out by hand; which measures there are, and what they are called."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_runs import STEPS, add_evaluation, add_questions, run_folder

from grpo_runner.compare import measures, spent, window
from grpo_runner.compare.arms import arrange
from grpo_runner.compare.read import read
from grpo_runner.compare.types import Arm, Comparison, Run, Series
from grpo_runner.errors import InputError


def logged(made: int = 20, steps: int | None = 20, seed: int = 0, **points: dict[int, float]) -> Run:
    """A run with `entropy` = step, beside others as {step: value}; `__` stands for a slash."""
    series = {"entropy": Series(np.arange(made), np.arange(made, dtype=float))}
    for name, at in points.items():
        series[name.replace("__", "/")] = Series(np.array(list(at)), np.array(list(at.values()), dtype=float))
    return Run(f"run{seed}", Path("nowhere"), seed, {}, series, steps=steps)


def of(*runs: Run) -> Comparison:
    arm = Arm("a", "a", {}, {run.seed: run for run in runs})
    return Comparison("made", (), (arm,), {})


def value(run: Run, key: str, share: window.Window = 0.2, target: float | None = None) -> float | None:
    comparison = of(run)
    chosen, _ = measures.choose(comparison, (), target)
    found = measures.values(comparison, [one for one in chosen if one.key == key], share, target)
    return found["a"].get(key, {}).get(run.seed)


def test_the_window_is_the_last_fifth_of_the_planned_steps():
    assert value(logged(), "entropy") == (16 + 17 + 18 + 19) / 4
    assert value(logged(), "entropy", 0.5) == sum(range(10, 20)) / 10
    assert value(logged(), "entropy", 3) == 18
    assert value(logged(), "entropy", 1000) == sum(range(20)) / 20
    assert value(logged(steps=None), "entropy") == 17.5  # those that were made, where the plan is not known
    assert window.bounds(logged(steps=3, made=3), 0.2) == (2, 3)  # one step at least
    assert window.bounds(logged(steps=10, made=10), 0.3) == (7, 10)  # .3 · 10 is 3, whatever floats say


def test_a_run_that_did_not_come_to_the_end_has_no_value():
    late = logged(made=19)
    assert value(late, "entropy") is None
    assert value(late, "entropy", 4) is None
    half = logged(made=19, eval__sampled__accuracy={0: 0.1, 10: 0.9})
    assert value(half, "accuracy") is None  # .9 was measured before the window


def test_an_evaluation_counts_as_the_last_in_the_window_and_never_as_the_best():
    run = logged(eval__sampled__accuracy={0: 0.99, 10: 0.95, 16: 0.9, 20: 0.7})
    assert value(run, "accuracy") == 0.7
    assert value(logged(eval__sampled__accuracy={0: 0.5, 16: 0.9}), "accuracy") == 0.9
    assert value(logged(eval__sampled__accuracy={0: 0.5, 15: 0.9}), "accuracy") is None


def test_a_step_without_a_value_counts_nowhere_and_times_are_medians():
    run = logged(kl={16: 1.0, 19: 3.0}, time__step_s={16: 1.0, 17: 1.0, 18: 1.0, 19: 60.0})
    assert value(run, "kl") == 2.0
    assert value(run, "time") == 1.0


def test_lengths_are_held_out_where_all_runs_have_that_and_of_training_else():
    points = dict.fromkeys(range(20), 7.0)
    both = logged(length__wrong=points, eval__sampled__length_wrong={20: 5.0})
    older = logged(seed=1, length__wrong=points)
    assert value(both, "length/wrong") == 5.0
    comparison = of(both, older)
    chosen, primary = measures.choose(comparison)
    assert [one.title for one in chosen if one.key == "length/wrong"] == ["length of wrong answers, in training"]
    assert measures.values(comparison, chosen)["a"]["length/wrong"] == {0: 7.0, 1: 7.0}
    assert primary == ("length/wrong",)


def test_the_share_of_weight_by_difficulty(tmp_path):
    folder = run_folder(tmp_path / "run", 0, lambda step: {"kl": 0.0}, {})
    # of 9 answers 3 right is hard, 6 easy; the rows before step 16 are outside the window
    add_questions(folder, [(0, 3, 100.0), (16, 3, 1.0), (17, 4, 2.0), (18, 6, 3.0), (19, 9, 4.0)])
    (run,) = read([str(folder)])
    assert [value(run, f"weight/{name}") for name in ("hard", "medium", "easy")] == [0.1, 0.2, 0.7]
    empty = run_folder(tmp_path / "other", 0, lambda step: {"kl": 0.0}, {})
    add_questions(empty, [(19, 9, 0.0)])
    assert value(read([str(empty)])[0], "weight/easy") is None  # nothing weighed anything


def test_time_and_tokens_to_a_target():
    run = logged(
        eval__sampled__accuracy={0: 0.2, 10: 0.6, 20: 0.9},
        time__step_s=dict.fromkeys(range(20), 0.5),
        tokens__sampled={step: 100 + step for step in range(20)},
    )
    assert value(run, "time_to", target=0.6) == 5.0  # the ten steps before the evaluation
    assert value(run, "tokens_to", target=0.6) == sum(100 + step for step in range(10))
    assert value(run, "tokens_to", target=0.1) == 0.0
    assert value(run, "time_to", target=0.95) is None and value(run, "time_to") is None
    comparison = of(run, logged(seed=1, eval__sampled__accuracy={20: 0.1}, time__step_s={0: 1.0}))
    chosen, _ = measures.choose(comparison, (), 0.6)
    found = measures.values(comparison, chosen, 0.2, 0.6)
    assert "1 of 2 (a). So no difference" in measures.unreached(comparison, found, "time_to")
    assert [one.title for one in chosen if one.key == "time_to"] == ["time to 60 % accuracy"]


@pytest.mark.parametrize(
    ("source", "seconds"), [("base", 13.0), ("solutions", 13.0), ("policy", 5.0)], ids=["base", "solutions", "policy"]
)
def test_answers_that_were_made_before_the_first_step_count(source, seconds):
    """Ten steps of half a second, and 8 s before them: 7 of sampling and 1 of grading. With the policy's own answers, an
    asynchronous engine may log as much, and it is within its steps. Tokens are in the first row either way.
    """
    run = logged(
        eval__sampled__accuracy={0: 0.2, 10: 0.6, 20: 0.9},
        time__step_s=dict.fromkeys(range(20), 0.5),
        time__rollout_s={step: 7.0 * (step == 0) for step in range(20)},
        time__reward_s={step: 1.0 * (step == 0) for step in range(20)},
        tokens__sampled={step: 14_975 * (step == 0) for step in range(20)},
    )
    run = replace(run, settings={"samples.source": source})
    assert value(run, "time_to", target=0.6) == seconds and spent.in_all(spent.TIME, run) == seconds + 5.0
    assert value(run, "tokens_to", target=0.6) == 14_975.0
    assert value(run, "time_to", target=0.1) == value(run, "tokens_to", target=0.1) == 0.0  # nothing had been needed
    assert spent.in_all(spent.TIME, replace(run, steps=21)) is None


def test_the_most_memory_is_what_the_summary_says(tmp_path):
    folder = run_folder(tmp_path / "run", 0, lambda step: {"kl": 0.0}, {})
    assert value(read([str(folder)])[0], "memory") is None
    summary = json.loads((folder / "summary.json").read_text()) | {"peak_memory_mb": 612.5}
    (folder / "summary.json").write_text(json.dumps(summary))
    assert value(read([str(folder)])[0], "memory") == 612.5


@pytest.mark.parametrize("key", ["pass", "maj"])
def test_pass_and_maj_at_the_largest_k_of_all_runs(key):
    at = {f"eval__sampled__{key}@{k}": {20: value} for k, value in ((4, 0.5), (2, 0.4))}
    run = logged(eval__sampled__accuracy={20: 0.3}, **at)
    assert value(run, f"{key}@k") == 0.5
    chosen, primary = measures.choose(of(run))
    assert f"{key}@4" in [one.title for one in chosen] and primary == ("accuracy",)
    assert measures.canonical(f"eval/sampled/{key}@4", [run]) == f"{key}@k"


def test_any_logged_key_may_be_named_and_others_name_the_nearest():
    run = logged(ratio__max={19: 1234.5}, eval__mine={20: 0.001})
    chosen, primary = measures.choose(of(run), ["ratio/max", "eval/mine"])
    assert [one.key for one in chosen[:2]] == list(primary) == ["ratio/max", "eval/mine"]
    assert [one.digits for one in chosen[:2]] == [0, 5]
    for name, said in (
        ("ratio/mox", 'Did you mean "ratio/max"'),
        ("accuracy", "no run has it"),
        ("time_to", "--target"),
    ):
        with pytest.raises(InputError, match=said):
            measures.choose(of(run), [name])


def test_without_held_out_figures_the_reward_is_what_is_compared():
    assert measures.choose(of(logged(reward__mean={19: 1.0})))[1] == ("reward",)
    assert measures.choose(of(logged()))[1] == ("entropy",)


def test_right_answers_by_question_of_the_evaluation_in_the_window(tmp_path):
    folder = run_folder(tmp_path / "run", 3, lambda step: {"kl": 0.0}, {})
    add_evaluation(folder, 10, {"a": 0})
    comparison = arrange(read([str(folder)]))
    name = comparison.baseline.name
    assert measures.by_question(comparison)[name] == {"accuracy": {}}  # kept, but before the window
    add_evaluation(folder, STEPS, {"a": 1, "b": 4})
    assert list(measures.by_question(comparison)[name]["accuracy"][3].values()) == [0.25, 1.0]


@pytest.mark.parametrize("text", ["0", "1.5", "-3", "half", "nan", "0.0"])
def test_windows_that_are_none(text):
    with pytest.raises(InputError, match="a share of the steps up to 1"):
        window.parse_window(text)


def test_windows_in_words():
    assert window.described(of(logged()), 0.2) == "steps 16 to 19 (the last fifth)"
    assert window.described(of(logged()), 1) == "step 19"
    assert window.described(of(logged(), logged(seed=1, steps=40, made=40)), 5) == "the last 5 steps of each run"
    assert (window.parse_window("1"), window.parse_window("1.0")) == (1, 1.0)
