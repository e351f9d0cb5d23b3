"""Answers that were given, in a file that an interrupted evaluation goes on from.

The first line holds the settings that the answers depend on; each further line one question with its answers. Lines are
appended and synced, in the order of the questions, so that what is there is a beginning of the whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import disk_errors, write_atomic
from ..tracking import jsonl
from ..train.folder import differences

Record = dict[str, Any]
MOST_TOLD = 3


class Journal:
    """The file of one policy. Raises InputError where it is of other settings, naming the keys, or was spoilt."""

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self.path = path
        header = json.loads(json.dumps(settings))
        if not path.exists():
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, _line({"settings": header}))
        lines = path.read_bytes().split(b"\n")[:-1]  # a last line without its end was torn by a kill
        rows = [_read(path, number, line) for number, line in enumerate(lines, start=1)]
        if not rows or not isinstance(rows[0].get("settings"), dict):
            raise InputError(f"{path}: not the answers of an evaluation. Give another --output.")
        changed = list(differences(rows[0]["settings"], header).values())
        if changed:
            more = [f"  … and {len(changed) - MOST_TOLD} more"] if len(changed) > MOST_TOLD else []
            first = f"{path} holds answers under other settings. Give another --output, or remove the file."
            raise InputError("\n".join([first, *changed[:MOST_TOLD], *more]))
        self.records: list[Record] = rows[1:]
        self._kept = [line + b"\n" for line in lines]

    def keep(self, count: int) -> None:
        """Drop the records after the first `count`, and a torn line."""
        del self.records[count:]
        data = b"".join(self._kept[: count + 1])
        if len(data) != self.path.stat().st_size:
            write_atomic(self.path, data)

    def append(self, records: Sequence[Record]) -> None:
        """On disk before this returns."""
        jsonl.append(self.path, b"".join(map(_line, records)))
        self.records += records


def hold(path: Path, records: Sequence[Record], expected: Sequence[tuple[str, str]]) -> None:
    """Raise InputError unless records are of the expected questions, (set, id), in their order."""
    for number, (record, (name, identity)) in enumerate(zip(records, expected, strict=False), start=2):
        if (record.get("set"), record.get("id")) != (name, identity):
            raise InputError(
                f"{path}, line {number}: not the answers to question {identity} of {name}, which belong there.\n"
                "The file was changed from outside: remove it, or give another --output."
            )


def _line(row: Mapping[str, object]) -> bytes:
    return jsonl.encode([row])


def _read(path: Path, number: int, line: bytes) -> Record:
    try:
        row = json.loads(line)
        if isinstance(row, dict):
            return row
    except ValueError:
        pass
    raise InputError(
        f"{path}, line {number}: not a row of an evaluation. The file was changed from outside: remove it, or give "
        "another --output."
    )
