"""Run folders as `explain` reads them, written by hand: rows of answers, with and without their tokens."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Sequence
from pathlib import Path

import zstandard
from rich.console import Console

from grpo_runner import compose, validate
from grpo_runner.lessons import explain


def printed(*words: str, width: int = 100, **terminal) -> str:
    """What `explain` prints."""
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False, **terminal)
    assert explain(words, console) == 0
    return console.file.getvalue()


def has(text: str, row: str) -> bool:
    """Whether the text has this line, blanks aside."""
    return row.split() in [line.split() for line in text.splitlines()]


def answer(slot: int, sample: int, reward: float | None, tokens: int, **other) -> dict:
    """A row as runs wrote it before they recorded tokens."""
    row = {"step": 4, "slot": slot, "sample": sample, "question_id": f"q{slot}", "question": f"{slot}+1=?", "gold": "1"}
    row |= {"completion": f"text {slot}.{sample}", "tokens": tokens, "reward": reward, "status": "wrong"}
    return row | other


def with_tokens(row: dict, texts: Sequence[str], coefficient: Sequence[float] | None, **other) -> dict:
    """The same with a list an entry a token; what `other` leaves out is ratio 1, no KL term, nothing clipped."""
    lists = dict.fromkeys(("coefficient", "ratio", "kl", "kl_coefficient", "clipped"))
    if coefficient is not None:
        lists |= {"coefficient": list(coefficient), "ratio": [1.0] * len(texts), "clipped": [False] * len(texts)}
    row = row | {"included": True, "token_texts": list(texts), "completion": "".join(texts), "tokens": len(texts)}
    return row | lists | other


def recorded() -> list[dict]:
    """Two questions: one with its tokens, one whose answers were not computed."""
    first = with_tokens(
        answer(0, 0, 1, 3),
        ["a", " b", "<eos>"],
        [0.2, 0.0, -0.1],
        ratio=[1.0, 1.5, 0.5],
        kl=[0.25, 0.0, 0.5],
        kl_coefficient=[0.01, 0.0, -0.04],
        clipped=[False, True, False],
    )
    second = with_tokens(answer(0, 1, 0, 2), ["c", "<eos>"], [-0.05, -0.05])
    others = [with_tokens(answer(1, sample, 0, 2), ["d", "<eos>"], None) for sample in (0, 1)]
    return [first, second, *others]


ROWS = [answer(0, 0, 1, 10), answer(0, 1, 0, 40), answer(1, 0, 0, 20), answer(1, 1, 0, 5)]


@functools.cache
def settings(overrides: tuple[str, ...]) -> str:
    """A config.yaml."""
    return validate.to_yaml(compose(["debug=cpu_smoke", "tracking.completions_every=4", *overrides]))


def write(folder: Path, rows: Sequence = ROWS, overrides: Sequence[str] = (), data: bytes | None = None) -> Path:
    """A run folder with these rows as step 4, or with these bytes in their place."""
    (folder / "completions").mkdir(exist_ok=True, parents=True)
    (folder / "config.yaml").write_text(settings(tuple(overrides)))
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    packed = zstandard.ZstdCompressor().compress(lines) if data is None else data
    (folder / "completions" / "step_000004.jsonl.zst").write_bytes(packed)
    return folder
