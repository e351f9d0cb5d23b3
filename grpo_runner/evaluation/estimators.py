"""What an evaluation measured, estimated over its questions, with intervals. Pure: scores in, figures out.

The question is the unit: answers to one question are not independent of each other. All intervals are for 95 %. A set
is read as a sample of the questions that could have been asked, so that an interval says what another set of this kind
and size might have shown; it says nothing of another training run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt

Z = 1.959963984540054  # the normal quantile of 97.5 %


@dataclass(frozen=True)
class Estimate:
    """A figure with the ends of its interval."""

    value: float
    low: float
    high: float


def pass_at_k(successes: int, samples: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k answers is right (Chen et al. 2021): 1 - C(n-c, k) / C(n, k)."""
    return 1.0 - comb(samples - successes, k) / comb(samples, k)


def votes(answers: Iterable[tuple[bool, str | None]]) -> tuple[int, list[int], int]:
    """(right answers, how often each other answer was given, answers that give none), of (right, extracted text).

    All right answers are one, however they are written; wrong ones are told apart by their extracted text.
    """
    given = list(answers)
    right = sum(correct for correct, _ in given)
    others = Counter(text.strip() for correct, text in given if not correct and text is not None)
    return right, sorted(others.values()), len(given) - right - others.total()


def majority_at_k(right: int, others: Sequence[int], silent: int, k: int) -> float:
    """Unbiased estimate of the chance that the answer given most often among k is right, from n answers.

    right: how many of the n are right; others: how often each wrong answer was given; silent: how many give none, and
    so no vote. Of the answers that tie for most votes, one is drawn. Like `pass_at_k`, the mean over all C(n, k)
    subsets of the answers, counted and not drawn: exact, and without bias (Wang et al. 2022 vote over all n, which is
    the value at k = n).
    """
    won = 0.0
    for votes in range(1, min(right, k) + 1):
        # ways to draw `used` answers of the others so that none is ahead, by how many of them tie
        ways: dict[tuple[int, int], int] = {(0, 0): 1}
        for count in others:
            more: dict[tuple[int, int], int] = {}
            for (used, ties), number in ways.items():
                for given in range(min(count, votes, k - votes - used) + 1):
                    at = (used + given, ties + (given == votes))
                    more[at] = more.get(at, 0) + number * comb(count, given)
            ways = more
        for (used, ties), number in ways.items():
            won += number * comb(right, votes) * comb(silent, k - votes - used) / (1 + ties)
    return won / comb(right + sum(others) + silent, k)


def estimate(scores: Sequence[float], samples: int = 1) -> Estimate:
    """Mean of the questions' scores, each from 0 to 1, with Wilson's interval.

    samples: answers that a score is the mean of. Wilson's interval (1927) is for shares: of n questions that are right
    or wrong it is used as it is, since, unlike the mean ± 1.96 standard errors, it has a width at 0 and 1 and never
    leaves them. A score that is itself a mean varies less; n then counts as n · p(1-p) / var(scores), the effective
    sample size (Kish 1965, in use with this interval for clustered samples), and as n · samples at most.
    """
    n = len(scores)
    p = sum(scores) / n
    spread = p * (1 - p)
    size = float(n)
    if spread > 1e-12:
        variance = sum((score - p) ** 2 for score in scores) / n
        size = n / max(variance / spread, 1 / samples)
    square = Z * Z / size
    middle = (p + square / 2) / (1 + square)
    half = sqrt(max(0.0, square * spread + square * square / 4)) / (1 + square)
    return Estimate(p, max(0.0, min(middle - half, p)), min(1.0, max(middle + half, p)))


def difference(before: Sequence[float], after: Sequence[float], samples: int = 1) -> Estimate:
    """Mean of after - before, question by question.

    Newcombe's interval for paired shares (1998, "square and add"): the distances of both Wilson intervals, less what
    the scores' correlation takes away. It has a width also where no question differs.
    """
    a, b = estimate(before, samples), estimate(after, samples)
    r = _correlation(before, after)
    value = b.value - a.value

    def distance(one: float, other: float) -> float:
        return sqrt(max(0.0, one * one - 2 * r * one * other + other * other))

    low = value - distance(b.value - b.low, a.high - a.value)
    return Estimate(value, low, value + distance(b.high - b.value, a.value - a.low))


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of independent figures, such as those of several sets, each with the same weight.

    The distances to their intervals' ends add up as standard errors do (MOVER, Zou and Donner 2008).
    """
    n = len(estimates)
    value = sum(one.value for one in estimates) / n
    below = sqrt(sum((one.value - one.low) ** 2 for one in estimates)) / n
    above = sqrt(sum((one.high - one.value) ** 2 for one in estimates)) / n
    return Estimate(value, value - below, value + above)


def mean_by_name(figures: Sequence[Mapping[str, Estimate]]) -> dict[str, Estimate]:
    """`mean` of each name that all have, in the order of the first."""
    first, *rest = figures
    return {name: mean([one[name] for one in figures]) for name in first if all(name in one for one in rest)}


def _correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's; 0 where one of them does not vary."""
    n = len(a)
    mean_a, mean_b = sum(a) / n, sum(b) / n
    squares = [sum((x - m) ** 2 for x in xs) for xs, m in ((a, mean_a), (b, mean_b))]
    if min(squares) < 1e-12:
        return 0.0
    return sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / sqrt(squares[0] * squares[1])
