"""The words after `check`: what is wanted, and what is said about words that make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_runner.errors import InputError
from grpo_runner.grading.words import Pair, Rows, Run, Usage, read


def test_an_answer_and_its_golds():
    assert read(["--response", "a", "--gold", "1", "--gold=2"]) == Pair("a", ("1", "2"), 5.0, ())
    assert read(["--gold=1", "--response=a=b", "--deadline", "0.5", "reward.units=ignored"]) == Pair(
        "a=b", ("1",), 0.5, ("reward.units=ignored",)
    )


def test_texts_may_look_like_flags_and_overrides():
    assert read(["--response", "-5", "--gold", "-5"]) == Pair("-5", ("-5",), 5.0, ())
    assert read(["--response", "--- so x=5", "--gold", "x=5"]) == Pair("--- so x=5", ("x=5",), 5.0, ())
    assert read(["--response=--step", "--gold", ""]) == Pair("--step", ("",), 5.0, ())


def test_a_file():
    assert read(["--file", "a.jsonl"]) == Rows(Path("a.jsonl"), None, False, "response", "gold", 2, 5.0, ())
    words = (
        "--file a.jsonl --output b.parquet --overwrite --response-field r --gold-field answer --workers 3 --deadline 9"
    )
    assert read(words.split()) == Rows(Path("a.jsonl"), Path("b.parquet"), True, "r", "answer", 3, 9.0, ())


def test_a_run(tmp_path):
    folder = tmp_path / "cpu_smoke,beta=0.04"  # as runs are named
    folder.mkdir()
    assert read([str(folder)]) == Run(folder, None, False, None, None, ())
    assert read([str(folder), "--step", "3", "--all", "reward=boxed_strict", "+reward.units=ignored"]) == Run(
        folder, 3, True, None, None, ("reward=boxed_strict", "+reward.units=ignored")
    )


def test_help_wins_over_everything():
    assert isinstance(read(["--file", "x", "--help"]), Usage) and isinstance(read(["-h"]), Usage)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Nothing to check: give --response and --gold, --file, or a run folder."),
        ("--response a", "--gold: missing. Or give -, which reads standard input."),
        ("--gold a", "--response: missing."),
        ("reward=boxed_strict", "--response and --gold: missing. Or give --file ROWS or a run folder."),
        ("--response a --response b --gold 1", "--response is given twice."),
        ("--response --gold 1", "--response needs a value."),
        ("--response a --gold", "--gold needs a value."),
        ("--respnse a --gold 1", 'check has no "--respnse". Did you mean "--response"?'),
        ("--response - --gold -", "Standard input can be read once: give - for one text only."),
        ("--response a --gold 1 --step 2", "--step goes with a run folder, not with --response and --gold."),
        ("--file a.jsonl --gold 1", "--gold goes with --response and --gold, not with --file."),
        ("--response a --gold 1 --workers 2", "--workers goes with --file or a run folder"),
        ("--file a.jsonl --workers 0", "--workers 0: not allowed. Allowed: a whole number from 1 to 256."),
        ("--file a.jsonl --workers two", "--workers two: not allowed."),
        ("--file a.jsonl --deadline nan", "--deadline nan: not allowed. Allowed: seconds above 0"),
        ("--file a.jsonl --deadline 0", "--deadline 0: not allowed."),
        ("--file a.jsonl --overwrite", "--overwrite changes nothing without --output."),
        ("--file a.jsonl --output b.jsonl --overwrite=yes", "--overwrite takes no value."),
        ("--file a.jsonl --gold-field rule", '--gold-field "rule": not the name of a field to read'),
        ("no/such/run --step 3", '"no/such/run" is no run folder, and no override'),
        ("no/cpu_smoke,beta=0.1", '"no/cpu_smoke,beta=0.1" is no run folder'),
        (". ..", 'Two folders, "." and "..": check takes one run at a time.'),
        (". --step -1", '--step -1: "-1" is not a step. Allowed: a whole number of at least 0.'),
        (". --file a.jsonl", "--file goes with --file, not with a run folder."),
        (". beta=0.1", '"beta=0.1" changes no verdict.'),
        (". reward.unit=ignored", '"reward.unit=ignored" changes no verdict. Did you mean "reward.units"?'),
        (". units=ignored", 'Did you mean "reward.units"?'),
        (". reward.truncated=keep", '"reward.truncated=keep" changes the reward, and no verdict.'),
        (". reward.deadline_s=3", "For this command take --deadline."),
    ],
)
def test_what_makes_no_sense_is_said(words, said):
    with pytest.raises(InputError) as caught:
        read(words.split())
    assert said in str(caught.value) and len(str(caught.value).splitlines()) <= 5


def test_the_help_fits_and_names_every_flag():
    from grpo_runner.grading.words import FLAGS, USAGE

    assert all(flag in USAGE for flag in FLAGS) and max(map(len, USAGE.splitlines())) <= 105
