"""`doctor`: each line against a machine that is made up, the self test against parts that are broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grpo_runner import cli
from grpo_runner.doctor import look, machine, places, selftest, versions
from grpo_runner.doctor.lines import FAILURE, OK, WARNING, Line, guarded
from grpo_runner.reward import Grader, check
from grpo_runner.train.checkpoint import Checkpoints

ROOT = Path(__file__).resolve().parents[1]
GIB = 2**30
NEEDED = tuple(map(Requirement, ("torch>=2.11", "hydra-core>=1.3.2,<1.4", "rich>=13.7")))
RIGHT = {"torch": "2.13.0+cpu", "hydra-core": "1.3.8", "rich": "15.0.0"}
SECRET = "hf_0123456789abcdef"


# --- the verb


def test_the_report_is_a_line_a_check_and_the_exit_code_is_that_of_the_worst(tmp_path, monkeypatch, capsys):
    lines = [Line("disk", OK, "much"), Line("cores", WARNING, "4 threads", "export OMP_NUM_THREADS=2")]
    monkeypatch.setattr(look, "look", lambda folder, selftest: lines)
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "warning  cores  4 threads\n" in out and "→ export OMP_NUM_THREADS=2" in out
    assert out.endswith("no failures, 1 warning\n")
    lines.append(Line("torch", FAILURE, "not installed", "pip install torch"))
    assert cli.main(["doctor", "--json", str(tmp_path / "out.json")]) == 1
    assert "1 failure, 1 warning" in capsys.readouterr().out
    assert cli.main(["doctor", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)  # and nothing else
    assert found == json.loads((tmp_path / "out.json").read_text())
    assert not found["ok"] and found["lines"][1]["do"] == "export OMP_NUM_THREADS=2"


def test_words(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(
        look, "look", lambda folder, selftest: asked.append((str(folder), selftest)) or [Line("a", OK, "")]
    )
    assert [cli.main(["doctor", *words]) for words in ([], ["--folder", "x", "--quick"], ["--folder=y", "--json"])] == [
        0
    ] * 3
    assert asked == [("outputs", True), ("x", False), ("y", True)]
    assert cli.main(["doctor", "--help"]) == 0 and "--quick" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (["--jsno"], 'Did you mean "--json"?'),
        (["--folder"], "--folder needs"),
        (["--json", "no/such/x"], "no folder no/such"),
    ],
)
def test_words_that_are_refused(words, needle, capsys):
    assert cli.main(["doctor", *words]) == 2
    assert needle in capsys.readouterr().err


def test_this_machine_has_no_failure_and_its_lines_keep_the_keys_to_themselves(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    assert cli.main(["doctor", "--quick", "--folder", str(tmp_path / "not" / "yet"), "--json"]) == 0
    out = capsys.readouterr().out
    states = {line["name"]: line["state"] for line in json.loads(out)["lines"]}
    assert FAILURE not in states.values() and {"versions", "devices", "disk", "/dev/shm", "keys", "clock"} <= set(
        states
    )
    assert "key present" in out and "token present" in out
    assert SECRET not in out and SECRET[3:9] not in out
    assert not list(tmp_path.iterdir())  # it leaves nothing


def test_a_check_that_breaks_down_is_a_failure_and_not_the_end():
    def broken():
        raise OSError("libcudart.so.12: cannot open shared object file\nand more")

    line = guarded("devices", broken, "make setup")
    assert (line.state, line.do) == (FAILURE, "make setup")
    assert line.found == "OSError: libcudart.so.12: cannot open shared object file"


# --- versions


def test_versions_in_their_ranges_are_one_line():
    (line,), faults = versions.compared(NEEDED, RIGHT.get)
    assert (line.state, faults) == (
        OK,
        [],
    ) and line.found == "torch 2.13.0+cpu, hydra-core 1.3.8; all 3 in their ranges"


@pytest.mark.parametrize(
    ("name", "version", "state", "found"),
    [
        ("torch", "2.10.1", WARNING, "2.10.1 is outside the supported range >=2.11"),
        ("hydra-core", "1.4.0", WARNING, "1.4.0 is outside the supported range <1.4,>=1.3.2"),
        ("rich", None, FAILURE, "not installed; needed: rich>=13.7"),
    ],
)
def test_what_is_missing_or_outside_its_range_has_a_line_with_a_command(name, version, state, found):
    _, (line,) = versions.compared(NEEDED, (RIGHT | {name: version}).get)
    assert (line.name, line.state, line.found) == (name, state, found)
    assert line.do.startswith(f"python -m pip install '{name}")


def test_the_ranges_are_those_of_pyproject_and_of_an_installed_package_alike(tmp_path):
    def names(found):
        return {canonicalize_name(one.name) for one in found}

    ours, installed = versions.ranges(), versions.ranges(tmp_path)  # which may be older than the checkout
    assert "torch" in names(ours.needed) and "pytest" not in names(ours.needed) | names(ours.extras)
    assert "vllm" in names(ours.extras) & names(installed.extras)
    assert names(installed.needed) <= names(ours.needed) and not any(one.marker for one in installed.needed)


# --- the machine


def test_a_driver_without_a_gpu_for_torch_is_told_with_its_cause():
    def line(cuda=None, driver=True, **environ):
        return machine.without_gpu("cpu", "2.13.0", cuda, driver, environ)

    assert line(driver=False).state == OK
    assert "CPU build" in line().found and "make setup" in line().do and line().state == WARNING
    assert "built for CUDA 13.0" in line("13.0").found and "--gpus all" in line("13.0").do
    assert "hidden by CUDA_VISIBLE_DEVICES=" in line(CUDA_VISIBLE_DEVICES="").found
    assert line(CUDA_VISIBLE_DEVICES="0").state == WARNING


def test_more_threads_than_cores_are_told():
    assert machine.threads(2, 2, 2, None) == Line("cores", OK, "2 cores, 2 threads")
    crowded = machine.threads(2, 64, 64, "64")
    assert (crowded.state, crowded.do) == (WARNING, "export OMP_NUM_THREADS=2") and "2 of 64 cores" in crowded.found


@pytest.mark.parametrize(
    ("quota", "most"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 10_000), ("?", 10_000)]
)
def test_a_containers_quota_of_cores(quota, most, tmp_path, monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: range(10_000), raising=False)
    (tmp_path / "cpu.max").write_text(quota)
    assert machine.usable(tmp_path) == most


def test_little_memory_is_told():
    assert machine.room(8 * GIB) == Line("memory", OK, "8.0 GiB free")
    little = machine.room(GIB // 2)
    assert (little.state, little.found) == (WARNING, "0.5 GiB free") and "plan" in little.do


def test_the_shared_memory_of_a_docker_container_is_little(tmp_path):
    little = machine.shared(64 * 2**20, 64 * 2**20)
    assert little.state == WARNING and "0.062 of 0.062 GiB" in little.found and "--shm-size" in little.do
    assert machine.shared(24 * GIB, 20 * GIB).state == machine.shared_memory(tmp_path / "none").state == OK


# --- places, keys, clock


@pytest.mark.parametrize(("free", "state"), [(0.1, FAILURE), (2, WARNING), (50, OK)])
def test_space_on_the_disk_for_runs(free, state):
    line = places.space(Path("outputs"), int(free * GIB))
    assert line.state == state and ("hydra.run.dir=FOLDER" in line.do) is (state != OK)


def test_folders_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "models" / "hub"))
    assert places.writable(tmp_path).state == OK
    refuse = {str(tmp_path)}
    real = places.tempfile.NamedTemporaryFile

    def refusing(**options):
        if str(options["dir"]) in refuse:
            raise PermissionError(13, "Permission denied")
        return real(**options)

    monkeypatch.setattr(places.tempfile, "NamedTemporaryFile", refusing)
    runs = tmp_path / "runs"
    runs.mkdir()
    models = places.writable(runs)
    assert models.state == WARNING and "HF_HOME=FOLDER" in models.do
    refuse.add(str(runs))
    assert places.writable(runs).state == FAILURE and "(Permission denied)" in places.writable(runs).found


def test_keys_are_present_absent_or_spoilt(tmp_path):
    none = {"NETRC": str(tmp_path / "none"), "HF_HOME": str(tmp_path)}
    assert places.keys(none).found == "W&B: no key (runs are recorded offline); hub: no token (public models need none)"
    (tmp_path / "token").write_text(SECRET)
    assert "token present" in places.keys(none).found
    line = places.keys({**none, "WANDB_API_KEY": SECRET + "\n"})
    assert line.state == WARNING and "WANDB_API_KEY" in line.do and SECRET not in line.found + line.do


def test_the_clock_before_the_installation_and_a_file_server_that_is_late():
    now = 1_800_000_000.0
    assert places.times(now, now, now - 1e6, Path("runs")).state == OK
    assert places.times(now, now - 90, now - 1e6, Path("runs")).found.endswith("is dated -90 s from it")
    reset = places.times(3600.0, 3600.0, now, Path("runs"))
    assert reset.state == FAILURE and reset.found.startswith("1970-01-01 01:00 UTC")


# --- the self test


def test_the_self_test_passes_and_leaves_nothing(tmp_path):
    lines = [selftest.sampler(), selftest.checker(), selftest.checkpoint(tmp_path)]
    assert [line.state for line in lines] == [OK] * 3, lines
    assert not list(tmp_path.iterdir())


def test_a_sampler_that_says_something_else_fails_it(monkeypatch):
    """Negative control: what the model really says is looked at."""
    monkeypatch.setitem(selftest.ANSWERS, "15+10-21=?", r"\boxed{4}")
    line = selftest.sampler()
    assert line.state == FAILURE and r"was answered '\\boxed{1}'" in line.found


def test_a_checker_that_accepts_everything_fails_it(monkeypatch):
    right = check(r"\boxed{4}", "4")
    monkeypatch.setattr(Grader, "grade", lambda self, rows: [right] * len(rows))
    assert selftest.checker().state == FAILURE


def test_a_checkpoint_that_is_not_held_to_its_manifest_fails_it(monkeypatch, tmp_path):
    monkeypatch.setattr(Checkpoints, "_fault", lambda self, folder: None)
    assert selftest.checkpoint(tmp_path).found == "a damaged checkpoint was not seen"
    monkeypatch.setattr(Checkpoints, "latest", lambda self, say: None)
    assert "did not come back" in selftest.checkpoint(tmp_path).found
