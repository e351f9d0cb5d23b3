"""One run by several processes: the same numbers as by one, the same end for all, and nothing that waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.parallel.runs import BOUND, JOB, ROOT, alike, alone, answers, distance, rows

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


# with a base that is shared out the checkpoint is the same too, so that this is also a run that moves between layouts
@pytest.mark.parametrize("layout", ["shard_base=all", pytest.param("shard_base=none", marks=pytest.mark.slow)])
def test_a_run_of_two_goes_on_with_one_and_the_other_way_round(layout, start, reference, tmp_path, capsys):
    for first, then in ((2, 1), (1, 2)):
        folder = tmp_path / f"from_{first}"
        for world, steps in ((first, 3), (then, 5)):
            if world == 1:
                # the first time without the key that the two had; then with it, which one process has no use for
                alone(folder, f"steps={steps}", *([layout] if first == 1 else []))
                told = "one process, which holds the whole base" in capsys.readouterr().out
                assert told == (first == 1 and layout != "shard_base=none")
            else:
                codes, said = start(folder, 2, f"steps={steps}", layout)
                assert codes == [0, 0], said
                assert ("2 processes, the base shared out" in said[0]) == (layout != "shard_base=none")
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
