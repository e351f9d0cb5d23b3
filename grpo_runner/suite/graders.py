"""The same answers under other graders: accuracies of conf/reward presets beside the run's own, and where they part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError, nearest
from ..grading.policies import changed
from ..reward import Grader, Policy, policy_of
from ..schema import RunConfig
from .journal import Record
from .summary import AVERAGE, MODES

BATCH = 256


@dataclass(frozen=True)
class Graded:
    """accuracy: mode -> set -> share of right answers. gained, lost: answers right here and not by the run's own
    grader, and the other way round.
    """

    accuracy: dict[str, dict[str, float]]
    gained: int
    lost: int


def policies(names: Sequence[str], config: RunConfig) -> dict[str, Policy]:
    """The policies of conf/reward presets by name. Raises InputError for one that is not there."""
    from ..config import find  # late: Hydra

    there = sorted(file.stem for file in (find() / "reward").glob("*.yaml") if file.stem != "custom")
    for name in names:
        if name not in there:
            raise InputError(
                f"--also reward={name}: no such preset.{nearest(name, there)} There are {', '.join(there)}."
            )
    return {name: changed(policy_of(config.reward), [f"reward={name}"]) for name in names}


def all_of(records: Sequence[Record], others: Mapping[str, Policy], config: RunConfig) -> dict[str, Graded]:
    """The run's own grader and the others, by name; {} where there is no other."""
    if not others:
        return {}
    return {"own": own(records)} | {name: regrade(records, policy, config) for name, policy in others.items()}


def own(records: Sequence[Record]) -> Graded:
    """What the run's own grader found."""
    return _graded(records, [one["status"] == "correct" for one in _answers(records)])


def regrade(records: Sequence[Record], policy: Policy, config: RunConfig) -> Graded:
    """What another grader finds in the texts of the same answers."""
    pairs = [(one["text"], tuple(record["golds"])) for record in records for one in _of(record)]
    right: list[bool] = []
    with Grader(config.reward.workers, config.reward.deadline_s, policy) as grader:
        for start in range(0, len(pairs), BATCH):
            right += [verdict.correct for verdict in grader.grade(pairs[start : start + BATCH])]
    return _graded(records, right)


def _graded(records: Sequence[Record], right: Sequence[bool]) -> Graded:
    counts: dict[tuple[str, str], list[int]] = {}
    gained = lost = 0
    verdicts = iter(right)
    for record in records:
        for mode in (mode for mode in MODES if mode in record):
            for one in record[mode]:
                verdict, before = next(verdicts), one["status"] == "correct"
                gained, lost = gained + (verdict and not before), lost + (before and not verdict)
                counts.setdefault((mode, record["set"]), []).append(verdict)
    accuracy: dict[str, dict[str, float]] = {}
    for (mode, name), found in counts.items():
        accuracy.setdefault(mode, {})[name] = sum(found) / len(found)
    for sets in accuracy.values():
        if len(sets) > 1:
            sets[AVERAGE] = sum(sets.values()) / len(sets)
    return Graded(accuracy, gained, lost)


def _of(record: Record) -> list[Record]:
    return [one for mode in MODES if mode in record for one in record[mode]]


def _answers(records: Sequence[Record]) -> list[Record]:
    return [one for record in records for one in _of(record)]
