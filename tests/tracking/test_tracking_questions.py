"""questions.parquet and its journal: kills at bad moments, determinism, cost, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grpo_runner.errors import InputError
from grpo_runner.tracking import jsonl, questions, read_questions

CHILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import conftest
from grpo_runner.tracking import questions
questions._FOLD_ROWS = 16
log = questions.QuestionLog(Path(sys.argv[1]))
log.start(0)
for step in range(100000):
    log.add(step, conftest.question_rows(step))
    if step == 10:
        print("going", flush=True)
"""


def fill(folder: Path, steps: range, fake) -> questions.QuestionLog:
    folder.mkdir(exist_ok=True)
    log = questions.QuestionLog(folder)
    log.start(steps.start)
    for step in steps:
        log.add(step, fake.questions(step))
    return log


def steps_of(folder: Path) -> list[int]:
    return read_questions(folder)["step"].to_pylist()


def test_PB092_rows_of_all_steps_and_all_questions_are_kept(tmp_path, fake):
    log = fill(tmp_path, range(1, 4), fake)
    for _ in ("from the journal", "from the parquet file"):
        table = read_questions(tmp_path)
        assert table["step"].to_pylist() == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
        assert table["slot"].to_pylist() == [0, 1, 2, 3] * 3
        assert table["weight"].to_pylist() == [row["weight"] for step in (1, 2, 3) for row in fake.questions(step)]
        assert table.schema.names == list(questions.COLUMNS)
        log.finish()
    assert not (tmp_path / "questions.jsonl").exists()
    assert pq.read_schema(tmp_path / "questions.parquet").equals(questions.schema())


def test_nulls_stay_null_and_ints_stay_ints(tmp_path, fake):
    fill(tmp_path, range(1), fake).finish()
    first = read_questions(tmp_path).to_pylist()[0]
    assert first["length_right"] is None and first["kl"] is None and first["advantage_right"] is None
    assert first["successes"] == 0 and isinstance(first["successes"], int)
    assert first["question"] == "[b]0+0=?" and first["success_rate"] == 0.0


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_a_torn_last_line_is_left_out_and_the_rest_kept(tmp_path, fake, cut):
    fill(tmp_path, range(3), fake)
    journal = tmp_path / "questions.jsonl"
    os.truncate(journal, journal.stat().st_size - cut)
    assert steps_of(tmp_path) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    log = questions.QuestionLog(tmp_path)
    log.start(2)  # the checkpoint that counts is that of step 2
    assert steps_of(tmp_path) == [0, 0, 0, 0, 1, 1, 1, 1]
    log.add(2, fake.questions(2))
    log.finish()
    assert steps_of(tmp_path) == [0] * 4 + [1] * 4 + [2] * 4


def test_a_kill_between_folding_and_removing_the_journal_counts_no_row_twice(tmp_path, fake):
    log = fill(tmp_path, range(3), fake)
    journal = tmp_path / "questions.jsonl"
    before = journal.read_bytes()
    log.finish()
    journal.write_bytes(before)
    assert steps_of(tmp_path) == [0] * 4 + [1] * 4 + [2] * 4
    journal.write_bytes(before + jsonl.encode([dict(fake.questions(3)[0], step=3)]))
    assert steps_of(tmp_path) == [0] * 4 + [1] * 4 + [2] * 4 + [3]


def test_SIGKILL_loses_no_finished_step(tmp_path, fake):
    here = Path(__file__).parent
    command = [sys.executable, "-c", CHILD, str(tmp_path), str(here), str(here.parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "going\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    steps = steps_of(tmp_path)
    whole = sorted(set(steps))[:-1]  # the last one may be cut
    assert len(whole) >= 10
    assert steps[: 4 * len(whole)] == [step for step in range(len(whole)) for _ in range(4)]


def test_final_bytes_do_not_depend_on_when_rows_were_folded(tmp_path, fake, monkeypatch):
    monkeypatch.setattr(questions, "_FOLD_ROWS", 8)
    fill(tmp_path / "often", range(40), fake).finish()
    monkeypatch.setattr(questions, "_FOLD_ROWS", 10_000)
    fill(tmp_path / "once", range(40), fake).finish()
    fill(tmp_path / "resumed", range(25), fake)
    fill(tmp_path / "resumed", range(20, 40), fake).finish()
    data = [(tmp_path / name / "questions.parquet").read_bytes() for name in ("often", "once", "resumed")]
    assert data[0] == data[1] == data[2]
    # control: one different row gives other bytes
    log = fill(tmp_path / "other", range(39), fake)
    log.add(39, [row | {"truncated": 1} for row in fake.questions(39)])
    log.finish()
    assert (tmp_path / "other" / "questions.parquet").read_bytes() != data[0]


def test_folding_is_amortised(tmp_path, fake, monkeypatch):
    monkeypatch.setattr(questions, "_FOLD_ROWS", 8)
    written = []
    save = questions.QuestionLog._save
    monkeypatch.setattr(
        questions.QuestionLog, "_save", lambda self, table: (written.append(table.num_rows), save(self, table))[1]
    )
    fill(tmp_path, range(64), fake).finish()
    assert written == [8, 16, 32, 64, 128, 256]  # 2 N rows in all for N = 256; each step would be N²/8


def test_a_spoilt_line_in_the_middle_is_named(tmp_path, fake):
    fill(tmp_path, range(2), fake)
    journal = tmp_path / "questions.jsonl"
    lines = journal.read_bytes().split(b"\n")
    lines[2] = lines[2][:-5]
    journal.write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match=r"questions\.jsonl, line 3"):
        read_questions(tmp_path)


@pytest.mark.parametrize("spoil, said", [
    (lambda row: {"step": 1}, "has no slot"),
    (lambda row: row | {"slot": None}, "has no slot"),
    (lambda row: row | {"slot": 1.5}, "its slot is no whole number"),
    (lambda row: row | {"slot": True}, "its slot is no whole number"),
    (lambda row: row | {"slot": 2**70}, "its slot is no whole number"),
    (lambda row: row | {"question": 7}, "its question is no text"),
    (lambda row: row | {"question": "\ud800"}, "its question is no text"),
    (lambda row: row | {"weight": "1"}, "its weight is no finite number"),
    (lambda row: row | {"weight_grpo": [1.0]}, "its weight_grpo is no finite number"),
    (lambda row: row | {"weight": 10**400}, "its weight is no finite number"),
    (lambda row: row | {"step": 1.0}, "a JSON object with a step"),
    (lambda row: row | {"kl": float("nan")}, "it holds NaN, which no run writes"),
])  # fmt: skip
def test_a_line_that_no_run_wrote_is_one_message_and_no_traceback(tmp_path, fake, spoil, said):
    fill(tmp_path, range(2), fake)
    journal = tmp_path / "questions.jsonl"
    lines = journal.read_text().splitlines()
    lines[5] = json.dumps(spoil(json.loads(lines[5])))
    journal.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=rf"questions\.jsonl, line 6 is not a row of this run \(.*{said}\)") as raised:
        read_questions(tmp_path)
    assert str(raised.value).count("\n") == 1


def test_a_line_of_another_encoding_and_a_folder_in_a_files_place_are_told_as_such(tmp_path):
    (tmp_path / "questions.jsonl").write_bytes(b'{"step": 0, "question": "\xff"}\n')
    with pytest.raises(InputError, match=r"line 1 is not a row of this run \(it is not UTF-8\)"):
        read_questions(tmp_path)
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(InputError, match=r"metrics\.jsonl cannot be read \(Is a directory\)"):
        jsonl.rows(tmp_path / "metrics.jsonl")


def test_brackets_without_end_are_no_row_either(tmp_path):
    (tmp_path / "questions.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(InputError, match="line 1 is not a row"):
        read_questions(tmp_path)


def test_a_journal_of_an_older_run_is_read_with_nulls(tmp_path, fake):
    fill(tmp_path, range(1), fake)
    journal = tmp_path / "questions.jsonl"
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    old = [{key: value for key, value in row.items() if key not in NEW} for row in rows]
    journal.write_text("".join(json.dumps(row | {"weight": 1}) + "\n" for row in old))
    table = read_questions(tmp_path)
    assert all(table[name].null_count == 4 for name in NEW)
    assert table["weight"].to_pylist() == [1.0] * 4 and table["slot"].to_pylist() == [0, 1, 2, 3]


def test_wrong_columns_are_refused(tmp_path, fake):
    log = fill(tmp_path, range(1), fake)
    row = fake.questions(1)[0]
    with pytest.raises(ValueError, match="unknown question columns: wieght"):
        log.add(1, [row | {"wieght": 1.0}])
    with pytest.raises(ValueError, match="lacks gold"):
        log.add(1, [{key: value for key, value in row.items() if key != "gold"}])
    with pytest.raises(ValueError, match="step 5 was given to step 1"):
        log.add(1, [row | {"step": 5}])
    assert steps_of(tmp_path) == [0] * 4


def test_a_folder_without_rows_reads_as_an_empty_table(tmp_path):
    table = read_questions(tmp_path)
    assert table.num_rows == 0 and table.schema.equals(questions.schema())


# --- cumulative weight


def with_weight(fake, step: int, *given: tuple[int, str, float]) -> list[dict[str, object]]:
    """Rows of (slot, question, weight)."""
    row = fake.questions(step)[0]
    return [row | {"slot": slot, "question_id": name, "weight": weight} for slot, name, weight in given]


def test_cumulative_weight_adds_up_by_question_in_the_order_of_steps_and_slots(tmp_path, fake):
    log = questions.QuestionLog(tmp_path)
    log.start(0)
    log.add(0, with_weight(fake, 0, (0, "a", 1.0), (1, "b", 10.0), (2, "a", 2.0)))
    log.add(1, with_weight(fake, 1, (2, "a", 4.0), (0, "c", 0.0), (1, "b", 20.0)))  # given out of order
    for _ in ("from the journal", "from the parquet file"):
        table = read_questions(tmp_path)
        assert table["slot"].to_pylist() == [0, 1, 2, 0, 1, 2]
        assert table["question_id"].to_pylist() == ["a", "b", "a", "c", "b", "a"]
        assert table["cumulative_weight"].to_pylist() == [1.0, 10.0, 3.0, 0.0, 30.0, 7.0]
        log.finish()


@pytest.mark.parametrize("fold", [4, 10_000])
def test_cumulative_weight_goes_on_after_a_kill_from_the_rows_that_are_kept(tmp_path, fake, monkeypatch, fold):
    """Killed after step 13 with a torn line, resumed at 10: steps 10 to 13 do not count twice, and no digit differs."""
    monkeypatch.setattr(questions, "_FOLD_ROWS", fold)
    fill(tmp_path / "whole", range(30), fake).finish()
    fill(tmp_path / "killed", range(14), fake)
    with open(tmp_path / "killed" / "questions.jsonl", "ab") as file:
        file.write(b'{"step": 14, "slo')
    fill(tmp_path / "killed", range(10, 30), fake).finish()
    whole, killed = (read_questions(tmp_path / name) for name in ("whole", "killed"))
    assert killed.equals(whole)
    for name in ("q0", "q1", "q2", "q3"):
        weights = [row["weight"] for step in range(30) for row in fake.questions(step) if row["question_id"] == name]
        found = [row["cumulative_weight"] for row in whole.to_pylist() if row["question_id"] == name]
        assert found == pytest.approx([sum(weights[: i + 1]) for i in range(30)])


def test_control_sums_that_are_not_rebuilt_are_seen(tmp_path, fake):
    fill(tmp_path, range(5), fake)
    log = questions.QuestionLog(tmp_path)
    log.start(5)
    log._sums = {}
    log.add(5, fake.questions(5))
    rows = read_questions(tmp_path).to_pylist()
    assert rows[-3]["cumulative_weight"] < rows[-7]["cumulative_weight"]


def test_a_step_that_could_not_be_written_is_not_in_the_sums(tmp_path, fake, monkeypatch):
    log = fill(tmp_path, range(1), fake)
    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(jsonl, "append", lambda *_: (_ for _ in ()).throw(OSError("full")))
        log.add(1, fake.questions(1))
    log.add(1, fake.questions(1))
    again = fill(tmp_path / "again", range(2), fake)
    log.finish()
    again.finish()
    assert read_questions(tmp_path).equals(read_questions(tmp_path / "again"))


def test_cumulative_weight_is_not_taken_from_outside(tmp_path, fake):
    log = fill(tmp_path, range(1), fake)
    with pytest.raises(ValueError, match="cumulative_weight is summed by the log"):
        log.add(1, [fake.questions(1)[0] | {"cumulative_weight": 1.0}])


# --- folders of before a column was there

NEW = ("included", "cumulative_weight", "weight_grpo", "weight_dr_grpo", "weight_rloo", "centred_weight", "std_factor",
       "length_factor", "constant_factor")  # fmt: skip


def test_an_older_folder_is_read_with_nulls_and_can_be_gone_on_from(tmp_path, fake):
    fill(tmp_path, range(3), fake).finish()
    parquet = tmp_path / "questions.parquet"
    old = pq.read_table(parquet).drop_columns(list(NEW))
    pq.write_table(old, parquet)
    table = read_questions(tmp_path)
    assert table.schema.equals(questions.schema())
    assert all(table[name].null_count == 12 for name in NEW)
    assert table.select(old.column_names).equals(old)
    fill(tmp_path, range(2, 4), fake).finish()
    table = read_questions(tmp_path)
    assert table["cumulative_weight"].null_count == 8  # the old rows stay as they were
    sums = {f"q{slot}": sum(fake.questions(step)[slot]["weight"] for step in range(4)) for slot in range(4)}
    last = table.slice(12).to_pylist()
    assert {row["question_id"]: row["cumulative_weight"] for row in last} == pytest.approx(sums)


def test_a_parquet_file_of_something_else_is_refused(tmp_path, fake):
    fill(tmp_path, range(1), fake).finish()
    parquet = tmp_path / "questions.parquet"
    pq.write_table(pq.read_table(parquet).drop_columns(["weight"]), parquet)
    with pytest.raises(InputError, match=r"questions\.parquet is not a readable"):
        read_questions(tmp_path)


def _cut(parquet: Path) -> None:
    data = parquet.read_bytes()
    parquet.write_bytes(data[:40] + b"x" * 200 + data[240:])  # a damaged page, under a footer that is whole


def _nulled(parquet: Path) -> None:
    table = pq.read_table(parquet)
    place = table.column_names.index("weight")
    pq.write_table(table.set_column(place, "weight", pa.nulls(table.num_rows, pa.float64())), parquet)


@pytest.mark.parametrize("spoil", [_cut, _nulled, lambda parquet: parquet.write_bytes(b"PAR1")])
def test_what_a_damaged_parquet_file_needs_is_the_file_of_before(tmp_path, fake, spoil):
    """Removing it would not help: a resume finds the steps missing then."""
    fill(tmp_path, range(40), fake).finish()
    spoil(tmp_path / "questions.parquet")
    with pytest.raises(InputError, match=r"questions\.parquet is not a readable") as raised:
        read_questions(tmp_path)
    assert "Put the file back as it was." in str(raised.value)
    assert "emove" not in str(raised.value)


def test_the_columns_of_a_job_all_have_a_place(tmp_path, fake):
    """What question_rows makes is what the log takes, and the factors come back from the file to the last digit."""
    from grpo_runner.objectives import preset

    rows = fake.job(3, preset("dr_grpo", 0, 0.0, 32.0), excluded=0.2)
    log = questions.QuestionLog(tmp_path)
    log.start(0)
    for step in range(3):
        log.add(step, [row for row in rows if row["step"] == step])
    log.finish()
    found = read_questions(tmp_path).to_pylist()
    assert [{key: row[key] for key in given} for row, given in zip(found, rows, strict=True)] == rows
    assert set(questions.COLUMNS) - set(rows[0]) == {"cumulative_weight"}
    assert any(row["included"] < row["group_size"] for row in found)
