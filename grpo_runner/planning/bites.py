"""What will bite: settings that work and that people have come to regret, each with the key that changes it.

Pure functions of a RunConfig; what `advice.py` tells every run stands before them. The cases are complaints in the
issues of other trainers, and tables of papers: each says its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from .. import advice, local_paths
from ..data import glance
from ..errors import InputError
from ..schema import RunConfig
from ..validate import keys
from . import sets
from .happens import no_variance


@dataclass(frozen=True)
class Bite:
    """One warning. key: what to change, as typed; source: where the complaint or the figure is from.

    published: the preset's source has it so, and nothing of it was changed.
    """

    key: str
    text: str
    source: str
    published: bool = False


@dataclass(frozen=True)
class Given:
    """What a warning may look at. success: share of right answers, None where not given; rows: of the training set;
    typed: keys that the user gave himself.
    """

    config: RunConfig
    success: float | None = None
    rows: int | None = None
    typed: tuple[str, ...] = ()


def bites(
    config: RunConfig, success: float | None = None, typed: Iterable[str] = (), published: Iterable[str] = ()
) -> list[Bite]:
    """All warnings: those that every run is told at its start, then those of this module; what is as published last.

    typed: the keys that the user gave; published: those that have the value that the preset's source states.
    """
    told = [Bite(_key_in(text), text, "this package, at a run's start") for text in advice.warnings(config)]
    given = Given(config, success, sets.rows(config.data)[0], tuple(typed))
    found = told + [bite for find in _BITES for bite in find(given)]
    stated = set(published)
    marked = [replace(bite, published=_stated(bite.key, stated)) for bite in found]
    return sorted(marked, key=lambda bite: bite.published)


def _stated(key: str, stated: set[str]) -> bool:
    """Whether the source states this key, or for a group one of its keys."""
    return bool(key) and any(other == key or other.startswith(f"{key}.") for other in stated)


def _key_in(text: str) -> str:
    """The key that a sentence is about: the first that is given a value or has a dot, else the first word."""
    known = set(keys())
    found = [(word, after) for word, after in re.findall(r"([a-z_]+(?:\.[a-z_]+)*)(=?)", text) if word in known]
    named = [word for word, after in found if after or "." in word]
    return (named or [word for word, _ in found] or [""])[0]


def _real(config: RunConfig) -> bool:
    return config.model.path != "embedded"


def _named(config: RunConfig, *parts: str) -> bool:
    """Whether the model's path holds one of these, whatever the case."""
    return any(part in config.model.path.lower() for part in parts)


# --- answers and their form


def _short_budget(given: Given) -> Iterator[Bite]:
    config = given.config
    # sums need a few tokens, and a prompt that ends an answer with its line wants a short one
    short = config.data.kind == "arithmetic" or any(stop.startswith("\n") for stop in config.prompt.stop)
    if _real(config) and config.max_new_tokens < 256 and not short:
        yield Bite(
            "max_new_tokens",
            f"max_new_tokens={config.max_new_tokens}: a worked answer to a mathematics question seldom ends in it, "
            f"and such an answer earns {'nothing' if config.reward.truncated == 'zero' else 'what its text is worth'}.",
            "TRL #5697, #6220: a small default length ends training without a word",
        )


def _reasoning_budget(given: Given) -> Iterator[Bite]:
    config = given.config
    if _named(config, "r1-distill", "deepscaler") and config.max_new_tokens < 8192:
        yield Bite(
            "max_new_tokens",
            f"max_new_tokens={config.max_new_tokens}: a distilled reasoning model is cut off long before its answer. "
            "R1-Distill-Qwen-1.5B reaches a mean of 22.0 with 3,000 tokens and 41.5 with 8,000.",
            "Dr. GRPO, Table 4",
        )


def _long_template(given: Given) -> Iterator[Bite]:
    config = given.config
    about = len(config.prompt.template + (config.prompt.system or "")) // 4
    if _real(config) and 4 * about >= 3 * config.data.max_prompt_tokens:
        yield Bite(
            "data.max_prompt_tokens",
            f"data.max_prompt_tokens={config.data.max_prompt_tokens}: the template alone takes about {about} of them, "
            f"and longer prompts are {_LONG[config.data.long_prompt]}.",
            "TRL #3569, #4358; verl filters none by default",
        )


_LONG = {"drop": "left out", "error": "refused", "truncate_left": "cut from the left"}


# --- signal


def _no_variance(given: Given) -> Iterator[Bite]:
    config, p = given.config, given.success
    if p is None or config.advantage.baseline not in ("group_mean", "leave_one_out"):
        return
    size = config.group_size.value
    share = no_variance(p, size)
    if share > 0.5 and not config.rollout.dynamic_sampling:
        left = (1 - share) * config.questions_per_step
        yield Bite(
            "group_size",
            f"At a success rate of {p:g}, {100 * share:.0f} % of groups of {size} are all right or all wrong and teach "
            f"nothing: about {left:.1f} of {config.questions_per_step} questions a step are left. A larger group_size, "
            "rollout.dynamic_sampling=10, or questions nearer to .5.",
            "p^G + (1-p)^G; DAPO, section 3.2; TRL #6365, verl #5228",
        )


def _noisy_evaluation(given: Given) -> Iterator[Bite]:
    config = given.config
    if not config.evaluation.every or not _real(config):
        return
    for name, (_, known) in sets.held_out(config).items():
        count = known or config.evaluation.questions
        if count < 100:
            yield Bite(
                "evaluation.questions",
                f"{name}: {count} questions, so that an accuracy near 50 % is known to ± {98 / count**0.5:.0f} points "
                "(95 %).",
                "binomial; open-instruct #648: run-to-run change",
            )


# --- the update


def _adapter_rate(given: Given) -> Iterator[Bite]:
    config = given.config
    if config.lora.enabled and config.optim.lr < 1e-5:
        yield Bite(
            "optim.lr",
            f"optim.lr={config.optim.lr:g} is a rate for all weights; an adapter hardly moves at it. It wants about "
            f"ten times the rate of full fine-tuning: optim.lr={10 * config.optim.lr:g} or more.",
            "LoRA Without Regret: 10 times; TRL #2872: LoRA learns less or not at all",
        )


def _full_rate(given: Given) -> Iterator[Bite]:
    config = given.config
    if not config.lora.enabled and 5e-6 < config.optim.lr < 1e-4:
        yield Bite(
            "optim.lr",
            f"optim.lr={config.optim.lr:g} for all weights: the papers use 1e-6. At 2e-5 open-r1's demo is reported to "
            "fall from 55.4 to 18.2 on MATH-500.",
            "open-r1 #538",
        )


def _other_constant(given: Given) -> Iterator[Bite]:
    norm, budget = given.config.loss_norm, given.config.max_new_tokens
    if norm.kind == "constant" and norm.divisor is not None and norm.divisor != budget:
        yield Bite(
            "loss_norm.divisor",
            f"loss_norm.divisor={norm.divisor:g} with max_new_tokens={budget}: the constant scales the gradient as a "
            f"rate would, here by {budget / norm.divisor:.3g} against the paper's code.",
            "verl #990; SkyRL #133",
        )


def _uneven_parts(given: Given) -> Iterator[Bite]:
    config = given.config
    parts, kind = config.optim.updates_per_rollout, config.optim.minibatch
    questions = config.questions_per_step
    count = {"response": questions * config.group_size.value, "group": questions}.get(kind)
    if count is not None and count % parts:
        yield Bite(
            "optim.updates_per_rollout",
            f"optim.updates_per_rollout={parts} does not divide the {count} {kind}s of a step: optimizer steps are of "
            "unequal size, and each is a mean over its own.",
            "TRL #2858, #3020; open-r1 #249",
        )


def _kl_of_nothing(given: Given) -> Iterator[Bite]:
    """Of what `advice` cannot tell from a default: the estimator that was typed is the default one."""
    config = given.config
    if config.beta.value == 0 and config.beta.estimator == "k3" and "beta.estimator" in given.typed:
        yield Bite(
            "beta.estimator",
            "beta.estimator=k3 changes nothing with beta=0: there is no KL term, and none is computed or logged.",
            "TRL #3516: beta became 0 by default",
        )


# --- questions


def _small_set(given: Given) -> Iterator[Bite]:
    config, rows = given.config, given.rows
    if rows is not None and rows < config.questions_per_step:
        few = "question is" if rows == 1 else "questions are"
        then = "the run is refused" if config.data.small_set == "error" else "questions repeat within a step"
        yield Bite(
            "questions_per_step",
            f"{rows:,} {few} fewer than questions_per_step={config.questions_per_step}: {then} "
            f"(data.small_set={config.data.small_set}).",
            "TRL #3204, #4004: steps and epochs not as expected",
        )


def _no_source(given: Given) -> Iterator[Bite]:
    config, data = given.config, given.config.data
    for key, source in local_paths.sources(config).items():
        if source.path is None and source.hub_id is None:
            said = f"{key} has no source yet: give {key}.path or {key}.hub_id."
            yield Bite(f"{key}.path", said, "this package: a run without it is refused")
            continue
        try:
            glance(data, source, key)
        except InputError as error:
            yield _refused(f"{key}.path", error)


def _no_folder(given: Given) -> Iterator[Bite]:
    """Of what is not there yet it is said; a plan may come before the adapter that a run begins from."""
    model, lora = given.config.model, given.config.lora
    try:
        local_paths.check_model(model.path)
    except InputError as error:
        yield _refused("model.path", error)
    try:
        if lora.enabled and lora.adapter is not None:
            local_paths.adapter_settings(Path(lora.adapter), lora, "lora.adapter")
    except InputError as error:
        yield _refused("lora.adapter", error)


def _refused(key: str, error: InputError) -> Bite:
    return Bite(key, " ".join(str(error).split()), "this package: the run would be refused")


def _trained_on_the_test(given: Given) -> Iterator[Bite]:
    """By name: sets that are known to hold the questions of another."""
    config, train = given.config, given.config.data.train
    name = sets.name_of(train)
    if config.data.kind != "table" or not config.evaluation.every or not name:
        return
    for source, _ in sets.held_out(config).values():
        other = sets.name_of(source)
        if name == other and train.hub_config == source.hub_config:
            yield Bite("data.eval", "Training and evaluation questions are the same set.", "the two sources are equal")
        for part, inside, which, told in sets.KNOWN_OVERLAPS:
            if part in name and inside(other):
                yield Bite("data.train", f"{which}: an accuracy on them is no longer one on held-out questions.", told)


_BITES: tuple[Callable[[Given], Iterator[Bite]], ...] = (
    _no_source,
    _no_folder,
    _trained_on_the_test,
    _small_set,
    _short_budget,
    _reasoning_budget,
    _long_template,
    _no_variance,
    _adapter_rate,
    _full_rate,
    _other_constant,
    _uneven_parts,
    _kl_of_nothing,
    _noisy_evaluation,
)
