"""What `experiment=family` came to: figures of each method with their intervals over seeds, and pre-stated questions.

    python scripts/family_table.py outputs/sweeps/family
    python scripts/family_table.py outputs/sweeps/family_tune --rates      the best rate of each, as YAML takes it
    python scripts/family_table.py outputs/sweeps/family_seconds --seconds     steps that take equally long, likewise

Intervals are Student's over seeds, 95 %; differences are paired by seed. Lines of Markdown.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import stats

ORDER = (
    "sft", "rft", "online_rft", "dpo", "online_dpo", "reinforce_baseline", "rloo", "ppo", "grpo", "grpo_process",
    "dr_grpo", "maxrl",
)  # fmt: skip
QUESTIONS = (
    ("online_rft", "rft"),
    ("grpo", "online_rft"),
    ("grpo_process", "grpo"),
    ("ppo", "grpo"),
    ("dr_grpo", "grpo"),
)
GOAL = 0.8  # of sampled accuracy, for the tokens that it took


class Run:
    """One run's figures. The last evaluation; wrong answers' length and tokens to the goal from all of them."""

    def __init__(self, folder: Path) -> None:
        config = yaml.safe_load((folder / "config.yaml").read_text())
        self.method = folder.name.partition(",")[0].removeprefix("method=")
        self.seed, self.rate = config["seed"], config["optim"]["lr"]
        logged = folder / "evals.jsonl"
        self.evals = [json.loads(line) for line in logged.read_text().splitlines()] if logged.exists() else []
        self.steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        # answers that are made before the first step take none of a step's time
        first = self.steps[0]
        made = first["time/rollout_s"] + first["time/reward_s"]
        self.before = made if made > first["time/step_s"] else 0.0
        self.seconds = self.before + sum(row["time/step_s"] for row in self.steps)
        tokens = np.cumsum([row["tokens/sampled"] for row in self.steps])
        reached = [row["step"] for row in self.evals if row["sampled/accuracy"] >= GOAL]
        self.to_goal = float(tokens[reached[0] - 1]) if reached and reached[0] else (0.0 if reached else None)

    def last(self, key: str) -> float:
        return float(self.evals[-1][key])

    def take(self, part: int) -> float:
        """Seconds before the first step (0), or of a step: the median (1)."""
        return float(np.median([row["time/step_s"] for row in self.steps])) if part else self.before

    def half_way(self) -> float:
        """Sampled accuracy at the evaluation in the middle."""
        return float(self.evals[len(self.evals) // 2]["sampled/accuracy"])


def runs_of(folder: Path) -> list[Run]:
    return [Run(path) for path in sorted(folder.iterdir()) if (path / "DONE").exists()]


def interval(values: Sequence[float], scale: float = 1.0) -> str:
    """`mean [low, high]`."""
    made = np.asarray(values) * scale
    if len(made) < 2:
        return f"{made.mean():.1f}"
    half = stats.t.ppf(0.975, len(made) - 1) * made.std(ddof=1) / np.sqrt(len(made))
    return f"{made.mean():.1f} [{made.mean() - half:.1f}, {made.mean() + half:.1f}]"


def rates(found: dict[str, list[Run]]) -> Iterator[str]:
    """Mean sampled accuracy at the end, by method and rate."""
    yield (
        "| method | "
        + " | ".join(f"{rate:g}" for rate in sorted({run.rate for some in found.values() for run in some}))
        + " |"
    )
    best: dict[str, float] = {}
    for method in (name for name in ORDER if name in found):
        by_rate: dict[float, list[float]] = defaultdict(list)
        for run in found[method]:
            by_rate[run.rate].append(run.last("sampled/accuracy"))
        means = {rate: float(np.mean(values)) for rate, values in by_rate.items()}
        best[method] = max(means, key=lambda rate: means[rate])
        yield f"| {method} | " + " | ".join(f"{100 * means[rate]:.1f}" for rate in sorted(means)) + " |"
    yield "{" + ",".join(f"{method}:{rate:g}" for method, rate in best.items()) + "}"


def seconds(found: dict[str, list[Run]]) -> Iterator[str]:
    """Seconds before the first step and of a step (medians over runs, and over their steps), and the steps that take as
    long as GRPO's: even, and from 20 on whole quarters, for the evaluations; then those steps and quarters as YAML.
    """
    yield "| method | before the first step | a step | steps | come to |"
    yield "|---" * 5 + "|"
    took = {
        name: [float(np.median([run.take(part) for run in some])) for part in (0, 1)] for name, some in found.items()
    }
    whole = took["grpo"][0] + len(found["grpo"][0].steps) * took["grpo"][1]
    many: dict[str, int] = {}
    for method in (name for name in ORDER if name in took):
        before, step = took[method]
        of = (whole - before) / step
        many[method] = round(of / 4) * 4 if of >= 20 else max(2, round(of / 2) * 2)
        yield f"| {method} | {before:.2f} | {step:.4f} | {many[method]} | {before + many[method] * step:.2f} |"
    yield "{" + ",".join(f"{method}:{steps}" for method, steps in many.items()) + "}"
    quarters = {method: steps // 4 if steps % 4 == 0 else steps // 2 for method, steps in many.items()}
    yield "{" + ",".join(f"{method}:{steps}" for method, steps in quarters.items()) + "}"


def table(found: dict[str, list[Run]]) -> Iterator[str]:
    heads = (
        "method",
        "rate",
        "seeds",
        "half-way",
        "sampled",
        "pass@4",
        "greedy",
        "tokens of right",
        "of wrong",
        "thousand tokens to 80 %",
    )
    yield "| " + " | ".join((*heads, "seconds")) + " |"
    yield "|---" * 11 + "|"
    for method in (name for name in ORDER if name in found):
        some = found[method]

        def of(key: str, scale: float = 100.0, some: list[Run] = some) -> str:
            return interval([run.last(key) for run in some], scale)

        goals = [run.to_goal / 1000 for run in some if run.to_goal is not None]
        goal = (interval(goals) if goals else "-") + (
            f" ({len(goals)} of {len(some)})" if len(goals) < len(some) else ""
        )
        cells: list[Any] = [
            method, f"{some[0].rate:g}", len(some), interval([run.half_way() for run in some], 100),
            of("sampled/accuracy"), of("sampled/pass@4"), of("greedy/accuracy"), of("sampled/length_right", 1),
            of("sampled/length_wrong", 1), goal, interval([run.seconds for run in some]),
        ]  # fmt: skip
        yield "| " + " | ".join(map(str, cells)) + " |"


def answers(found: dict[str, list[Run]]) -> Iterator[str]:
    """The pre-stated questions: differences of sampled accuracy half-way and at the end, paired by seed, in points."""
    yield "| difference | sampled, half-way | sampled, at the end | pass@4, at the end |"
    yield "|---|---|---|---|"
    for one, other in QUESTIONS:
        pair = [{run.seed: run for run in found.get(name, [])} for name in (one, other)]
        seeds = sorted(set(pair[0]) & set(pair[1]))
        if len(seeds) < 2:
            continue
        cells = [
            interval([pair[0][seed].last(key) - pair[1][seed].last(key) for seed in seeds], 100)
            for key in ("sampled/accuracy", "sampled/pass@4")
        ]
        half = interval([pair[0][seed].half_way() - pair[1][seed].half_way() for seed in seeds], 100)
        yield f"| {one} - {other} | {half} | {cells[0]} | {cells[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--seconds", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs_of(arguments.folder):
        found[run.method].append(run)
    wanted = (
        rates if arguments.rates else seconds if arguments.seconds else lambda runs: [*table(runs), "", *answers(runs)]
    )
    for line in wanted(found):
        print(line)


if __name__ == "__main__":
    main()
