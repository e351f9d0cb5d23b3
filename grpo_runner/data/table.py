"""Rows of a question set from a JSONL, Parquet or Arrow file or the Hugging Face hub, each with the place it came from.

Nothing here knows what a gold answer means; `load` does. Errors name the key of conf/ or the file and line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, nearest
from ..schema import SourceConfig
from ..waiting import waiting

SUFFIXES = (".jsonl", ".parquet", ".arrow")
_NAMED = ".jsonl, .parquet or .arrow"


@dataclass(frozen=True)
class Row:
    """One row: its place for messages (`file:line`), its id (`<stem>/<row number from 1>`), its cells by column."""

    place: str
    id: str
    cells: Mapping[str, Any]


def read(source: SourceConfig, key: str, columns: Mapping[str, str]) -> list[Row]:
    """All rows of a source, in its own order. A local `path` wins over `hub_id`.

    key: where the source stands in the configuration, such as "data.train". columns: the columns needed, each
    with the key that named it, {"problem": "data.question_column"}; every row returned has them all.
    Raises InputError when there is no source, it cannot be read, lacks a column or has no rows.
    """
    if source.path is not None:
        rows = _file(Path(source.path).expanduser(), f"{key}.path", columns)
    elif source.hub_id is not None:
        rows = _hub(source, f"{key}.hub_id", columns)
    else:
        raise InputError(
            f"{key}.path and {key}.hub_id are both empty: there is nothing to read.\n"
            f"Give {key}.path=FILE ({_NAMED}) or {key}.hub_id=OWNER/NAME."
        )
    if not rows:
        raise InputError(f"{key}: {source.path or source.hub_id} holds no questions.")
    return rows


def glance(source: SourceConfig, key: str, columns: Mapping[str, str]) -> None:
    """Raise InputError as `read` would, as far as the beginning of a local file tells; the hub is not asked."""
    if source.path is None:
        return
    path = Path(source.path).expanduser()
    with _reading(path, f"{key}.path"):
        rows = next(_jsonl(path, columns), None) if path.suffix == ".jsonl" else _head(path, f"{key}.path", columns)
    if not rows:
        raise InputError(f"{key}: {source.path} holds no questions.")


def _file(path: Path, key: str, columns: Mapping[str, str]) -> list[Row]:
    """Rows of a local file, by its suffix."""
    with _reading(path, key):
        return list(_jsonl(path, columns)) if path.suffix == ".jsonl" else _table(path, key, columns)


@contextmanager
def _reading(path: Path, key: str) -> Iterator[None]:
    """Raise InputError for a file that is of no kind known here, is not there, or that the disk does not give."""
    if path.suffix not in SUFFIXES:
        raise InputError(
            f'{key}: "{path}" is not a {_NAMED} file.\n'
            'JSONL is one JSON object a line, for example {"question": "1+1=?", "answer": "2"}.'
        )
    try:
        if not path.is_file():
            names = [p.name for p in path.parent.iterdir() if p.suffix in SUFFIXES] if path.parent.is_dir() else []
            raise InputError(f'{key}: there is no file "{path}".{nearest(path.name, names)}')
        yield
    except OSError as error:
        raise InputError(f'{key}: cannot read "{path}": {error.strerror or error}.') from error


def _jsonl(path: Path, columns: Mapping[str, str]) -> Iterator[Row]:
    """One JSON object a line; blank lines are skipped. A row's number is its line, so an id leads back to it."""
    with path.open("rb") as lines:  # bytes: only "\n" ends a line, and a line that is not UTF-8 can be named
        for number, raw in enumerate(lines, start=1):
            place = f"{path}:{number}"
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                cells = json.loads(line) if line else None
            except UnicodeDecodeError as error:
                raise InputError(f"{place}: not UTF-8 text (byte {error.start + 1} of the line).") from error
            except (ValueError, RecursionError) as error:
                raise InputError(f"{place}: not JSON: {error}.\nA .jsonl file holds one JSON object a line.") from error
            if not line:
                continue
            if not isinstance(cells, dict):
                raise InputError(
                    f"{place}: a {type(cells).__name__}, not an object.\nA .jsonl file holds one JSON object a line."
                )
            _require(place, cells, columns)
            yield Row(place, f"{path.stem}/{number}", cells)


def _table(path: Path, key: str, columns: Mapping[str, str]) -> list[Row]:
    """Rows of a Parquet or an Arrow file (as `Dataset.save_to_disk` writes); only the needed columns are read."""
    arrow = path.suffix == ".arrow"
    with _opened(path, key, columns) as file:
        table = file.read_all().select(list(columns)) if arrow else file.read(columns=list(columns))
        rows = table.to_pylist()
    # save_to_disk calls every file data-00000-of-00001.arrow: its folder tells sets apart
    return _numbered(rows, path.parent.name if arrow else path.stem, str(path))


def _head(path: Path, key: str, columns: Mapping[str, str]) -> int:
    """How many rows there are, none of them read: of an Arrow file, those of its first batch that has any."""
    with _opened(path, key, columns) as file:
        if path.suffix == ".arrow":
            return next((batch.num_rows for batch in file if batch.num_rows), 0)
        return int(file.metadata.num_rows)


@contextmanager
def _opened(path: Path, key: str, columns: Mapping[str, str]) -> Iterator[Any]:
    """A Parquet or an Arrow file that has the columns. Raises InputError, also for what is found while it is read."""
    import pyarrow as pa  # late: most runs read neither
    import pyarrow.parquet as pq

    arrow = path.suffix == ".arrow"
    try:
        with pa.ipc.open_stream(pa.memory_map(str(path))) if arrow else pq.ParquetFile(path) as file:
            _require(str(path), (file.schema if arrow else file.schema_arrow).names, columns)
            yield file
    except (pa.ArrowException, UnicodeDecodeError) as error:  # pyarrow itself reads strings that are not UTF-8
        kind = "Arrow" if arrow else "Parquet"
        raise InputError(f'{key}: "{path}" is not a readable {kind} file: {_brief(error)}') from error


def _hub(source: SourceConfig, key: str, columns: Mapping[str, str]) -> list[Row]:
    """Rows of a set on the Hugging Face hub, or of its copy in the local cache."""
    local = f"A local file ({_NAMED}) goes in {key.removesuffix('hub_id')}path and needs no network."
    name = f'"{source.hub_id}" ({source.hub_config or "default"}, split {source.split})'
    try:
        import datasets  # late: slow to import
        import huggingface_hub
    except ImportError as error:
        raise InputError(f"{key}: {name} needs the package `datasets`, which cannot be imported.\n{local}") from error
    # their bars and retry lines are not ours to print; what went wrong is in the error below
    datasets.disable_progress_bars()
    huggingface_hub.utils.disable_progress_bars()
    huggingface_hub.logging.set_verbosity_error()
    try:
        with waiting(f"{name} of the Hugging Face hub ({key})"):
            table = datasets.load_dataset(
                source.hub_id, source.hub_config, split=source.split, revision=source.revision
            )
    except Exception as error:  # offline, gated, no such set, config or split: as many types as libraries beneath
        raise InputError(f"{key}: cannot load {name}: {_brief(error)}\n{local}") from error
    _require(str(source.hub_id), table.column_names, columns)
    stem = f"{str(source.hub_id).rsplit('/', 1)[-1]}/{source.split}"
    return _numbered(table.select_columns(list(columns)), stem, str(source.hub_id))


def _numbered(rows: Iterable[Mapping[str, Any]], stem: str, name: str) -> list[Row]:
    return [Row(f"{name}: row {n}", f"{stem}/{n}", cells) for n, cells in enumerate(rows, start=1)]


def _require(place: str, have: Sequence[str] | Mapping[str, Any], columns: Mapping[str, str]) -> None:
    """Raise for the needed columns that are absent, all at once, naming the keys that asked and what there is."""
    missing = [column for column in columns if column not in have]
    if missing:
        names = [str(name) for name in have]
        shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        lacks = " and ".join(f'no column "{column}" ({columns[column]})' for column in missing)
        hint = "".join(nearest(column, [name for name in names if name not in columns]) for column in missing)
        raise InputError(f"{place}: {lacks}.{hint}\nIt has: {shown or 'no columns'}.")


def _brief(error: Exception, limit: int = 240) -> str:
    """The type and the first line of another library's error, short enough for one line of ours."""
    lines = str(error).strip().splitlines() or [""]
    text = f"{type(error).__name__}: {lines[0]}"
    return text if len(text) <= limit else text[: limit - 1] + "…"
