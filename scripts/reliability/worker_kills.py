#!/usr/bin/env python3
"""Faults of grading processes in a run: worker_kills.py [kills|deadlines|parent] [--steps 200] [--seed 0] [--control]

The embedded task with golds written as roots, so that every answer goes to the grading processes, and 30 ms more for
each row, so that a kill finds rows at work. Each answer kept in completions/ is graded again in one process that nobody
kills: a row is lost where it is missing, wrong where its verdict differs and is none of `error` and `timeout`, which
tell that it was not graded; metrics.jsonl has to count as many of these.

kills: about each --every seconds a grading process is killed (SIGKILL), one in three times the one that keeps the
deadlines (never twice before a step was made: three in a row without a row graded end a run, as they should), else a
child of it; beside a run without kills, which has to have the same questions in the same places and no such row.
deadlines: one of 1 ms, which every row passes. parent: the run itself is killed --parents times at random moments.
--control: kills with a grader that calls the rows of killed processes right; parent with a process that stays.

Exits 1 where something is lost, wrong or left, or a control finds nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from grpo_runner.config import compose  # noqa: E402
from grpo_runner.data.arithmetic import questions  # noqa: E402
from grpo_runner.reward import check, policy_of  # noqa: E402
from grpo_runner.tracking import texts  # noqa: E402
from tests.program import Program, as_program  # noqa: E402

MARK = "GRPO_RUNNER_KILLED_BY"  # stands in the environment of a run's grading processes, whoever their parent is by now
JOB = [
    *("questions_per_step=4", "group_size=4", "max_new_tokens=16", "tracking=off", "evaluation.every=0"),
    *("tracking.completions_every=1", "reward.workers=2", "optim.lr=0.001", "checkpoint.every=50"),
]
ROWS = 16  # of a step
TOLD = ("error", "timeout")
SLOW = """
import json, subprocess, sys, time
from grpo_runner.reward import worker
check = sys.modules["grpo_runner.reward.check"]
real = check.decide_with_algebra
def slow(answers, golds, policy):
    time.sleep(0.03)
    return real(answers, golds, policy)
check.decide_with_algebra = slow
"""
STAYS = "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
MAIN = "worker.main(float(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))\n"
PATIENCE_S = 60.0  # for the processes of a killed run to end


def slowly(words: tuple[str, ...], folder: str, environment: dict[str, str], log: str) -> None:
    """The program, its grading processes slower by 30 ms a row."""
    from grpo_runner.reward import workers

    real = workers._Process.__init__

    def made(self: Any, arguments: Any) -> None:
        real(self, arguments)
        self.command[2:4] = ["-c", SLOW + (STAYS if environment.get("STAYS") else "") + MAIN]

    workers._Process.__init__ = made  # type: ignore[method-assign]
    as_program(words, folder, environment, log)


def hiding(*given: Any) -> None:
    """The same, where a row whose process died has the status of a right answer."""
    from grpo_runner.reward import workers
    from grpo_runner.types import Status

    real = workers._verdict

    def verdict(key: Any, status: Status, rule: str, since: float | None = None) -> Any:
        return real(key, Status.CORRECT if rule == workers.ENDED else status, rule, since)

    workers._verdict = verdict
    slowly(*given)


def data(folder: Path, seed: int) -> list[str]:
    """Overrides that read questions of the embedded task, their golds as roots: 7 is \\sqrt{49}."""
    for split, count in (("train", 2000), ("eval", 8)):
        rows = []
        for one in questions(split, seed, count):
            value = int(one.gold)
            rows.append({"question": one.text, "answer": rf"\sqrt{{{value * value}}}"})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["data=jsonl", *(f"data.{split}.path={folder / split}.jsonl" for split in ("train", "eval"))]


def marked(mark: str) -> dict[int, int]:
    """{pid: parent} of the processes that were started under this mark and have not ended."""
    found = {}
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and f"{MARK}={mark}".encode() in (place / "environ").read_bytes().split(b"\0"):
                state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    found[int(place.name)] = int(parent)
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found


def command_of(pid: int) -> bytes:
    """Its command line, empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Started:
    """A run that is under way, and its grading processes."""

    def __init__(self, folder: Path, words: list[str], target: Any = slowly, **more: str) -> None:
        self.folder, self.mark = folder, secrets.token_hex(8)
        words = [*JOB, *words, f"hydra.run.dir={folder}"]
        self.program = Program(*words, environment={MARK: self.mark, **more}, target=target)

    def steps(self) -> int:
        rows = self.folder / "metrics.jsonl"
        return rows.read_bytes().count(b"\n") if rows.exists() else 0

    def grading(self) -> dict[str, list[int]]:
        """The process that keeps the deadlines, and its children, at work or idle."""
        # a run also asks git about its code, which is no grading process and leaves a lock where it is killed
        found = {pid: parent for pid, parent in marked(self.mark).items() if b"reward import worker" in command_of(pid)}
        return {
            "keeper": [pid for pid, parent in found.items() if parent not in found],
            "child": [pid for pid, parent in found.items() if parent in found],
        }

    def end(self) -> str:
        """What it said. Raises SystemExit where it did not end well."""
        said = self.program.communicate()[0]
        if self.program.returncode != 0:
            raise SystemExit(
                f"the run ended with {self.program.returncode} after {self.steps()} steps:\n{said[-2000:]}"
            )
        return said


def answers(folder: Path, steps: int) -> Iterator[tuple[tuple[int, int, int], dict[str, Any]]]:
    for step in range(steps):
        if texts.file_of(folder, step).exists():
            rows = texts.read_texts(folder, step, dict)
            yield from (((step, row["slot"], row["sample"]), row) for row in rows)


def held(folder: Path, steps: int) -> dict[str, Any]:
    """What a run's folder has of its steps and rows, each verdict held against one made here and now."""
    policy = policy_of(compose(JOB).reward)
    fresh = cache(lambda text, gold: check(text, gold, policy).status.value)
    rows = dict(answers(folder, steps))
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    told = Counter(row["status"] for row in rows.values() if row["status"] in TOLD)
    counted = {name: round(sum(row[name] for row in metrics) * ROWS) for name in TOLD}
    graded = [row for row in rows.values() if row["status"] not in TOLD]
    return {
        "steps": len({row["step"] for row in metrics}),
        "rows": len(rows),
        "told": dict(told),
        "wrong": sum(fresh(row["completion"], row["gold"]) != row["status"] for row in graded),
        "miscounted": {name: counted[name] for name in TOLD if counted[name] != told[name]},
        "questions": {place: row["question_id"] for place, row in rows.items()},
        "right": sum(row["status"] == "correct" for row in graded),
    }


def sound(found: dict[str, Any], steps: int) -> bool:
    """No step and no row lost, none with another verdict, and the others counted in the metrics."""
    whole = found["steps"] == steps and found["rows"] == ROWS * steps
    return whole and not found["wrong"] and not found["miscounted"]


def shown(found: dict[str, Any], steps: int) -> str:
    told = ", ".join(f"{count} {name}" for name, count in found["told"].items()) or "none"
    return (
        f"{steps - found['steps']} of {steps} steps lost, {ROWS * steps - found['rows']} of {ROWS * steps} rows lost, "
        f"{found['wrong']} with another verdict, told as not graded: {told}"
        + (f"; metrics.jsonl counts {found['miscounted']}" if found["miscounted"] else "")
    )


def kills(made: Path, steps: int, every: float, seed: int, control: bool) -> bool:
    draw, words = random.Random(seed), [f"steps={steps}", f"seed={seed}", *data(made, seed)]
    run = Started(made / "killed", words, hiding if control else slowly)
    killed, last = Counter[str](), -1
    while run.program.poll() is None:
        time.sleep(draw.uniform(0, 2 * every))
        which = "keeper" if draw.random() < 1 / 3 else "child"
        grading = run.grading()
        if not grading[which] or (which == "keeper" and run.steps() == last):
            continue
        try:
            os.kill(draw.choice(sorted(grading[which])), signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed[which] += 1
        if which == "keeper":
            last = run.steps()
    run.end()
    found = held(run.folder, steps)
    said = f"{killed['child']} grading children and {killed['keeper']} keepers of deadlines killed"
    print(f"{said}: {shown(found, steps)}")
    if control:
        return sound(found, steps)
    quiet = Started(made / "quiet", words)
    quiet.end()
    alone = held(quiet.folder, steps)
    same = found["questions"] == alone["questions"]
    print(f"none killed: {shown(alone, steps)}; the same questions in the same places: {'yes' if same else 'NO'}")
    limit = 2 * killed.total()  # the keeper's end may cost the rows of two children
    bounded = sum(found["told"].values()) <= limit and killed.total() > 0
    return sound(found, steps) and sound(alone, steps) and same and not alone["told"] and bounded


def deadlines(made: Path, steps: int, seed: int) -> bool:
    words = [f"steps={steps}", f"seed={seed}", "reward.deadline_s=0.001", *data(made, seed)]
    run = Started(made / "late", words)
    said = run.end()
    found = held(run.folder, steps)
    asked = found["rows"] - sum(row["status"] in ("no_answer", "ambiguous") for _, row in answers(run.folder, steps))
    late, told = found["told"].get("timeout", 0), "could not be graded in time" in " ".join(said.split())
    said = f"{late} of {asked} rows with an answer; said: {'yes' if told else 'NO'}"
    print(f"deadlines of 1 ms: {shown(found, steps)}; {said}")
    return sound(found, steps) and late == asked > 0 and told


def parent(made: Path, times: int, seed: int, control: bool) -> bool:
    """Kills the run while it grades; the processes that are left, and how long the last of them took to end."""
    draw, words = random.Random(seed), ["steps=100000", f"seed={seed}", *data(made, seed)]
    left, there, longest = 0, 0, 0.0
    for number in range(times):
        run = Started(made / f"run_{number}", words, **({"STAYS": "yes"} if control else {}))
        while run.steps() < 1 and run.program.poll() is None:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 1))
        there += len(marked(run.mark))
        run.program.kill()
        run.program.wait()
        began, patience = time.perf_counter(), 5.0 if control else PATIENCE_S
        while (alive := marked(run.mark)) and time.perf_counter() - began < patience:
            time.sleep(0.05)
        longest = max(longest, time.perf_counter() - began)
        left += len(alive)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
    after = f"{left} LEFT" if left else f"0 left, all gone after {longest:.1f} s at most"
    print(f"{times} runs killed, {there} grading processes at that moment: {after}")
    return left == 0 and there > times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=("kills", "deadlines", "parent", []), help="none: all three")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between kills, on average")
    parser.add_argument("--parents", type=int, default=20, help="runs killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--control", action="store_true", help="kills and parent, with a fault planted")
    asked = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as made:
        parts = {
            "kills": lambda to: kills(to, asked.steps, asked.every, asked.seed, asked.control),
            "deadlines": lambda to: deadlines(to, asked.steps, asked.seed),
            "parent": lambda to: parent(to, asked.parents, asked.seed, asked.control),
        }
        good = []
        for name in asked.what or (("kills", "parent") if asked.control else tuple(parts)):
            (Path(made) / name).mkdir()
            good.append(parts[name](Path(made) / name))
    print(f"{time.perf_counter() - began:.0f} s")
    return int(any(good)) if asked.control else int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
