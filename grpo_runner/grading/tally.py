"""Counting verdicts: by status, and against what rows expected, in all and by kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..types import Status, Verdict

MOST_NAMED = 10


@dataclass
class Agreement:
    """Verdicts beside what was expected."""

    accepted_right: int = 0
    refused_right: int = 0
    accepted_wrong: int = 0
    refused_wrong: int = 0

    def add(self, expected: bool, accepted: bool) -> None:
        """One more row."""
        if expected:
            self.accepted_right += accepted
            self.refused_right += not accepted
        else:
            self.accepted_wrong += accepted
            self.refused_wrong += not accepted

    @property
    def rows(self) -> int:
        return self.accepted_right + self.refused_right + self.accepted_wrong + self.refused_wrong

    @property
    def disagreements(self) -> int:
        return self.refused_right + self.accepted_wrong

    @property
    def accuracy(self) -> float | None:
        """Share of the rows whose verdict is what was expected."""
        return share(self.rows - self.disagreements, self.rows)

    @property
    def recall(self) -> float | None:
        """Share of the right answers that were accepted."""
        return share(self.accepted_right, self.accepted_right + self.refused_right)

    @property
    def false_positive_rate(self) -> float | None:
        """Share of the wrong answers that were accepted."""
        return share(self.accepted_wrong, self.accepted_wrong + self.refused_wrong)


def share(part: int, whole: int) -> float | None:
    """None of nothing: a share that is not defined is not 0."""
    return part / whole if whole else None


@dataclass
class Tally:
    """What a file came to. disagreeing: the first rows with another verdict than expected, by number.

    unclear: rows whose `expected` is neither true nor false, and so not counted against it.
    """

    statuses: Counter[Status] = field(default_factory=Counter)
    bad: int = 0
    agreement: Agreement = field(default_factory=Agreement)
    kinds: dict[str, Agreement] = field(default_factory=dict)
    disagreeing: list[int] = field(default_factory=list)
    unclear: int = 0

    @property
    def graded(self) -> int:
        return self.statuses.total()

    def add(self, number: int, cells: Mapping[str, Any], verdict: Verdict) -> None:
        """One graded row."""
        self.statuses[verdict.status] += 1
        if cells.get("expected") is None:
            return
        expected = cells["expected"]
        if not isinstance(expected, bool):
            self.unclear += 1
            return
        self.agreement.add(expected, verdict.correct)
        if isinstance(kind := cells.get("kind"), str):
            self.kinds.setdefault(kind, Agreement()).add(expected, verdict.correct)
        if expected != verdict.correct and len(self.disagreeing) < MOST_NAMED:
            self.disagreeing.append(number)
