"""W&B offline: what the `.wandb` file holds, resume, two runs in one process, modes, failures that stop nothing."""

from __future__ import annotations

import builtins
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from grpo_runner.tracking import LocalTracker, Trackers, WandbTracker, questions, wandb_tracker
from grpo_runner.tracking.local import PICTURES
from grpo_runner.tracking.wandb_tracker import logged_in, mode_of

pytest.importorskip("wandb")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No key, no settings and no folders of the user's."""
    for name in list(os.environ):
        if name.startswith("WANDB_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NETRC", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


class Offline:
    """What the one offline file of a run folder holds."""

    def __init__(self, run_dir: str, read_wandb) -> None:
        self.history: dict[int, dict[str, object]] = {}
        self.config: dict[str, object] = {}
        self.artifacts = []
        self.alerts = []
        # W&B's own process may still be writing when `finish` returns; the exit record is the last
        records, found = [], []
        for _ in range(100):
            found = list(Path(run_dir).glob("wandb/offline-run-*/run-*.wandb"))
            records = list(read_wandb(found[0])) if found else []
            if any(record.WhichOneof("record_type") == "exit" for record in records):
                break
            time.sleep(0.1)
        (self.file,) = found
        for record in records:
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
            elif kind == "history":
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
                }
                assert record.history.step.num not in self.history, "a step was logged in two rows"
                self.history[record.history.step.num] = row
            elif kind == "alert":
                self.alerts.append((record.alert.level, record.alert.title, record.alert.text))
            elif kind == "artifact":
                self.artifacts.append(record.artifact)
            elif kind == "exit":
                self.exit_code = record.exit.exit_code

    def nested(self, step: int, key: str) -> dict[str, object]:
        """A value that is a dict: whole, or spread over keys like `weights/path`."""
        row = self.history[step]
        if key in row:
            return row[key]
        return {name[len(key) + 1 :]: value for name, value in row.items() if name.startswith(key + "/")}

    def table(self, step: int) -> dict[str, object]:
        return json.loads((self.file.parent / "files" / str(self.nested(step, "questions")["path"])).read_text())


def test_a_file_that_is_still_being_written_is_read_up_to_its_torn_record(make_config, fake, read_wandb, tmp_path):
    fake.drive(full(), make_config(), None, 2)
    whole = Offline(make_config().run_dir, read_wandb)
    data, torn = whole.file.read_bytes(), tmp_path / "torn.wandb"
    count = len(list(read_wandb(whole.file)))
    for cut in (1, 3, 9, 40):
        torn.write_bytes(data[:-cut])
        assert 0 < len(list(read_wandb(torn))) < count


def full(said: list[str] | None = None) -> Trackers:
    return Trackers([LocalTracker(), WandbTracker((said if said is not None else []).append)])


def test_PB092_the_offline_file_holds_all_steps_the_table_the_picture_and_the_config(
    make_config, fake, read_wandb, capfd, home
):
    said: list[str] = []
    config = make_config(seed=0)
    fake.drive(full(said), config, None, 4)
    found = Offline(config.run_dir, read_wandb)
    assert sorted(found.history) == [0, 1, 2, 3, 4]
    for step in range(4):
        expected = {key: value for key, value in fake.metrics(step).items() if value is not None}
        assert {key: found.history[step].get(key) for key in expected} == expected
        assert "kl" not in found.history[step]  # None is absent, never 0
    for step in (0, 2, 4):
        assert found.history[step]["eval/greedy/accuracy"] == fake.evaluation(step)["greedy/accuracy"]
    assert "accuracy" not in found.history[4]  # evaluation is never mixed with training
    table = found.table(4)
    assert table["columns"] == list(questions.COLUMNS)
    assert [row[:2] for row in table["data"]] == [[step, slot] for step in range(4) for slot in range(4)]
    weight = table["columns"].index("weight")
    assert [row[weight] for row in table["data"][-4:]] == [row["weight"] for row in fake.questions(3)]
    for name in PICTURES:
        picture = found.file.parent / "files" / str(found.nested(4, name)["path"])
        assert picture.read_bytes()[:4] == b"\x89PNG"
    assert not any(found.nested(step, "probe") for step in range(4))  # the rows of the probe are no metrics
    summed = table["columns"].index("cumulative_weight")
    assert all(isinstance(row[summed], float) for row in table["data"])
    assert (found.run.display_name, found.run.run_group, list(found.run.tags)) == (
        "first",
        "sweep_of_tests",
        [
            "a",
            "b",
            "baseline=group_mean",
            "scale=group_std",
            "loss_norm=sequence_mean",
            "beta=0.04",
            "clip=token",
            "truncated=keep",
        ],
    )
    assert found.run.project == "grpo_runner_tests"
    assert found.config["advantage"] == {
        "credit": "outcome", "baseline": "group_mean", "scale": "group_std", "ddof": 0, "eps": 0,
    }  # fmt: skip
    assert found.config["seed"] == 0
    assert "run_dir" not in found.config
    if len(socket.gethostname()) > 6:  # a short one turns up in random ids by chance
        assert socket.gethostname() not in found.file.read_bytes().decode(errors="replace")
    assert found.exit_code == 0
    # the artifact that an upload would need lies inside the run folder, and nothing was left in the user's home
    contents = [entry.local_path for artifact in found.artifacts for entry in artifact.manifest.contents]
    assert contents
    assert all(path.startswith(config.run_dir) and Path(path).exists() for path in contents)
    assert not [path for path in home.rglob("*") if "staging" in path.parts]
    # nothing on the terminal
    assert said == []
    assert capfd.readouterr() == ("", "")


KILLED = """
import dataclasses, os, signal, sys
sys.path[:0] = sys.argv[2:]
import conftest
from grpo_runner.tracking import LocalTracker, Trackers, WandbTracker
config = dataclasses.replace(conftest.BASE, run_dir=sys.argv[1])
conftest.drive(Trackers([LocalTracker(), WandbTracker()]), config, None, 4, finish=None)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("no_drawing")
def test_after_a_kill_and_a_resume_the_whole_history_is_in_one_file(make_config, fake, read_wandb):
    config = make_config()
    here = Path(__file__).parent
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, config.run_dir, str(here), str(here.parents[1])], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    first_id = (Path(config.run_dir) / "wandb" / "run_id").read_text()
    fake.drive(full(), config, 3, 6)
    found = Offline(config.run_dir, read_wandb)  # one file: the older is superseded
    assert sorted(found.history) == [0, 1, 2, 3, 4, 5, 6]
    assert [found.history[step]["accuracy"] for step in range(6)] == [step / 10 for step in range(6)]
    assert [row[0] for row in found.table(6)["data"]] == [step for step in range(6) for _ in range(4)]
    assert found.history[2]["eval/greedy/accuracy"] == fake.evaluation(2)["greedy/accuracy"]
    assert found.run.run_id == first_id


@pytest.mark.usefixtures("no_drawing")
def test_PB091_two_runs_in_one_process_have_their_own_runs_and_folders(make_config, fake, read_wandb):
    for name in ("beta=0", "beta=0.04"):
        fake.drive(full(), make_config(name, run_name=name), None, 2)
    found = [Offline(make_config(name).run_dir, read_wandb) for name in ("beta=0", "beta=0.04")]
    assert [one.run.display_name for one in found] == ["beta=0", "beta=0.04"]
    assert found[0].run.run_id != found[1].run.run_id
    assert [sorted(one.history) for one in found] == [[0, 1, 2], [0, 1, 2]]
    for one in found:
        paths = [entry.local_path for artifact in one.artifacts for entry in artifact.manifest.contents]
        assert all(path.startswith(str(one.file.parents[2])) for path in paths)


@pytest.mark.usefixtures("no_drawing")
def test_a_failed_run_leaves_its_table_and_its_exit_code(make_config, fake, read_wandb):
    config = make_config()
    fake.drive(full(), config, None, 3, finish="failed")
    found = Offline(config.run_dir, read_wandb)
    assert len(found.table(2)["data"]) == 12
    assert found.exit_code == 1


@pytest.mark.usefixtures("no_drawing")
def test_alerts_are_in_the_file_also_those_from_before_a_resume(make_config, fake, read_wandb):
    config = make_config()
    first = full()
    fake.drive(first, config, None, 2, finish=None)
    first.alert(1, "truncation", "half of them [cut]")
    first.members[1]._run.finish()
    again = full()
    again.start(config, 2)
    again.alert(1, "truncation", "half of them [cut]")  # as Watched does
    again.step(2, fake.metrics(2))
    again.alert(2, "kl_runaway", "far away")
    again.finish({"status": "done"})
    assert Offline(config.run_dir, read_wandb).alerts == [
        ("WARN", "truncation at step 1", "first: half of them [cut]"),
        ("WARN", "kl_runaway at step 2", "first: far away"),
    ]


def test_an_alert_that_the_server_has_is_not_sent_again():
    """Online, a resumed run begins after the last step that the server has."""
    sent = []
    tracker = WandbTracker()
    tracker._run = type("Online", (), {"alert": lambda _, **found: sent.append(found["title"])})()
    tracker._first, tracker._config = 5, type("Config", (), {"run_name": "x"})
    for step in (4, 5):
        tracker.alert(step, "grader", "late")
    assert sent == ["grader at step 5"]


def test_an_alert_that_fails_is_one_line_and_the_run_goes_on():
    said: list[str] = []
    tracker = WandbTracker(said.append)
    tracker._run = type("Broken", (), {"alert": lambda *_, **__: 1 / 0})()
    tracker._first, tracker._config = 0, type("Config", (), {"run_name": "x"})
    tracker.alert(3, "grader", "late")
    tracker.alert(4, "ratio", "far")
    tracker.step(5, {"accuracy": 1.0})
    assert said == ["W&B could not send an alert (division by zero): the run goes on without it."]


@pytest.mark.usefixtures("no_drawing")
def test_the_table_is_logged_at_doublings_and_long_ones_in_parts(make_config, fake, read_wandb, monkeypatch):
    monkeypatch.setattr(wandb_tracker, "_FIRST_TABLE", 8)
    monkeypatch.setattr(wandb_tracker, "_TABLE_ROWS", 20)
    config = make_config()
    fake.drive(full(), config, None, 6)
    found = Offline(config.run_dir, read_wandb)
    assert [step for step in found.history if found.nested(step, "questions")] == [1, 3, 6]  # 8, 16 and all 24 rows
    assert [len(found.table(step)["data"]) for step in (1, 3, 6)] == [8, 16, 20]
    assert found.nested(6, "questions_2")["nrows"] == 4


@pytest.mark.usefixtures("no_drawing")
def test_disabled_writes_nothing_and_does_not_import_wandb(make_config, fake, monkeypatch):
    refuse_wandb(monkeypatch)
    config = make_config()
    config = replace(config, tracking=replace(config.tracking, wandb="disabled"))
    said: list[str] = []
    fake.drive(full(said), config, None, 2)
    assert said == []
    assert not (Path(config.run_dir) / "wandb").exists()


def refuse_wandb(monkeypatch) -> None:
    real = builtins.__import__

    def refusing(name, *args, **kwargs):
        if name.split(".")[0] == "wandb":
            raise ModuleNotFoundError("No module named 'wandb'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)


@pytest.mark.usefixtures("no_drawing")
def test_a_missing_package_is_one_line_and_the_run_goes_on(make_config, fake, monkeypatch):
    refuse_wandb(monkeypatch)
    said: list[str] = []
    config = make_config()
    fake.drive(full(said), config, None, 2)
    assert said == ["W&B could not start (No module named 'wandb'): the run goes on without it."]
    assert len((Path(config.run_dir) / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.usefixtures("no_drawing")
def test_a_failure_in_the_middle_is_one_line_and_the_run_goes_on(make_config, fake):
    said: list[str] = []
    tracker = full(said)
    config = make_config()
    fake.drive(tracker, config, None, 1, finish=None)
    run = tracker.members[1]._run
    tracker.members[1]._run = type("Broken", (), {"log": lambda *_, **__: 1 / 0})()
    for step in (1, 2):
        tracker.step(step, fake.metrics(step))
    tracker.finish({"status": "done"})
    run.finish()
    assert said == ["W&B could not log step 1 (division by zero): the run goes on without it."]
    assert len((Path(config.run_dir) / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.usefixtures("no_drawing")
def test_an_unreachable_server_is_one_line_and_the_run_is_recorded_offline(make_config, fake, monkeypatch, read_wandb):
    monkeypatch.setattr(wandb_tracker, "getproxies", dict)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with socket.socket() as listener:  # a port that nobody listens on
        listener.bind(("127.0.0.1", 0))
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        config = make_config()
        config = replace(config, tracking=replace(config.tracking, wandb="auto"))
        said: list[str] = []
        fake.drive(full(said), config, None, 2)
        assert not wandb_tracker.reachable(os.environ)
        listener.listen()
        assert wandb_tracker.reachable(os.environ)
    assert said == ["W&B's server cannot be reached: this run is recorded offline."]
    assert sorted(Offline(config.run_dir, read_wandb).history) == [0, 1, 2]


@pytest.mark.usefixtures("no_drawing")
def test_a_refused_online_start_falls_back_to_offline(make_config, fake, monkeypatch, read_wandb):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setattr(wandb_tracker, "reachable", lambda environ: True)
    real = WandbTracker._open

    def refused(self, mode):
        if mode == "online":
            raise PermissionError("this key may not write\ndetails")
        return real(self, mode)

    monkeypatch.setattr(WandbTracker, "_open", refused)
    config = make_config()
    config = replace(config, tracking=replace(config.tracking, wandb="online"))
    said: list[str] = []
    fake.drive(full(said), config, None, 2)
    assert said == ["W&B refuses to start online (this key may not write): this run is recorded offline."]
    assert sorted(Offline(config.run_dir, read_wandb).history) == [0, 1, 2]


def test_modes(home):
    key = {"WANDB_API_KEY": "x"}
    assert mode_of("auto", {}) == "offline"
    assert mode_of("auto", key) == "online"
    assert mode_of("auto", key | {"WANDB_MODE": "offline"}) == "offline"
    assert mode_of("auto", key | {"WANDB_MODE": "disabled"}) == "disabled"
    assert mode_of("online", {}) == "offline"  # else W&B would ask for a key and wait
    assert mode_of("online", key) == "online"
    assert mode_of("offline", key) == "offline"
    assert mode_of("disabled", key) == "disabled"
    netrc = home / ".netrc"
    netrc.write_text("machine api.wandb.ai login user password y\n")
    netrc.chmod(0o600)
    assert logged_in({})
    assert not logged_in({"WANDB_BASE_URL": "https://wandb.example.org"})
    netrc.write_text("machine\n")
    assert not logged_in({})
