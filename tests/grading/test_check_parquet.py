"""Parquet in and out, and between the two kinds of files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grpo_runner.errors import InputError
from tests.grading.rows import jsonl, printed, read, row


def parquet(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


COLUMNS = {
    "response": [r"\boxed{2}", r"\boxed{3}", None],
    "gold": pa.array([2, 5, 5], pa.int32()),
    "weight": pa.array([0.5, None, 1.5], pa.float32()),
    "kind": pa.array(["a", "b", "b"]).dictionary_encode(),
}


def test_columns_stay_as_they_are(tmp_path, capsys):
    file, output = parquet(tmp_path / "rows.parquet", COLUMNS), tmp_path / "out.parquet"
    assert printed("--file", str(file), "--output", str(output))[0] == 1
    before, after = pq.read_table(file), pq.read_table(output)
    assert after.select(before.column_names).equals(before)
    assert [after.schema.field(name).type for name in after.column_names[4:]] == [
        *(pa.string(), pa.bool_(), pa.string(), pa.string(), pa.float64()),
    ]
    found = after.to_pylist()
    assert [(one["status"], one["correct"], one["extracted"]) for one in found] == [
        ("correct", True, "2"),
        ("wrong", False, "3"),
        ("error", False, None),
    ]
    assert capsys.readouterr().err == f'{file}, row 3: field "response" is null, not text\n'


def test_graded_once_more_the_verdict_is_replaced(tmp_path, capsys):
    file = parquet(tmp_path / "rows.parquet", {"response": [r"\boxed{2}"], "gold": ["2"], "correct": ["no idea"]})
    output = tmp_path / "out.parquet"
    assert printed("--file", str(file), "--output", str(output))[0] == 0
    assert pq.read_table(output)["correct"].to_pylist() == [True]
    assert capsys.readouterr().err.startswith("note: correct of the rows")


def test_lists_of_golds_and_more_than_a_batch(tmp_path):
    columns = {"response": [rf"\boxed{{{n}}}" for n in range(300)], "gold": [["x", str(n - n % 2)] for n in range(300)]}
    file, output = parquet(tmp_path / "rows.parquet", columns), tmp_path / "out.parquet"
    assert printed("--file", str(file), "--output", str(output))[0] == 0
    assert pq.read_table(output)["correct"].to_pylist() == [n % 2 == 0 for n in range(300)]


def test_from_parquet_to_jsonl(tmp_path):
    file, output = parquet(tmp_path / "rows.parquet", COLUMNS), tmp_path / "out.jsonl"
    printed("--file", str(file), "--output", str(output))
    found = read(output)
    assert (
        [one["kind"] for one in found] == ["a", "b", "b"] and found[0]["gold"] == 2 and found[0]["status"] == "correct"
    )


def test_from_jsonl_to_parquet(tmp_path):
    rows = [row(only_here=1), *(row("\ud800 none", n=[n]) for n in range(200)), row(only_there="x")]
    output = tmp_path / "out.parquet"
    assert printed("--file", str(jsonl(tmp_path / "rows.jsonl", rows)), "--output", str(output))[0] == 0
    found = pq.read_table(output).to_pylist()
    assert len(found) == 202 and found[0]["only_here"] == 1 and found[201]["only_there"] == "x" and found[7]["n"] == [6]
    assert found[0]["correct"] is True and found[1]["status"] == "no_answer" and found[1]["response"] == "? none"


def test_rows_that_make_no_table(tmp_path):
    file, output = jsonl(tmp_path / "rows.jsonl", [row(x=1), row(x="one")]), tmp_path / "out.parquet"
    with pytest.raises(InputError, match=r"these rows are no table.*Take a \.jsonl file\."):
        printed("--file", str(file), "--output", str(output))
    far = [row(x=1), *(row() for _ in range(200)), row(x="one")]  # the two in different batches
    with pytest.raises(InputError, match="these rows are no table"):
        printed("--file", str(jsonl(file, far)), "--output", str(output))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_damaged_file(tmp_path):
    file = tmp_path / "rows.parquet"
    file.write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        printed("--file", str(file))
