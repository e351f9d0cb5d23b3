"""One run by several processes: the same numbers as by one, the same end for all, and nothing that waits for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from grpo_runner import compose, run
from tests.helpers import changed

ROOT = Path(__file__).parents[2]
BOUND = 1e-6  # of parameters after 5 steps
# eps is large, so that AdamW does not hide a gradient of the wrong size; 5 questions make unequal shares
JOB = [
    "steps=5", "questions_per_step=5", "group_size=4", "max_new_tokens=12", "evaluation.every=5",
    "evaluation.questions=7", "evaluation.samples=1", "tracking=off", "data.train_size=64", "data.eval_size=7",
    "optim.lr=0.005", "optim.eps=0.01", "device=cpu", "tracking.completions_every=2",
]  # fmt: skip
VARIANTS = {
    "lora": [],
    "full": ["lora=off", "optim.lr=3e-4", "steps=2", "evaluation.every=0"],
    "split": [
        "steps=3", "evaluation.every=0",
        "optim.updates_per_rollout=2", "optim.minibatch=response", "entropy_bonus=0.01", "beta=no_kl",
        "rollout.dynamic_sampling=2", "tracking.probe_every=2", "rollout.importance=token",
    ],
    "penalty": ["steps=3", "evaluation.every=0", "beta=in_reward", "optim.updates_per_rollout=2", "optim.minibatch=group", "questions_per_step=2"],
}  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """start(folder, world, *overrides, first="") -> (exit codes, what each process printed)."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT), TOKENIZERS_PARALLELISM="false")
    command = [sys.executable, str(Path(__file__).with_name("launch.py"))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )

    def launch(folder: Path, world: int, *overrides: str, first: str = "") -> tuple[list, list[str]]:
        logs = tmp_path_factory.mktemp("logs")
        words = [*JOB, *overrides, f"hydra.run.dir={folder}"]
        order = {"world": world, "words": words, "logs": str(logs), "first": first}
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        codes = json.loads(process.stdout.readline())
        return codes, [(logs / f"{rank}.txt").read_text() for rank in range(world)]

    yield launch
    process.stdin.close()
    process.wait(30)


def alone(folder: Path, *overrides: str) -> Path:
    run(changed(compose([*JOB, *overrides]), run_dir=str(folder)))
    return folder


@pytest.fixture(autouse=True, scope="module")
def without_charts():
    """They take half of the time of a small run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grpo_runner.tracking.charts.draw", lambda *_, **__: {})
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    return alone(tmp_path_factory.mktemp("one") / "run")


def distance(one: Path, other: Path) -> float:
    """The largest difference of a trained parameter in the newest checkpoints."""
    states = []
    for folder in (one, other):
        newest = sorted((folder / "checkpoints").glob("step_*"))[-1]
        states.append(
            load_file(next(file for name in ("adapter", "policy") if (file := newest / f"{name}.safetensors").exists()))
        )
    assert states[0].keys() == states[1].keys()
    return max(float((states[0][name] - states[1][name]).abs().max()) for name in states[0])


def rows(folder: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def alike(one: Path, other: Path, rel: float = 1e-4) -> None:
    """Metrics, evaluations and probes equal up to rounding, times aside."""
    for name in ("metrics.jsonl", "evals.jsonl", "probe.jsonl"):
        assert (one / name).exists() == (other / name).exists()
        if not (one / name).exists():
            continue
        for mine, theirs in zip(rows(one, name), rows(other, name), strict=True):
            kept = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in (mine, theirs)]
            if name == "probe.jsonl":
                kept = [{k: v for k, v in row.items() if k != "groups"} for row in kept]
                assert [g["question_id"] for g in mine["groups"]] == [g["question_id"] for g in theirs["groups"]]
                kept = [{**row["norm"], **row["cosine"]} for row in kept]
            assert kept[0].keys() == kept[1].keys()
            for key, value in kept[0].items():
                assert (value is None) == (kept[1][key] is None), key
                assert value is None or kept[1][key] == pytest.approx(value, rel=rel, abs=2e-6), key


def answers(folder: Path) -> list[tuple]:
    import zstandard

    files = sorted((folder / "completions").iterdir())
    texts = [zstandard.ZstdDecompressor().decompress(file.read_bytes()).decode() for file in files]
    lines = [json.loads(line) for text in texts for line in text.split("\n") if line]
    return [(row["step"], row["slot"], row["sample"], row["question_id"], row["completion"]) for row in lines]


def test_torchrun_with_two_processes_computes_what_one_does(reference, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "grpo_runner", *JOB, f"hydra.run.dir={tmp_path / 'two'}"]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step 5/5") == 1 and "2 processes" in done.stdout
    assert distance(reference, tmp_path / "two") <= BOUND
    assert answers(reference) == answers(tmp_path / "two")
    alike(reference, tmp_path / "two")
    names = [{file.name for file in folder.iterdir()} for folder in (reference, tmp_path / "two")]
    assert names[0] == {name for name in names[1] if not name.endswith((".png", ".html"))}


@pytest.mark.parametrize(
    "variant", ["split", *(pytest.param(name, marks=pytest.mark.slow) for name in ("full", "penalty"))]
)
def test_two_processes_compute_what_one_does(variant, start, tmp_path):
    codes, said = start(tmp_path / "two", 2, *VARIANTS[variant])
    assert codes == [0, 0], said
    alone(tmp_path / "one", *VARIANTS[variant])
    assert distance(tmp_path / "one", tmp_path / "two") <= BOUND
    assert answers(tmp_path / "one") == answers(tmp_path / "two")
    alike(tmp_path / "one", tmp_path / "two")


def test_four_processes_for_five_questions_and_three_for_two(start, reference, tmp_path):
    codes, said = start(tmp_path / "four", 4)
    assert codes == [0] * 4, said
    assert distance(reference, tmp_path / "four") <= BOUND and answers(reference) == answers(tmp_path / "four")
    assert said[1] == said[2] == said[3] == ""
    codes, said = start(tmp_path / "idle", 3, "questions_per_step=2", "steps=1", "evaluation.every=0")
    assert codes == [0] * 3 and "1 of 3 processes sample nothing" in said[0]


WRONG = {  # what a process could get wrong, and what is seen of it
    "mean instead of sum": """
from grpo_runner.parallel import Ranks
right = Ranks.sum
Ranks.sum = lambda self, tensor, where: right(self, tensor, where) / (self.world if where == "gradient" else 1)
""",
    "normaliser of its own rows": """
from grpo_runner.policy.update import Trainer
right = Trainer.update
def update(self, batch, parts, weights_NT, norm_NT, *rest):
    own = self.ranks.rows(parts[0], batch.groups_N, batch.lengths_N)
    return right(self, batch, parts, weights_NT * (len(parts[0]) / len(own)), norm_NT, *rest)
Trainer.update = update
""",
    "draws by its own slots": """
import dataclasses
from grpo_runner.rollout import NativeEngine
right = NativeEngine.sample
NativeEngine.sample = lambda s, q, p, g, sampling: right(s, q, p, g, dataclasses.replace(sampling, first_slot=0))
""",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_would_be_seen(wrong, start, reference, tmp_path):
    """Negative controls of the three tests above."""
    codes, said = start(tmp_path / "two", 2, "evaluation.every=0", first=WRONG[wrong])
    assert codes == [0, 0], said
    assert distance(reference, tmp_path / "two") > 20 * BOUND


def test_a_run_of_two_goes_on_with_one_and_the_other_way_round(start, reference, tmp_path):
    for first, then in ((2, 1), (1, 2)):
        folder = tmp_path / f"from_{first}"
        for world, steps in ((first, 3), (then, 5)):
            if world == 1:
                alone(folder, f"steps={steps}")
            else:
                codes, said = start(folder, 2, f"steps={steps}")
                assert codes == [0, 0], said
        assert distance(reference, folder) <= BOUND
        assert answers(reference) == answers(folder)


REWARD = """
import os, signal, sys
import types
calls = 0
def score(questions, golds, completions):
    global calls
    calls += 1
    if calls == 2 and os.environ["RANK"] == "1":
        {what}
    return [float(len(text) % 3) for text in completions]
module = types.ModuleType("own_reward")
module.score = score
sys.modules["own_reward"] = module
"""
OWN = ["reward=custom", "reward.function=own_reward:score", "reward.parts={function: 1.0}", "evaluation.every=0"]


@pytest.mark.parametrize(
    "what, code, words",
    [
        ("return [float('inf')] * len(golds)", 4, "a reward is at most"),
        ("return 3", 2, "must return one number a completion"),
        ("raise KeyboardInterrupt", 130, "goes on from"),
        ("os.kill(os.getpid(), signal.SIGINT)", 130, "what was done is saved"),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143, "what was done is saved"),
    ],
)
def test_what_ends_one_process_ends_both_alike(what, code, words, start, tmp_path):
    codes, said = start(tmp_path / "run", 2, *OWN, first=REWARD.format(what=what))
    assert codes == [code, code], said
    assert words in said[0] and said[1] == ""
    assert "Traceback" not in said[0]


def test_a_fault_in_one_process_is_told_there_and_ends_both(start, tmp_path):
    broken = "import grpo_runner.train.loop as loop, os\nif os.environ['RANK'] == '1': loop.token_weights = None\n"
    codes, said = start(tmp_path / "run", 2, first=broken)
    assert codes == [1, 1]
    assert "Process 1 failed: TypeError" in said[0] and "Traceback" not in said[0]
    assert "Traceback" in said[1]


def test_a_process_that_dies_ends_the_other_with_a_line(start, tmp_path):
    codes, said = start(tmp_path / "run", 2, *OWN, first=REWARD.format(what="os.kill(os.getpid(), signal.SIGKILL)"))
    assert codes == [2, -9], said
    assert "another process of this run ended" in said[0] and "Traceback" not in said[0]
    assert len(said[0].split("Process 0 of 2")[1].strip().splitlines()) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("then", [2, 3])
def test_a_run_that_lost_a_process_goes_on_as_if_nothing_had_been(then, start, reference, tmp_path):
    """The process of rank 1 is killed within the third update; typed again, also with another number of processes."""
    killed = """
import os, signal
from grpo_runner.policy.update import Trainer
right = Trainer._backward
def dies(self, work, *rest):
    if work.step == 2 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    right(self, work, *rest)
Trainer._backward = dies
"""
    codes, said = start(tmp_path / "run", 2, first=killed)
    assert codes == [2, -9], said
    made = [row["step"] for row in rows(tmp_path / "run", "metrics.jsonl")]
    assert made == [0, 1]
    codes, said = start(tmp_path / "run", then)
    assert codes == [0] * then and "going on from step 2" in said[0], said
    assert distance(reference, tmp_path / "run") <= BOUND and answers(reference) == answers(tmp_path / "run")
    alike(reference, tmp_path / "run")


def test_waiting_for_a_slow_process_has_a_figure(start, reference, tmp_path):
    """A process that sleeps for the length of a step's grading is waited for by the other; one alone waits for none."""
    assert "time/rank_wait_s" not in rows(reference, "metrics.jsonl")[0]
    words = [*OWN, "steps=2", "evaluation.every=0"]
    codes, said = start(tmp_path / "run", 2, *words, first=REWARD.format(what="import time; time.sleep(1)"))
    assert codes == [0, 0], said
    # the mean of two, of which one waits for the second of the other
    assert rows(tmp_path / "run", "metrics.jsonl")[1]["time/rank_wait_s"] >= 0.4


def test_what_differs_between_processes_and_sweeps_are_refused(start, tmp_path):
    other = "import os, grpo_runner.data as d\nif os.environ['RANK'] == '1':\n right = d.load\n d.load = lambda c, seed, *a, **k: right(c, seed + 1, *a, **k)\n"
    codes, said = start(tmp_path / "run", 2, first=other)
    assert codes == [2, 2] and "data and prompts: not the same in all 2 processes" in said[0] and said[1] == ""
    codes, said = start(tmp_path / "sweep", 2, "-m", "seed=0,1")
    assert codes == [2, 2] and "does not run under torchrun" in said[0] and said[1] == ""
    codes, said = start(tmp_path / "typo", 2, "optim.rl=1")
    assert codes == [2, 2] and "optim.rl" in said[0] and said[1] == ""


CUT = ["steps=24", "max_new_tokens=3", "questions_per_step=2", "group_size=2", "evaluation.every=0"]


@pytest.mark.slow
def test_a_health_rule_is_told_by_the_first_and_ends_both(start, tmp_path):
    words = [*CUT, "tracking.completions_every=0", "health.stop_on=[truncation]"]
    for again in (False, True):  # typed again, it makes no step more
        codes, said = start(tmp_path / "run", 2, *words)
        assert codes == [5, 5], said
        assert "stopped after step 19" in said[0] and said[1] == "" and "Traceback" not in said[0]
        assert said[0].count("health, truncation at step 19") == (not again)
    assert [row["health/truncation"] for row in rows(tmp_path / "run", "metrics.jsonl")] == [0] * 19 + [1]
