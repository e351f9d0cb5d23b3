"""Sweeps that really run: pairs of arms, processes of their own, a kill in the middle, failures, other launchers."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_runner import cli, metric
from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.sweeps import record, value_of
from grpo_runner.tracking.texts import read_texts
from grpo_runner.train.folder import differences
from grpo_runner.validate import load
from grpo_runner.words import parse
from tests.program import Program
from tests.sweeps.folders import marked

ASIDE = {"run_name", "run_dir"}
JOB = ["debug=cpu_smoke", "-m"]
OWN = """
import os, sys
def good(**rows): return [1.0 * (len(text) % 2) for text in rows["completions"]]
def leaves(**rows): sys.exit(3)
def killed(**rows): os.kill(os.getpid(), 9)
"""


ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[2]), "RAY_AUTH_MODE": "disabled"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms at two seeds, one after the other in this process."""
    home = tmp_path_factory.mktemp("sweep") / "whole"
    words = ["advantage=grpo,dr_grpo", "seed=0,1", f"hydra.sweep.dir={home}", "sweep_name=whole", "optim.lr=0.01"]
    assert cli.main([*JOB, *words]) == 0
    return home


def lines(file: Path) -> list[dict[str, Any]]:
    """Rows of a JSONL file without what a clock says."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]


def sampled(run: Path, step: int) -> list[tuple[Any, ...]]:
    """Question and answer, token by token, of a step."""
    return read_texts(run, step, lambda row: (row["question"], tuple(row["token_texts"])))


def command(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "grpo_runner", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **ENVIRONMENT},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background has it ignored
    )  # fmt: skip


def test_arms_are_paired_by_seed_and_by_nothing_else(whole: Path) -> None:
    runs = {(arm, seed): whole / f"advantage={arm},seed={seed}" for arm in ("grpo", "dr_grpo") for seed in (0, 1)}
    for seed in (0, 1):
        one, other = runs["grpo", seed], runs["dr_grpo", seed]
        assert sampled(one, 0) == sampled(other, 0)  # the same questions, initial weights and draws
        assert lines(one / "evals.jsonl")[0] == lines(other / "evals.jsonl")[0]
        assert [row[0] for row in sampled(one, 1)] == [row[0] for row in sampled(other, 1)]
        first, second = lines(one / "metrics.jsonl")[0], lines(other / "metrics.jsonl")[0]
        assert first["grad_norm"] != second["grad_norm"]  # what the arms are for
        assert (one / "data.json").read_bytes() == (other / "data.json").read_bytes()
    assert sampled(runs["grpo", 0], 0) != sampled(runs["grpo", 1], 0)  # negative control


def test_a_launcher_of_processes_is_not_asked_for_runs_that_are_done(
    whole: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of joblib's jobs are left of six; typed once more, none is, and joblib is not called."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    from hydra_plugins.hydra_joblib_launcher import _core

    asked: list[list[str]] = []

    def launch(launcher: Any, job_overrides: Any, initial_job_idx: int) -> list[Any]:
        asked.extend(list(job) for job in job_overrides)
        return []

    monkeypatch.setattr(_core, "launch", launch)
    words = ["advantage=grpo,dr_grpo", f"hydra.sweep.dir={whole}", "sweep_name=whole", "optim.lr=0.01"]
    words += ["hydra/launcher=joblib"]
    assert cli.main([*JOB, *words, "seed=0,1,2"]) == 1  # joblib here starts nothing, so two have no end
    assert [[part for part in job if part.startswith(("advantage", "seed"))] for job in asked] == [
        ["advantage=grpo", "seed=2"],
        ["advantage=dr_grpo", "seed=2"],
    ]
    asked.clear()
    assert cli.main([*JOB, *words, "seed=0,1"]) == 0
    assert asked == []
    assert "4 of 4 runs finished" in capsys.readouterr().out


def test_what_a_run_logs_may_be_its_metric(whole: Path) -> None:
    """All names of a real run's files, and no other."""
    run = whole / "advantage=grpo,seed=0"
    keys = set(json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])) - {"step"}
    keys |= {f"eval/{key}" for key in json.loads((run / "evals.jsonl").read_text().splitlines()[-1])}
    config = load(run / "config.yaml")
    for key in keys - {"eval/step", "eval/questions", "eval/samples"}:
        metric.check([replace(config, metric=key)])
    for key in ("step", "eval/step", "reward", "sampled/accuracy", "time/step", "weights/gini"):
        with pytest.raises(InputError):
            metric.check([replace(config, metric=key)])


def test_typed_again_it_says_what_is_done(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["advantage=grpo,dr_grpo", "seed=0,1", f"hydra.sweep.dir={whole}", "sweep_name=whole", "optim.lr=0.01"]
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.parent != whole}
    assert cli.main([*JOB, *words]) == 0
    out = capsys.readouterr().out
    assert [line.split()[1:] for line in out.splitlines()[1:5]] == [["done", "skipped"]] * 4
    assert out.count("finished before; nothing to do") == 4 and "4 of 4 runs finished" in out
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.parent != whole} == before


def test_a_run_that_another_process_has_is_no_failure(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "two"
    shutil.copytree(whole, home)
    words = ["advantage=grpo,dr_grpo", "seed=0,1", f"hydra.sweep.dir={home}", "sweep_name=whole", "optim.lr=0.01"]
    taken = home / "advantage=dr_grpo,seed=1"
    (taken / "DONE").unlink()
    marked(taken)
    assert cli.main([*JOB, *words]) == 3
    out, err = capsys.readouterr()
    assert "3 of 4 runs finished.\nRunning elsewhere: advantage=dr_grpo,seed=1 (" in out
    assert "Failed" not in err and "Not started" not in out and not (taken / "failure.json").exists()


def test_other_settings_are_refused_before_the_first_run(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["advantage=grpo,dr_grpo", "seed=0,1", f"hydra.sweep.dir={whole}", "sweep_name=whole", "optim.lr=0.02"]
    assert cli.main([*JOB, *words]) == 2
    err = capsys.readouterr().err
    assert (
        "In the sweep's run" in err
        and "optim.lr: there 0.01, here 0.02" in err
        and "another sweep_name." in err
        and len(err.splitlines()) <= 5
    )


def test_the_value_is_that_of_the_window(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole / "advantage=grpo,seed=0", run)
    rows = [{"step": step, "reward/mean": float(step)} for step in range(10)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = run / "config.yaml"

    def value(metric: str, steps: int) -> float | None:
        keys = yaml.safe_load((whole / "advantage=grpo,seed=0/config.yaml").read_text())
        file.write_text(yaml.safe_dump(keys | {"metric": metric, "steps": steps}))
        return value_of(load(file))

    assert value("reward/mean", 10) == 8.5  # of steps 8 and 9
    assert value("reward/mean", 12) == 9.0  # of 9, 10 and 11, of which the last two are not there
    assert value("reward/mean", 100) is None
    evals = [json.loads(line) for line in (run / "evals.jsonl").read_text().splitlines()]
    assert value("eval/greedy/accuracy", 2) == evals[-1]["greedy/accuracy"] and evals[-1]["step"] == 2
    with pytest.raises(InputError, match='Did you mean "reward/mean"'):
        value("reward/maen", 10)


@pytest.mark.slow
def test_killed_and_typed_again_it_ends_with_the_same_files(whole: Path, tmp_path: Path) -> None:
    """Killed without a word, with its runs: and then in processes of their own what one process made before."""
    words = [*JOB, "advantage=grpo", "seed=0,1", "sweep_name=whole", "optim.lr=0.01", "hydra/launcher=gpus"]
    home = tmp_path / "outputs/sweeps/whole"
    sweep = command(tmp_path, *words)
    while not list(home.glob("*/checkpoints/step_*")):
        assert sweep.poll() is None, sweep.communicate()[0]
        time.sleep(0.05)
    sweep.kill()
    sweep.communicate()
    while any(state.state == "running" for state in record.runs(home)):  # they end as their input does
        time.sleep(0.05)
    assert any(state.state == "unfinished" for state in record.runs(home))
    again = Program(*words, folder=tmp_path, environment=ENVIRONMENT)
    out = again.communicate()[0]
    assert again.returncode == 0 and "resumes from step" in out and "2 of 2 runs finished" in out
    for seed in (0, 1):
        run, mine = whole / f"advantage=grpo,seed={seed}", home / f"seed={seed}"
        files = [{str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()} for top in (run, mine)]
        assert files[1] - files[0] == {"log.txt"} and not files[0] - files[1]
        for name in ("metrics.jsonl", "evals.jsonl"):
            assert lines(run / name) == lines(mine / name)
        name = "adapter/adapter_model.safetensors"
        assert (run / name).read_bytes() == (mine / name).read_bytes()
        assert differences(asdict(load(run / "config.yaml")), asdict(load(mine / "config.yaml"))).keys() == ASIDE


def failing(folder: Path, launcher: str, *kinds: str) -> tuple[int, str, dict[str, str]]:
    """Exit code, output, and {function: state} of a sweep over reward functions."""
    (folder / "own.py").write_text(OWN)
    functions = ",".join(f"own:{kind}" for kind in kinds)
    words = [f"reward.function={functions}", "reward=custom", f"hydra/launcher={launcher}", "sweep_name=f", "steps=1"]
    job = Program(*JOB, *words, "evaluation=never", folder=folder, environment=ENVIRONMENT)
    out = job.communicate()[0]
    states = record.runs(folder / "outputs/sweeps/f")
    return job.returncode, out, {state.name.split("__")[1].split("-")[0]: state.state for state in states}


def test_a_run_that_fails_or_is_killed_does_not_end_the_others(tmp_path: Path) -> None:
    code, out, states = failing(tmp_path, "gpus", "killed", "good")
    assert states == {"killed": "failed", "good": "done"} and code == 1
    assert "1 of 2 runs finished" in out and "(exit -9)" in out and "SIGKILL" in out


def installed(name: str) -> None:
    if importlib.util.find_spec(f"hydra_plugins.{name}") is None:
        pytest.skip(f"{name.replace('_', '-')} is not installed: pip install -e '.[sweep]'")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "plugin"),
    [("joblib", "hydra_joblib_launcher"), ("submitit_local", "hydra_submitit_launcher"), ("ray", "hydra_ray_launcher")],
)
def test_failures_in_other_launchers_workers_reach_the_table_and_the_exit_code(
    tmp_path: Path, launcher: str, plugin: str
) -> None:
    installed(plugin)
    code, out, states = failing(tmp_path, launcher, "good", "leaves")
    assert states == {"good": "done", "leaves": "failed"} and code == 2, out
    assert "1 of 2 runs finished" in out and "own:leaves raised SystemExit: 3" in out


@pytest.mark.slow
def test_a_search_goes_by_the_stated_metric_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed("hydra_optuna_sweeper")
    monkeypatch.chdir(tmp_path)
    words = [*JOB, "hydra/sweeper=optuna", "hydra.sweeper.direction=maximize", "hydra.sweeper.n_trials=2",
             "hydra.sweeper.n_jobs=1", "hydra.sweeper.sampler.seed=1", "steps=1", "evaluation=never",
             "metric=entropy", "optim.lr=choice(0.001,0.01)", "temperature=interval(0.5,1.5)",
             "sweep_name=search"]  # fmt: skip
    assert cli.main(words) == 0
    home = tmp_path / "outputs/sweeps/search"
    values = {run.name: lines(run / "metrics.jsonl")[0]["entropy"] for run in home.iterdir() if run.is_dir()}
    best = yaml.safe_load((home / "optimization_results.yaml").read_text())
    assert len(values) == 2 and best["best_value"] == max(values.values())
    [name] = [name for name, value in values.items() if value == max(values.values())]
    assert f"temperature={best['best_params']['temperature']}" in name
    assert cli.main(words) == 0  # the sampler's seed gives the same runs
    assert {run.name for run in home.iterdir() if run.is_dir()} == set(values)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_save_each_run_and_are_no_failure(number: int, code: int, tmp_path: Path) -> None:
    words = [*JOB, "seed=0,1", "sweep_name=c", "hydra/launcher=gpus", "steps=500", "evaluation=never", "tracking=off"]
    sweep = command(tmp_path, *words)
    home = tmp_path / "outputs/sweeps/c"
    while len(list(home.glob("*/checkpoints/step_*"))) < 1:
        assert sweep.poll() is None, sweep.communicate()[0]
        time.sleep(0.05)
    sweep.send_signal(number)
    out = sweep.communicate()[0]
    assert sweep.returncode == code and "Sweep stopped; the same command goes on" in out
    states = record.runs(home)
    assert {state.state for state in states} <= {"unfinished", "new"} and any(state.saved for state in states)
    assert all(state.saved == state.made for state in states)  # the step was finished and saved


def test_the_agent_of_a_sweep_of_wandb_calls_our_command_line() -> None:
    """Dry: W&B's own code makes the command of the documented file, and ours composes it."""
    from wandb.sdk.launch.sweeps import utils

    spec = yaml.safe_load((Path(__file__).parents[2] / "scripts/wandb_sweep.yaml").read_text())
    chosen = {key: {"value": values["values"][1]} for key, values in spec["parameters"].items()}
    given = utils.create_sweep_command_args({"args": chosen})["args_no_hyphens"]
    words = [word for part in utils.create_sweep_command(spec["command"])
             for word in (given if part == "${args_no_hyphens}" else [part])]  # fmt: skip
    assert words[:4] == ["${env}", "${interpreter}", "-m", "grpo_runner"]
    flags = parse(words[4:], cli.VERBS)
    from grpo_runner.config import plan

    [config] = plan(flags.overrides, flags.multirun).configs
    assert (config.optim.lr, config.advantage.scale, config.seed) == (3e-4, "none", 1)
    assert config.metric == spec["metric"]["name"] and config.sweep_name == spec["name"]
    assert Path(config.run_dir).name == "advantage=dr_grpo,optim.lr=0.0003,seed=1"
    assert compose(["seed=1"]).sweep_name is None
