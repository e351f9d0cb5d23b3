"""What a critic costs: memory and time of PPO, with either kind of critic, beside GRPO on the same model and answers.

    python scripts/bench/critic.py --model FOLDER

Each case is a process of its own: its peak memory is that of the process (on a CPU), its times are medians over the
steps but the first. All make one optimizer step a rollout, with k1 in the reward, so that the critic is what differs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

CASES = {
    "GRPO": ["method=grpo", "beta=in_reward"],
    "PPO, shared_base": ["method=ppo", "critic=shared_base"],
    "PPO, own_model": ["method=ppo", "critic=own_model"],
}
SAME = (
    *("optim.updates_per_rollout=1", "tracking=off", "evaluation=never", "checkpoint.every=0", "device=cpu"),
    *("reward=custom", "reward.function=grpo_runner.planning.speed:by_text", "reward.truncated=keep"),
)


def measure(words: list[str], arguments: argparse.Namespace) -> dict[str, float]:
    """Megabytes at the peak, and seconds: of a step, of sampling, of the update with the critic, of the critic."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        sizes = [
            *(f"steps={arguments.steps}", f"questions_per_step={arguments.questions}", f"group_size={arguments.group}"),
            *(f"max_new_tokens={arguments.tokens}", f"hydra.run.dir={folder}"),
        ]
        model = (
            [f"model.path={arguments.model}", "prompt=chat_boxed", "data.max_prompt_tokens=256"]
            if arguments.model
            else []
        )
        command = [sys.executable, "-m", "grpo_runner", *words, *SAME, *model, *sizes]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"failed: {' '.join(command)}")
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()][1:]
    times = {
        key: statistics.median(row.get(f"time/{key}_s", 0.0) for row in rows)
        for key in ("step", "rollout", "update", "critic")
    }
    tokens = statistics.median(row["tokens/sampled"] for row in rows)
    return {"MB": used.ru_maxrss / 1024, "tokens": tokens, **times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model's folder; without it the embedded model")
    for name, default in {"steps": 5, "questions": 4, "group": 8, "tokens": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    table = Table("", "peak memory, MB", "tokens a step", "step, s", "sampling, s", "update, s", "of it the critic, s")
    for name, words in CASES.items():
        found = measure(words, arguments)
        numbers = [f"{found[key]:.2f}" for key in ("step", "rollout", "update", "critic")]
        table.add_row(name, f"{found['MB']:,.0f}", f"{found['tokens']:,.0f}", *numbers)
    Console().print(table)


if __name__ == "__main__":
    main()
