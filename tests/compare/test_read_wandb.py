"""Runs as W&B has them: a real offline run, whole and torn; runs online, with W&B's API faked at its boundary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from made_runs import configuration

from grpo_runner.compare import wandb_runs
from grpo_runner.compare.arms import arrange
from grpo_runner.compare.foreign import parse
from grpo_runner.compare.read import read
from grpo_runner.errors import InputError

COLUMNS = parse(None, None)
CONFIG = configuration("advantage=dr_grpo", "loss_norm=constant", "beta=no_kl") | {"seed": 3}


LOGGED = """
import json, sys, wandb
settings = wandb.Settings(x_disable_stats=True, console="off", silent=True, disable_git=True)
run = wandb.init(mode="offline", dir=sys.argv[1], name="mine", config=json.loads(sys.argv[2]), settings=settings)
for step in range(20):
    evaluated = {} if step % 5 else {"eval/sampled/accuracy": step / 20}
    run.log({"entropy": step / 10, "text": "x", **evaluated}, step=step)
run.finish()
"""


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """The folder that wandb leaves of an offline run of 20 steps."""
    place = tmp_path_factory.mktemp("wandb")
    # in a process of its own: wandb.init puts its own function in place of sys.exit
    own = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}  # that of another test is gone
    subprocess.run([sys.executable, "-c", LOGGED, str(place), json.dumps(CONFIG)], check=True, timeout=120, env=own)
    (folder,) = place.glob("wandb/offline-run-*")
    return folder


def test_an_offline_run_is_read_as_it_was_logged(offline):
    for word in (offline, offline.parent, next(offline.glob("*.wandb"))):
        (run,) = read([str(word)])
        assert (run.name, run.seed, run.method, run.steps, run.finished) == ("mine", 3, "Dr. GRPO", 20, True)
        assert run.settings["advantage.scale"] == "none" and run.source == "wandb"
        assert run.series["entropy"].values_N.tolist() == [step / 10 for step in range(20)]
        assert run.series["eval/sampled/accuracy"].steps_N.tolist() == [0, 5, 10, 15]
        assert not any(key.startswith("_") or key == "text" for key in run.series)


def test_of_a_torn_file_what_is_whole_and_of_another_none(offline, tmp_path):
    data = next(offline.glob("*.wandb")).read_bytes()
    torn = tmp_path / "run-torn.wandb"
    torn.write_bytes(data[: len(data) * 2 // 3])
    (run,) = read([str(torn)])
    assert 0 < len(run.series["entropy"].steps_N) < 20 and not run.finished
    for content, said in ((b"RIFF", "no file of W&B's"), (data[:7] + data[9:600], "damaged|no seed")):
        torn.write_bytes(content)
        with pytest.raises(InputError, match=said):
            read([str(torn)])


def online_run(name: str, config: dict, rows: list[dict], state: str = "finished") -> SimpleNamespace:
    """What wandb.Api gives for a run, as far as it is asked."""
    return SimpleNamespace(
        name=name,
        path=["me", "project", name],
        config=config,
        state=state,
        commit="c" * 40,
        scan_history=lambda: iter(rows),
    )


class Api:
    """W&B's API at its boundary: what it was asked for, and the runs that it gives."""

    def __init__(self, *runs):
        self.given, self.asked = runs, []

    def runs(self, path, filters):
        self.asked.append((path, filters))
        return iter(self.given)

    def run(self, path):
        self.asked.append(path)
        return self.given[0]


ROWS = [{"_step": step, "_runtime": 1.5, "entropy": 0.5, "nothing": None} for step in range(20)]


@pytest.mark.parametrize(
    ("word", "asked"),
    [
        ("wandb:me/project", ("me/project", {})),
        ("https://wandb.ai/me/project?nw=x", ("me/project", {})),
        ("wandb:me/project/groups/first", ("me/project", {"group": "first"})),
        ("https://wandb.ai/me/project/groups/first/workspace", ("me/project", {"group": "first"})),
        ("wandb:me/project/sweeps/abc", ("me/project", {"sweep": "abc"})),
        ("wandb:me/project/runs/abc", "me/project/abc"),
        ("wandb:me/project/abc", "me/project/abc"),
    ],
)
def test_paths_are_asked_for_as_the_api_takes_them(word, asked):
    api = Api(online_run("abc", CONFIG, ROWS))
    (run,) = wandb_runs.online(word, COLUMNS, api)
    assert api.asked == [asked]
    assert (run.name, run.seed, run.commit, run.finished) == ("abc", 3, "c" * 40, True)
    assert list(run.series) == ["entropy"]


def test_runs_online_make_arms_with_their_configs():
    other = configuration("advantage=grpo", "loss_norm=sequence_mean", "beta=no_kl") | {"seed": 3, "_wandb": {"x": 1}}
    api = Api(online_run("a", CONFIG, ROWS), online_run("b", other, ROWS, state="running"))
    comparison = arrange(wandb_runs.online("wandb:me/project", COLUMNS, api))
    assert [arm.label for arm in comparison.arms] == ["GRPO", "Dr. GRPO"]
    assert "Not finished, 1 of 2 runs: b" in comparison.warnings[0]


def test_a_project_of_others_by_columns():
    rows = [{"_step": 2 * step, "global_step": step, "train/reward": 0.25} for step in range(4)]
    runs = [
        online_run(f"{name}-s{seed}", {"lr": 0.1, "args": {"method": name}}, rows) for name in "ab" for seed in (1, 2)
    ]
    columns = parse("step=global_step,reward=train/reward", r"s(\d+)$")
    found = wandb_runs.online("wandb:them/theirs", columns, Api(*runs))
    assert found[0].series["reward/mean"].steps_N.tolist() == [0, 1, 2, 3]
    assert [(run.seed, run.settings["name"]) for run in found] == [(1, "a"), (2, "a"), (1, "b"), (2, "b")]
    with pytest.raises(InputError, match="a-s1: no seed in its config"):
        wandb_runs.online("wandb:them/theirs", COLUMNS, Api(*runs))


def test_what_is_no_path_and_what_wandb_refuses():
    for word in ("wandb:me", "wandb:me//x", "https://wandb.ai/me/project/reports/x"):
        with pytest.raises(InputError, match="no path of W&B's"):
            wandb_runs.online(word, COLUMNS, Api())

    class Refusing:
        def run(self, path):
            raise ValueError("Could not find run\nsecond line")

    with pytest.raises(InputError, match=r"W&B gave nothing \(ValueError: Could not find run\)"):
        wandb_runs.online("wandb:me/project/abc", COLUMNS, Refusing())
    with pytest.raises(InputError, match="there is no run there"):
        wandb_runs.online("wandb:me/project", COLUMNS, Api())
