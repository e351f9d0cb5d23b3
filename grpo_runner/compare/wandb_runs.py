"""Runs as W&B has them: an offline folder, read without W&B's service, or runs online, through its API."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, in_a_line
from ..method import method_name
from ..validate import build, with_later
from .foreign import Columns
from .series import leaves, numbers, series_of, steps_by_key
from .types import Run

PREFIXES = ("wandb:", "https://wandb.ai/", "http://wandb.ai/")
USAGE = "wandb:ENTITY/PROJECT, or that with /runs/ID, /groups/NAME or /sweeps/ID"
_BLOCK = 32768  # of LevelDB's log format


def is_online(word: str) -> bool:
    return word.startswith(PREFIXES)


def is_offline(path: Path) -> bool:
    """A .wandb file, or a folder (offline-run-…) with one."""
    return path.suffix == ".wandb" if path.is_file() else any(path.glob("run-*.wandb"))


def offline(path: Path, columns: Columns) -> Run:
    """A run that was logged offline. Raises InputError for a file that is none of W&B's, or without wandb installed."""
    file = path if path.is_file() else next(path.glob("run-*.wandb"))
    try:
        from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]
    except ImportError:
        raise InputError(f"{file}: to read it, wandb is needed: pip install wandb") from None
    config: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    name, ended = file.parent.name, False
    for data in _records(file):
        record = Record()
        try:
            record.ParseFromString(data)
        except Exception as error:  # protobuf's own kind
            raise InputError(f"{file}: damaged, or of another version of W&B ({in_a_line(error)}).") from None
        if record.HasField("run"):
            name = record.run.display_name or record.run.run_id
            config |= _items(record.run.config.update)
        elif record.HasField("config"):
            config |= _items(record.config.update)
        elif record.HasField("history"):
            rows.append(_items(record.history.item))
        elif record.HasField("exit"):
            ended = True
    return _run(name, file.parent, config, rows, columns, finished=ended)


def online(word: str, columns: Columns, api: Any = None) -> list[Run]:
    """The runs at a path such as wandb:ENTITY/PROJECT/groups/SWEEP; W&B's own API answers, with the user's own key.

    Raises InputError for a path that is none, and for what W&B refuses.
    """
    path, filters = _path(word)
    try:
        import wandb
    except ImportError:
        raise InputError(f"{word}: to ask W&B, wandb is needed: pip install wandb") from None
    try:
        api = wandb.Api() if api is None else api
        found = list(api.runs(path, filters=filters)) if filters is not None else [api.run(path)]
        if not found:
            raise InputError(f"{word}: there is no run there.")
        return [
            _run(
                one.name,
                Path("/".join(one.path)),
                dict(one.config),
                list(one.scan_history()),
                columns,
                finished=one.state == "finished",
                commit=getattr(one, "commit", None),
            )
            for one in found
        ]
    except (InputError, KeyboardInterrupt):
        raise
    except Exception as error:  # of W&B, of requests, of the net
        raise InputError(f"{word}: W&B gave nothing ({in_a_line(error)}).\nAllowed: {USAGE}") from None


def _path(word: str) -> tuple[str, dict[str, Any] | None]:
    """The path for W&B's API, and the filters of a project's runs; no filters (None) for one run."""
    bare = next(word.removeprefix(prefix) for prefix in PREFIXES if word.startswith(prefix))
    parts = re.sub(r"[?#].*", "", bare).strip("/").split("/")
    if len(parts) >= 2 and all(parts):
        project, rest = "/".join(parts[:2]), parts[2:]
        if rest in ([], ["workspace"], ["table"]):
            return project, {}
        if len(rest) >= 2 and rest[0] in ("groups", "group"):
            return project, {"group": rest[1]}
        if len(rest) >= 2 and rest[0] == "sweeps":
            return project, {"sweep": rest[1]}
        if len(rest) >= 2 and rest[0] == "runs":
            return f"{project}/{rest[1]}", None
        if len(rest) == 1:
            return f"{project}/{rest[0]}", None
    raise InputError(f"{word}: no path of W&B's. Allowed: {USAGE}")


def _run(
    name: str,
    folder: Path,
    config: Mapping[str, Any],
    rows: list[dict[str, Any]],
    columns: Columns,
    finished: bool,
    commit: str | None = None,
) -> Run:
    values = {key: value for key, value in config.items() if not key.startswith("_")}
    ours = all(isinstance(values.get(group), dict) for group in ("advantage", "loss_norm", "beta"))
    values = with_later(values) if ours else values
    settings = leaves(values)
    seed = columns.seed(name)
    if seed is None:
        seeds = [value for key, value in settings.items() if key.split(".")[-1] == "seed" and type(value) is int]
        if not seeds:
            raise InputError(f"{name}: no seed in its config. --seed-from 'seed[-_=]?([0-9]+)' takes it from the name.")
        seed = seeds[0]
    steps = settings.get("steps") if ours else None
    read = [row for row in (_row(row, columns) for row in rows) if row is not None]
    series = series_of([row for row, _ in read])
    # of others' runs the name tells the arm as well, as it does of a log without a config
    named = {"name": columns.arm(name)} if columns.seed_from is not None and not ours else {}
    return Run(
        name=name,
        folder=folder,
        seed=seed,
        settings={**settings, **named},
        series=series,
        method=_method(values) if ours else None,
        steps=steps if type(steps) is int else max((int(one.steps_N[-1]) + 1 for one in series.values()), default=None),
        finished=finished,
        commit=commit,
        source="wandb",
        dropped=steps_by_key((row["step"], odd) for row, odd in read),
    )


def _row(row: Mapping[str, Any], columns: Columns) -> tuple[dict[str, Any], list[str]] | None:
    """The row under our names and its step, and the keys that are no finite numbers; None without a step.

    W&B's own keys begin with an underscore.
    """
    step = row.get(columns.names.get("step", "_step"))
    if isinstance(step, bool) or not isinstance(step, int | float) or step % 1 != 0:
        return None
    taken = set(columns.names.values())
    named = {key: value for key, value in row.items() if key not in taken and not key.startswith("_")}
    named |= {ours: row[theirs] for ours, theirs in columns.names.items() if theirs in row}
    kept, odd = numbers(named)
    return kept | {"step": int(step)}, odd


def _method(values: Mapping[str, Any]) -> str | None:
    try:
        return method_name(build({**values, "run_dir": "."}))
    except InputError:
        return None


def _items(items: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        key = item.key or "/".join(item.nested_key)
        try:
            found[key] = json.loads(item.value_json)
        except ValueError:
            continue  # what W&B itself could not write
    return found


def _records(file: Path) -> Iterator[bytes]:
    """The records of a .wandb file: 7 bytes of header, then LevelDB's log format in blocks of 32 KiB.

    Of a file that is still being written, or was cut by a kill, the records that are whole.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}).") from None
    if data[:4] != b":W&B":
        raise InputError(f"{file}: no file of W&B's (it does not begin as one).")
    at, part = 7, b""
    while at + 7 <= len(data):
        if _BLOCK - at % _BLOCK < 7:  # too short for a record's header: padding
            at += _BLOCK - at % _BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        if at + 7 + length > len(data):
            return
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, or the last piece
            yield part
            part = b""
