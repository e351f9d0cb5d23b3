"""questions.parquet and its journal: kills at bad moments, determinism, cost, refusals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

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
