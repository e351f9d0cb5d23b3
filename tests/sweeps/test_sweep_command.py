"""`sweep status|failures|clean`, and what the tables show."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from filelock import FileLock
from rich.console import Console

from grpo_runner import cli
from grpo_runner.sweeps import record, table
from grpo_runner.sweeps.live import Watch
from grpo_runner.sweeps.states import read
from tests.sweeps.folders import failed, made, marked


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep of five runs, each in another state; in the order of its record, which is not the alphabet's."""
    monkeypatch.chdir(tmp_path)
    home = Path("outputs/sweeps/night")
    made(home / "seed=4", logged=10, saved=10, done=True)
    marked(made(home / "seed=3", logged=5, saved=5))
    made(home / "seed=2", logged=4, saved=3)
    failed(made(home / "seed=1", logged=7, saved=6))
    runs = ", ".join(f'"seed={seed}": 10' for seed in (4, 3, 2, 1, 0))
    (home / record.RECORD).write_text(
        f'{{"command": "python -m grpo_runner -m seed=…", "metric": "reward/mean", "steps": {{{runs}}}}}'
    )
    return home


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.main(["sweep", *words])
    out, err = capsys.readouterr()
    return code, out + err


def test_status_has_a_row_for_each_run(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "status", "night")
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith("seed=")}
    assert code == 1 and list(rows) == ["seed=4", "seed=3", "seed=2", "seed=1", "seed=0"]
    assert rows["seed=4"] == ["done", "10/10", "0.500", "7.0", "-", "-"]
    assert rows["seed=3"] == ["running", "5/10", "0.500", "7.0", "-", "0:10"]  # five steps of two seconds
    assert rows["seed=1"][:3] == ["failed", "(4)", "7/10"] and rows["seed=0"][:2] == ["new", "0/10"]
    # 5 + 6 + 10 steps of 2 s, one run at a time; that of the failed run is not made before the sweep is typed again
    assert "1 done, 1 running, 1 unfinished, 1 failed, 1 new; about 0:42 left" in text
    assert "To go on: python -m grpo_runner -m seed=…" in text
    assert said(capsys, "status") == (1, "night  1 done, 1 running, 1 unfinished, 1 failed, 1 new\n")
    assert said(capsys, "status", str(night))[0] == 1


def test_failures_are_told_in_their_own_words(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (night / "seed=1/log.txt").write_text("all of it\n")
    failed(night / "seed=1", said="step 7: the loss is NaN\nthe \x1b[31msecond")
    code, text = said(capsys, "failures", "night")
    assert code == 1 and "seed=1: exit 4, after 7 of 10 steps\n  step 7: the loss is NaN\n" in text
    assert "seed=1/log.txt" in text and "\x1b" not in text and "seed=2" not in text
    (night / "seed=1/failure.json").unlink()
    assert said(capsys, "failures", "night")[0] == 0


def test_clean_takes_what_is_not_finished_and_asks(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.name for path in night.iterdir())
    code, text = said(capsys, "clean", "night")
    assert code == 2 and "--yes" in text and sorted(path.name for path in night.iterdir()) == before
    with FileLock(night / "seed=2/.lock"):  # taken in the meantime
        code, text = said(capsys, "clean", "night", "--yes")
    assert code == 0 and "seed=2: left" in text and "1 run removed" in text
    assert {path.name for path in night.iterdir() if path.is_dir()} == {"seed=2", "seed=3", "seed=4"}
    assert said(capsys, "clean", "night", "--yes")[0] == 0
    assert {path.name for path in night.iterdir() if path.is_dir()} == {"seed=3", "seed=4"}
    (night / "seed=3/.running").unlink()
    assert said(capsys, "clean", "night", "--yes", "--finished")[0] == 0
    assert not night.exists()


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (["stats", "night"], 'Did you mean "status"?'),
        (["status", "nihgt"], 'Did you mean "night"?'),
        (["status", "elsewhere"], "There are: night."),
        (["clean", "night", "--finish"], 'Did you mean "--finished"?'),
        (["clean"], "the name of one sweep"),
        (["failures", "night", "--yes"], 'no flag "--yes"'),
    ],
)
def test_what_is_not_understood(night: Path, capsys: pytest.CaptureFixture[str], words: list[str], needle: str) -> None:
    code, text = said(capsys, *words)
    assert code == 2 and needle in text and len(text.splitlines()) <= 6


def test_a_record_that_cannot_be_read_is_named(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (night / record.RECORD).write_text("{")
    code, text = said(capsys, "status", "night")
    assert code == 2 and str(night / record.RECORD) in text
    made(night.parent / "other/seed=0", logged=10, done=True)
    code, text = said(capsys, "status")  # and hides no other
    assert code == 2 and text.splitlines()[0].startswith("night  ") and str(night / record.RECORD) in text
    assert text.splitlines()[1] == "other  1 done"


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit(night: Path, width: int) -> None:
    states = record.runs(night)
    long = made(night / ("advantage=dr_grpo," * 6 + "seed=0"), logged=3)
    for shown in (table.status([*states, read(long)], width), table.plan([*states, read(long)], width)):
        file = io.StringIO()
        console = Console(file=file, width=width, force_terminal=False)
        console.print(shown)
        lines = file.getvalue().splitlines()
        assert max(map(len, lines)) <= width and len(lines) == 7
        assert all("…" not in line for line in lines[:-1]) and lines[-1].startswith("advantage=dr")
        assert ",seed=0  " in lines[-1]  # cut in the middle


def test_the_plan_says_what_happens_to_each(night: Path) -> None:
    file = io.StringIO()
    Console(file=file, width=100).print(table.plan(record.runs(night), 100))
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in file.getvalue().splitlines()[1:]}
    assert rows["seed=4"] == "done skipped" and rows["seed=0"] == "new starts"
    assert rows["seed=2"] == "unfinished, 3 of 10 steps resumes from step 3"
    assert rows["seed=1"] == "failed (exit 4) runs again from step 6"
    assert " left to " in rows["seed=3"]


def test_a_table_that_is_cut_keeps_what_matters(night: Path) -> None:
    states = record.runs(night)
    assert [state.name for state in table.shown(states, 2)] == ["seed=3", "seed=1"]
    assert [state.name for state in table.shown(states, 4)] == ["seed=3", "seed=2", "seed=1", "seed=0"]
    assert table.shown(states, 9) == states


def test_lines_where_there_is_no_terminal(night: Path) -> None:
    file = io.StringIO()
    with Watch([(night / name, 10) for name in ("seed=4", "seed=2", "seed=1")], night, file) as watch:
        watch.look()
        assert file.getvalue() == ""  # what was so before is no news
        marked(night / "seed=2")
        watch.look()
        watch.look()
        (night / "seed=2/.running").unlink()
        failed(night / "seed=2", code=2, said="a.jsonl:3: no gold\nmore")
    lines = file.getvalue().splitlines()
    assert lines[0].startswith("seed=2:  step 4/10  reward 0.500") and lines[0].endswith("0:12 left")
    assert lines[1:] == ["seed=2:  failed  (exit 2) a.jsonl:3: no gold"]


def test_the_live_table_has_the_last_line_of_a_run(night: Path) -> None:
    (night / "seed=3/log.txt").write_text("first\nstep 5/10  reward 0.5\n\n")
    watch = Watch([], night, io.StringIO())
    file = io.StringIO()
    Console(file=file, width=100).print(watch.screen(watch.states()))
    assert "seed=3: step 5/10 reward 0.5" in file.getvalue() and "about 0:42 left" in file.getvalue()
