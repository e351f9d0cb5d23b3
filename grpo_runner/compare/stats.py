"""Statistics of paired differences over seeds. Pure: arrays in, figures out; numpy and scipy.special, no scipy.stats.

d_S is one difference a seed, arm minus baseline. What takes d_S also takes (…, S), many comparisons at once, and then
gives arrays of the shape before S. docs/statistics.md has the coverage of each interval by simulation
(scripts/compare_coverage.py).
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .. import rng as draws

Floats = NDArray[np.float64]
Interval = tuple[Floats, Floats]

MIN_PAIRS = 6  # the fewest at which an exact two-sided sign-flip test can reach 0.05: 2 of 2^6 flips
EXACT_PAIRS = 32  # up to which sign_flip counts every flip
FLIPS = 100_000  # that it draws beyond
RESAMPLES = 2_000


def student_t(d_S: ArrayLike, level: float = 0.95) -> Interval:
    """Ends of Student's interval for the mean of at least two differences; of no width where they are all equal."""
    d = np.asarray(d_S, dtype=float)
    half = special.stdtrit(d.shape[-1] - 1, (1 + level) / 2) * standard_error(d)
    return d.mean(-1) - half, d.mean(-1) + half


def bootstrap_t(
    d_S: ArrayLike, level: float = 0.95, rng: np.random.Generator | None = None, resamples: int = RESAMPLES
) -> Interval:
    """Ends of the studentized bootstrap interval (Efron and Tibshirani 1993, §12.5): skew moves both ends.

    A resample that draws one value again and again has no spread: its t is infinite with the sign of its mean's
    distance, so that under five pairs an end may be infinite. rng: of a fixed key where none is given.
    """
    d = np.asarray(d_S, dtype=float)
    n = d.shape[-1]
    counts_RS = _resampled(rng or draws.generator(0, "bootstrap_t", n), n, resamples)
    middle, error = d.mean(-1), standard_error(d)
    centred = np.where(flat(d)[..., None], 0.0, d - middle[..., None])
    mean_R = centred @ counts_RS.T / n
    square_R = centred**2 @ counts_RS.T / n - mean_R**2  # population variance of each resample
    same = square_R <= 1e-12 * (centred**2).mean(-1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        t_R = mean_R / np.sqrt(np.where(same, 0.0, square_R) / (n - 1))
    t_R = np.where(same & (np.abs(mean_R) <= 1e-9 * error[..., None]), 0.0, t_R)
    t_R.sort(-1)
    below = max(0, floor((1 - level) / 2 * (resamples + 1)) - 1)
    low, high = t_R[..., resamples - 1 - below], t_R[..., below]
    with np.errstate(invalid="ignore"):  # no spread and no width
        return middle - np.where(error > 0, low * error, 0.0), middle - np.where(error > 0, high * error, 0.0)


def two_way(d_SQ: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Ends of an interval for the mean over new seeds and new questions, where all seeds answer the same questions.

    Variances of the mean over seeds and over questions are added, less that of seed × question, which both hold
    (Cameron, Gelbach and Miller 2011), with Satterthwaite's degrees of freedom (1946), seeds - 1 at least. Never of
    less variance than Student's interval over the seeds' means, which takes the questions as given.
    """
    d = np.asarray(d_SQ, dtype=float)
    seeds, questions = d.shape
    of_seeds, of_questions = (float(standard_error(d.mean(axis))) ** 2 for axis in (1, 0))
    rest_SQ = d - d.mean(1, keepdims=True) - d.mean(0) + d.mean()
    of_both = float((rest_SQ**2).sum()) / ((seeds - 1) * (questions - 1)) / d.size
    variance = max(of_seeds + of_questions - of_both, of_seeds)
    parts = of_seeds**2 / (seeds - 1) + of_questions**2 / (questions - 1)
    freedom = max(seeds - 1, variance**2 / parts) if parts else seeds - 1
    half = float(special.stdtrit(freedom, (1 + level) / 2)) * sqrt(variance)
    return float(d.mean()) - half, float(d.mean()) + half


def hierarchical(
    d_SQ: ArrayLike, level: float = 0.95, rng: np.random.Generator | None = None, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Percentiles of the bootstrap that draws seeds and questions again (Owen 2007, "pigeonhole"), as two_way's rival.

    A question that is drawn is drawn for all seeds. Not what is offered: three seeds cover too little, and where most
    variance is that of seed × question, which it counts three times, more seeds cover too much (docs/statistics.md).
    """
    d = np.asarray(d_SQ, dtype=float)
    seeds, questions = d.shape
    rng = rng or draws.generator(0, "hierarchical", seeds, questions)
    seeds_RS = _resampled(rng, seeds, resamples)
    questions_RQ = _resampled(rng, questions, resamples)
    means_R = ((seeds_RS @ d) * questions_RQ).sum(1) / d.size
    low, high = np.quantile(means_R, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


INTERVALS: dict[str, Callable[[ArrayLike, float], Interval]] = {"student_t": student_t, "bootstrap_t": bootstrap_t}


def sign_flip(d_S: ArrayLike, rng: np.random.Generator | None = None) -> float:
    """p of the two-sided sign-flip test (Fisher 1935): the share of the 2^S signs whose sum is as far from 0 as ours.

    Exact whatever the differences' distribution, if arm and baseline are exchangeable within a pair. Every flip is
    counted up to EXACT_PAIRS pairs: the sums of one half of them are looked up among those of the other. Beyond, FLIPS
    are drawn, and ours is counted as one more (Phipson and Smyth 2010). 1 without a pair.
    """
    d = np.asarray(d_S, dtype=float)
    d = d[d != 0]  # a difference of 0 has no sign: both flips of it give the same sum
    if d.size == 0:
        return 1.0
    d = d / np.abs(d).max()
    seen = abs(d.sum()) - 1e-9 * np.abs(d).sum()  # sums that differ by rounding are ties
    if seen <= 0:
        return 1.0
    if d.size > EXACT_PAIRS:
        signs = (rng or draws.generator(0, "sign_flip", d.size)).integers(0, 2, size=(FLIPS, d.size)) * 2 - 1
        return float((1 + (np.abs(signs @ d) >= seen).sum()) / (1 + FLIPS))
    one, other = _sums(d[: d.size // 2]), np.sort(_sums(d[d.size // 2 :]))
    above = other.size - np.searchsorted(other, seen - one, side="left")
    below = np.searchsorted(other, -seen - one, side="right")
    return float((above + below).sum() / 2.0**d.size)


def iqm(x_S: ArrayLike) -> float:
    """Interquartile mean as rliable has it (Agarwal et al. 2021): a quarter, rounded down, is cut off at each end."""
    x = np.sort(np.asarray(x_S, dtype=float))
    cut = x.size // 4
    return float(x[cut : x.size - cut].mean())


def improvement(arm_S: ArrayLike, baseline_S: ArrayLike) -> float:
    """Chance that a run of the arm is above one of the baseline (Agarwal et al. 2021); a tie counts half; unpaired."""
    arm, baseline = np.asarray(arm_S, dtype=float), np.asarray(baseline_S, dtype=float)
    return float(np.sign(arm[:, None] - baseline[None, :]).mean() / 2 + 0.5)


def holm(p_K: ArrayLike) -> Floats:
    """p corrected for K tests (Holm 1979): the chance of any false one stays at that of one test."""
    p = np.asarray(p_K, dtype=float)
    order = np.argsort(p, kind="stable")
    corrected = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))) if p.size else p
    return corrected[np.argsort(order, kind="stable")]


def attainable(pairs: int, level: float = 0.95, family: int = 1) -> float:
    """The largest p of the exact sign-flip test that is at most (1 - level) / family; 0 where no p is."""
    if pairs < 1:
        return 0.0
    half = 2.0 ** min(pairs - 1, 50)  # sign vectors, up to the sign of all; beyond 50 the steps are no longer felt
    return floor((1 - level) / family * half + 1e-9) / half


def pairs_needed(level: float = 0.95, family: int = 1) -> int:
    """Pairs from which on one of `family` measures can be shown, after Holm's correction, by the sign-flip test."""
    pairs = MIN_PAIRS
    while attainable(pairs, level, family) == 0:
        pairs += 1
    return pairs


def detectable(d_S: ArrayLike, level: float = 0.95, power: float = 0.8, family: int = 1) -> float | None:
    """The true mean difference that so many pairs, spread as these are, would show with a chance of `power`.

    Shown: as effects.shown has it, for the first of `family` measures under Holm's correction; differences taken as
    normal. None under two pairs and where all differences are equal: there is no spread to judge by.
    """
    d = np.asarray(d_S, dtype=float)
    if d.size < 2 or bool(flat(d)):
        return None
    return float(standard_error(d)) * sqrt(d.size) * standardized(d.size, level, power, family)


def standardized(pairs: int, level: float = 0.95, power: float = 0.8, family: int = 1) -> float:
    """`detectable` for differences whose standard deviation is 1; of a t test under the pairs that signs need.

    Solved from the noncentral t at the level that the sign-flip test attains, for a difference shown with its own sign.
    Where only one sign vector shows it, all pairs must have that sign, whose chance is known; with few of them the test
    still loses to the t test, by a factor fitted to simulation (docs/statistics.md has the power that results).
    Where nothing can be shown in so large a family it is at least that of a smaller one: more measures see no more.
    """
    reached = attainable(pairs, level, family)
    alpha = reached or (1 - level) / family
    edge = float(special.stdtrit(pairs - 1, 1 - alpha / 2))
    vectors = reached * 2.0 ** min(pairs - 1, 50)
    if vectors == 1:
        return float(special.ndtri(power ** (1 / pairs)))
    of_t = float(special.nctdtrinc(pairs - 1, 1 - power, edge)) / sqrt(pairs)
    if not vectors:
        return max(of_t, standardized(pairs, level, power, family - 1)) if family > 1 else of_t
    return of_t * (1 + 0.13 / vectors + 0.06 / pairs)


def standard_error(d_S: Floats) -> Floats:
    """Of the mean; exactly 0 where all differences are equal but for rounding."""
    n = d_S.shape[-1]
    most = np.abs(d_S).max(-1)
    scaled = d_S / np.where(most > 0, most, 1.0)[..., None]  # squares of huge values overflow
    return np.where(flat(d_S), 0.0, scaled.std(-1, ddof=1) * most / sqrt(n))


def flat(d_S: Floats) -> NDArray[np.bool_]:
    """Whether all differences are equal but for rounding."""
    return np.asarray(np.ptp(d_S, axis=-1) <= 1e-12 * np.abs(d_S).max(-1))


def _resampled(rng: np.random.Generator, count: int, resamples: int) -> NDArray[np.int64]:
    """(resamples, count): how often each of `count` is drawn in each resample of as many, with replacement."""
    drawn = rng.integers(count, size=(resamples, count)) + count * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * count).reshape(resamples, count)


def _sums(d_S: Floats) -> Floats:
    """Of all 2^S signs."""
    sums = np.zeros(1)
    for value in d_S:
        sums = np.concatenate([sums + value, sums - value])
    return sums
