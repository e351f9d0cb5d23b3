"""Where `evaluate` puts what it is not told to put elsewhere: another choice of policies, another folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_runner.errors import InputError, no_run
from grpo_runner.suite import _folder_name
from grpo_runner.suite.words import read


def named(*words: str) -> str:
    wanted = read(words)
    assert wanted is not None
    return _folder_name(wanted)


def test_each_choice_of_policies_has_its_own_folder_and_the_same_command_finds_it():
    choices = [(), ("--base",), ("--steps", "all"), ("--steps", "0,5"), ("--steps", "0,5", "--base")]
    names = [named("adapter=outputs/a", *words) for words in choices]
    assert len(set(names)) == len(choices)
    assert names == [named("adapter=outputs/a", *words) for words in choices]
    # what is done with the same answers goes on in their folder
    assert named("adapter=outputs/a", "--also", "reward=math_verify", "--against", "x") == names[0] == "adapter=a"


def test_runs_of_one_name_in_two_places_are_two():
    assert named("adapter=outputs/one/seed=0") != named("adapter=outputs/two/seed=0")


def test_a_runs_adapter_stands_for_the_run(tmp_path):
    run = tmp_path / "run"
    (run / "adapter").mkdir(parents=True)
    assert read([str(run / "adapter")]).adapters == (run / "adapter",)  # a lone adapter is told as such
    (run / "config.yaml").touch()
    assert read([f"adapter={run / 'adapter'}"]).adapters == (run,)
    with pytest.raises(InputError, match="given twice"):
        read([str(run), str(run / "adapter")])


def test_a_file_is_no_run_folder_and_said_to_be_one(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.touch()
    assert "it is a file" in no_run(file) and "does not exist" in no_run(Path("not_there"))
