"""Run folders as `train` leaves them, with figures of the test's choosing: nothing is trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from grpo_runner.config import compose
from grpo_runner.method import OF_CHOICE
from grpo_runner.tracking import texts
from grpo_runner.tracking.questions import QuestionLog
from grpo_runner.validate import to_yaml

STEPS = 20
ARMS = {
    "grpo": ("advantage=grpo", "loss_norm=sequence_mean", "beta=no_kl"),
    "dr_grpo": ("advantage=dr_grpo", "loss_norm=constant", "beta=no_kl"),
}


@cache
def configuration(*overrides: str) -> dict[str, Any]:
    """The values of config.yaml as a run with these overrides writes them."""
    values = yaml.safe_load(to_yaml(compose([f"steps={STEPS}", *overrides])))
    assert isinstance(values, dict)
    return values


def set_key(values: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    name, _, rest = key.partition(".")
    return values | {name: set_key(values[name], rest, value) if rest else value}


def run_folder(
    folder: Path,
    seed: int,
    metrics: Callable[[int], Mapping[str, float | None]],
    evals: Mapping[int, Mapping[str, float | None]],
    *overrides: str,
    made: int = STEPS,
    commit: str = "a" * 40,
    data: str = "d" * 64,
    memory: float | None = None,
    **keys: object,
) -> Path:
    """A run of `made` of its steps; finished where that is all of them. keys: more settings, `__` for a dot.

    memory: its peak, in MB.
    """
    folder.mkdir(parents=True)
    values = configuration(*overrides) | {"seed": seed, "run_name": folder.name}
    for key, value in keys.items():
        values = set_key(values, key.replace("__", "."), value)
    (folder / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    lines(folder / "metrics.jsonl", [{"step": step, **metrics(step)} for step in range(made)])
    lines(folder / "evals.jsonl", [{"step": step, **row} for step, row in evals.items()])
    (folder / "data.json").write_text(json.dumps({"sha256": data, "questions": 8}))
    if made == values["steps"]:
        named = [OF_CHOICE[word.removeprefix("method=")] for word in overrides if word.startswith("method=")]
        method = named[0] if named else "Dr. GRPO" if "advantage=dr_grpo" in overrides else "GRPO"
        summary = {"method": method, "steps": made, "versions": {"commit": commit}, "peak_memory_mb": memory}
        (folder / "summary.json").write_text(json.dumps(summary))
        (folder / "DONE").touch()
    return folder


def pair_of_arms(place: Path, seeds: Sequence[int], shorter: float = 2.0) -> Path:
    """A sweep of GRPO and Dr. GRPO; wrong answers of the latter are `shorter` tokens shorter, plus what differs by seed."""
    for name, overrides in ARMS.items():
        for seed in seeds:
            length = 20.0 + seed - (shorter + 0.1 * (seed % 3) if name == "dr_grpo" else 0.0)
            run_folder(
                place / f"advantage={name},seed={seed}",
                seed,
                lambda step: {"reward/mean": 0.5, "entropy": 0.1 * step, "time/step_s": 0.5, "tokens/sampled": 100},
                {
                    step: {"sampled/accuracy": 0.03 * step + 0.01 * seed, "sampled/length_wrong": length}
                    for step in range(0, STEPS + 1, 5)
                },
                *overrides,
            )
    return place


def add_questions(folder: Path, rows: Sequence[tuple[int, int, float]], group_size: int = 9) -> None:
    """questions.parquet with one row for each (step, successes, weight)."""
    log = QuestionLog(folder)
    log.start(0)
    for step, successes, weight in rows:
        row = {"slot": 0, "question_id": "q", "question": "q", "gold": "1", "successes": successes}
        row |= {"group_size": group_size, "success_rate": successes / group_size}
        log.add(step, [row | {"advantage_weight": 1.0, "weight": weight, "truncated": 0}])
    log.finish()


def add_evaluation(folder: Path, step: int, right: Mapping[str, int], answers: int = 4) -> None:
    """The question rows of one evaluation: how many of the answers to each question were right."""
    rows = [
        {"set": "", "question_id": name, "question": f"{name}?", "gold": "1", "text": "1"}
        | {"sampled/answers": answers, "sampled/right": count}
        for name, count in right.items()
    ]
    texts.write(texts.file_of(folder, step, texts.EVALUATIONS), rows)


def lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
