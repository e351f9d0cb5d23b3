r"""The pre-registered analysis of the length-bias miniature (docs/length_bias.md), over the folders of its two sweeps.

    python scripts/length_bias/length_verdict.py --runs outputs/sweeps/length_bias
        [--blind outputs/sweeps/length_bias_blind] [--prediction build/length_bias/prediction.json] [--json FILE]

Growth is the last evaluation's mean length less the first one's (the base's), of one run. Intervals are Student's t
over seeds, at 95 %. A hypothesis is held, refuted (the interval lies wholly on the other side) or open.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

ARMS = {
    ("group_std", "sequence_mean"): "grpo",
    ("none", "sequence_mean"): "no_std",
    ("group_std", "constant"): "no_length_norm",
    ("none", "constant"): "dr_grpo",
}
LABELS = {
    "grpo": "GRPO",
    "no_std": "GRPO without its std",
    "no_length_norm": "GRPO without its 1/|o|",
    "dr_grpo": "Dr. GRPO",
}
STATES = ("wrong", "right")
LEVEL = 0.95
SEEDS = 12
BODY = 10  # tokens in front of the decisions: the box (3), a new line, five digits and the first sign
FLAT = 2.0  # tokens: growth within this much, either way, is none
SAME = 0.03  # accuracy: a difference within this much is none that matters here
EARLY = ((1, 4), (5, 8), (9, 12), (13, 16))  # steps whose answers the prediction is held against
JUDGED = EARLY[:2]  # of which H7 speaks; later the policy has changed what pushes it
MEETS = 10 / 12  # share of the comparisons with the prediction that have to meet


@dataclass(frozen=True)
class Run:
    """One run: its rows of metrics.jsonl and of evals.jsonl."""

    arm: str
    seed: int
    steps: list[dict[str, Any]]
    evals: list[dict[str, Any]]

    def growth(self, state: str) -> float:
        """Tokens that held-out answers have grown by from the base to the end."""
        return float(self.evals[-1][f"sampled/length_{state}"] - self.evals[0][f"sampled/length_{state}"])


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its interval."""

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def interval(values: Sequence[float]) -> Interval:
    """Student's t. Raises ValueError under two values."""
    if len(values) < 2:
        raise ValueError("an interval needs two seeds")
    mean = float(np.mean(values))
    half = float(stdtrit(len(values) - 1, (1 + LEVEL) / 2) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Interval(mean, mean - half, mean + half, len(values))


def read(folder: Path) -> dict[str, dict[int, Run]]:
    """Finished runs by arm and seed."""
    found: dict[str, dict[int, Run]] = {}
    for config in sorted(folder.glob("*/config.yaml")):
        if not (config.parent / "DONE").exists():
            print(f"left out, unfinished: {config.parent}", file=sys.stderr)
            continue
        settings = yaml.safe_load(config.read_text())
        arm = ARMS[settings["advantage"]["scale"], settings["loss_norm"]["kind"]]
        rows = {
            name: [json.loads(line) for line in (config.parent / f"{name}.jsonl").read_text().splitlines()]
            for name in ("metrics", "evals")
        }
        if rows["evals"] and "sampled/length_wrong" not in rows["evals"][-1]:
            sys.exit(f"{config.parent}: its evaluations have no lengths of right and wrong answers; run it again")
        found.setdefault(arm, {})[settings["seed"]] = Run(arm, settings["seed"], rows["metrics"], rows["evals"])
    return found


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> Interval:
    """one - other, over the seeds that both have."""
    return interval([one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())])


def above(found: Interval, limit: float = 0.0) -> str:
    return "held" if found.low > limit else "refuted" if found.high < limit else "open"


def below(found: Interval, limit: float = 0.0) -> str:
    return "held" if found.high < limit else "refuted" if found.low > limit else "open"


def within(found: Interval, margin: float) -> str:
    inside = -margin < found.low and found.high < margin
    return "held" if inside else "refuted" if found.low > margin or found.high < -margin else "open"


@dataclass(frozen=True)
class Compared:
    """A predicted difference with its standard error, and what was found."""

    arm: str
    state: str
    steps: tuple[int, int]
    predicted: float
    error: float
    found: Interval

    @property
    def meets(self) -> bool:
        """Whether the interval meets the prediction with two standard errors on either side."""
        low, high = self.predicted - 2 * self.error, self.predicted + 2 * self.error
        return self.found.low <= high and low <= self.found.high

    @property
    def signed(self) -> bool:
        """Whether the interval lies on the predicted side of 0."""
        return self.found.low > 0 if self.predicted > 0 else self.found.high < 0


def first_steps(rows: Sequence[Compared]) -> tuple[str, str]:
    """(what was found of H7, held | open): how many comparisons of the judged steps meet, and the signs under 1/|o|."""
    judged = [row for row in rows if row.steps in JUDGED]
    pushed = [row for row in judged if row.arm in ("grpo", "no_std") and row.steps == JUDGED[-1]]
    meets, signs = sum(row.meets for row in judged), sum(row.signed for row in pushed)
    held = meets >= MEETS * len(judged) and signs == len(pushed)
    return f"{meets} of {len(judged)} meet, {signs} of {len(pushed)} signs", "held" if held else "open"


def hypotheses(runs: Mapping[str, Mapping[int, Run]], blind: Mapping[str, Mapping[int, Run]]) -> list[tuple[str, ...]]:
    """(name, what it says, what was found, held | refuted | open) of each that can be looked at."""
    growth = {(arm, s): {n: run.growth(s) for n, run in runs[arm].items()} for arm in runs for s in STATES}
    last = {
        (arm, s): {n: run.evals[-1][f"sampled/length_{s}"] for n, run in runs[arm].items()}
        for arm in runs
        for s in STATES
    }
    right = {arm: {n: run.evals[-1]["sampled/accuracy"] for n, run in runs[arm].items()} for arm in runs}
    grown = {key: interval(list(values.values())) for key, values in growth.items()}
    rows: list[tuple[str, ...]] = []

    def add(name: str, words: str, found: Interval, said: str) -> None:
        rows.append((name, words, str(found), said if found.count >= SEEDS else f"{said} (of {found.count} seeds)"))

    add("H1a", "GRPO: wrong answers grow", grown["grpo", "wrong"], above(grown["grpo", "wrong"]))
    add("H1b", "GRPO: right answers shrink", grown["grpo", "right"], below(grown["grpo", "right"]))
    for state in STATES:
        name = "H2a" if state == "wrong" else "H2b"
        found = grown["dr_grpo", state]
        add(name, f"Dr. GRPO: {state} answers within {FLAT:g} tokens of the base", found, within(found, FLAT))
    found = paired(last["dr_grpo", "wrong"], last["grpo", "wrong"])
    add("H3", "wrong answers: Dr. GRPO shorter than GRPO", found, below(found))
    found = paired(last["no_length_norm", "wrong"], last["grpo", "wrong"])
    add("H4a", "wrong answers: shorter without the 1/|o| alone", found, below(found))
    found = paired(last["no_std", "wrong"], last["dr_grpo", "wrong"])
    add("H4b", "wrong answers: 1/|o| alone longer than Dr. GRPO", found, above(found))
    found = paired(last["dr_grpo", "wrong"], last["no_length_norm", "wrong"])
    add("H4c", f"wrong answers: without 1/|o|, the std changes less than {FLAT:g}", found, within(found, FLAT))
    found = paired(right["dr_grpo"], right["grpo"])
    shown = Interval(100 * found.mean, 100 * found.low, 100 * found.high, found.count)
    add("H5", f"accuracy, points: Dr. GRPO within {100 * SAME:g} of GRPO", shown, within(found, SAME))
    if blind:
        found = interval([run.growth("wrong") for run in blind["grpo"].values()])
        add("H6", f"blind base, GRPO: wrong answers within {FLAT:g} tokens of the base", found, within(found, FLAT))
    return rows


def odds(run: Run, state: str, first: int, last: int) -> float:
    """Log odds to stop in the rollouts of these steps: one stop an answer, a decision a token of the tail."""
    answers = decisions = 0.0
    for row in run.steps[first : last + 1]:
        length = row["length/correct" if state == "right" else "length/wrong"]
        if length is not None:
            share = row["accuracy"] if state == "right" else 1 - row["accuracy"]
            answers += share
            decisions += share * (length - BODY)
    return log_odds(answers, decisions)


def log_odds(stops: float, decisions: float) -> float:
    """Of so many stops among so many decisions."""
    return math.log(stops / (decisions - stops))


def against_prediction(runs: Mapping[str, Mapping[int, Run]], prediction: Mapping[str, Any]) -> list[Compared]:
    """The log odds to stop of each arm less Dr. GRPO's of the same seed, beside what was predicted of them.

    The same seed draws the same questions and numbers in both arms, so that in the first steps most of the noise of
    sampling goes out of the difference.
    """
    rows = []
    for arm in [name for name in runs if name != "dr_grpo"]:
        drift = {cells["step"]: cells for cells in prediction["drift"] if cells["arm"] == arm}
        both = sorted(runs[arm].keys() & runs["dr_grpo"].keys())
        for state in STATES:
            for first, last in EARLY:
                said = [drift[step][f"{state}_apart"] for step in range(first, last + 1)]
                mean, error = (sum(pair[i] for pair in said) / len(said) for i in (0, 1))
                found = interval(
                    [
                        odds(runs[arm][n], state, first, last) - odds(runs["dr_grpo"][n], state, first, last)
                        for n in both
                    ]
                )
                rows.append(Compared(arm, state, (first, last), mean, error, found))
    return rows


def show(console: Console, runs: Mapping[str, Mapping[int, Run]], rows: Sequence[Sequence[str]]) -> None:
    """The arms at the end, then the hypotheses."""
    made = table("held-out answers at the end, and growth from the base, tokens [95 % over seeds]",
                 "arm", "seeds", "wrong", "growth", "right", "growth", "accuracy", "truncated")  # fmt: skip
    for arm, by_seed in runs.items():
        cells = [LABELS[arm], str(len(by_seed))]
        for state in STATES:
            ends = [run.evals[-1][f"sampled/length_{state}"] for run in by_seed.values()]
            cells += [f"{np.mean(ends):.1f}", str(interval([run.growth(state) for run in by_seed.values()]))]
        for key in ("accuracy", "truncated"):
            cells.append(f"{100 * np.mean([run.evals[-1][f'sampled/{key}'] for run in by_seed.values()]):.1f} %")
        made.add_row(*cells)
    console.print(made)
    console.print()
    made = table("hypotheses", "", "", "found", "")
    for row in rows:
        made.add_row(*row)
    console.print(made)


def show_prediction(console: Console, rows: Sequence[Compared]) -> None:
    console.print()
    made = table("first steps: log odds to stop, less Dr. GRPO's", "arm", "answers", "steps", "predicted", "found", "")
    for row in rows:
        found = f"{row.found.mean:+.3f} [{row.found.low:+.3f}, {row.found.high:+.3f}]"
        said = f"{row.predicted:+.3f} ± {row.error:.3f}"
        steps = f"{row.steps[0]} to {row.steps[1]}"
        made.add_row(LABELS[row.arm], row.state, steps, said, found, "" if row.meets else "apart")
    console.print(made)


def table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, no_wrap=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, metavar="FOLDER", help="of the sweep of four arms")
    parser.add_argument("--blind", type=Path, metavar="FOLDER", help="of the sweep on the blind base")
    parser.add_argument("--prediction", type=Path, metavar="FILE", help="what predict_drift.py wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    options = parser.parse_args()
    runs = read(options.runs)
    if missing := [LABELS[arm] for arm in LABELS if len(runs.get(arm, {})) < 2]:
        parser.exit(2, f"{options.runs}: too few finished runs of {', '.join(missing)}\n")
    runs = {arm: runs[arm] for arm in LABELS}
    console = Console(highlight=False, width=130)
    rows = hypotheses(runs, read(options.blind) if options.blind else {})
    held = against_prediction(runs, json.loads(options.prediction.read_text())) if options.prediction else []
    if held:
        rows.append(("H7", "the first steps go as predicted from the base", *first_steps(held)))
    show(console, runs, rows)
    if held:
        show_prediction(console, held)
    if options.json:
        found = {"hypotheses": rows, "first steps": [asdict(row) for row in held]}
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
