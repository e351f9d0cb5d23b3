"""How many tokens a prompt of a run has on average, where its questions are known without loading a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..local_paths import sources
from ..schema import RunConfig, SourceConfig
from .sets import LARGEST

# (hub id, split): mean characters of a question, counted: 1,752,474 of 7,473, 316,390 of 1,319, 97,946 of 500;
# MATH's training set 1,577,530 of 7,500, and with the 4,500 of its test set that math-12k has 2,435,255 of 12,000
_GSM8K, _MATH = 235, 210
CHARACTERS = {
    ("openai/gsm8k", "train"): _GSM8K,
    ("openai/gsm8k", "test"): 240,
    ("HuggingFaceH4/MATH-500", "test"): 196,
    ("lkevinzc/math-12k", "train"): 203,
    ("EleutherAI/hendrycks_math", "train"): _MATH,
    ("hendrycks/competition_math", "train"): _MATH,
    ("DigitalLearningGmbH/MATH-lighteval", "train"): _MATH,
}
# Characters of a token: 3.87 of GSM8K's questions under SmolLM2's tokenizer; formulas have fewer.
A_TOKEN = 3.5
CHAT = 20  # tokens of a chat template around a message, about


class Length(NamedTuple):
    """tokens of a prompt, and in words where the figure is from."""

    tokens: int
    said: str


def usual(config: RunConfig) -> Length:
    """The mean of the set with the longest questions; where one of the sets is not known, data.max_prompt_tokens.

    Memory goes by sums over many prompts at once, of which the mean says more than the most that there can be: with the
    256 of experiment=laptop_gsm8k its evaluation was told to need twice what it takes.
    """
    prompt, data, limit = config.prompt, config.data, config.data.max_prompt_tokens
    found = {key: _characters(config, key, source) for key, source in sources(config).items()}
    known = {key: mean for key, mean in found.items() if mean is not None}
    if not found or len(known) < len(found):
        return Length(limit, "data.max_prompt_tokens, the most there can be")
    if "data.train" in known and data.max_question_characters is not None:
        known["data.train"] = min(known["data.train"], data.max_question_characters)
    longest = max(known, key=lambda key: known[key])
    around = len((prompt.template + (prompt.system or "")).replace("{{ question }}", ""))
    tokens = round((known[longest] + around) / A_TOKEN) + CHAT * prompt.chat
    return Length(max(1, min(limit, tokens)), f"about the mean of {longest}")


def _characters(config: RunConfig, key: str, source: SourceConfig) -> float | None:
    """Mean characters of a question of the source; None where that is not known."""
    if source.path is None:
        return CHARACTERS.get((source.hub_id or "", source.split))
    lengths = _lengths(Path(source.path).expanduser(), source.question_column or config.data.question_column)
    return sum(lengths) / len(lengths) if lengths else None


def _lengths(path: Path, column: str) -> list[int]:
    """Characters of each question of a local file that is not too large; none of one that cannot be read so."""
    try:
        if path.stat().st_size > LARGEST:
            return []
        return [len(text) for text in _texts(path, column) if isinstance(text, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _texts(path: Path, column: str) -> list[Any]:
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            return [json.loads(line)[column] for line in lines if line.strip()]
    if path.suffix == ".parquet":
        from pyarrow.parquet import read_table

        table: list[Any] = read_table(path, columns=[column])[column].to_pylist()
        return table
    return []
