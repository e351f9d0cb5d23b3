"""The words after `evaluate`, and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_runner.errors import InputError
from grpo_runner.suite.words import Wanted, read


def test_all_that_can_be_said(tmp_path):
    words = [f"adapter={tmp_path}", "evaluation=math500", "--steps=50,0", "--base", "--also", "reward=a,b"]
    found = read([*words, "--against=x.y", "--against", "z", "--also=reward=c", "--output", "out", "seed=1"])
    assert found == Wanted(
        adapters=(tmp_path,), overrides=("evaluation=math500", "seed=1"), steps=(0, 50), base=True,
        also=("a", "b", "c"), against=("x.y", "z"), output=Path("out"),
    )  # fmt: skip
    assert read([str(tmp_path), "--steps", "all"]) == Wanted((tmp_path,), (), ("all",))
    of_sweep = tmp_path / "advantage=grpo,seed=0"
    of_sweep.mkdir()
    assert read([str(of_sweep), "seed=1"]) == Wanted((of_sweep,), ("seed=1",))
    assert read(["model=tiny", "~evaluation.sets.amc"]) == Wanted((), ("model=tiny", "~evaluation.sets.amc"))
    assert read([]) is None and read(["model=tiny", "--help"]) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stepz", "all"], r'no "--stepz".*Did you mean "--steps"'),
        (["model=tiny", "--steps", "all"], r"--steps goes with adapter=RUN_FOLDER"),
        (["model=tiny", "adapter="], r"adapter= needs the folder of a run"),
        (["adapter=.", "--base=yes"], r"--base takes no value"),
        (["adapter=.", "--steps", "1-3"], r"--steps 1-3: not allowed"),
        (["adapter=.", "adapter=."], r"adapter=\. is given twice"),
        (["adapter=.", "--output"], r"--output needs a value"),
        (["adapter=.", "--output", ""], r"--output needs the name of a folder"),
        (["adapter=.", "--output", "--base"], r"--output needs a value"),
        (["adapter=.", "--output=a", "--output=b"], r"--output is given twice"),
        (["model=tiny", "--also", "math_verify"], r"--also math_verify: .*reward=PRESET"),
        (["model=tiny", "--also", "reward="], r"--also reward=: not allowed"),
        (["no_such_folder"], r'"no_such_folder" is no run folder and no override'),
    ],
)
def test_a_mistake_is_named(words, said):
    with pytest.raises(InputError, match=said) as error:
        read(words)
    assert str(error.value).count("\n") < 5
