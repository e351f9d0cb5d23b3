"""A line of the report, and how a check that breaks down becomes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import in_a_line

OK, WARNING, FAILURE = "ok", "warning", "failure"


@dataclass(frozen=True)
class Line:
    """name: what was looked at. found: what is there. do: what to do about it; "" where the state is ok."""

    name: str
    state: str
    found: str
    do: str = ""


def guarded(name: str, check: Callable[[], Line], do: str) -> Line:
    """The check's line; where it raises, a failure that says what it raised. do: what to try then."""
    try:
        return check()
    except Exception as error:  # whatever is broken here is what was asked for
        return Line(name, FAILURE, in_a_line(error), do)
