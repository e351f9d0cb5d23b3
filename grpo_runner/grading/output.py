"""Graded rows as a JSONL or a Parquet file, written aside and put in place when all of it is there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from ..errors import InputError
from ..files import disk_errors, fsync
from ..types import Verdict
from .rows import Batch
from .words import ADDED, SUFFIXES

if TYPE_CHECKING:
    import pyarrow as pa


class Output(Protocol):
    """Takes the verdicts of one batch after the other."""

    def write(self, batch: Batch, verdicts: Sequence[Verdict]) -> None:
        """A verdict for each row of the batch; rows that are no JSON objects are left out."""


class Nowhere:
    """No output was asked for."""

    def write(self, batch: Batch, verdicts: Sequence[Verdict]) -> None:
        """Nothing."""


def check_output(path: Path, source: Path, overwrite: bool) -> None:
    """Raise InputError unless a file can be put there."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"--output {path}: not the name of a {' or '.join(SUFFIXES)} file.")
    if not path.parent.is_dir():
        raise InputError(f"--output {path}: there is no folder {path.parent}.")
    if path.exists() and os.path.samefile(path, source):
        raise InputError(f"--output {path}: that is the file of the rows. Give another name.")
    if os.path.lexists(path) and not path.is_file():
        raise InputError(f"--output {path}: what is there is no file. Give another name.")
    if path.exists() and not overwrite:
        raise InputError(f"--output {path}: there already. Give another name, or --overwrite.")


@contextmanager
def opened(path: Path | None) -> Iterator[Output]:
    """The output at a path. What was there before stays until the end, and for good where an error ends it.

    Raises MachineError where the disk refuses.
    """
    if path is None:
        yield Nowhere()
        return
    target = path.resolve()
    aside = target.with_name(f".{target.name}.tmp")
    with disk_errors(path):
        try:
            with aside.open("wb") as file:
                output = _Jsonl(file) if path.suffix == ".jsonl" else _Parquet(file)
                yield output
                output.close()
            fsync(aside)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
        fsync(target.parent)


def fields(verdict: Verdict) -> dict[str, object]:
    """A verdict as the fields of a row."""
    values = (verdict.status.value, verdict.correct, verdict.extracted, verdict.rule, round(verdict.seconds, 4))
    return dict(zip(ADDED, values, strict=True))


class _Jsonl:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, batch: Batch, verdicts: Sequence[Verdict]) -> None:
        for row, verdict in zip(batch.rows, verdicts, strict=True):
            if row.cells is not None:
                self._file.write(_line(_with(row.cells, verdict)))

    def close(self) -> None:
        """Nothing is kept back."""


class _Parquet:
    """Columns of a Parquet input stay as they are. Rows of JSON are gathered: types are known at the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None
        self._gathered: list[pa.Table] = []

    def write(self, batch: Batch, verdicts: Sequence[Verdict]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if batch.arrow is None:
            self._gathered.append(_table(batch, verdicts))
            return
        table = pa.Table.from_batches([batch.arrow])
        table = table.drop_columns([name for name in ADDED if name in table.column_names])
        values = _utf8([fields(verdict) for verdict in verdicts])
        for name, kind in _kinds().items():
            table = table.append_column(name, pa.array([one[name] for one in values], kind))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is not None:
            self._writer.close()
        elif self._gathered:
            try:
                pq.write_table(pa.concat_tables(self._gathered, promote_options="permissive"), self._file)
            except pa.ArrowException as error:
                raise _no_columns(error) from error


def _with(cells: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    """A row with its verdict at the end, also where it had fields of those names."""
    return {name: value for name, value in cells.items() if name not in ADDED} | fields(verdict)


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(row, ensure_ascii=False, default=str) + "\n").encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can write it, UTF-8 cannot hold it
        return (json.dumps(row, default=str) + "\n").encode()


def _table(batch: Batch, verdicts: Sequence[Verdict]) -> pa.Table:
    import pyarrow as pa

    pairs = zip(batch.rows, verdicts, strict=True)
    rows = _utf8([_with(row.cells, verdict) for row, verdict in pairs if row.cells is not None])
    names = list(dict.fromkeys(name for row in rows for name in row if name not in ADDED))
    kinds = _kinds()
    try:
        columns = {name: pa.array([row.get(name) for row in rows], kinds.get(name)) for name in [*names, *ADDED]}
        return pa.table(columns)
    except (pa.ArrowException, OverflowError) as error:
        raise _no_columns(error) from error


def _kinds() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return dict(zip(ADDED, (pa.string(), pa.bool_(), pa.string(), pa.string(), pa.float64()), strict=True))


def _utf8(value: Any) -> Any:
    """The same with a question mark for each lone surrogate, which Arrow cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_utf8(one) for one in value]
    return {_utf8(name): _utf8(one) for name, one in value.items()} if isinstance(value, dict) else value


def _no_columns(error: Exception) -> InputError:
    said = " ".join(str(error).split())[:200]
    return InputError(
        f"--output: these rows are no table, since a field is not of one kind ({said}). Take a .jsonl file."
    )
