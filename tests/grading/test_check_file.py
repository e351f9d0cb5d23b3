"""The rows of a file: what is written, what is told of bad rows, the summary, and files that are not clobbered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_runner.errors import InputError
from grpo_runner.grading.tally import Agreement
from tests.grading.rows import jsonl, printed, read, row


@pytest.fixture
def source(tmp_path):
    return lambda *rows: jsonl(tmp_path / "rows.jsonl", rows)


def test_rows_keep_their_fields_and_get_a_verdict(source, tmp_path):
    first = row(r"so \boxed{\frac{1}{2}}", "0.5", id="a", note={"π": [1, None]})
    file, output = source(first, row("nothing", "2"), row(r"\boxed{3}", 2)), tmp_path / "out.jsonl"
    code, _ = printed("--file", str(file), "--output", str(output))
    found = read(output)
    assert code == 0 and [one["status"] for one in found] == ["correct", "no_answer", "wrong"]
    assert {name: found[0][name] for name in first} == first
    assert list(found[0])[-5:] == ["status", "correct", "extracted", "rule", "seconds"]
    assert found[0]["correct"] is True and found[0]["extracted"] == r"\frac{1}{2}" and found[0]["rule"] == "number"
    assert found[1]["correct"] is False and found[1]["extracted"] is None
    assert "π" in output.read_text(encoding="utf-8")


def test_golds_are_texts_numbers_or_lists_of_those(source, tmp_path):
    answers = [(r"\boxed{0.5}", 0.5), (r"\boxed{12}", 12), (r"\boxed{7}", ["5", 7]), (r"\boxed{1e-7}", 1e-7)]
    file, output = source(*(row(*one) for one in answers)), tmp_path / "out.jsonl"
    assert printed("--file", str(file), "--output", str(output))[0] == 0
    assert [one["correct"] for one in read(output)] == [True] * 4
    assert [one["gold"] for one in read(output)] == [gold for _, gold in answers]


def test_bad_rows_are_told_by_line_and_do_not_stop_the_rest(source, tmp_path, capsys):
    bad = [
        b"{not json",
        b"[1, 2]",
        b"",
        b"\xff",
        {"response": "x"},
        {"gold": "2", "answer": "x"},
        row(None),
        row(gold=True),
        row(gold=[]),
        row(gold=["2", None]),
        row(gold="see figure"),
    ]
    file, output = source(row(), *bad, row()), tmp_path / "out.jsonl"
    code, text = printed("--file", str(file), "--output", str(output))
    told = capsys.readouterr().err.splitlines()
    assert code == 1
    expected = [
        (
            2,
            "not JSON: Expecting property name enclosed in double quotes (character 2 of the line) (left out of the output)",
        ),
        (3, "a list, not a JSON object (left out of the output)"),
        (5, "not UTF-8 text (byte 1 of the line) (left out of the output)"),
        (6, 'no field "gold"; it has response. Another name: --gold-field'),
        (7, 'no field "response"; it has gold, answer. Another name: --response-field'),
        (8, 'field "response" is null, not text'),
        (9, 'field "gold" is true or false, not text, a number or a list of those'),
        (10, 'field "gold" is an empty list'),
        (11, 'field "gold" is a list with null, not text, a number or a list of those'),
        (12, 'unreadable gold: it is a placeholder, not an answer: "see figure"'),
    ]
    assert told == [f"{file}:{line}: {said}" for line, said in expected]
    found = read(output)
    assert [one["status"] for one in found] == ["correct", *["error"] * 7, "correct"]
    assert found[1]["rule"] == 'no field "gold"; it has response. Another name: --gold-field'
    assert found[1]["correct"] is False and found[1]["extracted"] is None
    assert "not graded" in text and "10" in text.split("not graded")[1].split()[0]


def test_all_fields_that_are_missing_are_told_at_once(source, capsys):
    file = source(row(), b'{"answer": "1", "text": "2"}')
    assert printed("--file", str(file))[0] == 1
    said = 'no fields "response" and "gold"; it has answer, text. Other names: --response-field, --gold-field'
    assert capsys.readouterr().err == f"{file}:2: {said}\n"


def test_ten_bad_rows_are_told_and_then_a_count(source, capsys):
    assert printed("--file", str(source(row(), *[b"?"] * 1234)))[0] == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 11 and told[-1] == "… and 1,224 more rows that cannot be graded"


def test_a_file_of_which_nothing_can_be_graded(source, tmp_path):
    output = tmp_path / "out.jsonl"
    with pytest.raises(InputError, match="no row could be graded, of 2"):
        printed("--file", str(source(b"?", {"answer": "2"})), "--output", str(output))
    with pytest.raises(InputError, match="holds no rows"):
        printed("--file", str(source()), "--output", str(output))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_other_names_of_fields(source):
    file = source({"completion": r"\boxed{2}", "answer": "2"})
    assert printed("--file", str(file), "--response-field", "completion", "--gold-field", "answer")[0] == 0


def test_another_policy(source):
    file = source(row(r"\boxed{5\text{ cm}}", r"5\text{ m}", expected=True))
    assert "100.0 %" not in printed("--file", str(file))[1].split("Against")[1]
    assert "100.0 %" in printed("--file", str(file), "reward.units=ignored")[1].split("Against")[1]


def test_hostile_texts_have_a_verdict_and_the_next_row_too(source, tmp_path):
    texts = [
        "\ud800 \\boxed{2}",
        "\x00\\boxed{2}",
        "word " * 200_000 + r"\boxed{2}",
        r"\boxed{" * 10_000,
        r"\boxed{9^{9^{9}}}",
    ]
    file, output = source(*(row(text) for text in texts), row()), tmp_path / "out.jsonl"
    assert printed("--file", str(file), "--output", str(output))[0] == 0
    found = read(output)
    assert [one["correct"] for one in found] == [True, True, True, False, False, True]
    assert [one["response"] for one in found[:3]] == texts[:3]  # a lone surrogate too


def test_many_batches_stay_in_order(source, tmp_path):
    file = source(*(row(rf"\boxed{{{n % 7}}}", str(n % 5), n=n) for n in range(1000)))
    output = tmp_path / "out.jsonl"
    assert printed("--file", str(file), "--output", str(output), "--workers", "1")[0] == 0
    assert [(one["n"], one["correct"]) for one in read(output)] == [(n, n % 7 == n % 5) for n in range(1000)]


# --- the summary


def test_the_summary_by_status(source):
    _, text = printed("--file", str(source(row(), row(), row("none"), row(r"\boxed{5}"))))
    rows = [line.split() for line in text.splitlines()]
    for line in (["correct", "2", "50.0", "%"], ["wrong", "1", "25.0", "%"], ["no_answer", "1", "25.0", "%"]):
        assert line in rows
    assert "expected" not in text


def test_the_summary_against_what_was_expected(source):
    right, wrong = row(), row(r"\boxed{3}")
    file = source(
        right | {"expected": True, "kind": "a"},  # accepted, rightly
        wrong | {"expected": True, "kind": "a"},  # refused, wrongly
        right | {"expected": False, "kind": "b"},  # accepted, wrongly
        wrong | {"expected": False, "kind": "b"},
        wrong | {"expected": False, "kind": "b"},
        wrong | {"expected": False, "kind": "c"},
        right | {"expected": "yes"},
    )
    code, text = printed("--file", str(file))
    rows = [line.split() for line in text.splitlines()]
    assert code == 0
    for line in (
        "a 2 50.0 % 50.0 % -",
        "b 3 66.7 % - 33.3 %",
        "c 1 100.0 % - 0.0 %",
        "all rows 6 66.7 % 50.0 % 25.0 %",
    ):
        assert line.split() in rows
    assert "2 rows have another verdict than expected: 2, 3" in text
    assert "1 row has an `expected` that is neither true nor false" in text


def test_shares_of_nothing_are_none():
    none = Agreement()
    assert (none.accuracy, none.recall, none.false_positive_rate) == (None, None, None)
    assert Agreement(3, 1, 1, 9).accuracy == 12 / 14
    assert Agreement(3, 1, 1, 9).recall == 0.75 and Agreement(3, 1, 1, 9).false_positive_rate == 0.1


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit(source, width):
    file = source(row(expected=True, kind="a kind with a long name " * 3), row(expected=False, kind="\x1b[31mred"))
    _, text = printed("--file", str(file), width=width)
    table = text.split("rows of ")[0].splitlines()
    assert max(len(line.rstrip()) for line in table) <= width and "\x1b" not in text


# --- files


def test_an_output_is_not_written_over(source, tmp_path):
    file, output = source(row()), tmp_path / "out.jsonl"
    output.write_text("mine")
    with pytest.raises(InputError, match="there already. Give another name, or --overwrite."):
        printed("--file", str(file), "--output", str(output))
    assert output.read_text() == "mine"
    assert printed("--file", str(file), "--output", str(output), "--overwrite")[0] == 0
    assert len(read(output)) == 1


@pytest.mark.parametrize("name", ["rows.jsonl", "./rows.jsonl", "link.jsonl"])
def test_never_over_the_rows_themselves(source, tmp_path, name, monkeypatch):
    before = source(row()).read_bytes()
    (tmp_path / "link.jsonl").symlink_to("rows.jsonl")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="that is the file of the rows"):
        printed("--file", "rows.jsonl", "--output", name, "--overwrite")
    assert (tmp_path / "rows.jsonl").read_bytes() == before


def test_a_refused_file_leaves_the_old_output(source, tmp_path):
    output = tmp_path / "out.jsonl"
    output.write_text("mine")
    with pytest.raises(InputError):
        printed("--file", str(source(b"?")), "--output", str(output), "--overwrite")
    assert output.read_text() == "mine" and sorted(path.name for path in tmp_path.iterdir()) == [
        "out.jsonl",
        "rows.jsonl",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--file", "none.jsonl"], "there is no such file"),
        (["--file", "row.jsonl"], 'Did you mean "rows.jsonl"?'),
        (["--file", "rows.csv"], "not a .jsonl or .parquet file"),
        (["--file", "rows.jsonl", "--output", "out.csv"], "not the name of a .jsonl or .parquet file"),
        (["--file", "rows.jsonl", "--output", "no/out.jsonl"], "there is no folder no"),
        (["--file", "rows.jsonl", "--output", "folder.jsonl"], "what is there is no file"),
    ],
)
def test_what_cannot_be_read_or_written(source, tmp_path, monkeypatch, words, said):
    source(row())
    (tmp_path / "folder.jsonl").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        printed(*words)
    assert said in str(caught.value)


def test_fields_of_the_same_names_are_replaced_with_a_note(source, tmp_path, capsys):
    output = tmp_path / "out.jsonl"
    printed("--file", str(source(row(correct="?", rule=3, id=1))), "--output", str(output))
    assert read(output)[0]["correct"] is True and list(read(output)[0]) == [
        *("response", "gold", "id"),
        *("status", "correct", "extracted", "rule", "seconds"),
    ]
    assert capsys.readouterr().err == "note: correct, rule of the rows: replaced in the output by what was found now\n"


def test_memory_does_not_grow_with_the_file(tmp_path):
    """40 MB of rows are graded in a process whose memory grows by far less."""
    file = tmp_path / "rows.jsonl"
    line = json.dumps(row("x" * 100_000 + r"\boxed{2}")).encode() + b"\n"
    with file.open("wb") as out:
        for _ in range(400):
            out.write(line)
    code = (
        "import resource, sys, grpo_runner.cli as cli\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        f"cli.main(['check', '--response', 'x', '--gold', '1']); before = peak()\n"
        f"code = cli.main(['check', '--file', {str(file)!r}, '--output', {str(tmp_path / 'out.jsonl')!r}])\n"
        "sys.exit(code or (peak() - before > 38))"
    )
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True).returncode == 0
    assert len(read(tmp_path / "out.jsonl")) == 400
