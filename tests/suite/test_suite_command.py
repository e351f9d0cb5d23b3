"""`evaluate` on the embedded model: what it leaves, an interrupted one, sets as files, changed settings."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from grpo_runner import cli
from grpo_runner.errors import InputError
from grpo_runner.suite import runner
from tests.suite.asked import SMALL, files, journal, printed, set_file


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of an evaluation that nobody interrupted, and what it printed."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    return folder, printed(*SMALL, "--output", str(folder))


def test_files_and_tables_agree_with_the_answers(whole):
    folder, text = whole
    records = journal(folder)
    assert len(records) == 5 and {len(row["sampled"]) for row in records} == {2}
    assert set(files(folder)) == {"answers/embedded.jsonl", "results.json", "questions.parquet"}
    right = sum(row["greedy"][0]["status"] == "correct" for row in records)
    [policy] = json.loads((folder / "results.json").read_text())["policies"]
    assert policy["figures"]["greedy"]["eval"]["estimates"]["accuracy"]["value"] == pytest.approx(right / 5)
    assert f"{100 * right / 5:.1f} [" in text and "avg@2" in text and "maj@2" in text
    table = pq.read_table(folder / "questions.parquet").to_pylist()
    assert [(row["mode"], row["question_id"]) for row in table] == [
        (mode, row["id"]) for mode in ("greedy", "sampled") for row in records
    ]
    for row, of in zip(table[5:], records, strict=True):
        assert row["right"] == sum(one["status"] == "correct" for one in of["sampled"])
        assert {one["name"]: one["score"] for one in row["scores"]}["avg@2"] == row["right"] / 2


def interrupted_at(call, monkeypatch):
    """Ctrl-C when the engine is given questions for the nth time."""
    calls = []
    records = runner._records

    def stopping(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return records(*arguments)

    monkeypatch.setattr(runner, "_records", stopping)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_an_interrupted_evaluation_goes_on_to_the_same_files(whole, tmp_path, monkeypatch, capsys, call):
    words = ["evaluate", *SMALL, "--output", str(tmp_path / "out")]
    with monkeypatch.context() as patched:
        interrupted_at(call, patched)
        assert cli.main(words) == 130
    assert "The same command goes on" in capsys.readouterr().err
    assert len(journal(tmp_path / "out")) == 2 * (call - 1) and not (tmp_path / "out" / "results.json").exists()
    assert cli.main(words) == 0
    assert files(tmp_path / "out") == files(whole[0])


def test_what_a_kill_left_of_a_call_is_answered_again(whole, tmp_path):
    """A file cut in the middle of a line: three whole records, of which the third's call was not finished."""
    lines = (whole[0] / "answers" / "embedded.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "out" / "answers").mkdir(parents=True)
    (tmp_path / "out" / "answers" / "embedded.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:30])
    printed(*SMALL, "--output", str(tmp_path / "out"))
    assert files(tmp_path / "out") == files(whole[0])


def test_a_finished_evaluation_asks_nothing_again(whole, monkeypatch):
    interrupted_at(1, monkeypatch)
    before = files(whole[0])
    assert printed(*SMALL, "--output", str(whole[0])) == whole[1]
    assert files(whole[0]) == before


def test_changed_settings_are_refused_by_their_keys(whole):
    with pytest.raises(InputError, match=r"other settings[\s\S]*evaluation\.temperature: there 1\.0, here 0\.5"):
        printed(*SMALL, "evaluation.temperature=0.5", "--output", str(whole[0]))
    with pytest.raises(InputError, match=r"reward\.extract: there box_or_marker, here box"):
        printed(*SMALL, "reward.extract=box", "--output", str(whole[0]))
    with pytest.raises(InputError, match=r"questions of eval: there 5, .*, here 4, "):
        printed(*SMALL, "evaluation.questions=4", "--output", str(whole[0]))


def test_a_spoilt_file_of_answers_is_named_with_its_line(whole, tmp_path):
    file = tmp_path / "out" / "answers" / "embedded.jsonl"
    file.parent.mkdir(parents=True)
    good = (whole[0] / "answers" / "embedded.jsonl").read_bytes()
    first, second, third, *rest = good.splitlines(keepends=True)
    for content, said in (
        (b"".join([first, second, b"{\n", *rest]), "line 3: not a row"),
        (b"".join([first, third, second, *rest]), "line 2: not the answers to question"),
        (second + third, "not the answers of an evaluation"),
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match=said):
            printed(*SMALL, "--output", str(tmp_path / "out"))


def test_sets_of_files_with_several_golds_and_other_graders(tmp_path):
    easy = set_file(tmp_path / "easy.jsonl", [("12+7=?", "19"), ("30-4=?", ["7", "26"]), ("5+6=?", "11")])
    never = set_file(tmp_path / "never.jsonl", [("12+7=?", ["1", "2"])])
    sets = [f"+evaluation.sets.{name}.path={path}" for name, path in (("easy", easy), ("never", never))]
    words = [*SMALL, "data=jsonl", "data.train.path=none.jsonl", "prompt=tiny", "evaluation.samples=0"]
    words = [word for word in [*words, *sets] if "_size" not in word]
    text = printed(*words, "--also", "reward=gsm8k_hash,boxed_strict", "--output", str(tmp_path / "out"))
    records = journal(tmp_path / "out")
    assert [(row["set"], len(row["golds"])) for row in sorted(records, key=lambda row: row["question"])] == [
        ("easy", 1), ("never", 2), ("easy", 2), ("easy", 1),
    ]  # fmt: skip
    [policy] = json.loads((tmp_path / "out" / "results.json").read_text())["policies"]
    greedy = {name: found["estimates"]["accuracy"]["value"] for name, found in policy["figures"]["greedy"].items()}
    assert greedy["never"] == 0 and greedy["average"] == pytest.approx(greedy["easy"] / 2)
    found = policy["graders"]
    assert found["gsm8k_hash"]["accuracy"]["greedy"]["average"] == 0  # the embedded model writes no ####
    rights = sum(row["greedy"][0]["status"] == "correct" for row in records)
    assert found["gsm8k_hash"]["lost"] == rights and found["own"]["lost"] == 0
    assert "The same answers under other graders" in text


def test_the_folder_is_named_after_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed(*SMALL, "evaluation.samples=0", "evaluation.questions=1")
    [folder] = (tmp_path / "outputs" / "evaluations").iterdir()
    assert "evaluation.questions=1" in folder.name and (folder / "results.json").is_file()


def test_nothing_to_ask_is_refused_and_leaves_no_folder(tmp_path, capsys):
    words = ["evaluate", *SMALL, "evaluation.samples=0", "evaluation.greedy=false", "--output", str(tmp_path / "out")]
    assert cli.main(words) == 2
    assert "evaluates nothing" in (said := capsys.readouterr().err) or "asks nothing" in said
    assert not (tmp_path / "out").exists()
