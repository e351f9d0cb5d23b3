"""Answering: each policy is loaded once, asks its journal what is done, and answers the rest, a few at a time."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import torch
from torch import Tensor

from .. import prompt_advice
from ..errors import InputError
from ..evaluation import Grade, Suite, answer, modes
from ..policy.models import choose_device, choose_dtype, eos_ids, load_model, load_tokenizer, read_adapter
from ..prompts import Prompter, mismatches
from ..reward import policy_of
from ..rng import key
from ..rollout import Engine
from ..schema import RunConfig
from ..train.checkpoint import Checkpoints
from ..train.loading import (
    eval_set,
    fingerprint,
    load_policy,
    longest,
    positions,
    start_engine,
    start_grader,
    suites,
    whole_sets,
)
from ..types import Group, Question, Verdict
from .journal import Journal, Record, hold
from .targets import Target, to_load

EVAL = "eval"  # what data.eval is called among sets; it has the draws of the evaluation in training


class Shown(Protocol):
    """Where it is told how far the work is, in questions and in answers."""

    def at(self, done: int, rows: int) -> None: ...

    def say(self, line: str) -> None: ...


@dataclass(frozen=True)
class Answered:
    """One policy with the records of all questions, in order."""

    target: Target
    settings: dict[str, object]
    records: list[Record]


@dataclass(frozen=True)
class _Loaded:
    """A model that can take the weights of several policies of one run."""

    config: RunConfig
    model: Any
    engine: Engine
    grade: Grade
    suites: Sequence[Suite]
    named: dict[str, Tensor]
    initial: dict[str, Tensor]


def questions_of(config: RunConfig) -> tuple[dict[str, tuple[Question, ...]], dict[str, int]]:
    """The questions to ask by set, and how many each set has: evaluation.sets, or data.eval, by "", where none is
    named. Raises InputError.
    """
    if not modes(config.evaluation):
        raise InputError(
            "evaluation.samples=0 with evaluation.greedy=false asks nothing. Allowed: one of them, or both."
        )
    sets = whole_sets(config) or {"": eval_set(config, config.seed)}
    asked = {name: questions[: config.evaluation.questions] for name, questions in sets.items()}
    return asked, {name or EVAL: len(questions) for name, questions in sets.items()}


def answer_all(
    targets: Sequence[Target],
    sets: dict[str, tuple[Question, ...]],
    folder: Path,
    shown: Shown,
) -> Iterator[Answered]:
    """Every policy's answers to all questions, those that are in its journal already taken from there.

    The draws are keyed by the first policy's seed, for all. Raises InputError, MachineError, NonFiniteError.
    """
    seed, before = targets[0].config.seed, 0
    answers = sum(modes(targets[0].config.evaluation).values())
    for _, group in groupby(targets, lambda one: repr(to_load(one))):
        same = list(group)
        with ExitStack() as closing:
            loaded = _load(same, sets, seed, shown.say, closing)
            for target in same:
                take_weights(loaded, target)
                settings = settings_of(loaded, target)
                journal = Journal(folder / f"{file_name(target)}.jsonl", settings)
                for done in _work(loaded, journal):
                    shown.at(before + done, (before + done) * answers)
                before += sum(len(suite.questions) for suite in loaded.suites)
                yield Answered(target, settings, journal.records)
        del loaded
        gc.collect()  # the next model starts with the memory of this one


def _load(
    same: Sequence[Target],
    sets: dict[str, tuple[Question, ...]],
    seed: int,
    say: Callable[[str], None],
    closing: ExitStack,
) -> _Loaded:
    config = to_load(same[0])
    device = choose_device(config.device)
    tokenizer = load_tokenizer(config.model)
    prompter = Prompter(config.prompt, tokenizer)
    # data.max_prompt_tokens is training's: a figure of some of a set's questions would be nobody's figure
    asked, notes = suites(config, prompter, sets, seed, limit=None)
    untrained = all(one.weights == "initial" for one in same) and config.lora.adapter is None
    if untrained and config.rollout.engine != "vllm":  # as it is, without an adapter that does nothing
        model = load_model(config.model, device, choose_dtype(config.dtype, device))
    else:
        model, _ = load_policy(config, device)
    position_note = positions(model.config, longest(asked), "Lower evaluation.max_new_tokens.")
    advice = [said for find in prompt_advice.FINDERS for said in find(config)]
    for text in (*notes, *([position_note] if position_note else []), *advice, *mismatches(prompter)):
        say(f"note: {text}")
    named = {name: value for name, value in model.named_parameters() if value.requires_grad}
    back = len({one.weights == "initial" for one in same}) == 2  # before training, and after it
    initial = {name: value.detach().clone() for name, value in named.items()} if back else {}
    engine = start_engine(config, model, tokenizer, eos_ids(model, tokenizer), longest(asked), say, closing)
    return _Loaded(config, model, engine, start_grader(config, closing), asked, named, initial)


def take_weights(loaded: _Loaded, target: Target) -> None:
    """Put a policy's tensors into the model. Raises InputError where they are missing, damaged, or of another shape."""
    config = loaded.config
    if target.weights == "checkpoint":
        file = "adapter" if config.lora.enabled else "policy"
        tensors = Checkpoints(target.root, 1, file, writes=False).policy(target.step or 0)
    elif target.weights == "folder" and config.lora.enabled:
        tensors = read_adapter(target.run / "adapter", loaded.model, config.lora, "adapter")
    else:
        tensors = loaded.initial
    odd = set(tensors) ^ set(loaded.named) if tensors or target.weights != "initial" else set()
    if odd or any(value.shape != loaded.named[name].shape for name, value in tensors.items()):
        raise InputError(
            f"adapter={target.run}: what it trained does not fit model.path={config.model.path}.\n"
            "Give the model that the run was trained on, or leave model out."
        )
    with torch.no_grad():
        for name, value in tensors.items():
            loaded.named[name].copy_(value)


def settings_of(loaded: _Loaded, target: Target) -> dict[str, object]:
    """All that the answers depend on, by key; a journal under other settings is not gone on from."""
    config, asked = loaded.config, config_of_asking(loaded.config)
    model = loaded.model
    return {
        "policy": fingerprint(model.named_parameters()),
        "model.path": config.model.path,
        "step": target.step,
        **{f"questions of {suite.name or EVAL}": _digest(suite) for suite in loaded.suites},
        **asked,
        "seed": loaded.suites[0].seed,
        "rollout.engine": config.rollout.engine,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        **{f"prompt.{name}": value for name, value in asdict(config.prompt).items()},
        **{f"reward.{name}": value for name, value in asdict(policy_of(config.reward)).items()},
        "reward.deadline_s": config.reward.deadline_s,
    }


def config_of_asking(config: RunConfig) -> dict[str, object]:
    """The keys of sampling, those alone that act."""
    evaluation = config.evaluation
    found: dict[str, object] = {"evaluation.greedy": evaluation.greedy, "evaluation.samples": evaluation.samples}
    if evaluation.samples:
        found |= {"evaluation.temperature": evaluation.temperature, "evaluation.top_p": evaluation.top_p}
    return found | {"max_new_tokens": config.evaluation_tokens}


def _digest(suite: Suite) -> str:
    """How many, and what tells the questions, their golds and their prompts from others."""
    content = repr([(q.id, q.text, q.golds, tuple(ids)) for q, ids in zip(suite.questions, suite.prompts, strict=True)])
    return f"{len(suite.questions)}, {key(0, content):032x}"


def _work(loaded: _Loaded, journal: Journal) -> Iterator[int]:
    """Answer what is missing; gives how many questions are done, after each few.

    The questions of one call of the engine are the same whether the work was interrupted or not, so that the answers
    are, to the last bit: what a kill left of a call is done again.
    """
    config, asked = loaded.config, loaded.suites
    asks = [(suite.name or EVAL, question.id) for suite in asked for question in suite.questions]
    hold(journal.path, journal.records, asks)
    size = max(1, config.rollout.batch_rows // sum(modes(config.evaluation).values()))
    calls = [
        (suite, range(first, min(first + size, len(suite.questions))))
        for suite in asked
        for first in range(0, len(suite.questions), size)
    ]
    ends = list(accumulate(len(own) for _, own in calls))
    whole = sum(end <= len(journal.records) for end in ends)
    journal.keep(ends[whole - 1] if whole else 0)
    yield len(journal.records)
    for suite, own in calls[whole:]:
        journal.append(_records(loaded, suite, own))
        yield len(journal.records)


def _records(loaded: _Loaded, suite: Suite, own: range) -> list[Record]:
    by_mode = {
        mode: answer(loaded.engine, loaded.grade, suite, loaded.config.evaluation, mode, own)
        for mode in modes(loaded.config.evaluation)
    }
    return [
        {
            "set": suite.name or EVAL,
            "id": suite.questions[place].id,
            "question": suite.questions[place].text,
            "golds": list(suite.questions[place].golds),
            "prompt_tokens": len(suite.prompts[place]),
            **{mode: _answers(*judged[at]) for mode, judged in by_mode.items()},
        }
        for at, place in enumerate(own)
    ]


def _answers(group: Group, verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    """No times: the same answers make the same line."""
    return [
        {
            "text": made.text,
            "tokens": len(made.token_ids),
            "finish": made.finish.value,
            "status": verdict.status.value,
            "extracted": verdict.extracted,
            "rule": verdict.rule,
        }
        for made, verdict in zip(group.completions, verdicts, strict=True)
    ]


def file_name(target: Target) -> str:
    """The policy's name as that of a file; other names are other files."""
    return quote(target.name, safe=" ,=+")
