"""A step of many processes in seconds, from the lengths of its answers and a few rates. Pure functions; no torch.

The same functions are fed with rates that were measured on this machine (`calibrate.py`, which holds them against runs)
and with rates worked out from a GPU's data sheet (`plan.py`). A step is what `train/loop.py` does: each replica samples
its share of the questions, all wait for the last, the answers are exchanged, every process works out the weights of the
whole step, each makes its share of the update, all wait for the last, gradients are summed, rank 0 saves.

Axes: M answers of a replica, R replicas; lengths are tokens, 0 where there is no answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_runner.parallel import Ranks

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Rates:
    """What things take, in seconds.

    round_s: (rows, tokens in their contexts) of a replica -> a decoding round, one token for each of its rows.
    prompt_s: a prompt token of a replica. update_s, update_fixed_s: a token of a process's update, and its part that
    does not grow. whole_s: a token of the whole step, in every process. exchange_s, reduce_s: the messages of answers
    and of gradients. saving_s: rank 0 alone, after the step. begin_s: a replica before it samples.
    """

    round_s: Callable[[Numbers, Numbers], Numbers]
    prompt_s: float
    update_s: float
    update_fixed_s: float = 0.0
    whole_s: float = 0.0
    exchange_s: float = 0.0
    reduce_s: float = 0.0
    saving_s: float = 0.0
    begin_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """Seconds of a step by part, and how much of them the mean process waits. busy: 0 to 1, the part of all processes'
    time in which they sample or update.
    """

    rollout: float
    exchange: float
    whole: float
    update: float
    reduce: float
    saving: float
    waited: float
    waited_rollout: float
    waited_update: float

    @property
    def seconds(self) -> float:
        return self.rollout + self.exchange + self.whole + self.update + self.reduce + self.saving

    @property
    def idle(self) -> float:
        return self.waited / self.seconds


def lengths(questions: int, size: int, median: float, budget: int, seed: int = 0) -> Whole:
    """(Q, G) lengths of answers, cut at the budget: log-normal about a log-normal mean of each group, .4 within a group
    and .6 between groups, as `tests/parallel/test_shares.py` draws them.
    """
    drawn = np.random.default_rng(seed)
    of_group = drawn.standard_normal((questions, 1)) * 0.6
    found = median * np.exp(of_group + drawn.standard_normal((questions, size)) * 0.4)
    return np.clip(found, 1, budget).astype(np.int64)


def by_replica(lengths_QG: Whole, replicas: int) -> Whole:
    """(R, M) lengths of each replica's answers: its share of the questions in order (`Ranks.share`); padded with 0."""
    shares = [Ranks(rank, replicas).share(len(lengths_QG)) for rank in range(replicas)]
    size = lengths_QG.shape[1]
    found = np.zeros((replicas, max(1, size * max(map(len, shares)))), dtype=np.int64)
    for rank, share in enumerate(shares):
        found[rank, : size * len(share)] = lengths_QG[share.start : share.stop].ravel()
    return found


def rollout(lengths_RM: Whole, prompt: int, prompts_R: Numbers, rooms: int, rates: Rates, stride: int = 1) -> Numbers:
    """(R,) seconds in which each replica samples. prompts_R: prompts that it computes, of `prompt` tokens each.

    At most `rooms` answers are in work; the next begins where one has ended. stride: rounds that are taken at once:
    with a round_s that is linear in rows and without a queue the sum is exact for any.
    """
    done = np.zeros_like(lengths_RM)
    seconds = prompts_R * prompt * rates.prompt_s + rates.begin_s * (lengths_RM.sum(1) > 0)
    while True:
        left = lengths_RM - done
        open_RM = left > 0
        if not open_RM.any():
            return seconds
        active = open_RM & (open_RM.cumsum(1) <= rooms)
        made = np.where(active, np.minimum(left, stride), 0)
        rounds = made.max(1)
        rows = made.sum(1) / np.maximum(rounds, 1)
        context = (made * (prompt + done + made / 2)).sum(1) / np.maximum(rounds, 1)
        seconds = seconds + np.where(rounds > 0, rounds * rates.round_s(rows, context), 0.0)
        done = done + made


def by_tokens(loads: Sequence[float], processes: int) -> list[float]:
    """What each process has of the groups' tokens, where the largest group left goes to the one with the least
    (`Ranks.rows`; Graham 1969).
    """
    heap = [(0.0, rank) for rank in range(processes)]
    found = [0.0] * processes
    for load in sorted(loads, reverse=True):
        given, rank = heapq.heappop(heap)
        found[rank] += load
        heapq.heappush(heap, (given + load + 1, rank))
    return found


def update_loads(lengths_QG: Whole, prompt: int, processes: int) -> Numbers:
    """(processes,) tokens of each process's update: whole groups with their prompt, or, where there are fewer groups
    than processes, rows by number, each with its prompt.
    """
    if len(lengths_QG) >= processes:
        return np.array(by_tokens((lengths_QG.sum(1) + prompt).tolist(), processes))
    rows = lengths_QG.ravel()
    shares = [Ranks(rank, processes).share(len(rows)) for rank in range(processes)]
    return np.array([rows[share.start : share.stop].sum() + prompt * len(share) for share in shares], dtype=float)


def on_cores(works: Sequence[float], cores: int) -> Numbers:
    """When each of these works ends, in seconds, where they begin at once and share so many cores evenly.

    Each is done by one core at most; those that are left speed up as others end.
    """
    order = np.argsort(works)
    ends, now, before = np.zeros(len(works)), 0.0, 0.0
    for place, which in enumerate(order):
        left = len(works) - place
        now += (works[which] - before) * max(1.0, left / cores)
        ends[which], before = now, works[which]
    return ends


def step(sampled_R: Numbers, updated_P: Numbers, tokens: float, rates: Rates) -> Step:
    """A step from the seconds of each replica's sampling and of each process's update; tokens: of all its answers."""
    slowest, last = float(sampled_R.max()), float(updated_P.max())
    return Step(
        rollout=slowest,
        exchange=rates.exchange_s,
        whole=rates.whole_s * tokens,
        update=last,
        reduce=rates.reduce_s,
        saving=rates.saving_s,
        waited_rollout=slowest - float(sampled_R.mean()),
        waited_update=last - float(updated_P.mean()),
        waited=slowest - float(sampled_R.mean()) + last - float(updated_P.mean()),
    )


def update_seconds(loads_P: Numbers, rates: Rates) -> Numbers:
    """(processes,) seconds of each update; nothing for a process without a row."""
    return np.where(loads_P > 0, rates.update_fixed_s + loads_P * rates.update_s, 0.0)
