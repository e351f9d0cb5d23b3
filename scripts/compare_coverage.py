#!/usr/bin/env python3
"""Does what `compare` says hold? Simulations behind docs/statistics.md, as Markdown tables.

    intervals   how often each 95 % interval over seeds has the true mean difference in it
    questions   the same for a second level, where all seeds answer the same questions
    errors      how often a sweep without a difference is said to show one
    power       how often a planted difference of the detectable size is shown

The functions are those of grpo_runner/compare; sweeps of the last two go through `effects` as a real one does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from grpo_runner import rng
from grpo_runner.compare import stats
from grpo_runner.compare.effects import effects, shown
from grpo_runner.compare.types import Arm, Comparison, Effect, Measure

SEEDS = (3, 4, 6, 8, 12, 24)
QUESTIONS = 256  # of an evaluation: conf/evaluation/default.yaml
BLOCK = 50  # data sets at once

Make = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _accuracy(arm: float, baseline: float) -> Make:
    """Differences of two accuracies on QUESTIONS questions, less the true difference: tied, in steps of 1/QUESTIONS."""
    return lambda g, shape: (
        (g.binomial(QUESTIONS, arm, shape) - g.binomial(QUESTIONS, baseline, shape)) / QUESTIONS - (arm - baseline)
    )


# one paired difference each, with a true mean of 0
DIFFERENCES: dict[str, Make] = {
    "normal": lambda g, shape: g.normal(size=shape),
    "exponential": lambda g, shape: g.exponential(size=shape) - 1,
    "lognormal": lambda g, shape: g.lognormal(size=shape) - exp(0.5),
    "t, 3 df": lambda g, shape: g.standard_t(3, size=shape),
    "accuracy .97 − .95": _accuracy(0.97, 0.95),
    "accuracy .998 − .995": _accuracy(0.998, 0.995),
}


def header(*first: str, sizes: Sequence[int]) -> list[str]:
    names = [*first, *(f"{n} seeds" for n in sizes)]
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def percentile(d_S: np.ndarray, level: float, g: np.random.Generator) -> stats.Interval:
    """The negative control: percentiles of the bootstrap's means."""
    n = d_S.shape[-1]
    means_R = np.sort(d_S @ g.multinomial(n, np.full(n, 1 / n), size=stats.RESAMPLES).T / n, axis=-1)
    below = int((1 - level) / 2 * stats.RESAMPLES)
    return means_R[..., below], means_R[..., -1 - below]


OVER_SEEDS: dict[str, Callable[[np.ndarray, float, np.random.Generator], stats.Interval]] = {
    "Student-t": lambda d, level, g: stats.student_t(d, level),
    "bootstrap-t": stats.bootstrap_t,
    "percentile": percentile,
}


def intervals(draws: int, seed: int) -> list[str]:
    """Coverage in percent, and the median width beside that of Student's t."""
    rows = header("differences", "interval", sizes=SEEDS)
    for name, make in DIFFERENCES.items():
        cells: dict[str, list[str]] = {method: [] for method in OVER_SEEDS}
        for n in SEEDS:
            g = rng.generator(seed, "coverage", name, n)
            blocks = [make(g, (BLOCK, n)) for _ in range(draws // BLOCK)]
            usual = 0.0
            for method, ends in OVER_SEEDS.items():
                low, high = (np.concatenate(one) for one in zip(*(ends(d, 0.95, g) for d in blocks), strict=True))
                width = float(np.median(high - low))
                usual = usual or width
                held = 100 * float(((low <= 0) & (high >= 0)).mean())
                cells[method].append(f"{held:.1f}" + ("" if method == "Student-t" else f" (×{width / usual:.2f})"))
        rows += [f"| {name} | {method} | " + " | ".join(cells[method]) + " |" for method in OVER_SEEDS]
    return rows


def _crossed(of_seed: float, of_question: float, of_both: float) -> Make:
    return lambda g, shape: (
        of_seed * g.normal(size=(shape[0], 1))
        + of_question * g.normal(size=(1, shape[1]))
        + of_both * g.normal(size=shape)
    )


def _answers(of_seed: float, of_question: float) -> Make:
    """Right or wrong answers of two arms whose chances differ by question, and by seed, in either direction alike."""

    def make(g: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        logit = 1.5 + g.normal(size=(1, shape[1]))
        apart = of_question * g.normal(size=(1, shape[1])) / 2
        chances = [
            1 / (1 + np.exp(-(logit + sign * apart + of_seed * g.normal(size=(shape[0], 1))))) for sign in (1, -1)
        ]
        return g.binomial(1, chances[0]).astype(float) - g.binomial(1, chances[1])

    return make


BY_QUESTION: dict[str, Make] = {
    "seeds .05, questions 0, rest 1": _crossed(0.05, 0.0, 1.0),
    "seeds .05, questions .3, rest 1": _crossed(0.05, 0.3, 1.0),
    "seeds .3, questions .3, rest 1": _crossed(0.3, 0.3, 1.0),
    "seeds 0, questions .5, rest .3": _crossed(0.0, 0.5, 0.3),
    "right or wrong, seeds .2, questions 1 (logits)": _answers(0.2, 1.0),
}


def questions(draws: int, seed: int) -> list[str]:
    """Coverage of 0 in percent: of new seeds and new questions. 64 questions, 500 resamples."""
    rows = header("differences", "interval", sizes=SEEDS)
    names = ("two-way", "hierarchical bootstrap", "Student-t over seeds")
    for name, make in BY_QUESTION.items():
        cells: dict[str, list[str]] = {method: [] for method in names}
        for n in SEEDS:
            g = rng.generator(seed, "questions", name, n)
            held = dict.fromkeys(names, 0)
            for _ in range(draws):
                d_SQ = make(g, (n, 64))
                low, high = stats.student_t(d_SQ.mean(1))
                ends = (stats.two_way(d_SQ), stats.hierarchical(d_SQ, 0.95, g, 500), (float(low), float(high)))
                for method, (one, other) in zip(names, ends, strict=True):
                    held[method] += one <= 0 <= other
            for method in names:
                cells[method].append(f"{100 * held[method] / draws:.1f}")
        rows += [f"| {name} | {method} | " + " | ".join(cells[method]) + " |" for method in names]
    return rows


@dataclass(frozen=True)
class Noise:
    """Of one run, in the baseline and in the arm, with its standard deviation (the same in both)."""

    baseline: Make
    arm: Make
    spread: float


def _normal(g: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return g.normal(size=shape)


def _exponential(g: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return g.exponential(size=shape) - 1


def _heavy(g: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return g.standard_t(3, size=shape)


def _share(g: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return g.binomial(QUESTIONS, 0.97, size=shape) / QUESTIONS


NOISE = {
    "normal": Noise(_normal, _normal, 1.0),
    "exponential": Noise(_exponential, _exponential, 1.0),
    "t, 3 df": Noise(_heavy, _heavy, sqrt(3)),
    "accuracy .97": Noise(_share, _share, sqrt(0.97 * 0.03 / QUESTIONS)),
    "normal against exponential": Noise(_normal, _exponential, 1.0),
}
PRIMARY = ("accuracy", "length/wrong")
OTHERS = ("length/right", "truncated", "entropy", "kl", "grad_norm", "reward")


def sweep(
    seeds: int, noise: Noise, g: np.random.Generator, planted: float = 0.0, keys: Sequence[str] = (*PRIMARY, *OTHERS)
) -> tuple[Effect, ...]:
    """Effects of a made sweep of two arms, 2 primary and 6 other measures that hang together within a run.

    A run's value is the seed's part, which both arms have, half of a part that all its measures have, and its own.
    planted: added to the first measure of the arm.
    """
    of_seed = g.normal(size=(seeds, 1))
    values = {}
    for name, make in (("baseline", noise.baseline), ("arm", noise.arm)):
        raw = of_seed + make(g, (seeds, 1)) / 2 + make(g, (seeds, len(keys)))
        raw[:, 0] += planted if name == "arm" else 0.0
        values[name] = {key: dict(enumerate(raw[:, k].tolist())) for k, key in enumerate(keys)}
    arms = tuple(Arm(name, name, {}, {}) for name in values)
    measures = [Measure(key, key, key, "") for key in keys]
    return effects(Comparison("made", (), arms, {}), measures, values, PRIMARY)


def errors(draws: int, seed: int, sizes: Sequence[int] = (6, 7, 8, 12, 24)) -> list[str]:
    """Sweeps without a difference: percent with a primary measure shown, with another one shown, and without Holm."""
    rows = header("a run's noise", "", sizes=sizes)
    labels = ("a primary measure shown", "one of six others shown", "p ≤ .05 in one of all eight, uncorrected")
    for name, noise in NOISE.items():
        cells: list[list[str]] = [[], [], []]
        for n in sizes:
            g = rng.generator(seed, "errors", name, n)
            counts = np.zeros(3)
            for _ in range(draws):
                found = sweep(n, noise, g)
                counts += [
                    any(shown(effect) for effect in found if effect.primary),
                    any(shown(effect) for effect in found if not effect.primary),
                    any((effect.p or 0) <= 0.05 for effect in found),
                ]
            for cell, count in zip(cells, counts, strict=True):
                cell.append(f"{100 * count / draws:.1f}")
        rows += [f"| {name} | {label} | " + " | ".join(cell) + " |" for label, cell in zip(labels, cells, strict=True)]
    return rows


def power(draws: int, seed: int, sizes: Sequence[int] = (7, 8, 10, 12, 24)) -> list[str]:
    """Sweeps with a difference in accuracy alone, in multiples of the detectable one: percent in which it is shown."""
    rows = header("a run's noise", "planted", sizes=sizes)
    for name, noise in NOISE.items():
        spread = noise.spread * sqrt(2 * 1.25)  # of the difference of two runs, each with half a part beside its own
        for times in (0.5, 1.0, 1.5):
            cells = []
            for n in sizes:
                g = rng.generator(seed, "power", name, n, str(times))
                size = times * spread * stats.standardized(n, 0.95, 0.8, len(PRIMARY))
                count = sum(shown(sweep(n, noise, g, size, PRIMARY)[0]) > 0 for _ in range(draws))
                cells.append(f"{100 * count / draws:.1f}")
            rows.append(f"| {name} | × {times:g} | " + " | ".join(cells) + " |")
    return rows


DRAWS = {"intervals": 10_000, "questions": 10_000, "errors": 4_000, "power": 4_000}
PARTS = {"intervals": intervals, "questions": questions, "errors": errors, "power": power}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="intervals, questions, errors, power; all without one")
    parser.add_argument("--draws", type=int, help="data sets or sweeps a cell (10000; of errors and power 4000)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown or (given.draws is not None and (given.draws < BLOCK or given.draws % BLOCK)):
        parser.error(f"no part is named {unknown[0]}" if unknown else f"--draws is a multiple of {BLOCK}")
    for part in given.parts or PARTS:
        number = given.draws or DRAWS[part]
        print(f"\n{part}: {' '.join((PARTS[part].__doc__ or '').split())} {number:,} draws, seed {given.seed}.\n")
        print("\n".join(PARTS[part](number, given.seed)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
