"""The rules beside a run that trains: asked at each step, logged with it, told where one holds for the first time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..schema import RunConfig
from ..tracking import Row, Tracker, Trackers, jsonl
from ..tracking.local import METRICS, ordered
from .rules import RULES
from .series import Rows


def firing(rows: Rows) -> dict[str, str]:
    """{rule: what it found} for the rules that hold at the newest of these rows."""
    return {name: found for name, rule in RULES.items() if (found := rule.finds(rows)) is not None}


def told(name: str, found: str) -> str:
    """What a user reads of a rule that holds: what it found, and what to try."""
    return f"{found[0].upper()}{found[1:]}. To try: {RULES[name].tries}."


class Watched(Trackers):
    """Passes each step on with `health/NAME`, 1 where a rule holds; calls `alert` where one does for the first time.

    Put a LocalTracker first. The rules see what was logged and nothing else, and a start reads metrics.jsonl again: a
    run that was interrupted tells and logs what one that was not does.

    first: the step at which each rule first held. stopping: those of stop_on that hold at the newest step, with what
    a user is told of them.
    """

    def __init__(self, members: Sequence[Tracker], stop_on: Sequence[str] = ()) -> None:
        super().__init__(members)
        self._stop_on = stop_on
        self._rows: list[Row] = []
        self.first: dict[str, int] = {}
        self.stopping: dict[str, str] = {}

    def start(self, config: RunConfig, resumed_at: int | None) -> None:
        super().start(config, resumed_at)
        for row in jsonl.rows(Path(config.run_dir) / METRICS):  # the local tracker keeps those before `resumed_at`
            self._look(row["step"], row)
        self._ask(firing(self._rows) if self._rows else {})

    def step(self, step: int, metrics: Row) -> None:
        self._rows.append(ordered(step, metrics))  # the very numbers that a later start reads
        found = firing(self._rows)
        super().step(step, {**metrics, **{f"health/{name}": int(name in found) for name in RULES}})
        self._tell(step, found)
        self._ask(found)

    def _ask(self, found: dict[str, str]) -> None:
        """A run that was ended and is typed again is at the same step, where the same rules hold: it ends again."""
        self.stopping = {name: told(name, found[name]) for name in self._stop_on if name in found}

    def _look(self, step: int, row: Row) -> None:
        """A step of an earlier start. Members that have been told of it leave it aside."""
        self._rows.append(row)
        self._tell(step, firing(self._rows))

    def _tell(self, step: int, found: dict[str, str]) -> None:
        for name, words in found.items():
            if name not in self.first:
                self.first[name] = step
                self.alert(step, name, told(name, words))
