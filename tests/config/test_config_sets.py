"""evaluation.sets on the command line, its mistakes, and overrides on top of a run's settings."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from grpo_runner.config import compose, compose_over
from grpo_runner.errors import InputError
from grpo_runner.validate import build, load, to_yaml

SUITE = {"aime24": "aime", "amc": "amc", "math500": "math", "minerva": "minerva", "olympiad_bench": "olympiad_bench"}


def test_dr_grpos_suite_is_its_five_sets_greedy_with_3000_tokens():
    found = compose(["evaluation=dr_grpo_suite"]).evaluation
    assert {name: one.split for name, one in found.sets.items()} == SUITE
    assert {one.hub_id for one in found.sets.values()} == {"lkevinzc/math-eval"}
    assert {(one.question_column, one.answer_column) for one in found.sets.values()} == {("problem", "answer")}
    assert (found.every, found.samples, found.greedy, found.max_new_tokens) == (16, 0, True, 3000)
    assert found.questions >= 675


def test_a_set_is_given_a_file_left_out_or_added_whole():
    words = ["evaluation=dr_grpo_suite", "evaluation.sets.amc.path=amc.jsonl", "~evaluation.sets.minerva"]
    found = compose([*words, "+evaluation.sets.mine.path=mine.jsonl"]).evaluation.sets
    assert list(found) == ["aime24", "amc", "math500", "olympiad_bench", "mine"]
    assert found["amc"].path == "amc.jsonl" and found["amc"].question_column == "problem"
    mine = dataclasses.asdict(found["mine"])
    assert mine == dict.fromkeys(mine) | {"path": "mine.jsonl", "split": "test"}


def test_sets_go_through_yaml_and_are_none_in_older_runs(tmp_path):
    config = compose(["evaluation=gsm8k_test"])
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(config))
    assert load(file).evaluation == config.evaluation
    values = yaml.safe_load(to_yaml(config))
    del values["evaluation"]["sets"]
    file.write_text(yaml.safe_dump(values))
    assert load(file).evaluation.sets == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluation=math500", "evaluation.sets.math50.path=x"], ["no 'math50'", "+evaluation.sets.math50.path=FILE"]),
        (["evaluation=math500", "evaluation.sets.math500.paht=x"], ["no 'paht'", 'Did you mean "path"?']),
        (["+evaluation.sets.mine.paht=x"], ['"evaluation.sets.mine.paht"', 'Did you mean "path"?']),
        (["+evaluation.sets.mine.split=x"], ["evaluation.sets.mine has no questions", "hub_id=OWNER/NAME"]),
        (["+evaluation.sets.average.path=x"], ["'average' names no set"]),
        (["+evaluation.sets.mine=3"], ["evaluation.sets.mine=3 is not allowed", "path"]),
        (["+evaluation.sets.mine.path=3"], ["evaluation.sets.mine.path=3 is not allowed", "text or null"]),
        (["evaluation=math50"], ["evaluation=math50", 'Did you mean "math500"?']),
        (["~evaluation.sets.mine"], ["~evaluation.sets.mine", "no 'mine'"]),
    ],
)
def test_a_mistake_is_named(words, said):
    with pytest.raises(InputError) as error:
        compose(words)
    text = str(error.value)
    assert all(part in text for part in said), text
    assert text.count("\n") < 5


def test_a_name_that_is_a_number_is_refused_and_not_a_fault():
    values = yaml.safe_load(to_yaml(compose())) | {"run_dir": "x"}
    values["evaluation"]["sets"] = {24: {"path": 3}}
    with pytest.raises(InputError, match=r"evaluation\.sets\.24\.path=3 is not allowed"):
        build(values)


# --- on top of a run


def test_groups_take_the_place_of_the_runs_and_keys_come_after():
    run = compose(["experiment=dr_grpo", "evaluation=dr_grpo_suite", "seed=3", "max_new_tokens=64"])
    assert compose_over(run, []) == run
    found = compose_over(run, ["evaluation.questions=7", "evaluation=math500", "reward=boxed_strict", "seed=4"])
    assert list(found.evaluation.sets) == ["math500"] and found.evaluation.questions == 7
    assert (found.seed, found.max_new_tokens, found.reward.equality) == (4, 64, "string")
    assert (found.advantage, found.run_dir) == (run.advantage, run.run_dir)
    one = compose_over(run, ["evaluation.sets.amc.path=a.jsonl", "~evaluation.sets.minerva", "evaluation.samples=2"])
    assert one.evaluation.sets["amc"].path == "a.jsonl" and "minerva" not in one.evaluation.sets
    assert compose_over(run, ["+evaluation.sets.mine.path=b.jsonl"]).evaluation.sets["mine"].split == "test"
    assert compose_over(run, ["beta=0.5"]).beta.value == 0.5


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("experiment=grpo", "a run has its settings already"),
        ("debug=cpu_smoke", "a run has its settings already"),
        ("seed=0,1", "a sweep"),
        ("evaluation=math50", 'Did you mean "math500"'),
        ("sead=1", 'Unknown key "sead"'),
        ("seed.x=1", "seed is a value"),
        ("~evaluation.sets.none", "no evaluation.sets.none to leave out"),
        ("evaluation.samples=-1", "evaluation.samples=-1 is not allowed"),
    ],
)
def test_a_mistake_on_top_of_a_run_is_named(word, said):
    with pytest.raises(InputError) as error:
        compose_over(compose(), [word])
    assert said in str(error.value)
