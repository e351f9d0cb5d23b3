"""From recorded answers to figures: of one policy by set and mode, and of two policies question by question. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..evaluation import Estimate, difference, estimate, majority_at_k, mean_by_name, pass_at_k
from ..evaluation import votes as told_apart
from ..types import Finish, Status
from .journal import Record

AVERAGE = "average"  # of the sets, each with the same weight
MODES = ("greedy", "sampled")


@dataclass(frozen=True)
class Figures:
    """What a policy did on the questions of a set, in one mode.

    estimates: accuracy (greedy) or avg@n, pass@k and maj@k (sampled). truncated, no_answer: shares of the answers;
    ungraded: of those with a timeout or an error of the grader. Lengths are means in tokens; None of none.
    """

    questions: int
    samples: int
    estimates: Mapping[str, Estimate]
    truncated: float
    no_answer: float
    ungraded: float
    length_right: float | None
    length_wrong: float | None
    tokens: int


Summary = dict[str, dict[str, Figures]]  # mode -> set -> figures


def accuracy_name(mode: str, samples: int) -> str:
    """The name of the share of right answers."""
    return "accuracy" if mode == "greedy" else f"avg@{samples}"


def summarise(records: Sequence[Record]) -> Summary:
    """Figures of all sets in their order, and of their average where there are several."""
    found: Summary = {}
    for mode in (mode for mode in MODES if records and mode in records[0]):
        by_set: dict[str, list[Record]] = {}
        for record in records:
            by_set.setdefault(record["set"], []).append(record)
        figures = {name: _figures(rows, mode) for name, rows in by_set.items()}
        found[mode] = figures | ({AVERAGE: _average(list(figures.values()))} if len(figures) > 1 else {})
    return found


def scores(records: Sequence[Record], mode: str) -> dict[str, list[float]]:
    """By the name of an estimate, the score of each question, from 0 to 1."""
    samples = len(records[0][mode])
    found = {accuracy_name(mode, samples): [_right(record[mode]) / samples for record in records]}
    for k in ks(samples) if mode == "sampled" else ():
        found[f"pass@{k}"] = [pass_at_k(_right(record[mode]), samples, k) for record in records]
    for k in ks(samples) if mode == "sampled" else ():
        found[f"maj@{k}"] = [majority_at_k(*votes(record[mode]), k) for record in records]
    return found


def ks(samples: int) -> list[int]:
    """2, 4, 8, … and the number of samples itself; at k = 1 all three are avg@n."""
    powers = [2**place for place in range(1, samples.bit_length()) if 2**place < samples]
    return [*powers, samples] if samples > 1 else []


def votes(answers: Sequence[Record]) -> tuple[int, list[int], int]:
    """(right answers, how often each other answer was given, answers that give none), as in evaluation's `votes`."""
    return told_apart((one["status"] == Status.CORRECT, one["extracted"]) for one in answers)


def paired(before: Sequence[Record], after: Sequence[Record]) -> dict[str, dict[str, dict[str, Estimate]]]:
    """mode -> set -> estimate -> mean of after - before, over the questions that both were asked."""
    theirs = {(record["set"], record["id"]): record for record in before}
    found: dict[str, dict[str, dict[str, Estimate]]] = {}
    for mode in (mode for mode in MODES if before and after and mode in before[0] and mode in after[0]):
        pairs: dict[str, list[tuple[Record, Record]]] = {}
        for record in after:
            if other := theirs.get((record["set"], record["id"])):
                pairs.setdefault(record["set"], []).append((other, record))
        of_sets = {}
        for name, rows in pairs.items():
            one, two = (scores([row[side] for row in rows], mode) for side in (0, 1))
            samples = len(rows[0][1][mode])
            of_sets[name] = {key: difference(one[key], two[key], samples) for key in one if key in two}
        found[mode] = of_sets | ({AVERAGE: mean_by_name(list(of_sets.values()))} if len(of_sets) > 1 else {})
    return found


def _figures(records: Sequence[Record], mode: str) -> Figures:
    answers = [one for record in records for one in record[mode]]
    samples = len(records[0][mode])
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for one in answers:
        lengths[one["status"] == Status.CORRECT].append(one["tokens"])

    def share(count: int) -> float:
        return count / len(answers)

    return Figures(
        questions=len(records),
        samples=samples,
        estimates={name: estimate(found, samples) for name, found in scores(records, mode).items()},
        truncated=share(sum(one["finish"] == Finish.LENGTH for one in answers)),
        no_answer=share(sum(one["status"] == Status.NO_ANSWER for one in answers)),
        ungraded=share(sum(one["status"] in (Status.TIMEOUT, Status.ERROR) for one in answers)),
        length_right=_mean(lengths[True]),
        length_wrong=_mean(lengths[False]),
        tokens=sum(one["tokens"] for one in answers),
    )


def _average(sets: Sequence[Figures]) -> Figures:
    """Of the sets, whatever their sizes; a length, over the sets that have one. Questions and tokens are added."""
    return Figures(
        questions=sum(one.questions for one in sets),
        samples=sets[0].samples,
        estimates=mean_by_name([one.estimates for one in sets]),
        truncated=_mean([one.truncated for one in sets]) or 0.0,
        no_answer=_mean([one.no_answer for one in sets]) or 0.0,
        ungraded=_mean([one.ungraded for one in sets]) or 0.0,
        length_right=_mean([one.length_right for one in sets]),
        length_wrong=_mean([one.length_wrong for one in sets]),
        tokens=sum(one.tokens for one in sets),
    )


def _right(answers: Sequence[Record]) -> int:
    return sum(one["status"] == Status.CORRECT for one in answers)


def _mean(values: Sequence[float | None]) -> float | None:
    """Of those that are there; None where none is."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None
