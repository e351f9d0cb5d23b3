"""What the rooms of a comparison hand to each other: runs, arms, measures and effects. Plain data, no torch.

The run (its seed) is the unit of evidence. Arms are paired by seed: the same seed means the same questions, initial
weights and sampling seeds. A difference is always arm minus baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Series:
    """One logged figure of a run over its steps. steps_N: the steps that have a value, rising; values_N."""

    steps_N: np.ndarray
    values_N: np.ndarray


@dataclass(frozen=True)
class Run:
    """One run as it was read. settings: every key of its config by dotted name (none of a run that is not ours).

    series: by the key of metrics.jsonl; figures of evals.jsonl are below "eval/", as in "eval/sampled/accuracy".
    """

    name: str
    folder: Path
    seed: int
    settings: Mapping[str, object]
    series: Mapping[str, Series]
    method: str | None = None  # "Dr. GRPO", as the run calls itself
    steps: int | None = None  # that were to be made; None where it is not known
    finished: bool = True
    commit: str | None = None  # of the code; "+" at its end: with changes
    data: str | None = None  # sha256 of the training questions
    source: str = "folder"  # folder, columns (another's metrics.jsonl), wandb
    peak_memory_mb: float | None = None  # of the process, or of tensors on a GPU: summary.json
    dropped: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by key: steps whose value is no finite number


@dataclass(frozen=True)
class Arm:
    """The runs that differ in nothing but the seed. values: of the compared keys, in the order of Comparison.by."""

    name: str  # "advantage=dr_grpo, loss_norm=constant": what tells it from the others
    label: str  # "Dr. GRPO" where methods tell all arms apart; see labels.py. No two arms have the same
    values: Mapping[str, object]
    runs: Mapping[int, Run]  # by seed


@dataclass(frozen=True)
class Comparison:
    """Arms, the baseline first, in what they differ (by), and what there is to be said against comparing them."""

    title: str
    by: tuple[str, ...]
    arms: tuple[Arm, ...]
    shared: Mapping[str, object]  # settings that all runs have in common
    warnings: tuple[str, ...] = ()

    @property
    def baseline(self) -> Arm:
        return self.arms[0]


@dataclass(frozen=True)
class Measure:
    """What is compared. A run's raw value times `scale` is what is shown, in `unit`."""

    key: str  # as typed: --metric length/wrong
    title: str  # "length of wrong answers"
    subject: str  # of a sentence: "wrong answers"
    unit: str  # "tokens", "points", "s" or ""
    scale: float = 1.0
    digits: int = 1
    better: int = 0  # +1: more is better; -1: less is; 0: neither
    words: tuple[str, str] = ("higher", "lower")  # of a difference above and below 0: ("longer", "shorter")


@dataclass(frozen=True)
class Effect:
    """The difference of one arm from the baseline in one measure, in shown units, over the seeds that both have.

    low, high: of the interval at `level`; None under two pairs, and where all differences are equal. p: exact sign-flip
    test, two-sided; p_holm: corrected over the measures of the family. detectable: the true difference that this many
    pairs, spread as these are, would show with a chance of `power`; None where there is no interval. differences_S: by
    seed, in the order of seeds.
    """

    measure: Measure
    arm: Arm
    baseline: Arm
    seeds: tuple[int, ...]
    differences_S: np.ndarray
    mean: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    detectable: float | None
    improvement: float | None  # probability that a run of the arm is above one of the baseline (Agarwal et al. 2021)
    iqm: float | None  # interquartile mean of the differences
    method: str  # "student_t", "bootstrap_t", …: how the interval was made
    level: float = 0.95
    power: float = 0.8
    primary: bool = False  # a measure that was stated beforehand
    family: int = 1  # measures of this arm that were corrected for together: the primary ones, or all others
    questions: tuple[float, float] | None = None  # ends of the interval over new seeds and new questions


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds in shown units, and its interval; None for its ends where there is no spread to judge by."""

    mean: float
    low: float | None
    high: float | None
    count: int  # of the seeds that have a value


@dataclass(frozen=True)
class Row:
    """One method of the family view. name: as `method=` takes it, else its label. estimates: by the measure's key, of
    what some of its runs have. goal: how many of its runs have a record that says whether they came to the target.
    """

    arm: Arm
    name: str
    seeds: tuple[int, ...]
    estimates: Mapping[str, Estimate]
    goal: int


@dataclass(frozen=True)
class Change:
    """One method against itself before its first step: the effects on maj@k and pass@k, and what follows from them.

    kind: a key of family.KINDS. effects: of those of the two measures that there are pairs of; the baseline is the
    evaluation before step 0 of the same runs.
    """

    row: Row
    kind: str
    majority: Effect | None = None
    passed: Effect | None = None


@dataclass(frozen=True)
class Family:
    """The family view. values: as those of an Analysis, of `measures` and before step 0 under names of their own."""

    measures: tuple[Measure, ...]
    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    target: float  # accuracy, of the tokens that it took
    level: float
    values: Mapping[str, Mapping[str, Mapping[int, float | None]]]
    said: tuple[str, ...] = ()  # sentences


@dataclass(frozen=True)
class Analysis:
    """All of a comparison: values[arm.name][measure.key] has a run's raw value by seed (None: the run has none)."""

    comparison: Comparison
    measures: tuple[Measure, ...]
    values: Mapping[str, Mapping[str, Mapping[int, float | None]]]
    effects: tuple[Effect, ...]
    window: str  # "steps 240 to 299 (the last fifth)"
    verdict: Sequence[str] = field(default_factory=tuple)  # sentences, the primary measures first
    bounds: tuple[int, int] | None = None  # the window's steps [first, end), where it is the same for all runs
    family: Family | None = None  # where methods stand beside one another
