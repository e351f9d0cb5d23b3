"""`data contamination` on the command line: its table, its examples, its file, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_runner import cli, contamination
from grpo_runner.config import compose

LONG = "a farmer has so many cows that nobody could ever count them all in one day"


def rows(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"question": text, "answer": "1"}) + "\n" for text in texts))
    return path


@pytest.fixture
def words(tmp_path) -> list[str]:
    """A training set that holds two questions of one set, and half of the words of one of another."""
    train = rows(tmp_path / "train.jsonl", "What is 1+1?", "\x1b[31m[bold]red", LONG, "free")
    held_out = rows(tmp_path / "eval.jsonl", "what is  1+1", "new", "\x1b[31m[bold]red")
    other = rows(tmp_path / "other.jsonl", LONG + " or two", "clean")
    return [
        "data=jsonl", f"data.train.path={train}", f"+evaluation.sets.first.path={held_out}",
        f"+evaluation.sets.mine.path={other}",
    ]  # fmt: skip


def test_the_table_has_the_counts_and_some_examples(capsys, words):
    assert cli.main(["data", "contamination", *words]) == 0
    said = capsys.readouterr().out
    lines = [line.split() for line in said.splitlines()]
    digest = contamination.questions(compose(words))[0].digest
    assert said.startswith(f"4 training questions, sha256 {digest[:16]}…\n")
    assert ["first", "3", "2", "0", "0"] in lines and ["mine", "2", "0", "1", "0"] in lines
    assert "what is 1+1" in said and LONG in said
    assert "\x1b" not in said and "\\x1b[31m[bold]red" in said  # neither obeyed nor lost


def test_all_matches_go_to_a_file(capsys, words, tmp_path):
    assert cli.main(["data", "contamination", *words, "--json", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["training_questions"] == 4
    assert [len(found["sets"]["first"][kind]) for kind in ("same", "close", "some")] == [2, 0, 0]
    (match,) = found["sets"]["mine"]["close"]
    assert match["training_question"] == LONG and match["training_id"] == "train/3"
    assert match["question_id"] == "other/1" and match["share"] == 0.8182  # nine of eleven 8-grams


def test_what_is_compared_is_what_the_run_would_take(capsys, words):
    words = [*words, "data.max_question_characters=5"]
    assert cli.main(["data", "contamination", *words]) == 0
    assert capsys.readouterr().out.startswith("Left out 3 of 4 questions of data.train, longer than")
    loaded, sets = contamination.questions(compose(words))
    assert [question.text for question in loaded.train] == ["free"]
    assert {name: len(held_out) for name, held_out in sets.items()} == {"first": 3, "mine": 2}


def test_data_eval_is_compared_where_no_set_is_named(words):
    """As a run does it: with evaluation.sets, data.eval is not so much as read."""
    named = ["data.eval.path=not_there.jsonl"]
    assert set(contamination.questions(compose([*words, *named]))[1]) == {"first", "mine"}
    alone = [*words[:2], words[2].replace("+evaluation.sets.first", "data.eval")]
    assert {name: len(found) for name, found in contamination.questions(compose(alone))[1].items()} == {"data.eval": 3}


def test_as_many_questions_are_compared_as_a_run_evaluates(capsys, words):
    assert cli.main(["data", "contamination", *words, "evaluation.questions=1"]) == 0
    said = capsys.readouterr().out
    counts = {line.split()[0]: line.split()[1] for line in said.splitlines() if line.startswith(("first ", "mine "))}
    assert counts == {"first": "1", "mine": "1"}
    for column in ("questions: ", "same text: ", "close: ", "some 8-grams: "):  # each is explained
        assert column in said


def test_a_generators_sets_are_compared_too(capsys):
    assert cli.main(["data", "contamination", "data.train_size=50", "data.eval_size=20"]) == 0
    assert ["data.eval", "20", "0", "0", "0"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "takes the word contamination"),
        (["contaminaton"], 'Did you mean "contamination"?'),
        (["contamination", "--jsn=x"], 'Did you mean "--json"?'),
        (["contamination", "--json"], "--json needs the name of a file"),
        (["contamination", "--json="], "--json needs the name of a file"),
        (["contamination", "--json=/no/such/folder/x.json"], "there is no folder"),
        (["contamination", "gsm8k"], '"gsm8k" is not an override'),
        (["contamination", "data=gsm8"], 'Did you mean "gsm8k"?'),
        (["contamination", "data=jsonl"], "data.train.path"),
        (["contamination", "seed=1,2"], "-m"),
    ],
)
def test_what_it_refuses(capsys, given, said):
    assert cli.main(["data", *given]) == 2
    message = capsys.readouterr().err
    assert said in message and 1 <= len(message.splitlines()) <= 5


def test_help(capsys):
    assert cli.main(["data", "--help"]) == 0
    assert "--json FILE" in capsys.readouterr().out


def test_it_needs_no_torch():
    code = (
        "import sys; from grpo_runner import cli; "
        "cli.main(['data', 'contamination', 'data.train_size=5', 'data.eval_size=5']); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
