"""A made sweep: run folders as `train` leaves them, with planted differences of known size. Nothing is trained.

    PYTHONPATH=. python scripts/make_sweep.py outputs/sweeps/made
    PYTHONPATH=. python scripts/make_sweep.py outputs/sweeps/four --arms grpo,no_std,no_length_norm,dr_grpo --seeds 6

By default 24 runs, GRPO and Dr. GRPO with 12 paired seeds of 500 steps each. At the end of a run, wrong answers of
Dr. GRPO and of GRPO without its 1/|o| are --shorter tokens shorter in expectation than those of the other arms, and
accuracy is --better points better (0: the same). Differences grow in proportion to the step. Each seed has a level of
its own, which its arms share, and each run its own noise (--spread: its standard deviation, in tokens and in points).
The same words make the same bytes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from grpo_runner import rng
from grpo_runner.config import compose
from grpo_runner.method import method_name
from grpo_runner.schema import RunConfig
from grpo_runner.tracking import texts
from grpo_runner.tracking.questions import PARQUET, schema
from grpo_runner.validate import to_yaml

ARMS = {
    "grpo": ("advantage=grpo", "loss_norm=sequence_mean"),
    "dr_grpo": ("advantage=dr_grpo", "loss_norm=constant"),
    "no_std": ("advantage=dr_grpo", "loss_norm=sequence_mean"),
    "no_length_norm": ("advantage=grpo", "loss_norm=constant"),
}
SHORTER = ("dr_grpo", "no_length_norm")  # what is planted goes with the constant divisor
LENGTH_RIGHT, LENGTH_WRONG = 18.0, 24.0  # at the start
GROWTH = 6.0  # of wrong answers, to the end of a run
START, END = 0.35, 0.70  # accuracy


@dataclass(frozen=True)
class Made:
    """What is asked for. shorter: tokens; better: points of accuracy; spread: SD of a run's own noise."""

    steps: int = 500
    seeds: int = 12
    shorter: float = 3.0
    better: float = 0.0
    spread: float = 1.5
    evaluate_every: int = 50
    held_out: int = 48
    samples: int = 8
    questions: int = 4  # of a step, in questions.parquet
    seed: int = 0  # of the sweep: another one, other noise


def make(place: Path, made: Made, arms: Sequence[str] = ("grpo", "dr_grpo")) -> list[Path]:
    """The run folders below `place`, in the order of arms and seeds."""
    folders = []
    for arm in arms:
        keys = (
            f"steps={made.steps}",
            f"evaluation.every={made.evaluate_every}",
            f"evaluation.questions={made.held_out}",
        )
        more = (
            f"evaluation.samples={made.samples}",
            f"questions_per_step={made.questions}",
            f"sweep_name={place.name}",
        )
        config = compose([*keys, *more, "beta=no_kl", *ARMS[arm]])
        text = to_yaml(config)
        for seed in range(made.seeds):
            name = ",".join((*ARMS[arm], f"seed={seed}"))
            _run(place / name, name, arm, seed, made, config, text)
            folders.append(place / name)
    return folders


def _run(folder: Path, name: str, arm: str, seed: int, made: Made, config: RunConfig, text: str) -> None:
    """One run folder, finished."""
    folder.mkdir(parents=True)
    own = text.replace("\nseed: 0\n", f"\nseed: {seed}\n")
    run_name = next(line for line in text.splitlines() if line.startswith("run_name:"))
    (folder / "config.yaml").write_text(own.replace(run_name, f"run_name: {json.dumps(name)}"), encoding="utf-8")
    curves = Curves.of(arm, seed, made)
    rows = _questions(curves, arm, seed, made, config)
    _write_questions(folder, rows)
    _lines(folder / "metrics.jsonl", _metrics(curves, arm, seed, made, rows))
    evals = []
    for step in range(0, made.steps + 1, made.evaluate_every):
        asked = _evaluation(curves, step, arm, seed, made)
        texts.write(texts.file_of(folder, step, texts.EVALUATIONS), asked)
        evals.append({"step": step, **_figures(asked, made, curves, step)})
    _lines(folder / "evals.jsonl", evals)
    data = sha256(f"{made.seed} {seed}".encode()).hexdigest()
    _json(folder / "data.json", {"sha256": data, "questions": 512})
    versions = {"grpo_runner": "0.1.0", "commit": "0123456789abcdef0123456789abcdef01234567", "python": "3.11.7"}
    _json(
        folder / "summary.json",
        {
            "method": method_name(config), "seed": seed, "steps": made.steps, "status": "done", "before": evals[0],
            "after": evals[-1], "health": {}, "seconds": 0.25 * made.steps, "versions": versions, "data": data,
        },
    )  # fmt: skip
    (folder / "DONE").touch()


# --- the course of a run


@dataclass(frozen=True)
class Curves:
    """Expected accuracy and mean lengths before each step; each (steps + 1,)."""

    accuracy_S: np.ndarray
    right_S: np.ndarray
    wrong_S: np.ndarray

    @classmethod
    def of(cls, arm: str, seed: int, made: Made) -> Curves:
        """The level of a seed is common to its arms; noise is the run's own. What is planted grows with the step."""
        share_S = np.arange(made.steps + 1) / made.steps
        level = rng.generator(made.seed, "made level", seed).normal(0, 1, 3)
        noise = rng.generator(made.seed, "made noise", arm, seed).normal(0, 1, 3) * made.spread
        planted = -made.shorter if arm in SHORTER else 0.0
        better = made.better / 100 if arm in SHORTER else 0.0
        risen_S = (1 - np.exp(-4 * share_S)) / (1 - np.exp(-4))
        accuracy_S = START + (END - START) * risen_S + 0.03 * level[0] * share_S
        return cls(
            accuracy_S=np.clip(accuracy_S + (better + noise[0] / 100) * share_S, 0.02, 0.98),
            right_S=LENGTH_RIGHT + 0.5 * GROWTH * share_S + level[1] + noise[1] * share_S,
            wrong_S=LENGTH_WRONG + GROWTH * share_S + 1.5 * level[2] + (planted + noise[2]) * share_S,
        )


def _wander(draw: np.random.Generator, count: int, size: float, kept: float = 0.7) -> np.ndarray:
    """Noise that remembers a share of itself from step to step. (count,), standard deviation `size`."""
    fresh = draw.normal(0, size * np.sqrt(1 - kept**2), count)
    out = np.empty(count)
    held = draw.normal(0, size)
    for at in range(count):
        held = out[at] = kept * held + fresh[at]
    return out


def _metrics(
    curves: Curves, arm: str, seed: int, made: Made, rows: Mapping[str, np.ndarray]
) -> list[dict[str, float | int]]:
    draw, steps = rng.generator(made.seed, "made metrics", arm, seed), made.steps
    accuracy = np.clip(curves.accuracy_S[:-1] + _wander(draw, steps, 0.04), 0, 1)
    right = curves.right_S[:-1] + _wander(draw, steps, 0.8)
    wrong = curves.wrong_S[:-1] + _wander(draw, steps, 1.5)
    share = np.arange(steps) / steps
    entropy = 0.6 * np.exp(-2.5 * share) + 0.03 * np.abs(_wander(draw, steps, 1.0))
    kl, norm = 0.08 * share + 0.004 * draw.random(steps), 0.4 + 0.1 * draw.random(steps)
    length = accuracy * right + (1 - accuracy) * wrong
    weight = rows["weight"].reshape(steps, made.questions)
    columns = {
        "reward/mean": accuracy, "accuracy": accuracy, "tokens/sampled": np.round(length * 8 * made.questions),
        "length/mean": length, "length/correct": right, "length/wrong": wrong,
        "truncated": np.clip(0.02 * wrong / 30 + 0.01 * draw.random(steps), 0, 1), "no_answer": 0.03 * (1 - share),
        "kl": kl, "entropy": entropy, "grad_norm": norm, "lr": np.full(steps, 3e-4),
        "zero_variance_fraction": (weight == 0).mean(axis=1), "weight/total": weight.sum(axis=1),
        "weight/gini": np.array([_gini(one) for one in weight]), "time/step_s": 0.25 + 0.02 * draw.random(steps),
    }  # fmt: skip
    columns["tokens/sampled"] = columns["tokens/sampled"].astype(int)
    return [
        {"step": step, **{name: round(values[step].item(), 6) for name, values in columns.items()}}
        for step in range(steps)
    ]


def _gini(weights: np.ndarray) -> float:
    """0 where all are equal; of nothing 0."""
    total, count = weights.sum(), len(weights)
    if total == 0:
        return 0.0
    ranks = np.arange(1, count + 1)
    return float(2 * (ranks * np.sort(weights)).sum() / (count * total) - (count + 1) / count)


# --- the questions that it trained on


def _questions(curves: Curves, arm: str, seed: int, made: Made, config: RunConfig) -> dict[str, np.ndarray]:
    """Columns of questions.parquet: groups of G answers with 0/1 rewards, weighed by the closed forms of the arm."""
    draw = rng.generator(made.seed, "made questions", seed)  # the same questions for each arm
    count, size = made.steps * made.questions, config.group_size.value
    step_R = np.repeat(np.arange(made.steps), made.questions)
    number_R = draw.integers(0, 512, count)
    hardness_R = rng.generator(made.seed, "made hardness").normal(0, 1.6, 512)[number_R]
    p_R = _chance(curves.accuracy_S[step_R], hardness_R)
    draw = rng.generator(made.seed, "made answers", arm, seed)
    right_R = draw.binomial(size, p_R)
    rate_R = right_R / size
    lengths = {
        "right": np.maximum(2, curves.right_S[step_R] + draw.normal(0, 2, count)),
        "wrong": np.maximum(2, curves.wrong_S[step_R] + draw.normal(0, 3, count)),
    }
    centred_R = 2 * size * rate_R * (1 - rate_R)
    std_R = np.sqrt(rate_R * (1 - rate_R))
    over_std_R = np.divide(centred_R, std_R, out=np.zeros(count), where=std_R > 0)
    before_R = over_std_R if config.advantage.scale == "group_std" else centred_R
    answers, budget = size * made.questions, config.max_new_tokens
    # Σ|A| is half of right and half of wrong answers, so a constant divisor weighs it by the mean of both lengths
    by_constant_R = (lengths["right"] + lengths["wrong"]) / 2 / (answers * budget)
    factor_R = by_constant_R if config.loss_norm.kind == "constant" else np.full(count, 1 / answers)
    some = {"right": right_R > 0, "wrong": right_R < size}
    return {
        "step": step_R, "slot": np.tile(np.arange(made.questions), made.steps), "number": number_R,
        "successes": right_R, "group_size": np.full(count, size), "included": np.full(count, size),
        "success_rate": rate_R, "reward_mean": rate_R, "reward_std": std_R, "advantage_weight": before_R,
        "weight": before_R * factor_R, "weight_grpo": over_std_R / answers,
        "weight_dr_grpo": centred_R * by_constant_R, "centred_weight": centred_R,
        "length_mean": rate_R * lengths["right"] + (1 - rate_R) * lengths["wrong"],
        **{f"length_{kind}": np.where(some[kind], values, np.nan) for kind, values in lengths.items()},
        "truncated": np.zeros(count, dtype=int),
    }  # fmt: skip


def _chance(accuracy: np.ndarray, hardness: np.ndarray) -> np.ndarray:
    """The chance of a right answer to a question, whose log-odds are the mean's less its hardness."""
    return 1 / (1 + np.exp(-(np.log(accuracy / (1 - accuracy)) * 1.4 - hardness)))


def _write_questions(folder: Path, rows: Mapping[str, np.ndarray]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, pa.Array] = {}
    for field in schema():
        if field.name in ("question_id", "question", "gold"):
            columns[field.name] = pa.array([_asked(number)[field.name] for number in rows["number"].tolist()])
        elif field.name in rows:
            values = rows[field.name]
            empty = np.isnan(values) if values.dtype.kind == "f" else None
            columns[field.name] = pa.array(values, field.type, mask=empty)
        else:
            columns[field.name] = pa.nulls(len(rows["step"]), field.type)
    pq.write_table(pa.table(columns, schema=schema()), folder / PARQUET, compression="zstd")


def _asked(number: int) -> dict[str, str]:
    """A question of arithmetic."""
    a, b, c = 12 + number % 37, 3 + number % 7, 2 + number % 11
    return {"question_id": f"q{number}", "question": f"What is {a} + {b} × {c}?", "gold": str(a + b * c)}


# --- held-out questions


def _evaluation(curves: Curves, step: int, arm: str, seed: int, made: Made) -> list[dict[str, object]]:
    """A row a question, as `evaluation.question_row` makes them. Every eighth question fares better under an arm with
    the planted difference, the next one worse: accuracy as a whole stays what it is.
    """
    draw = rng.generator(made.seed, "made evaluation", arm, seed, step)
    hardness_Q = rng.generator(made.seed, "made held-out hardness").normal(0, 1.6, made.held_out)
    fate_Q = np.select([np.arange(made.held_out) % 8 == 0, np.arange(made.held_out) % 8 == 1], [1.0, -1.0], 0.0)
    fate_Q = fate_Q * (arm in SHORTER) * step / made.steps
    wanted = float(curves.accuracy_S[step])
    p_Q = np.clip(wanted + (_spread(hardness_Q) + 0.18 * fate_Q), 0.01, 0.99)
    right_Q = draw.binomial(made.samples, p_Q)
    greedy_Q = draw.random(made.held_out) < p_Q
    rows = []
    for place in range(made.held_out):
        asked = _asked(1000 + place)
        lengths = {
            "right": max(2.0, curves.right_S[step] + draw.normal(0, 1)),
            "wrong": max(2.0, curves.wrong_S[step] + draw.normal(0, 1)),
        }
        row: dict[str, object] = {"set": "", **asked}
        for mode, answers, right in (
            ("greedy", 1, int(greedy_Q[place])),
            ("sampled", made.samples, int(right_Q[place])),
        ):
            of = {"right": lengths["right"] if right else None, "wrong": lengths["wrong"] if right < answers else None}
            mean = (right * lengths["right"] + (answers - right) * lengths["wrong"]) / answers
            row |= {f"{mode}/answers": answers, f"{mode}/right": right, f"{mode}/truncated": 0}
            row |= {f"{mode}/length_mean": mean} | {f"{mode}/length_{kind}": value for kind, value in of.items()}
        rows.append(row | {"text": _text(asked, bool(greedy_Q[place])), "text_right": bool(greedy_Q[place])})
    return rows


def _spread(hardness: np.ndarray) -> np.ndarray:
    """What questions have above and below the mean accuracy, without moving it."""
    offset = -0.07 * hardness
    return np.asarray(offset - offset.mean())


def _text(asked: Mapping[str, str], right: bool) -> str:
    a, b, c = (
        int(part) for part in asked["question"].removeprefix("What is ").rstrip("?").replace("×", "+").split("+")
    )
    value = b * c if right else b * c - b
    check = "" if right else f"\ncheck {a + value}\ncheck {a + value}"
    return f"{b} × {c} = {value}\n{a} + {value} = {a + value}{check}\n#### {a + value}"


def _figures(rows: Sequence[Mapping[str, object]], made: Made, curves: Curves, step: int) -> dict[str, float | int]:
    """A row of evals.jsonl. Lengths are the expected ones: few wrong answers do not blur what is planted."""
    found: dict[str, float | int] = {}
    for mode in ("greedy", "sampled"):
        answers, right = (sum(int(str(row[f"{mode}/{key}"])) for row in rows) for key in ("answers", "right"))
        accuracy = right / answers
        lengths = {"length_right": float(curves.right_S[step]), "length_wrong": float(curves.wrong_S[step])}
        mean = accuracy * lengths["length_right"] + (1 - accuracy) * lengths["length_wrong"]
        found |= {f"{mode}/{key}": value for key, value in (lengths | {"length_mean": mean}).items()}
        found |= {f"{mode}/accuracy": accuracy, f"{mode}/truncated": 0.0, f"{mode}/no_answer": 0.0}
    solved = sum(int(str(row["sampled/right"])) > 0 for row in rows) / len(rows)
    return found | {f"sampled/pass@{made.samples}": solved, "questions": len(rows), "samples": made.samples}


# --- files


def _lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _json(path: Path, value: Mapping[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arms", default="grpo,dr_grpo", help=f"of {', '.join(ARMS)}")
    for name, default in asdict(Made()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    words = vars(parser.parse_args(words))
    place, arms = words.pop("folder"), words.pop("arms").split(",")
    if unknown := [arm for arm in arms if arm not in ARMS]:
        parser.error(f"--arms {unknown[0]}: allowed are {', '.join(ARMS)}")
    if place.exists():
        parser.error(f"{place} is there already: name another folder, or remove it")
    folders = make(place, Made(**words), arms)
    print(f"{len(folders)} runs of {words['steps']} steps in {place}")


if __name__ == "__main__":
    main()
