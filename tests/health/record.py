"""Writes recorded.json, what the rules look at in runs that learned. The commands, from the root of the checkout:

    for name in grpo dr_grpo rloo dapo gspo cispo; do
        python -m grpo_runner experiment=$name tracking=off evaluation=never hydra.run.dir=outputs/recorded/$name
    done
    python tests/health/record.py outputs/recorded/*

By run, by key, a value a step; 4 digits.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

KEYS = (
    *("reward/mean", "reward/batch_std", "accuracy", "length/correct", "length/wrong", "truncated", "no_answer"),
    *("timeout", "error", "kl", "entropy", "clip_fraction", "ratio/max", "grad_norm", "zero_variance_fraction"),
    "refills",
)
FILE = Path(__file__).with_name("recorded.json")


def columns(folder: Path) -> dict[str, list]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {key: [_short(row[key]) for row in rows] for key in KEYS if key in rows[0]}


def recorded() -> dict[str, list[dict]]:
    """Rows of each run, as metrics.jsonl has them."""
    return {
        name: [
            {"step": step, **dict(zip(of, values, strict=True))}
            for step, values in enumerate(zip(*of.values(), strict=True))
        ]
        for name, of in json.loads(FILE.read_text()).items()
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _compact(made: dict[str, list]) -> str:
    return json.dumps(made, separators=(",", ":"))


if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:]]
    lines = [f"{json.dumps(folder.name)}: {_compact(columns(folder))}" for folder in folders]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
