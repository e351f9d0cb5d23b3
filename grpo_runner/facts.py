"""The table of facts, docs/facts.csv: what each preset sets and where that is stated, and the published figures.

A row is (preset, key, value, source, kind). Of a setting: preset is a file of conf/experiment or conf/method, key a
dotted config key, value as in YAML; where the runs of a sweep differ, their values in order with commas between. Of a
published figure: preset is a dotted name such as dr_grpo.table4.oat_zero_7b, key a set of questions, value in percent.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .errors import InputError, nearest

KINDS = ("stated", "derived", "our choice", "published")


@dataclass(frozen=True)
class Fact:
    """One row. kind: stated (in the source), derived (from what it states), our choice (it is silent), published."""

    preset: str
    key: str
    value: str
    source: str
    kind: str


def find() -> Path:
    """facts.csv: inside an installed package, or in docs/ beside it in a checkout or an editable install."""
    package = Path(__file__).resolve().parent
    for file in (package / "facts.csv", package.parent / "docs" / "facts.csv"):
        if file.is_file():
            return file
    raise InputError(f"docs/facts.csv is missing beside {package}: install the package again.")


def read(file: Path) -> tuple[Fact, ...]:
    """The facts of a file, in its order. Raises InputError naming file and line."""
    names = [field.name for field in fields(Fact)]
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines, strict=True)
        if (header := next(rows, [])) != names:
            raise InputError(f"{file}:1: the header is {','.join(header)}. Allowed: {','.join(names)}.")
        found: dict[tuple[str, str], Fact] = {}
        try:
            for row in rows:
                place = f"{file}:{rows.line_num}"
                if len(row) != len(names) or not all(map(str.strip, row)):
                    raise InputError(
                        f"{place}: a row has the {len(names)} cells {', '.join(names)}, none of them empty."
                    )
                fact = Fact(*row)
                if fact.kind not in KINDS:
                    hint = nearest(fact.kind, KINDS)
                    raise InputError(f"{place}: {fact.kind!r} is no kind.{hint} Allowed: {', '.join(KINDS)}.")
                if (fact.preset, fact.key) in found:
                    raise InputError(f"{place}: {fact.preset} has a second row for {fact.key}.")
                if fact.kind == "published" and not isinstance(typed(fact.value), float):
                    raise InputError(f"{place}: {fact.value!r} is no figure in percent, such as 43.3.")
                found[fact.preset, fact.key] = fact
        except csv.Error as error:
            raise InputError(f"{file}:{rows.line_num}: not readable as CSV ({error}).") from None
    return tuple(found.values())


@cache
def facts() -> tuple[Fact, ...]:
    """All rows of docs/facts.csv, in its order."""
    return read(find())


def of_preset(name: str) -> tuple[Fact, ...]:
    """The settings of a preset; none for a name that the table does not have, for a preset may be the user's own."""
    return tuple(fact for fact in facts() if fact.preset == name and fact.kind != "published")


def figure_names() -> tuple[str, ...]:
    """The names of all published figures, in the table's order."""
    return tuple(dict.fromkeys(fact.preset for fact in facts() if fact.kind == "published"))


def figures(name: str) -> dict[str, float]:
    """{set of questions: percent} of a published figure. Raises InputError with the nearest name."""
    found = {fact.key: float(fact.value) for fact in facts() if fact.preset == name and fact.kind == "published"}
    if not found:
        known = figure_names()
        raise InputError(f'There are no published figures "{name}".{_nearest(name, known)}\nAll names: docs/facts.csv')
    return found


def typed(value: str) -> Any:
    """A value of the table as config files have it: 1e-6 is a number too, which plain YAML takes for text."""
    if re.fullmatch(r"-?\d+(\.\d*)?e[-+]?\d+", value):
        return float(value)
    return yaml.safe_load(value)


def _nearest(name: str, known: tuple[str, ...]) -> str:
    """Like errors.nearest; of a name without its beginning, such as oat_zero_7b, the one that ends so."""
    ending = [other for other in known if other.endswith(f".{name}")]
    return f' Did you mean "{ending[0]}"?' if ending else nearest(name, known)
