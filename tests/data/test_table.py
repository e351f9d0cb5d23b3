"""Reading rows: both file types, the hub (stood in for), and one clear error for each thing that can be wrong."""

import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grpo_runner.data import table
from grpo_runner.errors import InputError
from grpo_runner.schema import SourceConfig

COLUMNS = {"question": "data.question_column", "answer": "data.answer_column"}


def source(path=None, hub_id=None, hub_config=None, split="train", revision=None):
    return SourceConfig(
        path=path and str(path), hub_id=hub_id, hub_config=hub_config, split=split, revision=revision,
        question_column=None, answer_column=None,
    )  # fmt: skip


def refused(*args, **kwargs):
    """The message of the InputError that reading must end in, which is one to five lines."""
    with pytest.raises(InputError) as error:
        table.read(source(*args, **kwargs), "data.train", COLUMNS)
    assert 1 <= len(str(error.value).splitlines()) <= 5
    return str(error.value)


@pytest.fixture
def write(tmp_path):
    def write(text, name="set.jsonl"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


GOOD = '{"question": "1+1=?", "answer": "2"}\n'


def test_jsonl_rows_know_their_lines(write):
    # a byte order mark, a blank line, a separator that is not an end of line, a missing final newline
    text = "\ufeff" + GOOD + "\n" + '{"question": "a\u2028b", "answer": 3, "more": [1]}'
    path = write(text)
    first, second = table.read(source(path), "data.train", COLUMNS)
    assert (first.id, first.place) == ("set/1", f"{path}:1")
    assert (second.id, second.place) == ("set/3", f"{path}:3")
    assert second.cells == {"question": "a\u2028b", "answer": 3, "more": [1]}


def test_parquet_text_that_is_not_utf8(tmp_path):
    raw = pa.array([b"\xff"]).buffers()
    table_ = pa.table({"question": pa.Array.from_buffers(pa.string(), 1, raw), "answer": ["2"]})
    pq.write_table(table_, tmp_path / "set.parquet")
    assert "is not a readable Parquet file: UnicodeDecodeError" in refused(tmp_path / "set.parquet")


def test_parquet_rows_hold_the_columns_asked_for(tmp_path):
    path = tmp_path / "set.parquet"
    pq.write_table(pa.table({"other": [0, 0], "answer": [2, None], "question": ["1+1=?", "x"]}), path)
    rows = table.read(source(path), "data.train", COLUMNS)
    assert [(row.id, row.cells) for row in rows] == [
        ("set/1", {"question": "1+1=?", "answer": 2}),
        ("set/2", {"question": "x", "answer": None}),
    ]
    assert rows[1].place == f"{path}: row 2"


def test_arrow_rows_as_save_to_disk_writes_them(tmp_path):
    """Columns and types of understand-r1-zero's evaluation_suite: lists of answers, and floats."""
    rows = {"problem": ["1+1=?", "x"], "answer": [["2", "two"], ["3"]], "difficulty": [1.0, None]}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "amc")
    path = tmp_path / "amc" / "data-00000-of-00001.arrow"
    columns = {"problem": "data.question_column", "answer": "data.answer_column"}
    read = table.read(source(path), "data.train", columns)
    assert [(row.id, row.cells) for row in read] == [
        ("amc/1", {"problem": "1+1=?", "answer": ["2", "two"]}),
        ("amc/2", {"problem": "x", "answer": ["3"]}),
    ]
    assert read[1].place == f"{path}: row 2"
    assert 'no column "question"' in refused(path)
    path.write_bytes(path.read_bytes()[:300])
    assert str(path) in refused(path)
    path.write_bytes(b"")
    assert "is not a readable Arrow file" in refused(path)


def test_a_line_that_is_not_json(write):
    assert f"{write(GOOD + 'oops')}:2: not JSON" in refused(write(GOOD + "oops"))
    assert ":1: not JSON" in refused(write("[" * 100_000))
    assert ":2: not UTF-8 text (byte 3 " in refused(write(GOOD.encode() + b'{"\xff": 1}'))


def test_a_line_that_is_not_an_object(write):
    assert ":1: a list, not an object" in refused(write("[1]\n"))
    assert ":2: a NoneType, not an object" in refused(write(GOOD + "null\n"))


def test_a_row_without_a_column(write):
    message = refused(write(GOOD + '{"question": "q", "anwser": "2"}\n'))
    assert ':2: no column "answer" (data.answer_column). Did you mean "anwser"?' in message
    assert "It has: question, anwser." in message


def test_all_columns_that_are_missing_are_told_at_once(write):
    message = refused(write('{"text": "q", "anwser": "2"}\n'))
    assert ':1: no column "question" (data.question_column) and no column "answer" (data.answer_column).' in message
    assert 'Did you mean "anwser"?\nIt has: text, anwser.' in message


def test_the_hint_never_names_a_column_in_use(write):
    message = refused(write('{"answer": "q", "gold": "2"}\n'))
    assert 'no column "question"' in message
    assert "Did you mean" not in message


def test_a_parquet_file_without_a_column(tmp_path):
    pq.write_table(pa.table({"problem": ["q"], "answer": ["1"]}), tmp_path / "set.parquet")
    message = refused(tmp_path / "set.parquet")
    assert 'set.parquet: no column "question" (data.question_column).\nIt has: problem, answer.' in message


def test_a_missing_file_names_its_neighbour(write):
    path = write(GOOD, "train.jsonl")
    message = refused(path.with_name("trian.jsonl"))
    assert message.startswith("data.train.path: there is no file ")
    assert message.endswith('Did you mean "train.jsonl"?')
    assert "there is no file" in refused("no/such/folder/x.jsonl")


@pytest.mark.parametrize("name", ["set.json", "set.csv", "set", "set.jsonl.gz"])
def test_another_suffix(write, name):
    message = refused(write(GOOD, name))
    assert "is not a .jsonl, .parquet or .arrow file" in message


def test_a_folder_with_a_good_suffix(tmp_path):
    (tmp_path / "set.jsonl").mkdir()
    assert "there is no file" in refused(tmp_path / "set.jsonl")


def test_a_file_that_is_not_parquet(write):
    assert "is not a readable Parquet file: " in refused(write("hello", "set.parquet"))
    assert "is not a readable Parquet file: " in refused(write("", "set.parquet"))


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file(write, text):
    assert "holds no questions" in refused(write(text))


def test_no_source_at_all():
    message = refused()
    assert "data.train.path" in message and "data.train.hub_id" in message


def test_a_path_wins_over_a_hub_id(write):
    rows = table.read(source(write(GOOD), hub_id="no/such"), "data.train", COLUMNS)
    assert [row.id for row in rows] == ["set/1"]


def test_a_hub_set(monkeypatch):
    datasets = pytest.importorskip("datasets")
    seen = []

    def load_dataset(*args, **kwargs):
        seen.append((args, kwargs))
        return datasets.Dataset.from_dict({"question": ["q"], "answer": ["a\n#### 1"], "other": [0]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    (row,) = table.read(source(None, "openai/gsm8k", "main", "test", "740312a"), "data.eval", COLUMNS)
    assert seen == [(("openai/gsm8k", "main"), {"split": "test", "revision": "740312a"})]
    assert (row.id, row.place) == ("gsm8k/test/1", "openai/gsm8k: row 1")
    assert row.cells == {"question": "q", "answer": "a\n#### 1"}


def test_a_hub_set_that_cannot_be_reached(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def load_dataset(*args, **kwargs):
        raise ConnectionError("Couldn't reach the Hub\nand much more\n" * 20)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    message = refused(hub_id="openai/gsm8k", hub_config="main")
    assert message.splitlines() == [
        'data.train.hub_id: cannot load "openai/gsm8k" (main, split train): ConnectionError: Couldn\'t reach the Hub',
        "A local file (.jsonl, .parquet or .arrow) goes in data.train.path and needs no network.",
    ]


def test_a_hub_set_without_the_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)  # makes the import fail
    assert "needs the package `datasets`" in refused(hub_id="openai/gsm8k")


def test_a_hub_set_without_a_column(monkeypatch):
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"problem": ["q"], "answer": ["1"]})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: made)
    assert 'own/set: no column "question"' in refused(hub_id="own/set")


def test_json_written_by_python_is_read_back(write):
    rows = [{"question": f"é{i} \\boxed{{}}\n", "answer": str(i)} for i in range(3)]
    path = write("".join(json.dumps(row) + "\n" for row in rows))
    assert [row.cells for row in table.read(source(path), "data.train", COLUMNS)] == rows
