"""Values by arm and seed -> effects: paired differences with intervals, tests, and what could have been seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isfinite, log10

import numpy as np

from . import stats
from .stats import Floats
from .types import Arm, Comparison, Effect, Measure

# [arm.name][measure.key][seed]: raw values; with questions, [arm.name][measure.key][seed][question_id]
Values = Mapping[str, Mapping[str, Mapping[int, float | None]]]
ByQuestion = Mapping[str, Mapping[str, Mapping[int, Mapping[str, float]]]]

METHOD = "student_t"  # covers best of those that are offered (docs/statistics.md)
HUGE = 1e300


def effects(
    comparison: Comparison,
    measures: Sequence[Measure],
    values: Values,
    primary: Sequence[str],
    level: float = 0.95,
    power: float = 0.8,
    method: str = METHOD,
    by_question: ByQuestion | None = None,
) -> tuple[Effect, ...]:
    """Every arm against the baseline, in every measure of which they have a pair, arm by arm.

    p is corrected (Holm) over the primary measures of an arm, and apart from them over its others: what was not stated
    beforehand must not cost what was. Each arm is held to 1 - level by itself. by_question: of measures that are means
    over questions; used where all pairs share questions.
    """
    found: list[Effect] = []
    baseline = comparison.baseline
    for arm in comparison.arms[1:]:
        every = {measure: pairs_of(arm, baseline, measure, values) for measure in measures}
        paired = {measure: one for measure, one in every.items() if one[0]}
        corrected = _corrected({measure: d_S for measure, (*_, d_S) in paired.items()}, primary)
        for measure, (seeds, mine, other, d_S) in paired.items():
            p, p_holm, family = corrected[measure]
            ends = interval(d_S, level, method)
            found.append(
                Effect(
                    measure=measure,
                    arm=arm,
                    baseline=baseline,
                    seeds=seeds,
                    differences_S=d_S,
                    mean=float(d_S.mean()),
                    low=ends[0] if ends else None,
                    high=ends[1] if ends else None,
                    p=p,
                    p_holm=p_holm,
                    detectable=stats.detectable(d_S, level, power, family),
                    improvement=stats.improvement(mine, other),
                    iqm=stats.iqm(d_S),
                    method=method,
                    level=level,
                    power=power,
                    primary=measure.key in primary,
                    family=family,
                    questions=_over_questions(arm, baseline, measure, seeds, level, by_question),
                )
            )
    return tuple(found)


def _corrected(d_S: Mapping[Measure, Floats], primary: Sequence[str]) -> dict[Measure, tuple[float, float, int]]:
    """p, p corrected over its family, and the family's size, of each measure."""
    found = {}
    for chosen in (True, False):
        family = [measure for measure in d_S if (measure.key in primary) == chosen]
        tests = [stats.sign_flip(d_S[measure]) for measure in family]
        for measure, p, p_holm in zip(family, tests, stats.holm(tests), strict=True):
            found[measure] = (p, float(p_holm), len(family))
    return found


def interval(d_S: Floats, level: float, method: str = METHOD) -> tuple[float, float] | None:
    """Ends by name of the method; None under two pairs and where all differences are equal: no spread, no interval."""
    if d_S.size < 2 or bool(stats.flat(d_S)):
        return None
    low, high = stats.INTERVALS[method](d_S, level)
    return float(low), float(high)


def needed(effect: Effect) -> int:
    """Pairs from which on its family could show something at all."""
    return stats.pairs_needed(effect.level, effect.family)


def shown(effect: Effect) -> int:
    """+1 or -1 where a difference is shown, with its sign; 0 where it is not.

    The test decides, the interval may object: p_holm must reach 1 - level and the interval, where there is one, must
    leave out 0. So a sentence never says "shown" beside an interval that holds 0, nor where the correction forbids it.
    """
    if len(effect.seeds) < stats.MIN_PAIRS or effect.p_holm is None or effect.p_holm > 1 - effect.level + 1e-12:
        return 0
    if effect.low is not None and effect.high is not None and effect.low <= 0 <= effect.high:
        return 0
    return (effect.mean > 0) - (effect.mean < 0)


def pairs_of(
    arm: Arm, baseline: Arm, measure: Measure, values: Values
) -> tuple[tuple[int, ...], Floats, Floats, Floats]:
    """Seeds for which both have a finite value, the values of either in shown units, and their differences."""
    mine, other = (values.get(one.name, {}).get(measure.key, {}) for one in (arm, baseline))
    seeds = tuple(
        seed
        for seed in sorted(set(mine) & set(other))
        if all(_known(one[seed], measure.scale) for one in (mine, other))
    )
    arm_S, baseline_S = (np.array([one[seed] for seed in seeds], dtype=float) * measure.scale for one in (mine, other))
    return seeds, arm_S, baseline_S, _differences(arm_S, baseline_S)


def _known(value: float | None, scale: float) -> bool:
    """Neither missing nor NaN nor infinite, nor so huge that a sum would be."""
    return value is not None and isfinite(value) and abs(value * scale) < HUGE


def _differences(arm_S: Floats, baseline_S: Floats) -> Floats:
    """Arm minus baseline, without the rounding error of values that are equal in decimals (.3 - .2 and .2 - .1)."""
    most = max(np.abs(arm_S).max(initial=0.0), np.abs(baseline_S).max(initial=0.0))
    if most == 0:
        return np.zeros_like(arm_S)
    unit = 10.0 ** max(ceil(log10(most)), -300)
    return np.round(arm_S / unit - baseline_S / unit, 12) * unit


def _over_questions(
    arm: Arm, baseline: Arm, measure: Measure, seeds: tuple[int, ...], level: float, by_question: ByQuestion | None
) -> tuple[float, float] | None:
    """`two_way` over the questions that all runs of the pairs share; None under two pairs or two such questions.

    Questions that a seed draws for itself need no second level: they vary with the seed, and so are in its interval.
    """
    if by_question is None or len(seeds) < 2:
        return None
    mine, other = (by_question.get(one.name, {}).get(measure.key, {}) for one in (arm, baseline))
    if any(seed not in one for seed in seeds for one in (mine, other)):
        return None
    runs = [one[seed] for one in (mine, other) for seed in seeds]
    shared = sorted(set(runs[0]).intersection(*runs[1:]))
    if len(shared) < 2:
        return None
    d_SQ = np.array([[mine[seed][name] - other[seed][name] for name in shared] for seed in seeds]) * measure.scale
    return stats.two_way(d_SQ, level)
