"""The Protocol that every tracker follows, and the composite that the loop talks to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..schema import RunConfig

Row = Mapping[str, object]


class Tracker(Protocol):
    """Receives what a run measures. A class that inherits from it overrides what it needs; the rest does nothing (a
    bare `return`, since mypy takes a body of a docstring alone for an abstract method).

    Order of calls: `start` once; then, for step k, `evaluated_questions(k)` and `evaluation(k)` if one is due (made
    before the update of step k, or after the last update with k = steps), `questions(k)`, `completions(k)`, `probe(k)`
    where one is due, `step(k)`, and `alert(k)` where a rule of health/ begins to hold; `finish` once, also after a
    failure.
    """

    def start(self, config: RunConfig, resumed_at: int | None) -> None:
        """`resumed_at` is the step that will be trained next, None (or 0) for a fresh run.

        One rule for all records: what was recorded for a step >= resumed_at is dropped and recorded again. The
        evaluation of step k belongs to step k, so a resume at k makes it again.
        """
        return

    def step(self, step: int, metrics: Row) -> None:
        """Metrics of one training step; a value is a finite number or None (not computable at this step)."""
        return

    def questions(self, step: int, rows: Sequence[Row]) -> None:
        """One row a question of this step, all questions in one call. Columns: `questions.COLUMNS`."""
        return

    def evaluation(self, step: int, metrics: Row) -> None:
        """Held-out figures of the policy as it is before the update of `step`."""
        return

    def evaluated_questions(self, step: int, rows: Sequence[Row]) -> None:
        """One row a question of the evaluation of `step` (evaluation.question_row); kept by
        `tracking.completions_every`: none where it is 0.
        """
        return

    def completions(self, step: int, rows: Sequence[Row]) -> None:
        """One row an answer of this step; kept by `tracking.completions_every`."""
        return

    def probe(self, step: int, row: Row) -> None:
        """How the gradients of other objectives would have stood to each other on the rollout of this step.

        norm: objective -> norm; cosine: "a~b" -> cosine; groups: one dict a question with slot, question_id,
        success_rate and its own cosine. Objectives are keys of `objectives.NAMED`; a value is a number or None.
        """
        return

    def alert(self, step: int, rule: str, text: str) -> None:
        """A rule of health/ holds for the first time in the run, at this step, which was just recorded.

        A resumed run calls it again after `start` for steps that were made before: who has told of them skips those.
        """
        return

    def finish(self, summary: Row) -> None:
        """`summary["status"]` is "done", "stopped" (health.stop_on), "interrupted" or "failed".

        Other keys are shown or stored as they are.
        """
        return


class Trackers(Tracker):
    """Passes each call to its members in order. Put the local tracker first: others read its files."""

    def __init__(self, members: Sequence[Tracker]) -> None:
        self.members = tuple(members)

    def start(self, config: RunConfig, resumed_at: int | None) -> None:
        for member in self.members:
            member.start(config, resumed_at)

    def step(self, step: int, metrics: Row) -> None:
        for member in self.members:
            member.step(step, metrics)

    def questions(self, step: int, rows: Sequence[Row]) -> None:
        for member in self.members:
            member.questions(step, rows)

    def evaluation(self, step: int, metrics: Row) -> None:
        for member in self.members:
            member.evaluation(step, metrics)

    def evaluated_questions(self, step: int, rows: Sequence[Row]) -> None:
        for member in self.members:
            member.evaluated_questions(step, rows)

    def completions(self, step: int, rows: Sequence[Row]) -> None:
        for member in self.members:
            member.completions(step, rows)

    def probe(self, step: int, row: Row) -> None:
        for member in self.members:
            member.probe(step, row)

    def alert(self, step: int, rule: str, text: str) -> None:
        for member in self.members:
            member.alert(step, rule, text)

    def finish(self, summary: Row) -> None:
        """Every member is finished even when one fails; then the first failure is raised."""
        first: Exception | None = None
        for member in self.members:
            try:
                member.finish(summary)
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
