"""questions.parquet: one row a question and step, all steps, safe against a kill at any moment.

Rows go to a journal, `questions.jsonl`, appended and synced a step at a time. When the journal has grown to the size of
the Parquet file it is folded into it, so each row is rewritten O(log n) times in all, never once a step. A kill between
"new Parquet file in place" and "journal removed" leaves rows in both: journal rows whose step the Parquet file already
has are ignored. `finish` folds the rest in; the final bytes depend on the rows alone, not on when folding happened.

A folder written before a column was added is read with nulls there, and a resume leaves those of its old rows null.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..files import disk_errors, write_atomic
from . import jsonl
from .base import Row

if TYPE_CHECKING:
    import pyarrow as pa

# name -> (type, may be null). A float is null where it is not defined (no right answer: no length_right).
COLUMNS: dict[str, tuple[str, bool]] = {
    "step": ("int64", False),
    "slot": ("int64", False),  # place in the step; two slots may hold the same question
    "question_id": ("string", False),
    "question": ("string", False),
    "gold": ("string", False),
    "successes": ("int64", False),
    "group_size": ("int64", False),
    "included": ("int64", True),  # answers in the loss: group_size less those excluded
    "success_rate": ("float64", False),
    "reward_mean": ("float64", True),
    "reward_std": ("float64", True),  # within the group
    "advantage_right": ("float64", True),
    "advantage_wrong": ("float64", True),
    "advantage_weight": ("float64", False),  # sum of |A| over the group's answers
    "weight": ("float64", False),  # sum of |token_weights| over the group's tokens
    "weight_up": ("float64", True),
    "weight_down": ("float64", True),
    "weight_per_token_right": ("float64", True),
    "weight_per_token_wrong": ("float64", True),
    "cumulative_weight": ("float64", True),  # of this question_id, over the run up to this row; summed here
    "weight_grpo": ("float64", True),  # what GRPO would have given the same answers; likewise the next two
    "weight_dr_grpo": ("float64", True),
    "weight_rloo": ("float64", True),
    "centred_weight": ("float64", True),  # sum of |r - group mean|
    "std_factor": ("float64", True),  # weight_grpo = centred_weight · std_factor · length_factor
    "length_factor": ("float64", True),
    "constant_factor": ("float64", True),  # weight_dr_grpo = centred_weight · constant_factor
    "length_mean": ("float64", True),
    "length_right": ("float64", True),
    "length_wrong": ("float64", True),
    "truncated": ("int64", False),
    "kl": ("float64", True),
}

_KINDS = {"int64": "whole number", "float64": "finite number", "string": "text"}

PARQUET = "questions.parquet"
JOURNAL = "questions.jsonl"
_FOLD_ROWS = 512  # the first fold; then whenever the journal holds as many rows as the Parquet file


def schema() -> pa.Schema:
    """The pyarrow schema of questions.parquet."""
    import pyarrow as pa

    return pa.schema([pa.field(name, pa.type_for_alias(kind), null) for name, (kind, null) in COLUMNS.items()])


def read_questions(run_dir: str | Path) -> pa.Table:
    """All question rows of a run folder in order of (step, slot), finished or not; empty when it has none.

    Columns that an older folder lacks are null. Raises InputError when the journal holds a line that is not a row (a
    torn last line is left out), or the Parquet file is damaged or of something else.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    parquet, journal = Path(run_dir) / PARQUET, Path(run_dir) / JOURNAL
    # the journal first: were it folded between the two reads, its rows would be in the file that is read next
    rows = [_cells(row, journal, place) for place, (_, row) in enumerate(jsonl.whole_lines(journal))]
    # one open file, not a path: it cannot be swapped while it is read
    try:
        table = _as_now(pq.ParquetFile(parquet).read()) if parquet.exists() else schema().empty_table()
    except (
        pa.ArrowException,
        OSError,
        ValueError,
    ):  # a damaged page is an OSError, a null that may not be a ValueError
        raise InputError(
            f"{parquet} is not a readable Parquet file of a run, so the weights of earlier steps cannot be read.\n"
            "Put the file back as it was."
        ) from None
    last = pc.max(table["step"]).as_py() if table.num_rows else -1
    fresh = pa.Table.from_pylist([row for row in rows if row["step"] > last], schema=schema())
    return pa.concat_tables([table, fresh]).combine_chunks()


def _cells(row: Mapping[str, Any], journal: Path, place: int) -> dict[str, Any]:
    """The row of a journal's line (counted from 0), null where a run of before had no such column."""
    cells: dict[str, Any] = {}
    for name, (kind, null) in COLUMNS.items():
        value = row.get(name)
        try:
            cells[name] = value if value is None and null else _cell(value, kind)
        except (ValueError, OverflowError):
            said = f"has no {name}" if value is None else f"its {name} is no {_KINDS[kind]}"
            raise jsonl.not_a_row(journal, place, f"a question of a step; this one {said}") from None
    return cells


def _cell(value: object, kind: str) -> object:
    """The value as the column has it; raises ValueError or OverflowError where it is of another kind."""
    if kind == "string" and isinstance(value, str):
        value.encode("utf-8")  # refuses a lone surrogate
        return value
    if kind == "int64" and type(value) is int and -(2**63) <= value < 2**63:
        return value
    if kind == "float64" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise ValueError(kind)


def _as_now(table: pa.Table) -> pa.Table:
    """The table with all columns in order; raises ArrowException where one is missing that cannot be null."""
    import pyarrow as pa

    for name, (kind, null) in COLUMNS.items():
        if name not in table.column_names:
            if not null:
                raise pa.ArrowInvalid(f"no column {name}")
            table = table.append_column(name, pa.nulls(table.num_rows, pa.type_for_alias(kind)))
    return table.select(list(COLUMNS)).cast(schema())


class QuestionLog:
    """Writes the journal and folds it into the Parquet file. `start` must be called first."""

    def __init__(self, run_dir: Path) -> None:
        self.parquet, self.journal = run_dir / PARQUET, run_dir / JOURNAL
        self._folded = 0
        self._pending = 0
        self._sums: dict[str, float] = {}

    def start(self, step: int) -> None:
        """Drops rows with step >= `step` (all rows when it is 0); cumulative weights go on from the rows kept."""
        import pyarrow.compute as pc

        self._folded = self._pending = 0
        self._sums = {}
        if step == 0:
            with disk_errors(self.parquet):
                self.journal.unlink(missing_ok=True)
                self.parquet.unlink(missing_ok=True)
        elif self.parquet.exists() or self.journal.exists():
            table = read_questions(self.parquet.parent)
            kept = table.filter(pc.less(table["step"], step))
            # one addition a row in the order of the rows, as `add` makes them: the same sums to the last digit
            for name, weight in zip(kept["question_id"].to_pylist(), kept["weight"].to_pylist(), strict=True):
                self._sums[name] = self._sums.get(name, 0.0) + weight
            self._save(kept)

    def add(self, step: int, rows: Sequence[Row]) -> None:
        """Appends one step's rows in the order of their slots, with `cumulative_weight` filled in.

        Raises ValueError for a wrong column, NonFiniteError, MachineError.
        """
        if not rows:
            return
        checked = sorted((_checked(row, step) for row in rows), key=lambda row: row["slot"])
        sums: dict[str, float] = {}
        for row in checked:
            name = row["question_id"]
            sums[name] = row["cumulative_weight"] = sums.get(name, self._sums.get(name, 0.0)) + row["weight"]
        jsonl.append(self.journal, jsonl.encode(checked))
        self._sums |= sums
        self._pending += len(rows)
        if self._pending >= max(_FOLD_ROWS, self._folded):
            self._save(read_questions(self.parquet.parent))

    def finish(self) -> None:
        """Folds what is left and removes the journal."""
        if self._pending or not self.parquet.exists():
            self._save(read_questions(self.parquet.parent))

    def _save(self, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        # fixed settings and one contiguous chunk: equal rows give equal bytes
        table = table.combine_chunks()
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", row_group_size=65_536)
        write_atomic(self.parquet, buffer.getvalue())
        with disk_errors(self.journal):
            self.journal.unlink(missing_ok=True)
        self._folded, self._pending = table.num_rows, 0


def _checked(row: Row, step: int) -> dict[str, Any]:
    """The row with its columns in order and plain types."""
    if row.get("cumulative_weight") is not None:
        raise ValueError("cumulative_weight is summed by the log; a question row must not bring it")
    unknown = sorted(set(row) - set(COLUMNS))
    if unknown:
        raise ValueError(f"unknown question columns: {', '.join(unknown)}")
    if row.get("step", step) != step:
        raise ValueError(f"a question row of step {row['step']} was given to step {step}")
    checked: dict[str, Any] = {}
    for name, (kind, null) in COLUMNS.items():
        value = step if name == "step" else row.get(name)
        if value is None and not null:
            raise ValueError(f"a question row of step {step} lacks {name}")
        if value is not None and kind == "string":
            checked[name] = str(value)
        else:
            plain = jsonl.number(value, name, step)
            checked[name] = float(plain) if plain is not None and kind == "float64" else plain
    return checked
