"""Words of a command line -> runs: run folders, folders of runs, globs, other people's logs, W&B.

A run of ours is a folder with config.yaml and metrics.jsonl. Nothing here needs torch.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError, nearest
from ..later import LATER
from ..method import method_name
from ..tracking import jsonl, texts
from ..tracking.local import EVALS, METRICS
from ..validate import build, with_later
from . import foreign, wandb_runs
from .foreign import Columns
from .series import leaves, series_of
from .types import Run

CONFIG = "config.yaml"
SWEEPS = Path("outputs/sweeps")


def read(words: Sequence[str], columns: Columns | None = None) -> list[Run]:
    """The runs that the words name, in the order of their words and folders, each once. Raises InputError."""
    columns = columns or Columns()
    found: dict[str, Run] = {}
    for word in words:
        online = wandb_runs.is_online(word)
        runs = wandb_runs.online(word, columns) if online else [_run(path, columns) for path in _places(word, columns)]
        for run in runs:
            found.setdefault(f"{run.source} {run.folder.resolve()}", run)
    return list(found.values())


def question_rows(run: Run, step: int | None = None) -> list[dict[str, Any]]:
    """What became of each question in the evaluation before `step`, by default the last that was kept.

    Columns: `evaluation.question_row`, as in "sampled/right" of "sampled/answers". Empty where none was kept (an older
    run, another's, or `tracking.completions_every=0`). Raises InputError for a damaged file.
    """
    steps = evaluated_steps(run)
    wanted = step if step is not None else max(steps, default=None)
    return texts.read_evaluation(run.folder, wanted) if wanted is not None and wanted in steps else []


def evaluated_steps(run: Run) -> list[int]:
    """The steps whose evaluation has question rows."""
    return list(texts.files(run.folder, texts.EVALUATIONS)) if run.source == "folder" else []


# --- what the words stand for


def _places(word: str, columns: Columns) -> list[Path]:
    """Run folders, files of others and W&B folders that a word names."""
    path = Path(word)
    paths = (
        [path]
        if path.exists()
        else [Path(one) for one in sorted(glob.glob(word, recursive=True)) if Path(one).exists()]
    )
    if not paths:
        raise InputError(f"{word}: no such folder, and nothing that fits it.{_close(path)}")
    places = [place for one in paths for place in _below(one, columns)]
    if not places:
        logs = sorted({one.suffix for one in paths if one.is_dir() for one in one.iterdir()} & set(foreign.ENDINGS))
        if logs:
            raise InputError(f"{word}: no run in it, but logs. Name the files: {Path(word) / f'*{logs[0]}'}")
        wanted = f"no run in it (a folder with {CONFIG} and {METRICS}, another's {METRICS}, or a folder of W&B's)."
        raise InputError(f"{word}: {wanted}")
    return places


def _below(path: Path, columns: Columns) -> Iterator[Path]:
    """The runs in a path: itself, or all that lie below it. Nothing below a run is another run.

    A link to a run is that run; a link to a folder of runs is not followed, since it may lead to where it lies.
    """
    if path.is_file():
        if path.name in (CONFIG, METRICS) and _is_ours(path.parent):
            path = path.parent
        yield path
    elif _is_run(path):
        yield path
    else:
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
        for name in names:
            inner = path / name
            if name.startswith(".") or not inner.is_dir() or (inner.is_symlink() and not _is_run(inner)):
                continue
            yield from _below(inner, columns)


def _is_run(path: Path) -> bool:
    return _is_ours(path) or wandb_runs.is_offline(path) or foreign.file_in(path) is not None


def _is_ours(path: Path) -> bool:
    """Whether a folder has a run's config.yaml. conf/, whose own composes runs from defaults, is none."""
    try:
        return not re.search(rb"^defaults:", (path / CONFIG).read_bytes(), re.MULTILINE)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return False
    except OSError:  # one that cannot be read is said to be so where it is read
        return True


def _close(path: Path) -> str:
    """The end of the sentence about a word that is no path: a sweep of that name, or the nearest beside it."""
    if path.is_symlink():
        return f" It is a link to {os.readlink(path)}, which is not there."
    if len(path.parts) == 1 and (SWEEPS / path).is_dir():
        return f' Did you mean "{SWEEPS / path}"?'
    beside = [one.name for one in path.parent.iterdir() if one.exists()] if path.parent.is_dir() else []
    return nearest(path.name, beside)


def _run(path: Path, columns: Columns) -> Run:
    if wandb_runs.is_offline(path):
        return wandb_runs.offline(path, columns)
    return own(path) if _is_ours(path) else foreign.run(path, columns)


# --- a run of ours


def own(folder: Path) -> Run:
    """A run folder as `train` leaves it, finished or not. Raises InputError for files that were damaged or changed."""
    values = _config(folder / CONFIG)
    metrics, evals = _figures(folder / METRICS), _figures(folder / EVALS)
    summary = _json(folder / "summary.json", "steps") if (folder / "DONE").exists() else {}
    data = _json(folder / "data.json", "sha256") if (folder / "data.json").exists() else {}
    steps = values.get("steps")
    commit = (summary.get("versions") or {}).get("commit")
    return Run(
        name=folder.absolute().name,
        folder=folder,
        seed=values["seed"],
        settings=_settings(values),
        series=series_of(metrics) | series_of(evals, "eval/"),
        method=summary.get("method") or _method(values, folder),
        steps=steps if type(steps) is int else None,
        finished=bool(summary) and len(metrics) >= (steps or 0),
        commit=commit.replace("+changes", "+") if commit else None,
        data=str(data["sha256"]) if data else None,
        peak_memory_mb=memory if type(memory := summary.get("peak_memory_mb")) in (int, float) else None,
    )


def _figures(file: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl or evals.jsonl, whose values are numbers or null. Raises InputError for others."""
    found = jsonl.rows(file)
    for row in found:
        if wrong := [key for key, value in row.items() if value is not None and type(value) not in (int, float)]:
            said = json.dumps(row[wrong[0]])
            raise InputError(
                f"{file}: {wrong[0]} at step {row['step']} is {said[:60]}, which is no number. Put it back as it was."
            )
    return found


def _config(file: Path) -> dict[str, Any]:
    try:
        # the loader of C is ten times as fast; a sweep has dozens of these
        values = yaml.load(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{file}: not a readable config.yaml ({' '.join(str(error).split())[:200]}).") from None
    if not isinstance(values, dict) or type(values.get("seed")) is not int:
        raise InputError(f"{file}: not the configuration of a run (no seed in it).")
    return with_later(values)


def _settings(values: dict[str, Any]) -> dict[str, object]:
    mappings = {key for key, value in LATER.items() if value == {}}  # an empty one is a value, as None is
    found = leaves(values)
    return {key: ("none" if key in mappings and value == "{}" else value) for key, value in found.items()}


def _method(values: dict[str, Any], folder: Path) -> str | None:
    try:
        return method_name(build(values | {"run_dir": str(folder)}))
    except InputError:  # a run of another version, whose keys are not ours
        return None


def _json(file: Path, key: str) -> dict[str, Any]:
    """The mapping in a file, which has a key. Raises InputError."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read ({error}). Put it back as it was.") from None
    if not isinstance(found, dict) or key not in found:
        raise InputError(f'{file} is not as a run leaves it (no "{key}" in it). Put it back as it was.')
    return found
