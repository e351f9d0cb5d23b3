"""`scripts/family_table.py --seconds`: how many steps of a method take as long as GRPO's, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.family_table import Run, seconds


def run(place: Path, method: str, seed: int, steps: list[float], rollout: float) -> Run:
    folder = place / f"{method},seed={seed}"
    folder.mkdir()
    (folder / "config.yaml").write_text(f"seed: {seed}\noptim:\n  lr: 0.001\n")
    rows = [
        {"step": place, "time/step_s": took, "time/rollout_s": rollout * (place == 0), "time/reward_s": 0.0}
        | {"tokens/sampled": 10}
        for place, took in enumerate(steps)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Run(folder)


def test_steps_that_take_as_long_as_those_of_grpo(tmp_path):
    """GRPO: 40 steps of .2 s, 8 s. RFT: 1 s before the first step, then .1 s. PPO: .79 s. The slow third runs and a slow
    first step move no median.
    """
    found = {
        "grpo": [run(tmp_path, "grpo", seed, [9.0] + [0.2 if seed < 2 else 0.5] * 39, 0.1) for seed in range(3)],
        "rft": [run(tmp_path, "rft", seed, [0.1] * 5, 1.0) for seed in range(3)],
        "ppo": [run(tmp_path, "ppo", 0, [0.79] * 3, 0.1)],
    }
    *rows, steps, quarters = seconds(found)
    assert steps == "{rft:72,ppo:10,grpo:40}"  # (8 - 1) / .1 = 70, to whole quarters; 8 / .79 = 10.1, even
    assert quarters == "{rft:18,ppo:5,grpo:10}"
    assert rows[2:] == [
        "| rft | 1.00 | 0.1000 | 72 | 8.20 |",
        "| ppo | 0.00 | 0.7900 | 10 | 7.90 |",
        "| grpo | 0.00 | 0.2000 | 40 | 8.00 |",
    ]


def test_answers_that_are_sampled_within_a_step_are_not_counted_twice(tmp_path):
    within = run(tmp_path, "grpo", 0, [0.2, 0.2], 0.15)
    before = run(tmp_path, "rft", 0, [0.2, 0.2], 0.9)
    assert (within.before, within.seconds) == (0.0, 0.4)
    assert (before.before, round(before.seconds, 9)) == (0.9, 1.3)
