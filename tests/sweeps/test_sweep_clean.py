"""`sweep clean` removes the runs of a recorded sweep, and nothing else whatever the folder or its record holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_runner import cli
from grpo_runner.compare.read import read
from grpo_runner.sweeps.states import is_run
from tests.sweeps.folders import failed, made

CONF = Path(__file__).resolve().parents[2] / "conf"


def recorded(home: Path, *names: str) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    record = {"command": "x", "metric": "reward/mean", "steps": dict.fromkeys(names, 10)}
    (home / "sweep.json").write_text(json.dumps(record))
    return home


def everything(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("name", ["", " ", ".", "..", "elsewhere", "sub/.."])
def test_a_folder_that_is_no_sweeps_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "here/conf").mkdir(parents=True)
    (tmp_path / "here/sub").mkdir()
    (tmp_path / "here/conf/config.yaml").write_bytes((CONF / "config.yaml").read_bytes())
    made(tmp_path / "here/elsewhere/run", logged=3)  # somebody's run, in a folder that no sweep recorded
    made(tmp_path / "here/run", logged=3)
    before = everything(tmp_path)
    monkeypatch.chdir(tmp_path / "here")
    assert cli.main(["sweep", "clean", name, "--yes"]) == 2
    said = capsys.readouterr().err
    assert ("empty" if not name.strip() else "sweep") in said and len(said.splitlines()) <= 5
    assert everything(tmp_path) == before


def test_only_what_has_the_marks_of_a_run_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = recorded(tmp_path / "night", "a", "b", "c", "gone")
    made(home / "a", logged=3)
    for name in ("b", "other"):  # a user's own, in and beside the record
        (home / name).mkdir()
        (home / name / "config.yaml").write_text("seed: 0\nsteps: 3\n")
        (home / name / "thesis.md").write_text("x")
    (home / "c").mkdir()
    failed(home / "c")
    made(home / "late", logged=2)  # of a search, whose record does not name its runs
    assert cli.main(["sweep", "clean", str(home), "--yes"]) == 0
    assert {path.name for path in home.iterdir()} == {"b", "other", "sweep.json"}
    assert "b: left, it has not the marks of a run" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["../outside", "../night/../outside", "/ABSOLUTE", "", "."])
def test_a_record_that_leads_outside_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    outside = made(tmp_path / "outside", logged=3)
    home = recorded(tmp_path / "night", name.replace("/ABSOLUTE", str(outside)))
    before = everything(tmp_path)
    for words in (["clean", str(home), "--yes", "--finished"], ["status", str(home)]):
        assert cli.main(["sweep", *words]) == 2
        assert "no folder of this sweep" in capsys.readouterr().err
    assert everything(tmp_path) == before


def test_a_link_to_a_run_is_a_run_to_read_and_is_never_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = recorded(tmp_path / "night", "seed=0", "seed=1")
    made(home / "seed=0", logged=3)
    target = made(tmp_path / "old/seed=1", logged=3)
    (home / "seed=1").symlink_to(target)
    (home / "dangling").symlink_to(tmp_path / "nowhere")
    (home / "whole").symlink_to(home)  # no run: a link is not searched for runs, which would have no end
    assert [run.name for run in read([str(home)])] == ["seed=0", "seed=1"]
    assert [run.name for run in read([str(home), str(target)])] == ["seed=0", "seed=1"]  # each once
    cli.main(["sweep", "status", str(home)])
    assert "2 unfinished" in capsys.readouterr().out
    assert cli.main(["sweep", "clean", str(home), "--yes"]) == 0
    assert "seed=1: left, it is a link" in capsys.readouterr().out
    assert is_run(target) and not (home / "seed=0").exists()
