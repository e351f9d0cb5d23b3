"""Rows of questions.parquet as arrays: what each group of answers weighed. No matplotlib, no torch, no pandas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....tracking import read_questions
from ...types import Analysis, Arm, Run

CLASSES = {"hard": "p ≤ 1/3", "medium": "between", "easy": "p ≥ 2/3"}  # as in tracking/charts/cumulative.py
_READ: dict[str, Groups | None] = {}


@dataclass(frozen=True)
class Groups:
    """R groups. before_R: Σ|A|; after_R: Σ|token weights|; whole_R: whether all its answers were in the loss;
    binary: whether rewards of right and wrong answers are 1 and 0.
    """

    step_R: np.ndarray
    right_R: np.ndarray
    size_R: np.ndarray
    before_R: np.ndarray
    after_R: np.ndarray
    whole_R: np.ndarray
    binary: bool

    def class_R(self) -> np.ndarray:
        """hard, medium or easy, by the success rate at that step."""
        return np.select(
            [3 * self.right_R <= self.size_R, 3 * self.right_R >= 2 * self.size_R], ["hard", "easy"], "medium"
        )


def of(run: Run) -> Groups | None:
    """None where the run has none; read once a run, for three figures."""
    place = str(run.folder.absolute())
    if place not in _READ:
        _READ[place] = _read(run)
    return _READ[place]


def by_seed(arm: Arm) -> dict[int, Groups]:
    return {seed: found for seed, run in arm.runs.items() if (found := of(run)) is not None}


def together(found: Sequence[Groups]) -> Groups:
    """All groups of some runs."""
    arrays = {name: np.concatenate([getattr(one, name) for one in found]) for name in _ARRAYS}
    return Groups(**arrays, binary=all(one.binary for one in found))


def by_arm(analysis: Analysis) -> dict[str, Groups]:
    """By label, of the arms that have any."""
    found = {arm.label: list(by_seed(arm).values()) for arm in analysis.comparison.arms}
    return {label: together(own) for label, own in found.items() if own}


_ARRAYS = ("step_R", "right_R", "size_R", "before_R", "after_R", "whole_R")


def _read(run: Run) -> Groups | None:
    if run.source != "folder" or not any(run.folder.glob("questions.*")):
        return None
    table = read_questions(run.folder)
    if not table.num_rows:
        return None

    def column(name: str) -> np.ndarray:  # through a list: to_numpy of pyarrow imports pandas
        return np.array(table[name].to_pylist(), dtype=float)

    right_R, size_R, included_R = (column(name) for name in ("successes", "group_size", "included"))
    whole_R = np.isnan(included_R) | (included_R == size_R)
    mean_R = column("reward_mean")[whole_R]
    binary = bool(np.allclose(mean_R, (right_R / size_R)[whole_R]))
    return Groups(column("step"), right_R, size_R, column("advantage_weight"), column("weight"), whole_R, binary)
