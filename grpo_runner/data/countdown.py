"""Made-up Countdown tasks: reach a target from three or four numbers, each used exactly once, by + - * / and brackets.

After the task of TinyZero (github.com/Jiayi-Pan/TinyZero; hub Jiayi-Pan/Countdown-Tasks-3to4): numbers 1 to 99, target
10 to 99. Each is made from a solution, which is then forgotten: two values at a time are drawn and joined by an
operation, until one is left. All values on the way are positive whole numbers, so a solution without fractions exists.

The gold is the task itself, `65 from 19 36 55 7`, since there is no one right answer: the checker reads it
(reward/countdown.py). The BLAKE2b hash of the sorted numbers and the target puts a task into the train or the eval
split (7 to 1): the two are disjoint whatever the seeds and the order of the numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from .. import rng
from ..errors import InputError, nearest
from ..types import Question

Split = Literal["train", "eval"]
LOWEST, HIGHEST = 1, 99
SMALLEST, LARGEST = 10, 99  # of the target
MOST = {"train": 400_000, "eval": 10_000}  # tasks in one call
_NUMBERS = 4
_THREE = (
    0.27  # of the draws: 2.8 times as many of three numbers are kept as of four, so that half of the tasks have three
)
_BATCH = 16_384


def split_of(numbers: Sequence[int], target: int) -> Split:
    """The split that a task belongs to: one in eight is eval. The order of the numbers does not matter."""
    told = f"{target} from {' '.join(map(str, sorted(numbers)))}"
    digest = hashlib.blake2b(told.encode(), digest_size=8).digest()
    return "eval" if int.from_bytes(digest, "little") % 8 == 0 else "train"


def question(numbers: Sequence[int], target: int) -> Question:
    """A task as a question: TinyZero's first sentence, which a prompt may go on from, and the task as its gold."""
    written = " ".join(map(str, numbers))
    return Question(
        id=f"countdown/{written.replace(' ', '-')}-to-{target}",
        text=f"Using the numbers [{', '.join(map(str, numbers))}], create an equation that equals {target}.",
        gold=f"{target} from {written}",
    )


def questions(split: Split, seed: int, count: int) -> tuple[Question, ...]:
    """`count` distinct tasks of a split; a smaller count with the same seed gives the first of the same ones.

    Tasks that differ in the order of their numbers alone count as one. Raises InputError for another split, or a count
    that is not within 0 and MOST.
    """
    if split not in MOST:
        raise InputError(f"No Countdown split {split!r}; there are train and eval.{nearest(str(split), MOST)}")
    if not 0 <= count <= MOST[split]:
        raise InputError(f"Cannot make {count} distinct Countdown tasks: {split} has 0 to {MOST[split]}.")
    found: dict[tuple[int, ...], Question] = {}
    batch = 0
    while len(found) < count:
        for numbers, target in _tasks(seed, split, batch):
            same = (target, *sorted(numbers))
            if same not in found and split_of(numbers, target) == split:
                found[same] = question(numbers, target)
                if len(found) == count:
                    break
        batch += 1
    return tuple(found.values())


def _tasks(seed: int, split: Split, batch: int) -> Iterator[tuple[list[int], int]]:
    """The tasks (numbers, target) of one batch of draws, a function of (seed, split, batch)."""
    draws = rng.generator(seed, "countdown", split, batch)
    numbers_BN = draws.integers(LOWEST, HIGHEST + 1, size=(_BATCH, _NUMBERS))
    three_B = draws.random(_BATCH) < _THREE
    everywhere_B = made_B = np.full(_BATCH, True)
    values_BN = numbers_BN
    for left in range(_NUMBERS, 1, -1):  # a task of three numbers leaves out the first round, and so the fourth number
        where_B = ~three_B if left == _NUMBERS else everywhere_B
        joined_BN, possible_B = _join(values_BN, left, draws)
        values_BN = np.where(where_B[:, None], joined_BN, values_BN)
        made_B = made_B & (possible_B | ~where_B)
    kept_B = made_B & (values_BN[:, 0] >= SMALLEST) & (values_BN[:, 0] <= LARGEST)
    for index in np.flatnonzero(kept_B).tolist():
        count = _NUMBERS - 1 if three_B[index] else _NUMBERS
        yield numbers_BN[index, :count].tolist(), int(values_BN[index, 0])


def _join(
    values_BN: npt.NDArray[np.int64], left: int, draws: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Two of the first `left` values of each row become one; (values, whether it is a positive whole number).

    The joined value stands where the former of the two did, and the last of the `left` where the latter did.
    """
    rows = np.arange(len(values_BN))
    first_B = draws.integers(0, left, size=len(rows))
    second_B = (first_B + draws.integers(1, left, size=len(rows))) % left
    operation_B = draws.integers(0, 4, size=len(rows))
    a_B, b_B = values_BN[rows, first_B], values_BN[rows, second_B]
    joined_B = np.choose(operation_B, [a_B + b_B, a_B - b_B, a_B * b_B, a_B // b_B])
    possible_B = (joined_B > 0) & ((operation_B != 3) | (a_B % b_B == 0))
    changed_BN = values_BN.copy()
    changed_BN[rows, np.maximum(first_B, second_B)] = values_BN[:, left - 1]
    changed_BN[rows, np.minimum(first_B, second_B)] = np.where(possible_B, joined_B, 1)  # 1: dropped, and divides all
    return changed_BN, possible_B
