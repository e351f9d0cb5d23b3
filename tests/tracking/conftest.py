"""A small RunConfig, made-up question rows, and a reader of offline `.wandb` files."""

from __future__ import annotations

import dataclasses
import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo_runner import schema

_TABLE = schema.SourceConfig(path=None, hub_id=None, hub_config=None, split="train")
BASE = schema.RunConfig(
    model=schema.ModelConfig(path="embedded", revision=None, gradient_checkpointing=False, attn_implementation="auto"),
    data=schema.DataConfig(
        kind="arithmetic", train=_TABLE, eval=_TABLE, question_column="q", answer_column="a", answer_pattern=None,
        train_size=None, eval_size=None, short_batch="wrap", small_set="wrap", max_prompt_tokens=64, long_prompt="drop",
    ),
    prompt=schema.PromptConfig(template="{{question}}", system=None, chat=False, stop=()),
    reward=schema.RewardConfig(
        parts={"correct": 1.0}, function=None, extract="box", truncated="keep", deadline_s=1.0, workers=1
    ),
    advantage=schema.AdvantageConfig(baseline="group_mean", scale="group_std", ddof=0, eps=0.0),
    loss_norm=schema.LossNormConfig(kind="sequence_mean", divisor=None),
    beta=schema.BetaConfig(value=0.04, estimator="k3"),
    group_size=schema.GroupSizeConfig(value=8),
    clip=schema.ClipConfig(kind="token", low=0.2, high=0.2, dual=None),
    lora=schema.LoraConfig(enabled=True, rank=4, alpha=8.0, dropout=0.0, targets="all"),
    optim=schema.OptimConfig(
        lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0, max_grad_norm=1.0, schedule="constant", warmup_steps=0,
        updates_per_rollout=1, minibatch="whole", microbatch_tokens=4096,
    ),
    rollout=schema.RolloutConfig(engine="native", top_p=1.0, top_k=0, batch_rows=64),
    evaluation=schema.EvaluationConfig(
        every=2, questions=4, samples=2, greedy=True, temperature=1.0, top_p=1.0, max_new_tokens=None
    ),
    tracking=schema.TrackingConfig(
        wandb="offline", project="grpo_runner_tests", entity=None, group=None, tags=("a", "b"), completions_every=2
    ),
    checkpoint=schema.CheckpointConfig(every=1, keep=2),
    steps=6, seed=0, questions_per_step=4, max_new_tokens=32, temperature=1.0, device="cpu", dtype="float32",
    run_name="first", sweep_name="sweep_of_tests", run_dir="unset",
)  # fmt: skip


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., schema.RunConfig]:
    def make(folder: str = "run", **changes: object) -> schema.RunConfig:
        return dataclasses.replace(BASE, run_dir=str(tmp_path / folder), **changes)

    return make


def question_rows(step: int, count: int = 4) -> list[dict[str, object]]:
    """Rows of G = 8 whose successes run through 0..8; weight is the advantage weight over 64 (a GRPO shape)."""
    rows = []
    for slot in range(count):
        right = (3 * step + slot) % 9
        p = right / 8
        weight = 16 * (p * (1 - p)) ** 0.5
        rows.append({
            "slot": slot, "question_id": f"q{slot}", "question": f"[b]{step}+{slot}=?", "gold": str(step + slot),
            "successes": right, "group_size": 8, "success_rate": p, "reward_mean": p, "reward_std": 0.5,
            "advantage_right": None if right == 0 else 1.0, "advantage_wrong": None if right == 8 else -1.0,
            "advantage_weight": weight, "weight": weight / 64, "weight_up": weight / 128, "weight_down": weight / 128,
            "weight_per_token_right": None, "weight_per_token_wrong": 0.1, "length_mean": 9.0 + slot,
            "length_right": None, "length_wrong": 9.5, "truncated": 0, "kl": None,
        })  # fmt: skip
    return rows


def metrics_of(step: int) -> dict[str, float | int | None]:
    return {
        "time/step_s": 0.5, "accuracy": step / 10, "reward/mean": step / 7, "reward/b": 0.1, "reward/a": 0.2, "zeta": 1,
        "tokens/sampled": 400 + step, "length/correct": None if step == 0 else 10.0, "length/wrong": 12.25, "kl": None,
    }  # fmt: skip


def evaluation_of(step: int) -> dict[str, float | int | None]:
    return {
        "greedy/accuracy": 0.25 + step / 10, "sampled/accuracy": 0.2 + step / 10, "sampled/pass@2": 0.5,
        "sampled/length_mean": 8.0 + step, "questions": 4, "samples": 2,
    }  # fmt: skip


def drive(tracker, config: schema.RunConfig, first: int | None, stop: int, finish: str | None = "done") -> None:
    """The loop's calls for steps [first, stop), with an evaluation before every second step and at the end."""
    tracker.start(config, first)
    for step in range(first or 0, stop):
        if step % 2 == 0:
            tracker.evaluation(step, evaluation_of(step))
        tracker.step(step, metrics_of(step))
        tracker.questions(step, question_rows(step))
        tracker.completions(step, [{"slot": 0, "text": f"answer {step} é"}])
    if finish == "done":
        tracker.evaluation(stop, evaluation_of(stop))
    if finish:
        tracker.finish({"status": finish})


@pytest.fixture
def fake():
    """The functions above, for tests."""

    class Fake:
        questions = staticmethod(question_rows)
        metrics = staticmethod(metrics_of)
        evaluation = staticmethod(evaluation_of)
        drive = staticmethod(drive)

    return Fake


@pytest.fixture
def no_drawing(monkeypatch):
    """A small picture of the rows instead: the real one has its own tests and takes half a second to draw."""
    from PIL import Image

    from grpo_runner.tracking import charts

    def small(table):
        shade = zlib.crc32(repr(table["weight"].to_pylist()).encode())
        buffer = io.BytesIO()
        Image.frombytes("RGBA", (1, 1), shade.to_bytes(4, "little")).save(buffer, "PNG")
        return buffer.getvalue()

    monkeypatch.setattr(charts, "weight_scatter", lambda table, *_: table)
    monkeypatch.setattr(charts, "png", small)


def wandb_records(path: Path) -> Iterator[object]:
    """Records of an offline `.wandb` file: 7 bytes of header, then LevelDB's log format in blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, part, block = path.read_bytes(), 7, b"", 32768
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if block - at % block < 7:  # too short for a record's header: padding
            at += block - at % block
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, or the last piece
            record = Record()
            record.ParseFromString(part)
            part = b""
            yield record


@pytest.fixture
def read_wandb():
    return wandb_records
