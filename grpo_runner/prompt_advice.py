"""Prompts that do not fit the reward or the model, in words. Pure functions of a RunConfig.

What needs the model's tokenizer is in prompts/mismatch.py. Of a model only its name is known here: what is said of a
base model is said where the name is that of a published one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from .schema import RunConfig

# how an answer is marked -> what a prompt that asks for it has in it; "line" is DAPO's last line, "Answer: $Answer"
FORMS = {"box": r"\boxed", "hash": "####", "answer_tag": "<answer>", "line": "Answer: $"}
# reward.extract -> the marks that it reads
READS = {
    "box_or_marker": ("box", "hash", "answer_tag", "line"),
    "box": ("box",),
    "hash": ("hash",),
    "answer_tag": ("answer_tag",),
}
# the same for what the part `format` of the reward counts
COUNTED = READS | {"box_or_marker": ("box", "answer_tag")}
TAGS = "</think> <answer>"  # the one form that reward.extract=answer_tag counts

# names of base models, as their publishers write them
_BASE = re.compile(
    r"[-_]base$ | ^qwen(1\.5|2|2\.5)(-math)?-[\d.]+b$ | ^(meta-)?llama-(2|3|3\.1|3\.2)-\d+b(-hf)?$ "
    r"| ^mistral-7b-v0\.\d$ | ^smollm2?-[\d.]+[mb]$ | ^gemma(-2)?-\d+b$ | ^gemma-3-\d+b-pt$ | ^gpt2 | ^pythia-",
    re.IGNORECASE | re.VERBOSE,
)
# bases that box answers by themselves (Qwen2.5-Math: Dr. GRPO, Table 4, without a template) or when asked (Qwen2.5 from
# 3B on: SimpleRL-Zoo gives them its boxed prompt)
_BOXES = re.compile(r"^qwen2\.5-(math-|([3-9]|\d\d)b)", re.IGNORECASE)
# Dr. GRPO, Table 4: percent right of its five sets, greedy, without a template, under Qwen-Math's, and under R1's
_TABLE_4 = {"qwen2.5-math-1.5b": (33.1, 24.2, 7.9), "qwen2.5-math-7b": (38.2, 26.5, 0.0)}


def _marked(config: RunConfig) -> Iterator[str]:
    """The prompt asks for an answer in one form, and the reward looks for another."""
    asked, reads = _asked(config), READS.get(config.reward.extract, ())
    if not _extracts(config):
        return
    if asked and not set(asked) & set(reads):
        looks = f"looks for {_forms(reads, 'or')}" if reads else "takes the whole completion"
        yield (
            f"The prompt asks for {_forms(asked, 'and')}, but reward.extract={config.reward.extract} {looks}: "
            f"{_remedy(config, asked[0])}."
        )
    elif not asked and len(reads) == 1 and not (reads[0] == "box" and _BOXES.search(_name(config))):
        yield (
            f"reward.extract={config.reward.extract} looks for {FORMS[reads[0]]}, and nothing in the prompt asks for "
            "it: a model that does not write it by itself has no answer."
        )


def _remedy(config: RunConfig, form: str) -> str:
    if form == "answer_tag" and TAGS in _words(config):
        return "for the R1 template add reward.extract=answer_tag"
    return {"box": "take reward.extract=box", "hash": "take reward=gsm8k_hash"}.get(
        form, "take reward.extract=box_or_marker, which reads it"
    )


def _format_counts_another(config: RunConfig) -> Iterator[str]:
    """The part `format` pays for one form, and the prompt asks for another that the part `correct` reads too."""
    asked, extract = _asked(config), config.reward.extract
    reads, counted = READS.get(extract, ()), COUNTED.get(extract, ())
    if "format" in config.reward.parts and set(asked) & set(reads) and not set(asked) & set(counted):
        yield (
            f"The prompt asks for {_forms(asked, 'and')}, and the part format of the reward counts "
            f"{_forms(counted, 'or')} alone with reward.extract={extract}: it pays for a form that nothing asks for. "
            "Leave it out of reward.parts, or write one of your own (reward.function)."
        )


def _literal_tags(config: RunConfig) -> Iterator[str]:
    if _extracts(config) and config.reward.extract == "answer_tag" and "<answer>" in _words(config):
        if TAGS not in _words(config):
            yield (
                f"reward.extract=answer_tag counts the literal {TAGS} alone, with one space, and the prompt does not "
                "show it like that: an answer in the form that is shown earns 0. prompt=r1 shows it."
            )
        elif not config.prompt.chat and not any("</answer>" in stop for stop in config.prompt.stop):
            yield (
                "Nothing ends an answer at </answer>: a base model goes on behind it, up to max_new_tokens, and an "
                "answer that is cut off there may earn 0. Dr. GRPO: prompt.stop=['</answer>'], as prompt=r1 has it."
            )


def _box_from_a_base(config: RunConfig) -> Iterator[str]:
    if "box" in _asked(config) and _extracts(config) and _is_base(config) and not _BOXES.search(_name(config)):
        yield (
            rf"The prompt asks for \boxed{{}}, and {_name(config)} is a base model: if it never boxes an answer, every "
            "group earns 0 and nothing is learned. SimpleRL-Zoo gives Qwen2.5-0.5B, 1.5B and Llama-3.1-8B prompt=abel."
        )


def _turns_for_a_base(config: RunConfig) -> Iterator[str]:
    if config.prompt.chat and _is_base(config):
        yield (
            f"prompt.chat=true, but {_name(config)} is a base model, which was not trained to take turns, whether "
            "its tokenizer has a chat template or not. Prompts written out: prompt=none, abel, r1, qwen_math."
        )


def _what_r1_costs(config: RunConfig) -> Iterator[str]:
    """Dr. GRPO, section 3 and Table 4."""
    scores = _TABLE_4.get(_name(config).lower())
    if scores is not None and "<answer>" in config.prompt.template:
        none, qwen, r1 = scores
        yield (
            f"{_name(config)} gets {r1} % right under the R1 template before training, {qwen} % under prompt=qwen_math "
            f"and {none} % under prompt=none (Dr. GRPO, Table 4, mean of five sets): it first has to win that back."
        )


FINDERS: tuple[Callable[[RunConfig], Iterator[str]], ...] = (
    _marked,
    _format_counts_another,
    _literal_tags,
    _box_from_a_base,
    _turns_for_a_base,
    _what_r1_costs,
)


def _words(config: RunConfig) -> str:
    """What the prompt says around a question."""
    return f"{config.prompt.system or ''}\n{config.prompt.template}"


def _asked(config: RunConfig) -> list[str]:
    """The forms that the prompt asks for, or that end an answer."""
    said = _words(config) + "".join(config.prompt.stop).replace("</answer>", "<answer>")
    return [form for form, mark in FORMS.items() if mark in said]


def _forms(forms: Sequence[str], last: str) -> str:
    """`a, b or c`."""
    *before, end = (FORMS[form].removesuffix(" $") for form in forms)
    return f"{', '.join(before)} {last} {end}" if before else end


def _extracts(config: RunConfig) -> bool:
    """Whether an answer is looked for at all: math-verify finds its own in the whole completion."""
    policy = config.reward
    return "correct" in policy.parts and not (policy.extract == "whole" and policy.equality == "math_verify")


def _name(config: RunConfig) -> str:
    """The last part of model.path: `Qwen2.5-Math-7B`."""
    return config.model.path.rstrip("/").rpartition("/")[2]


def _is_base(config: RunConfig) -> bool:
    return _BASE.search(_name(config)) is not None
