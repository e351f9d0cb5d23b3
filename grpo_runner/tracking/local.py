"""The files of a run folder that are always written: metrics, evaluations, question rows, completions, the charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ANOTHER, InputError
from ..files import disk_errors, write_atomic
from ..schema import RunConfig
from . import jsonl, texts
from .base import Row, Tracker
from .questions import JOURNAL, PARQUET, QuestionLog, read_questions

METRICS, EVALS, PROBE = "metrics.jsonl", "evals.jsonl", "probe.jsonl"
# each NAME.png, and the key NAME in W&B
PICTURES = ("progress", "weights", "weight_by_length", "cumulative_weight", "probe")
PAGE = "charts.html"
REPORT = "report.html"  # compare/page writes it when the run is done

# Keys come in this order, `reward/<part>` after `reward/mean` and keys not named here after these, both by name; then
# `probe/…`. `time/…` keys come last, so that rows can be compared with times left aside.
_ORDER = [
    "reward/mean",
    "accuracy",
    "tokens/sampled",
    "length/mean",
    "length/min",
    "length/max",
    "length/correct",
    "length/wrong",
    "truncated",
    "no_answer",
    "timeout",
    "error",
    "excluded",
    "unscored",
    "refills",
    "groups/kept",
    "kl",
    "entropy",
    "clip_fraction",
    "ratio/mean",
    "ratio/max",
    "importance/mean",
    "importance/capped",
    "mismatch",
    "grad_norm",
    "lr",
    "zero_variance_fraction",
    "weight/total",
    "weight/gini",
    "weight/top_tenth",
    "weight/gini_grpo",
    "weight/top_tenth_grpo",
    "weight/gini_dr_grpo",
    "weight/top_tenth_dr_grpo",
    "weight/gini_rloo",
    "weight/top_tenth_rloo",
]


def picture(name: str) -> str:
    """The file of a picture in the run folder."""
    return f"{name}.png"


def probe_rows(run_dir: Path) -> list[dict[str, Any]]:
    """The rows of probe.jsonl, in order; none where there is no such file. Raises InputError for a spoilt line."""
    rows = jsonl.rows(run_dir / PROBE)
    for place, row in enumerate(rows):
        if not _is_probe(row):
            raise jsonl.not_a_row(run_dir / PROBE, place, "a step with its cosines")
    return rows


def rows_of_pictures(run_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """What `charts.draw` takes beside the table of questions."""
    metrics, evals = (jsonl.rows(run_dir / name) for name in (METRICS, EVALS))
    return {"metrics": metrics, "evals": evals, "probe": probe_rows(run_dir)}


def _is_probe(row: Mapping[str, Any]) -> bool:
    """Whether the pictures and the terminal can take this row."""

    def numbers(values: object) -> bool:
        return isinstance(values, dict) and all(
            value is None or type(value) in (int, float) for value in values.values()
        )

    groups = row.get("groups") or []
    return (
        numbers(row.get("cosine"))
        and numbers(row.get("norm") or {})
        and isinstance(groups, list)
        and all(
            isinstance(group, dict)
            and numbers(group.get("cosine") or {})
            and numbers({"success_rate": group.get("success_rate")})
            for group in groups
        )
    )


def check_record(config: RunConfig, first: int) -> None:
    """Raise InputError where the record of the steps before `first`, which a checkpoint counts as made, is not whole.

    Only reads: metrics, questions, evaluations and the probe. What a step of the record has to have does not depend on
    keys that may differ between the starts of a run; a probe was due where metrics.jsonl has its figures.
    """
    if not first:
        return  # nothing of what is there is kept
    run_dir = Path(config.run_dir)
    metrics, evals = (jsonl.rows(run_dir / name) for name in (METRICS, EVALS))
    for row in metrics:
        if row["step"] < first and len(row) == 1:
            raise _lost(run_dir / METRICS, row["step"], "the figures of its row are lost")
    probed = {row["step"] for row in probe_rows(run_dir)}
    table = read_questions(run_dir)
    slots: dict[int, list[int]] = {}
    for step, slot in zip(table["step"].to_pylist(), table["slot"].to_pylist(), strict=True):
        slots.setdefault(step, []).append(slot)

    questions = f"{PARQUET} with {JOURNAL}" if (run_dir / JOURNAL).exists() else PARQUET
    _hold_steps(run_dir / METRICS, {row["step"] for row in metrics}, first)
    _hold_steps(run_dir / questions, set(slots), first)
    for step in range(first):
        found = set(slots[step])
        missing = set(range(max(len(slots[step]), config.questions_per_step))) - found
        if missing:
            raise _lost(run_dir / questions, step, f"slot {min(missing)} of its questions is lost")
    every, evaluated = config.evaluation.every, {row["step"] for row in evals}
    for step in range(0, first, every) if every else ():
        if step not in evaluated:
            raise _lost(run_dir / EVALS, step, "the evaluation that was made before this step is lost")
    for row in metrics:
        if row["step"] < first and row["step"] not in probed and any(key.startswith("probe/") for key in row):
            raise _lost(run_dir / PROBE, row["step"], f"the probe that {METRICS} has figures of is lost")


def _hold_steps(path: Path, steps: set[int], first: int) -> None:
    missing = [step for step in range(first) if step not in steps]
    if missing:
        raise InputError(
            f"{path} holds {first - len(missing)} of the {first} steps that were made: the record of step {missing[0]}"
            f"{' and others' if missing[1:] else ''} is lost.\nPut the file back, or give another {ANOTHER}."
        )


def _lost(path: Path, step: int, what: str) -> InputError:
    return InputError(f"{path}, step {step}: {what}.\nPut the file back, or give another {ANOTHER}.")


def wants_completions(config: RunConfig, step: int) -> bool:
    """Whether this step's texts are kept: every nth step from step 0 on (`tracking.completions_every`, 0 = never)."""
    every = config.tracking.completions_every
    return every > 0 and step % every == 0


def ordered(step: int, metrics: Row) -> dict[str, object]:
    """One row of metrics.jsonl or evals.jsonl: `step`, then the keys in their fixed order, as plain numbers."""

    def place(key: str) -> tuple[int, int, str]:
        if key.startswith(("probe/", "time/")):
            return 2 + key.startswith("time/"), 0, key
        if key in _ORDER:
            return 0, _ORDER.index(key), ""
        return (0, 0, key) if key.startswith("reward/") else (1, 0, key)

    names = sorted((key for key in metrics if key != "step"), key=place)
    return {"step": step} | {key: jsonl.number(metrics[key], key, step) for key in names}


class LocalTracker(Tracker):
    """Writes into `config.run_dir`. Every call leaves its rows on disk before it returns.

    A resumed run's files are byte-equal to an uninterrupted run's, times aside. Raises MachineError when the disk
    refuses, NonFiniteError for a metric that is NaN or infinite; `start` also what `check_record` raises, first.
    """

    def start(self, config: RunConfig, resumed_at: int | None) -> None:
        self._config = config
        self._dir = Path(config.run_dir)
        self._alerts: list[tuple[int, str, str]] = []
        first = resumed_at or 0
        check_record(config, first)
        with disk_errors(self._dir):
            self._dir.mkdir(parents=True, exist_ok=True)
            for kind in (texts.COMPLETIONS, texts.EVALUATIONS):
                for number, path in texts.files(self._dir, kind).items():
                    if number >= first:
                        path.unlink()
            (self._dir / REPORT).unlink(missing_ok=True)
            if first == 0:
                for name in (PROBE, PAGE, *map(picture, PICTURES)):
                    (self._dir / name).unlink(missing_ok=True)
        for name in (METRICS, EVALS, PROBE):
            jsonl.keep_before(self._dir / name, first)
        self._log = QuestionLog(self._dir)
        self._log.start(first)

    def step(self, step: int, metrics: Row) -> None:
        jsonl.append(self._dir / METRICS, jsonl.encode([ordered(step, metrics)]))

    def evaluation(self, step: int, metrics: Row) -> None:
        jsonl.append(self._dir / EVALS, jsonl.encode([ordered(step, metrics)]))

    def questions(self, step: int, rows: Sequence[Row]) -> None:
        self._log.add(step, rows)

    def completions(self, step: int, rows: Sequence[Row]) -> None:
        if rows and wants_completions(self._config, step):
            texts.write(texts.file_of(self._dir, step), rows)

    def evaluated_questions(self, step: int, rows: Sequence[Row]) -> None:
        if rows and self._config.tracking.completions_every:
            texts.write(texts.file_of(self._dir, step, texts.EVALUATIONS), rows)

    def probe(self, step: int, row: Row) -> None:
        values = jsonl.plain(row, "probe", step)
        assert isinstance(values, dict)
        jsonl.append(self._dir / PROBE, jsonl.encode([{"step": step} | values | {"step": step}]))

    def alert(self, step: int, rule: str, text: str) -> None:
        self._alerts.append((step, rule, text))

    def finish(self, summary: Row) -> None:
        from . import charts

        self._log.finish()
        drawn = charts.draw(self._config, read_questions(self._dir), **rows_of_pictures(self._dir))
        for name, made in drawn.items():
            write_atomic(self._dir / picture(name), made.png)
        if drawn:
            files = [name for name in (PARQUET, METRICS, EVALS, PROBE, "config.yaml") if (self._dir / name).exists()]
            write_atomic(self._dir / PAGE, charts.page(self._config, drawn, files, self._alerts))
