"""What an evaluation leaves in its folder: results.json, and questions.parquet a row a question, mode and policy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import disk_errors, fsync, write_json
from ..types import Status
from .graders import Graded
from .published import Comparison
from .runner import Answered
from .summary import MODES, Summary, paired, scores, summarise

if TYPE_CHECKING:
    import pyarrow as pa

JSON, PARQUET, ANSWERS, CURVE = "results.json", "questions.parquet", "answers", "curve.png"
INTERVALS = (
    "95 %, over questions: Wilson's for a share, with the effective sample size for a mean of samples; Newcombe's "
    "paired one for a difference; MOVER for the average of sets"
)


@dataclass(frozen=True)
class Evaluated:
    """One policy with its figures, and with its difference from the first one, question by question."""

    answered: Answered
    summary: Summary
    against_first: Mapping[str, Any] | None
    graders: Mapping[str, Graded]
    label: str = ""  # a shorter name, for tables

    @property
    def name(self) -> str:
        return self.answered.target.name


def evaluated(answered: Sequence[Answered], graders: Sequence[Mapping[str, Graded]]) -> list[Evaluated]:
    """All policies; the first is the one that the others are compared with."""
    first = answered[0].records
    return [
        Evaluated(one, summarise(one.records), paired(first, one.records) if place else None, graded)
        for place, (one, graded) in enumerate(zip(answered, graders, strict=True))
    ]


def write(folder: Path, found: Sequence[Evaluated], compared: Sequence[Comparison], sizes: Mapping[str, int]) -> None:
    """Both files, whole or not at all. Equal answers leave equal bytes. sizes: questions that each set has, asked or
    not. Raises MachineError.
    """
    policies = [
        {
            "name": one.name,
            "step": one.answered.target.step,
            "run": None if one.answered.target.step is None else one.answered.target.run.name,
            "settings": one.answered.settings,
            "figures": {
                mode: {name: asdict(figures) for name, figures in sets.items()} for mode, sets in one.summary.items()
            },
            "minus_first": _plain(one.against_first),
            "graders": {name: asdict(graded) for name, graded in one.graders.items()},
        }
        for one in found
    ]
    published = [asdict(one) for one in compared]
    write_json(
        folder / JSON,
        {"intervals": INTERVALS, "set_sizes": dict(sizes), "policies": policies, "published": published},
    )
    _write_parquet(folder / PARQUET, found)


def left_out(folder: Path, found: Sequence[Evaluated], compared: Sequence[Comparison]) -> list[str]:
    """Words of an earlier command into the folder whose figures `write` will not have: graders, published figures."""
    try:
        before = json.loads((folder / JSON).read_text(encoding="utf-8"))
        graders = [name for one in before["policies"] for name in one["graders"]]
        published = [one["name"] for one in before["published"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # none yet, or not ours
    now = {"own", *(name for one in found for name in one.graders)}
    also = dict.fromkeys(name for name in graders if name not in now)
    against = dict.fromkeys(name for name in published if name not in {one.name for one in compared})
    words = [f"--also reward={','.join(also)}"] if also else []
    return words + ([f"--against {' '.join(against)}"] if against else [])


def rows(found: Sequence[Evaluated]) -> list[dict[str, Any]]:
    """A row for each question in each mode of each policy."""
    made: list[dict[str, Any]] = []
    for one in found:
        for mode in MODES:
            records = [record for record in one.answered.records if mode in record]
            if not records:
                continue
            by_name = scores(records, mode)
            for place, record in enumerate(records):
                answers = record[mode]
                made.append({
                    "policy": one.name,
                    "step": one.answered.target.step,
                    "set": record["set"],
                    "question_id": record["id"],
                    "question": record["question"],
                    "golds": record["golds"],
                    "mode": mode,
                    "samples": len(answers),
                    "right": sum(answer["status"] == Status.CORRECT for answer in answers),
                    "scores": [{"name": name, "score": values[place]} for name, values in by_name.items()],
                    "statuses": [answer["status"] for answer in answers],
                    "extracted": [answer["extracted"] for answer in answers],
                    "finishes": [answer["finish"] for answer in answers],
                    "tokens": [answer["tokens"] for answer in answers],
                    "prompt_tokens": record["prompt_tokens"],
                })  # fmt: skip
    return made


def schema() -> pa.Schema:
    """Columns of questions.parquet."""
    import pyarrow as pa

    texts, numbers = pa.list_(pa.string()), pa.list_(pa.int64())
    score = pa.struct({"name": pa.string(), "score": pa.float64()})
    kinds = {
        "policy": pa.string(), "step": pa.int64(), "set": pa.string(), "question_id": pa.string(),
        "question": pa.string(), "golds": texts, "mode": pa.string(), "samples": pa.int64(), "right": pa.int64(),
        "scores": pa.list_(score), "statuses": texts, "extracted": texts, "finishes": texts, "tokens": numbers,
        "prompt_tokens": pa.int64(),
    }  # fmt: skip
    return pa.schema(list(kinds.items()))


def _write_parquet(path: Path, found: Sequence[Evaluated]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    aside = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        pq.write_table(pa.Table.from_pylist(rows(found), schema()), aside)
        fsync(aside)
        aside.replace(path)


def _plain(value: Any) -> Any:
    """Estimates in nested mappings as mappings."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value if value is None else asdict(value)
