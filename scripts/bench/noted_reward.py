"""The reward of both sides, and their clock: the time between two of its calls is one whole step.

A call happens once a step, between sampling and update. The reward is a checksum of the text: it differs from row to
row, so that every row carries weight, and teaches nothing, so that the work stays the same. What a call saw is added to
the file named by NOTES. No torch here: both sides import it.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

NOTES = "GRPO_BENCH_NOTES"


def checksum(questions: Sequence[str], golds: Sequence[Any], completions: Sequence[str]) -> list[float]:
    """For `reward.function` here."""
    now = time.monotonic()
    rewards = [zlib.crc32(text.encode("utf-8", "replace")) / 2**32 for text in completions]
    _note({"t": now, "rows": len(rewards), "weighted": weighted(questions, rewards)})
    return rewards


def checksum_trl(prompts: Sequence[str], completions: Sequence[str], completion_ids: Any, **_: Any) -> list[float]:
    """For TRL's `reward_funcs`; the tokens are counted as well."""
    now = time.monotonic()
    rewards = [zlib.crc32(text.encode("utf-8", "replace")) / 2**32 for text in completions]
    tokens = sum(len(ids) for ids in completion_ids)
    _note({"t": now, "rows": len(rewards), "weighted": weighted(prompts, rewards), "tokens": tokens})
    return rewards


def weighted(questions: Sequence[str], rewards: Sequence[float]) -> int:
    """Rows whose reward is not the mean of their group: those that an update has to compute."""
    groups: dict[str, list[float]] = defaultdict(list)
    for question, reward in zip(questions, rewards, strict=True):
        groups[question].append(reward)
    return sum(abs(value - sum(group) / len(group)) > 1e-6 for group in groups.values() for value in group)


def _note(row: dict[str, float]) -> None:
    if path := os.environ.get(NOTES):
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")
