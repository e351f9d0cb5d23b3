"""What a check gives: rows with a value, a bound and a verdict; and parts that run in turn, each in its time."""

from __future__ import annotations

import math
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import torch
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """ok: None where nothing is judged, such as speed on a CPU. value: None where it was not measured."""

    part: str
    name: str
    value: float | str | None
    bound: str
    ok: bool | None


@dataclass(frozen=True)
class Setting:
    """Where the checks run. dry: tiny shapes, and neither speed nor device memory judged."""

    device: torch.device
    dry: bool

    def least(self, name: str, value: float | None, bound: float, timed: bool = False) -> Row:
        """A row that is right from the bound on. timed: of the device's speed or memory, not judged in dry form."""
        return self._row(name, value, f"≥ {bound:g}", value is not None and value >= bound, timed)

    def most(self, name: str, value: float | None, bound: float, timed: bool = False) -> Row:
        """A row that is right up to the bound."""
        return self._row(name, value, f"≤ {bound:g}", value is not None and value <= bound, timed)

    def fact(self, name: str, value: float | str | None) -> Row:
        """A row that is only shown."""
        return Row("", name, value, "", None)

    def _row(self, name: str, value: float | None, bound: str, holds: bool, timed: bool) -> Row:
        return Row("", name, value, bound, None if timed and self.dry else holds)


@dataclass(frozen=True)
class Part:
    """seconds: what it may take; then it is stopped, and the rows that it gave so far stay."""

    name: str
    seconds: float
    check: Callable[[Setting], Iterator[Row]]


class OutOfTime(BaseException):
    """A part took longer than it may. No Exception: nothing that a part calls may catch it."""


def run_parts(parts: Sequence[Part], setting: Setting, until: float) -> list[Row]:
    """Rows of all parts. One that raises or takes too long gives a failed row. until: time.monotonic() of the end."""
    rows: list[Row] = []
    for part in parts:
        began = time.monotonic()
        try:
            with limit(min(part.seconds, until - began)):
                for row in part.check(setting):
                    rows.append(Row(part.name, row.name, row.value, row.bound, row.ok))
        except (Exception, OutOfTime) as error:  # whatever it is: the other parts still run
            rows.append(Row(part.name, "ran to its end", said(error), "no error", False))
            traceback.clear_frames(error.__traceback__)  # they hold tensors
        if setting.device.type == "cuda":
            torch.cuda.empty_cache()
        rows.append(Row(part.name, "seconds", time.monotonic() - began, f"≤ {part.seconds:g}", None))
    return rows


def said(error: BaseException) -> str:
    """An error in one line, with the place where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({last[0].filename.rsplit('/', 1)[-1]}:{last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}{place}"


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime after so many seconds; at once if there are none. For the main thread."""
    if seconds <= 0:
        raise OutOfTime("no time was left")

    def ring(number: int, frame: FrameType | None) -> None:
        raise OutOfTime(f"stopped after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def failed(rows: Sequence[Row]) -> list[Row]:
    """Those that are not right."""
    return [row for row in rows if row.ok is False]


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows for json.dumps: a number that is not finite as text, since JSON has none."""
    made = [asdict(row) for row in rows]
    for row in made:
        if isinstance(row["value"], float) and not math.isfinite(row["value"]):
            row["value"] = str(row["value"])
    return made


def table(rows: Sequence[Row], title: str) -> Table:
    """All rows in one table."""
    made = Table("part", "check", "value", "bound", "ok", title=title)
    before = ""
    for row in rows:
        verdict = {True: "[green]yes[/]", False: "[red]NO[/]", None: "–"}[row.ok]
        made.add_row(row.part if row.part != before else "", row.name, _shown(row.value), row.bound, verdict)
        before = row.part
    return made


def _shown(value: float | str | None) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, str):
        return value.replace("[", "\\[")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
