"""A small RunConfig, made-up question rows, rows as a job makes them, and a reader of offline `.wandb` files."""

from __future__ import annotations

import dataclasses
import io
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from grpo_runner import schema
from grpo_runner.algorithm import question_rows as algorithm_rows
from grpo_runner.algorithm import weigh
from grpo_runner.objectives import Objective, preset
from grpo_runner.tracking.local import PICTURES

REFERENCES = ("grpo", "dr_grpo", "rloo")

_TABLE = schema.SourceConfig(
    path=None, hub_id=None, hub_config=None, split="train", revision=None, question_column=None, answer_column=None
)
BASE = schema.RunConfig(
    model=schema.ModelConfig(path="embedded", revision=None, gradient_checkpointing=False, quantize="none", attn_implementation="auto"),
    data=schema.DataConfig(
        kind="arithmetic", train=_TABLE, eval=_TABLE, question_column="q", answer_column="a", answer_pattern=None, solution_column=None, unreadable_gold="error",
        levels=(), level_column="level", max_question_characters=None,
        train_size=None, eval_size=None, short_batch="wrap", small_set="wrap", max_prompt_tokens=64, long_prompt="drop",
    ),
    prompt=schema.PromptConfig(template="{{question}}", system=None, chat=False, stop=()),
    samples=schema.SamplesConfig(source="policy", keep="all", per_question=None),
    reward=schema.RewardConfig(
        parts={"correct": 1.0}, function=None, model=None, model_revision=None, refresh_every=0, model_lr=2e-5, replay=0.1, steps="none", extract="box", boxes="unhedged", equality="value", units="optional",
        percent="sign_optional", decimal_tolerance=1e-4, rounded_golds=True, numeric_tolerance=0.0, letters="with_text",
        lists="unordered", several_golds="any", truncated="keep", overlong_buffer=None, deadline_s=1.0, workers=1
    ),
    advantage=schema.AdvantageConfig(credit="outcome", baseline="group_mean", scale="group_std", ddof=0, eps=0.0),
    loss_norm=schema.LossNormConfig(kind="sequence_mean", divisor=None),
    beta=schema.BetaConfig(value=0.04, estimator="k3", placement="loss", reference="initial", refresh_every=0),
    group_size=schema.GroupSizeConfig(value=8),
    clip=schema.ClipConfig(kind="token", low=0.2, high=0.2, dual=None),
    critic=schema.CriticConfig(kind="none", lr=None, gamma=None, lam=None, clip=None),
    lora=schema.LoraConfig(enabled=True, rank=4, alpha=8.0, dropout=0.0, targets="all", adapter=None),
    optim=schema.OptimConfig(
        lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0, max_grad_norm=1.0, schedule="constant", warmup_steps=0,
        updates_per_rollout=1, minibatch="whole", microbatch_tokens=4096, packing=True, fused=True,
    ),
    rollout=schema.RolloutConfig(engine="native", top_p=1.0, top_k=0, batch_rows=64, merge_lora=True, ahead=False, dynamic_sampling=0, when_short="smaller", importance="none", importance_cap=None, vllm_python=None, vllm_memory=0.5, vllm_tensor_parallel=1),
    evaluation=schema.EvaluationConfig(
        every=2, sets={}, questions=4, samples=2, greedy=True, temperature=1.0, top_p=1.0, max_new_tokens=None
    ),
    tracking=schema.TrackingConfig(
        wandb="offline", project="grpo_runner_tests", entity=None, group=None, tags=("a", "b"), completions_every=2, probe_every=0,
        probe=("grpo", "dr_grpo"),
    ),
    checkpoint=schema.CheckpointConfig(every=1, keep=2),
    health=schema.HealthConfig(stop_on=()),
    entropy_bonus=0.0, steps=6, seed=0, questions_per_step=4, max_new_tokens=32, temperature=1.0, device="cpu", dtype="float32", shard_base="none",
    run_name="first", sweep_name="sweep_of_tests", metric="eval/sampled/accuracy", run_dir="unset",
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


def job_rows(
    steps: int, objective: Objective, questions: int = 4, size: int = 8, excluded: float = 0.0, seed: int = 0
) -> list[dict[str, object]]:
    """Question rows of a made-up job, through the functions that weigh a real one.

    Success rises from .2 to .9 over the steps; right answers are longer than wrong ones; 40 questions take turns. Each
    answer is excluded with probability `excluded`.
    """
    draw = np.random.default_rng(seed)
    hardness = draw.normal(0, 1, 40)
    rows: list[dict[str, object]] = []
    for step in range(steps):
        asked = [(step * questions + slot) % 40 for slot in range(questions)]
        skill = -1.4 + 3.6 * step / max(steps - 1, 1)
        chance = 1 / (1 + np.exp(-(skill + hardness[asked])))
        correct = draw.random((questions, size)) < chance[:, None]
        lengths = np.where(correct, draw.integers(14, 26, correct.shape), draw.integers(4, 14, correct.shape))
        included = draw.random(correct.shape) >= excluded
        rewards_QG = torch.tensor(np.where(included, correct.astype(float), np.nan))
        mask_NT = torch.arange(26)[None, :] < torch.tensor(lengths * included).view(-1, 1)
        batch = [torch.tensor(included).flatten().nonzero().squeeze(1)]
        made = weigh(rewards_QG, mask_NT, batch, objective)
        references = {name: weigh(rewards_QG, mask_NT, batch, preset(name, 0, 0.0, 32.0)) for name in REFERENCES}
        found = algorithm_rows(
            rewards_QG, torch.tensor(correct), made.advantages_QG, made.weights_NT.view(questions, size, -1),
            torch.tensor(lengths), torch.tensor(included), references,
        )  # fmt: skip
        for slot, (question, values) in enumerate(zip(asked, found, strict=True)):
            rows.append({
                "step": step, "slot": slot, "question_id": f"q{question}", "question": f"{question}=?", "gold": "1",
                "truncated": 0, "kl": None, **values,
            })  # fmt: skip
    return rows


def probe_row(step: int) -> dict[str, object]:
    """A row as the probe makes it: four objectives, their pairs, and two questions of which one pulls nowhere."""
    names = ("grpo", "dr_grpo", "no_std", "no_length_norm")
    pairs = [f"{a}~{b}" for i, a in enumerate(names) for b in names[i + 1 :]]
    cosine = {pair: 0.9 - 0.02 * i - 0.01 * step for i, pair in enumerate(pairs)}
    nothing = dict.fromkeys(pairs)
    return {
        "step": step, "norm": dict.fromkeys(names, 1.0 + step), "cosine": cosine,
        "groups": [
            {"slot": 0, "question_id": "q0", "success_rate": 0.25, "cosine": cosine},
            {"slot": 1, "question_id": "q1", "success_rate": 1.0, "cosine": nothing},
        ],
    }  # fmt: skip


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
        if step % 3 == 0:
            tracker.probe(step, probe_row(step))
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
        job = staticmethod(job_rows)
        probe = staticmethod(probe_row)

    return Fake


@pytest.fixture
def no_drawing(monkeypatch):
    """A pixel of the rows for each picture instead: the real ones have their own tests and take two seconds to draw."""
    from PIL import Image

    from grpo_runner.tracking import charts

    def pixel(*rows) -> bytes:
        buffer = io.BytesIO()
        Image.frombytes("RGBA", (1, 1), zlib.crc32(repr(rows).encode()).to_bytes(4, "little")).save(buffer, "PNG")
        return buffer.getvalue()

    def draw(config, table, metrics, evals, probe):
        weights = table["weight"].to_pylist()
        drawn = {"progress": pixel([{**row, "time/step_s": 0} for row in metrics], evals)} if metrics else {}
        drawn |= {name: pixel(name, weights) for name in PICTURES[1:4] if weights}
        drawn |= {"probe": pixel(probe)} if probe else {}
        return {name: charts.Drawn(data, f"of {name}") for name, data in drawn.items()}

    monkeypatch.setattr(charts, "draw", draw)


def wandb_records(path: Path) -> Iterator[object]:
    """Records of an offline `.wandb` file: 7 bytes of header, then LevelDB's log format in blocks of 32 KiB.

    Of a file that is still being written, the records that are whole.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, part, block = path.read_bytes(), 7, b"", 32768
    if not data:
        return  # older versions hold the first block back for a while
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if block - at % block < 7:  # too short for a record's header: padding
            at += block - at % block
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        if at + 7 + length > len(data):
            return  # still being written: what is there of it is no record
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
