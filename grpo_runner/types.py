"""The nouns that every room shares: Question, Completion, Group, Verdict. Frozen dataclasses; no torch, no Hydra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class Question:
    """One question with its gold answer. `id` is unique in its data set and stable between runs.

    gold: a text, or a tuple of texts where the row has several (Policy.several_golds says how they count).
    solution: the data's own worked answer, where it was asked for.
    """

    id: str
    text: str
    gold: str | tuple[str, ...]
    solution: str | None = None

    @property
    def golds(self) -> tuple[str, ...]:
        return (self.gold,) if isinstance(self.gold, str) else self.gold


class Finish(StrEnum):
    """Why a completion ended: the model wrote one of its EOS ids, a stop string came up, or the budget ran out."""

    EOS = "eos"
    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True)
class Completion:
    """One sampled answer.

    token_ids: the T sampled ids, with the EOS that ended it (the EOS is part of the action, so it is trained on).
    text: decoded without special tokens. logprobs: T log-probabilities of the sampled tokens under the policy that
    sampled them, at the sampling temperature and over the full vocabulary (before top-p/top-k). entropy: mean over the
    tokens of that policy's entropy, in nats; None where an engine cannot tell. Of an answer that no policy
    sampled, such as a worked solution, logprobs is empty.
    """

    token_ids: tuple[int, ...]
    text: str
    logprobs: tuple[float, ...]
    finish: Finish
    entropy: float | None = None

    @property
    def truncated(self) -> bool:
        return self.finish is Finish.LENGTH


@dataclass(frozen=True)
class Group:
    """The G completions of one question in one step. Groups are keyed by their slot in the step, never by text."""

    question: Question
    prompt_ids: tuple[int, ...]
    completions: tuple[Completion, ...]


class Status(StrEnum):
    """What grading found. Only CORRECT is a right answer; the others are counted apart from each other.

    AMBIGUOUS: several answers are offered and the gold is only one of them.
    """

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    AMBIGUOUS = "ambiguous"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True)
class Verdict:
    """A graded answer: what was extracted, what it was compared with, and the rule that decided."""

    status: Status
    extracted: str | None = None
    gold_value: str | None = None
    rule: str = ""
    seconds: float = 0.0

    @property
    def correct(self) -> bool:
        return self.status is Status.CORRECT


@dataclass(frozen=True)
class Reward:
    """The reward of one completion: the weighted total that trains, and its unweighted parts by name.

    None where a part could not tell: the completion then has no reward and is excluded from the update.
    steps: with `reward.steps`, (characters of the text up to its end, reward) of each step of the answer; else none.
    """

    total: float | None
    parts: Mapping[str, float | None] = field(default_factory=dict)
    steps: tuple[tuple[int, float], ...] = ()
