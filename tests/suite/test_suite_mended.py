"""Short names in tables, what results.json would lose, keys of what was trained, and figures that say nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_runner import compose, validate
from grpo_runner.errors import InputError
from grpo_runner.suite import published, targets
from grpo_runner.suite.show import WIDEST_POLICY, labels
from grpo_runner.suite.summary import summarise
from grpo_runner.suite.words import read
from tests.suite.asked import SMALL, printed, record


def policy(name: str, run: str, step: int | None) -> Any:
    return SimpleNamespace(name=name, answered=SimpleNamespace(target=SimpleNamespace(run=Path(run), step=step)))


def test_checkpoints_of_one_run_are_called_by_their_steps():
    found = [policy(f"a_run_with_a_long_name, step {step}", "a", step) for step in (0, 20)]
    assert labels(found) == ["step 0", "step 20"]
    assert labels([policy("base", "a", 0), policy("a, step 20", "a", 20)]) == ["base", "step 20"]


def test_long_names_of_several_runs_keep_the_end_by_which_they_differ():
    names = [f"experiment=quickstart,advantage=dr_grpo,seed={seed}, step 9" for seed in (0, 1)]
    short = labels([policy(name, name, 9) for name in names])
    assert short[0] != short[1] and {len(one) for one in short} == {WIDEST_POLICY}
    assert [one[1:] in name for one, name in zip(short, names, strict=True)] == [True, True]
    alike = [f"seed={seed}_with_one_and_the_same_very_long_ending, step 9" for seed in (0, 1)]
    assert labels([policy(name, name, 9) for name in alike]) == alike


def test_the_embedded_model_is_held_against_no_published_figure():
    rows = [record(n, "correct" if n < 13 else "wrong", name="aime24") for n in range(30)]
    paper = [published.Published("paper", {"aime24": 43.3}, ("paper",))]
    assert [one.inside for one in published.compare(paper, "mine", summarise(rows))] == [True]
    assert [one.inside for one in published.compare(paper, "mine", summarise(rows), embedded=True)] == [None]


def test_graders_and_figures_of_an_earlier_command_are_told_when_results_are_written_without(tmp_path):
    words = [*SMALL, "evaluation.samples=0", "evaluation.questions=1", "--output", str(tmp_path / "out")]
    more = ["--also", "reward=gsm8k_hash", "--against", "dr_grpo.table4.oat_zero_7b"]
    assert "was written anew" not in printed(*words, *more)
    assert "was written anew" not in printed(*words, *more)  # negative control: nothing is lost
    told = printed(*words)
    assert "without what was asked before: --also reward=gsm8k_hash --against dr_grpo.table4.oat_zero_7b" in told
    assert json.loads((tmp_path / "out" / "results.json").read_text())["published"] == []
    assert "was written anew" not in printed(*words)


@pytest.mark.parametrize("word", ["lora.rank=2", "lora.alpha=1.0", "lora.targets=[q_proj]", "lora.enabled=false"])
def test_a_key_of_what_was_trained_is_refused(tmp_path, word):
    run = compose([f"hydra.run.dir={tmp_path}"])
    (tmp_path / "config.yaml").write_text(validate.to_yaml(run))
    (tmp_path / "adapter").mkdir()
    wanted = read([f"adapter={tmp_path}", word])
    assert wanted is not None
    with pytest.raises(InputError) as told:
        targets.targets(wanted)
    key = word.partition("=")[0]
    assert str(told.value).startswith(f"{word}: {tmp_path} was trained with {key}=")
    assert f"Leave {key} out" in str(told.value) and len(str(told.value).splitlines()) == 2
    same = read([f"adapter={tmp_path}", "lora.rank=16", "seed=3"])
    assert same is not None and len(targets.targets(same)) == 1  # the run's own value is no change
