"""What there is to say about a run's prompts, as values: composed, read and encoded as the run itself does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import config, data, local_paths, prompt_advice
from ..errors import InputError
from ..grading.progress import bar
from ..policy.models import load_tokenizer
from ..prompts import LONG, Lengths, Prompter, lengths, mismatches, shortened, token_texts
from ..reward import unreadable
from ..schema import RunConfig
from ..types import Question
from .words import Wanted


@dataclass(frozen=True)
class Special:
    """A special token of the tokenizer: its text and id."""

    text: str
    id: int


@dataclass(frozen=True)
class Shown:
    """One prompt as the model gets it.

    fate: "" for one within data.max_prompt_tokens, else what becomes of it (prompts.LONG); where it is cut, all other
    fields are of what is left. tokens: the text that each id adds. bos: how many of the ids are the BOS.
    """

    question: str
    fate: str
    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    bos: int


@dataclass(frozen=True)
class Report:
    """bos, eos: None where the tokenizer has none. adds_bos: whether it puts the BOS in front of a text by itself.

    sets: the lengths of all prompts by set, the training set first. runs: of a
    sweep, whose first this is; else 1.
    """

    config: RunConfig
    runs: int
    bos: Special | None
    eos: Special | None
    adds_bos: bool
    sets: dict[str, Lengths]
    shown: tuple[Shown, ...]
    notes: tuple[str, ...]


def report(wanted: Wanted) -> Report:
    """Raises InputError where the run itself would: overrides, tokenizer, template, data."""
    planned = config.plan(wanted.overrides)
    if not planned.configs:
        raise InputError("These overrides make a sweep whose runs are not known beforehand. Add hydra.mode=RUN.")
    chosen = planned.configs[0]
    local_paths.check(chosen)
    tokenizer = load_tokenizer(chosen.model)  # what is cheap and fails often, before the data
    prompter = Prompter(chosen.prompt, tokenizer)
    sets, notes = _questions(chosen)
    limit = chosen.data.max_prompt_tokens
    measured = _measured(sets, prompter, limit)
    return Report(
        config=chosen,
        runs=len(planned.configs),
        bos=_special(tokenizer.bos_token, tokenizer.bos_token_id),
        eos=_special(tokenizer.eos_token, tokenizer.eos_token_id),
        adds_bos=prompter.adds_bos,
        sets=measured,
        shown=tuple(_shown(question, prompter, chosen) for question in next(iter(sets.values()))[: wanted.count]),
        notes=(*notes, *mismatches(prompter), *_advice(chosen)),
    )


def as_json(found: Report) -> dict[str, Any]:
    """The report as JSON's values; of the configuration what the prompts depend on."""
    chosen, sets = found.config, {name: asdict(measured) for name, measured in found.sets.items()}
    return {
        "model": asdict(chosen.model),
        "prompt": asdict(chosen.prompt),
        "max_prompt_tokens": chosen.data.max_prompt_tokens,
        "long_prompt": chosen.data.long_prompt,
        "bos": found.bos and asdict(found.bos),
        "adds_bos": found.adds_bos,
        "eos": found.eos and asdict(found.eos),
        "sets": sets,
        "prompts": [asdict(one) for one in found.shown],
        "notes": list(found.notes),
    }


def _questions(chosen: RunConfig) -> tuple[dict[str, Sequence[Question]], Sequence[str]]:
    """The questions of a run by set, as it reads them, and what is to be said about them. A set of evaluation.sets has
    its own name, in which there is no space.
    """
    measured, named = chosen.evaluation.every > 0, chosen.evaluation.sets
    loaded = data.load(chosen.data, chosen.seed, unreadable, evaluated=measured and not named)
    sets: dict[str, Sequence[Question]] = {"training set": loaded.train}
    if measured:
        whole = data.held_out_sets(chosen.data, named, unreadable) or {"evaluation set": loaded.eval}
        sets |= {name: questions[: chosen.evaluation.questions] for name, questions in whole.items()}
    return sets, loaded.notes


def _measured(sets: dict[str, Sequence[Question]], prompter: Prompter, limit: int) -> dict[str, Lengths]:
    total, before, found = sum(map(len, sets.values())), 0, {}
    with bar(total, "tokenizing", "prompts") as progress:
        for name, questions in sets.items():

            def at(done: int, start: int = before) -> None:
                progress.at(start + done, start + done)

            found[name] = lengths(questions, prompter, limit, at)
            before += len(questions)
    return found


def _shown(question: Question, prompter: Prompter, chosen: RunConfig) -> Shown:
    limit, long_prompt = chosen.data.max_prompt_tokens, chosen.data.long_prompt
    ids = prompter.encode(question)
    fate = LONG[long_prompt] if len(ids) > limit else ""
    if fate and long_prompt == "truncate_left":
        question = shortened(question, prompter, limit)
        ids = prompter.encode(question)
    texts = tuple(token_texts(prompter.tokenizer, ids))
    bos = ids.count(prompter.tokenizer.bos_token_id)
    return Shown(question.id, fate, prompter.text(question), ids, texts, bos)


def _special(text: str | None, number: int | None) -> Special | None:
    return None if text is None or number is None else Special(text, number)


def _advice(chosen: RunConfig) -> list[str]:
    """What `advice` says about the prompt; the rest of it is about training."""
    return [said for find in prompt_advice.FINDERS for said in find(chosen)]
