"""The files of a run folder that are always written: metrics, evaluations, question rows, completions, the picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..files import disk_errors, write_atomic
from ..schema import RunConfig
from . import jsonl
from .base import Row, Tracker
from .questions import QuestionLog, read_questions

METRICS, EVALS, COMPLETIONS, PICTURE = "metrics.jsonl", "evals.jsonl", "completions", "weights.png"

# Keys come in this order, `reward/<part>` after `reward/mean` and keys not named here after these, both by name;
# `time/…` keys come last, so that rows can be compared with times left aside.
_ORDER = [
    "reward/mean",
    "accuracy",
    "tokens/sampled",
    "length/mean",
    "length/correct",
    "length/wrong",
    "truncated",
    "no_answer",
    "timeout",
    "error",
    "kl",
    "entropy",
    "clip_fraction",
    "ratio/mean",
    "grad_norm",
    "lr",
    "zero_variance_fraction",
    "weight/total",
]


def wants_completions(config: RunConfig, step: int) -> bool:
    """Whether this step's texts are kept: every nth step from step 0 on (`tracking.completions_every`, 0 = never)."""
    every = config.tracking.completions_every
    return every > 0 and step % every == 0


def ordered(step: int, metrics: Row) -> dict[str, object]:
    """One row of metrics.jsonl or evals.jsonl: `step`, then the keys in their fixed order, as plain numbers."""

    def place(key: str) -> tuple[int, int, str]:
        if key.startswith("time/"):
            return 2, 0, key
        if key in _ORDER:
            return 0, _ORDER.index(key), ""
        return (0, 0, key) if key.startswith("reward/") else (1, 0, key)

    names = sorted((key for key in metrics if key != "step"), key=place)
    return {"step": step} | {key: jsonl.number(metrics[key], key, step) for key in names}


class LocalTracker(Tracker):
    """Writes into `config.run_dir`. Every call leaves its rows on disk before it returns.

    A resumed run's files are byte-equal to an uninterrupted run's, times aside. Raises MachineError when the disk
    refuses, NonFiniteError for a metric that is NaN or infinite.
    """

    def start(self, config: RunConfig, resumed_at: int | None) -> None:
        self._config = config
        self._dir = Path(config.run_dir)
        first = resumed_at or 0
        with disk_errors(self._dir):
            self._dir.mkdir(parents=True, exist_ok=True)
            for path in (self._dir / COMPLETIONS).glob("step_*.jsonl.zst"):
                number = path.name.removeprefix("step_").split(".")[0]
                if number.isdecimal() and int(number) >= first:
                    path.unlink()
        for name in (METRICS, EVALS):
            jsonl.keep_before(self._dir / name, first)
        self._log = QuestionLog(self._dir)
        self._log.start(first)
        self._check_record(first)

    def _check_record(self, first: int) -> None:
        """Raise InputError where steps that the checkpoint counts as made are missing from the record."""
        recorded = {
            METRICS: len(jsonl.whole_lines(self._dir / METRICS)),
            "questions.parquet": len(set(read_questions(self._dir)["step"].to_pylist())) if first else 0,
        }
        for name, steps in recorded.items():
            if steps < first:
                raise InputError(
                    f"{self._dir / name} holds {steps} of the {first} steps that were made: the rest of the record is "
                    "lost.\nPut the file back, or give another run_name."
                )

    def step(self, step: int, metrics: Row) -> None:
        jsonl.append(self._dir / METRICS, jsonl.encode([ordered(step, metrics)]))

    def evaluation(self, step: int, metrics: Row) -> None:
        jsonl.append(self._dir / EVALS, jsonl.encode([ordered(step, metrics)]))

    def questions(self, step: int, rows: Sequence[Row]) -> None:
        self._log.add(step, rows)

    def completions(self, step: int, rows: Sequence[Row]) -> None:
        if not rows or not wants_completions(self._config, step):
            return
        import zstandard

        path = self._dir / COMPLETIONS / f"step_{step:06d}.jsonl.zst"
        data = zstandard.ZstdCompressor(level=6).compress(jsonl.encode(rows))
        with disk_errors(path):
            path.parent.mkdir(exist_ok=True)
        write_atomic(path, data)

    def finish(self, summary: Row) -> None:
        from . import charts

        self._log.finish()
        table = read_questions(self._dir)
        if table.num_rows:
            picture = charts.png(charts.weight_scatter(table, self._config.advantage, self._config.loss_norm))
            write_atomic(self._dir / PICTURE, picture)
