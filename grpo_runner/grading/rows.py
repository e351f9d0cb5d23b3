"""Rows to grade, from a JSONL or a Parquet file, some at a time: what a row asks, or why it cannot be graded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, nearest
from .words import ADDED, SUFFIXES

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS, MOST_BYTES = 128, 8 << 20  # of a batch


@dataclass(frozen=True)
class Row:
    """number: line of a JSONL file or row of a Parquet file, from 1. cells: None where there is no JSON object.

    fault: why it cannot be graded, or None; response and golds are then what to grade.
    """

    number: int
    cells: Mapping[str, Any] | None
    response: str = ""
    golds: tuple[str, ...] = ()
    fault: str | None = None


@dataclass(frozen=True)
class Batch:
    """Rows that are graded together. done: bytes or rows up to here; arrow: a Parquet file's own columns."""

    rows: Sequence[Row]
    done: int
    arrow: pa.RecordBatch | None = None


def check_file(path: Path) -> None:
    """Raise InputError unless the path is of a kind that can be read, and there."""
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"--file {path}: not a {' or '.join(SUFFIXES)} file.\n"
            'JSONL is one JSON object a line, for example {"response": "\\\\boxed{2}", "gold": "2"}.'
        )
    if path.is_dir():
        raise InputError(f"--file {path}: a folder, not a file.")
    if not path.exists():
        names = [p.name for p in path.parent.iterdir() if p.suffix in SUFFIXES] if path.parent.is_dir() else []
        raise InputError(f"--file {path}: there is no such file.{nearest(path.name, names)}")


def batches(path: Path, response_field: str, gold_field: str) -> Iterator[Batch]:
    """All rows of a file in its order. Raises InputError where the file as a whole cannot be read."""
    reader = _jsonl if path.suffix == ".jsonl" else _parquet
    try:
        yield from reader(path, response_field, gold_field)
    except OSError as error:
        raise InputError(f"--file {path}: cannot be read ({error.strerror or error}).") from error


def place(path: Path, row: Row) -> str:
    """Where a row stands, for messages."""
    return f"{path}:{row.number}" if path.suffix == ".jsonl" else f"{path}, row {row.number}"


def read_row(number: int, cells: Mapping[str, Any], response_field: str, gold_field: str) -> Row:
    """What a JSON object asks."""
    wanted = ((response_field, "--response-field"), (gold_field, "--gold-field"))
    if missing := [(field, flag) for field, flag in wanted if field not in cells]:
        return Row(number, cells, fault=_lacks(missing, cells))
    response, golds = cells[response_field], _golds(cells[gold_field])
    if not isinstance(response, str):
        return Row(number, cells, fault=f'field "{response_field}" is {_kind(response)}, not text')
    if isinstance(golds, str):
        return Row(number, cells, fault=f'field "{gold_field}" {golds}')
    return Row(number, cells, response, golds)


def _lacks(missing: Sequence[tuple[str, str]], cells: Mapping[str, Any]) -> str:
    """All fields that are not there, at once, and the flags that give other names."""
    there = [name for name in cells if name not in ADDED]
    named = ", ".join(there[:8]) + (", …" if len(there) > 8 else "")
    fields = " and ".join(f'"{field}"' for field, _ in missing)
    one = len(missing) == 1
    said = f"no {'field' if one else 'fields'} {fields}; it has {named or 'none'}."
    return f"{said} {'Another name' if one else 'Other names'}: {', '.join(flag for _, flag in missing)}"


def _golds(value: object) -> tuple[str, ...] | str:
    """The golds of a cell, or the end of a sentence about what it is."""
    values = value if isinstance(value, list) else [value]
    if not values:
        return "is an empty list"
    # a bool is an int in Python, and no number here
    bad = [one for one in values if isinstance(one, bool) or not isinstance(one, str | int | float | Decimal)]
    if bad:
        return f"is {'a list with ' * isinstance(value, list)}{_kind(bad[0])}, not text, a number or a list of those"
    try:
        return tuple(one if isinstance(one, str) else str(one) for one in values)
    except ValueError:
        return "is a number of too many digits"


def _kind(value: object) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), f"of the kind {type(value).__name__}")


# --- JSONL


def _jsonl(path: Path, response_field: str, gold_field: str) -> Iterator[Batch]:
    """Blank lines are skipped; the number of a row is its line."""
    rows: list[Row] = []
    size = done = 0
    with path.open("rb") as lines:  # bytes: only a line feed ends a line, and a line that is not UTF-8 can be named
        for number, raw in enumerate(lines, start=1):
            done += len(raw)
            size += len(raw)
            if (row := _line(number, raw, response_field, gold_field)) is not None:
                rows.append(row)
            if len(rows) >= MOST_ROWS or size >= MOST_BYTES:
                yield Batch(rows, done)
                rows, size = [], 0
    if rows:
        yield Batch(rows, done)


def _line(number: int, raw: bytes, response_field: str, gold_field: str) -> Row | None:
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        cells = json.loads(text) if text else {}
    except UnicodeDecodeError as error:
        return Row(number, None, fault=f"not UTF-8 text (byte {error.start + 1} of the line)")
    except json.JSONDecodeError as error:
        return Row(number, None, fault=f"not JSON: {error.msg} (character {error.pos + 1} of the line)")
    except (ValueError, RecursionError) as error:
        return Row(number, None, fault=f"not JSON that can be read: {' '.join(str(error).split())[:120]}")
    if not text:
        return None
    if not isinstance(cells, dict):
        return Row(number, None, fault=f"{_kind(cells)}, not a JSON object")
    return read_row(number, cells, response_field, gold_field)


# --- Parquet


def _parquet(path: Path, response_field: str, gold_field: str) -> Iterator[Batch]:
    import pyarrow as pa  # late: most commands read no Parquet
    import pyarrow.parquet as pq

    done = 0
    try:
        with pq.ParquetFile(path) as file:
            for record in file.iter_batches(batch_size=MOST_ROWS):
                cells = record.to_pylist()
                rows = [read_row(done + at, one, response_field, gold_field) for at, one in enumerate(cells, start=1)]
                done += len(rows)
                yield Batch(rows, done, record)
    except (pa.ArrowException, UnicodeDecodeError) as error:  # pyarrow itself reads strings that are not UTF-8
        raise InputError(
            f"--file {path}: not a readable Parquet file ({' '.join(str(error).split())[:200]})."
        ) from error


def extent(path: Path) -> int | None:
    """What `Batch.done` will be at the end; None where that is not known."""
    if path.suffix == ".jsonl":
        return path.stat().st_size if path.is_file() else None
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException):
        return None  # `batches` says what is wrong
