"""Whole runs on the embedded model: one with a fault that is provoked, and the default job, in which no rule holds."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from grpo_runner import cli, compose, run
from grpo_runner.errors import Unhealthy
from grpo_runner.health import RULES
from grpo_runner.validate import load
from tests.helpers import changed

# three tokens: room for the direct way alone, which has a marker, a digit and an end at best
CUT = ["debug=cpu_smoke", "tracking=off", "evaluation=never", "data.train_size=64", "data.eval_size=8"]
CUT += ["steps=24", "max_new_tokens=3", "tracking.completions_every=0"]


def rows(folder: Path) -> list[dict]:
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in found]


def go(folder: Path, *words: str) -> int:
    return cli.main([*CUT, *words, f"hydra.run.dir={folder}"])


@pytest.fixture(scope="module", autouse=True)
def without_charts():
    """They take most of the time of a small run. The page is made all the same."""
    from grpo_runner.tracking import charts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "draw", lambda *_, **__: {"progress": charts.Drawn(b"", "")})
        yield


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> tuple[Path, str]:
    """The folder of the run from its first step to its last, and what it said."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with redirect_stdout(io.StringIO()) as out:
        assert go(folder) == 0
    return folder, out.getvalue()


@pytest.fixture(scope="module")
def whole(told) -> Path:
    return told[0]


def test_a_budget_that_is_too_small_is_told_once_and_recorded(told):
    folder, out = told
    assert out.count("health, truncation at step 19: ") == 1 and "To try: a larger max_new_tokens" in out
    found = rows(folder)
    assert [row["health/truncation"] for row in found] == [0] * 19 + [1] * 5
    assert all(f"health/{name}" in row for row in found for name in RULES)
    assert json.loads((folder / "summary.json").read_text())["health"]["truncation"] == 19
    page = (folder / "charts.html").read_text()
    assert "<li><b>truncation</b>, from step 19: " in page and "To try: a larger max_new_tokens" in page


def test_it_ends_the_run_only_where_that_is_asked_for_and_goes_on_typed_again(whole, tmp_path, capsys):
    folder, stop = tmp_path / "run", "health.stop_on=[grader,truncation]"
    assert go(folder, stop) == 5
    out, err = capsys.readouterr()
    assert err.startswith("health.stop_on=[truncation]: stopped after step 19.\ntruncation: ")
    assert len(err.splitlines()) <= 5 and "Traceback" not in err and str(folder) in err
    assert (folder / "checkpoints" / "step_000020" / "MANIFEST.json").exists() and (folder / "adapter").exists()
    assert not (folder / "DONE").exists() and not (folder / "summary.json").exists()
    assert len(rows(folder)) == 20 and out.count("health, truncation") == 1
    # again, from Python: it ends where it was, and makes no step; the rule was told before
    with pytest.raises(Unhealthy, match="stopped after step 19") as raised:
        run(load(folder / "config.yaml"))
    assert raised.value.exit_code == 5
    out = capsys.readouterr().out
    assert "going on from step 20" in out and "health, truncation" not in out
    assert len(rows(folder)) == 20
    # without the key it goes on to the end, and is the run that was never stopped
    assert run(changed(load(folder / "config.yaml"), health__stop_on=())).status == "done"
    assert "health, truncation" not in capsys.readouterr().out
    assert rows(folder) == rows(whole)
    summaries = [json.loads((place / "summary.json").read_text())["health"] for place in (folder, whole)]
    assert summaries[0] == summaries[1] and summaries[0]["truncation"] == 19
    assert "from step 19" in (folder / "charts.html").read_text()


def test_at_the_last_step_nothing_is_left_to_end(whole, tmp_path):
    config = changed(load(whole / "config.yaml"), run_dir=str(tmp_path / "run"), steps=20)
    summary = run(changed(config, health__stop_on=("truncation",)))
    assert (summary.status, summary.health["truncation"]) == ("done", 19)


def test_a_sweep_goes_on_after_a_run_that_was_ended(tmp_path, capsys):
    words = ["-m", "seed=0,1", "steps=21", "health.stop_on=[truncation]", f"hydra.sweep.dir={tmp_path}"]
    assert cli.main([*CUT, *words]) == 5
    out, err = capsys.readouterr()
    assert "0 of 2 runs finished" in out and "seed=0 (exit 5), seed=1 (exit 5)" in err


@pytest.mark.slow
def test_in_the_default_job_no_rule_holds(tmp_path):
    summary = run(changed(compose(["tracking=off"]), run_dir=str(tmp_path / "run")))
    found = rows(tmp_path / "run")
    assert summary.status == "done" and summary.health == {} and len(found) == 100
    assert not [(row["step"], name) for row in found for name in RULES if row[f"health/{name}"]]
