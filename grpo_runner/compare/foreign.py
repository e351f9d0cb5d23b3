"""Other people's logs: a JSONL or CSV file with a row a step, and a map from its columns to the keys of ours."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError, nearest
from .measures import sources
from .series import numbers, series_of, steps_by_key
from .types import Run

METRICS = "metrics.jsonl"
ENDINGS = (".jsonl", ".csv")
STEP = "step"


@dataclass(frozen=True)
class Columns:
    """names: our key -> theirs, as in {"step": "global_step", "accuracy": "val/acc"}; a column that is not named keeps
    its own name. seed_from: a regular expression with one group, found in the run's path; its group is the seed.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    seed_from: str | None = None
    typed: Mapping[str, str] = field(default_factory=dict)  # our key -> as it was typed: reward for reward/mean

    def seed(self, path: str) -> int | None:
        """The seed that a path names; None without seed_from. Raises InputError where it names none."""
        if self.seed_from is None:
            return None
        found = re.findall(self.seed_from, path)
        if not found or not re.fullmatch(r"\d+", found[-1]):
            said = f'"{found[-1]}" is no whole number in' if found else "it fits nothing in"
            raise InputError(f"--seed-from '{self.seed_from}': {said} {path}.")
        return int(found[-1])

    def arm(self, name: str) -> str:
        """A run's name without its seed: what two runs of one arm share."""
        if self.seed_from is None:
            return name
        return re.sub(self.seed_from, "", name).strip("_-.,/ ") or "run"


def parse(columns: str | None, seed_from: str | None, stated: Sequence[str] = ()) -> Columns:
    """`step=global_step,reward/mean=train/reward` and a regular expression. Raises InputError.

    stated: names of --metric, which may be names of ours as well.
    """
    names: dict[str, str] = {}
    typed: dict[str, str] = {}
    for part in (columns or "").split(",") if columns else ():
        ours, equals, theirs = part.strip().partition("=")
        if not (ours and equals and theirs):
            raise InputError(f'--columns {columns}: "{part}" is not OURS=THEIRS, as in step=global_step.')
        if ours not in (known := {*OURS, *stated}) and not ours.startswith("eval/"):
            raise InputError(
                f'--columns {part.strip()}: "{ours}" is no name of ours.{nearest(ours, known)}\n'
                f"Names: {', '.join([STEP, 'seed', *ALIASES])}, keys of our metrics.jsonl, what --metric names."
            )
        key = ALIASES.get(ours, ours)
        if key in names:
            raise InputError(f"--columns {columns}: {typed[key]} is given twice ({names[key]} and {theirs}).")
        names[key], typed[key] = theirs, ours
    if seed_from is not None:
        try:
            groups = re.compile(seed_from).groups
        except re.error as error:
            raise InputError(f"--seed-from '{seed_from}': no regular expression ({error}).") from None
        if groups != 1:
            raise InputError(f"--seed-from '{seed_from}': it needs one group, the seed, as in 'seed[-_=]?([0-9]+)'.")
    return Columns(names, seed_from, typed)


# what is typed as --columns reward=…, as in the names of --metric
ALIASES = {
    "reward": "reward/mean",
    "accuracy": "eval/sampled/accuracy",
    "accuracy/greedy": "eval/greedy/accuracy",
    "length/right": "length/correct",
    "time": "time/step_s",
    "tokens": "tokens/sampled",
}
OURS = (STEP, "seed", *ALIASES, *ALIASES.values(), *(key for source in sources().values() for key in source.keys))


def file_in(folder: Path) -> Path | None:
    """The log in a folder that is no run of ours."""
    file = folder / METRICS
    return file if file.is_file() else None


def run(path: Path, columns: Columns) -> Run:
    """One file, or the metrics.jsonl of a folder. Its arm is its name without the seed. Raises InputError."""
    file = path if path.is_file() else path / METRICS
    if file.suffix not in ENDINGS:
        raise InputError(f"{file}: no log that can be read. Allowed: a run folder, {', '.join(ENDINGS)}.")
    # metrics.jsonl is everyone's; then the folder tells one run from another
    name = file.absolute().parent.name if file.stem in ("metrics", "progress", "log") else file.stem
    logged = _rows(file)
    if not logged:
        raise InputError(f"{file}: no rows in it.")
    known = {key for row in logged for key in row}
    for ours, theirs in columns.names.items():
        if theirs not in known:
            typed = columns.typed.get(ours, ours)
            raise InputError(f'--columns {typed}={theirs}: {file} has no column "{theirs}".{nearest(theirs, known)}')
    read = [_row(row, columns, file, place) for place, row in enumerate(logged, 1)]
    rows = [row for row, _ in read]
    for ours, theirs in columns.names.items():
        if not any(ours in row for row in rows):
            raise InputError(f'--columns {columns.typed.get(ours, ours)}={theirs}: {file} has no number in "{theirs}".')
    seed = columns.seed(str(file))
    if seed is None and len(found := {row["seed"] for row in rows if type(row.get("seed")) is int}) == 1:
        seed = found.pop()
    if seed is None:
        raise InputError(f"{file}: no seed is known. --seed-from 'seed[-_=]?([0-9]+)' takes it from the path.")
    return Run(
        name=name,
        folder=path,
        seed=seed,
        settings={"name": columns.arm(name)},
        series={key: one for key, one in series_of(rows).items() if key != "seed"},
        steps=max(row[STEP] for row in rows) + 1,
        source="columns",
        dropped=steps_by_key((row[STEP], odd) for row, odd in read),
    )


def _rows(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error}).") from None
    if file.suffix == ".csv":
        return _csv_rows(file, text)
    rows = []
    lines = text.split("\n")
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            if place == len(lines):  # a run that was killed, or still writes
                continue
            raise InputError(f"{file}, line {place}: not a JSON object.") from None
        if not isinstance(row, dict):
            raise InputError(f"{file}, line {place}: not a JSON object.")
        rows.append(row)
    return rows


def _csv_rows(file: Path, text: str) -> list[dict[str, Any]]:
    """With text where it is no number. Raises InputError for a row that has not as many cells as the head."""
    head, *lines = [row for row in csv.reader(text.splitlines()) if row] or [[]]
    if lines and len(lines[-1]) < len(head) and not text.endswith("\n"):  # a run that was killed, or still writes
        lines.pop()
    for place, row in enumerate(lines, 1):
        if len(row) != len(head):
            raise InputError(f"{file}, row {place} has {len(row)} cells, and the head {len(head)}.")
    return [{key: _number(value) for key, value in zip(head, row, strict=True)} for row in lines]


def _number(text: str) -> object:
    try:
        value = float(text)
    except ValueError:
        return text if text.strip() else None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _row(row: Mapping[str, Any], columns: Columns, file: Path, place: int) -> tuple[dict[str, Any], list[str]]:
    """The row under our names, with a whole step, and the keys whose values are no finite numbers: left out."""
    taken = set(columns.names.values())
    named = {key: value for key, value in row.items() if key not in taken}
    named |= {ours: row[theirs] for ours, theirs in columns.names.items() if theirs in row}
    step = named.get(STEP)
    if isinstance(step, bool) or not isinstance(step, int | float) or step % 1 != 0 or step < 0:
        said = "has no step" if step is None else f"has the step {step!r}"
        names = ", ".join(sorted(map(str, row))[:8])
        raise InputError(
            f"{file}, row {place} {said}. Name its column: --columns step=NAME.{nearest('step', map(str, row))}\n"
            f"Columns: {names}"
        )
    kept, odd = numbers(named)
    return kept | {STEP: int(step)}, odd
