"""`data.answer_column=x` is of both sets, whatever the set's file has for one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from grpo_runner.config import Source, compose, compose_over, find, to_show
from grpo_runner.schema import DataConfig

DATA = find() / "data"
COLUMNS = ("question_column", "answer_column")
NARROW = {  # (set, column) where a file of conf/data names a source's own, read from the YAML itself
    (file.stem, column)
    for file in DATA.glob("*.yaml")
    for column in COLUMNS
    for source in ("train", "eval")
    if yaml.safe_load(file.read_text())[source][column] is not None
}


def read_by(data: DataConfig, column: str) -> tuple[str, str]:
    """The column that is read of the training set, and of the other."""
    train, other = (getattr(source, column) or getattr(data, column) for source in (data.train, data.eval))
    return train, other


def test_there_are_files_with_a_sources_own_columns():
    assert {"math", "big_math", "dapo_17k", "deepmath", "simplerl"} <= {name for name, _ in NARROW}


@pytest.mark.parametrize(("name", "column"), sorted(NARROW))
def test_a_typed_column_is_of_both_sets(name, column):
    assert read_by(compose([f"data={name}", f"data.{column}=mine"]).data, column) == ("mine", "mine")


@pytest.mark.parametrize("preset", [[], ["experiment=dr_grpo_oat_zero_7b"]], ids=["alone", "beside a preset"])
def test_a_sources_own_that_is_typed_too_stays(preset):
    words = [*preset, "data=math", "data.answer_column=mine", "data.train.answer_column=own"]
    assert read_by(compose(words).data, "answer_column") == ("own", "mine")


def test_without_a_typed_one_the_file_counts():
    """Negative control: another key of data clears nothing."""
    found = compose(["data=math", "data.question_column=mine"]).data
    assert read_by(found, "answer_column") == ("solution", "answer")


def test_a_sources_own_that_is_left_out_is_the_users_word_too():
    shown = to_show(["data=math", "data.answer_column=mine", "~data.train.answer_column"], Source(find()))
    assert "data.train.answer_column=null" not in shown and "data.eval.answer_column=null" in shown


def test_on_top_of_a_run_and_in_what_hydra_shows_too(tmp_path: Path):
    run = compose(["data=math", f"hydra.run.dir={tmp_path}"])
    assert read_by(compose_over(run, ["data.answer_column=mine"]).data, "answer_column") == ("mine", "mine")
    shown = to_show(["data=math", "data.answer_column=mine"], Source(find()))
    assert "data.train.answer_column=null" in shown
