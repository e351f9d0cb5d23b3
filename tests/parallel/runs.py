"""A small run by one process or several, and what two of them differ in."""

from __future__ import annotations

import json
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


def alone(folder: Path, *overrides: str) -> Path:
    run(changed(compose([*JOB, *overrides]), run_dir=str(folder)))
    return folder


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
