"""Where a template and the tokenizer of a model do not fit each other, in words.

What can be told from the configuration alone is in prompt_advice.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..types import Question
from .prompter import Prompter

# what models mark turns with: <|im_start|>, <｜User｜>, <start_of_turn>, [INST]
_MARKERS = re.compile(r"<\|[^|<>\s]{1,40}\|>|<｜[^｜<>\s]{1,40}｜>|<(?:start|end)_of_turn>|\[/?INST\]")
_PROBE = Question("probe", "1+1=?", "2")


def mismatches(prompter: Prompter) -> list[str]:
    """One sentence for each thing to know before a run, most important first."""
    return [said for find in (_markers, _system, _bos) for said in find(prompter)]


def _markers(prompter: Prompter) -> Iterator[str]:
    """Turn markers that the model cannot know: to it they are letters."""
    foreign = [marker for marker in _in_order(prompter) if not _is_one_token(prompter, marker)]
    if not foreign:
        return
    listed = ", ".join(foreign[:4]) + (" …" if len(foreign) > 4 else "")
    yield (
        f"The prompt writes {listed}, and this model's tokenizer has no single token for "
        f"{'it' if len(foreign) == 1 else 'any of them'}: the template is that of another family of models. Such a "
        "mismatch costs much of what the model can do (Dr. GRPO, section 3). Its own: prompt.chat=true; "
        "without markers: prompt=none, r1, abel or deepseek_math."
    )


def _in_order(prompter: Prompter) -> list[str]:
    return list(dict.fromkeys(_MARKERS.findall(prompter.text(_PROBE))))


def _is_one_token(prompter: Prompter, marker: str) -> bool:
    ids = prompter.tokenizer(marker, add_special_tokens=False)["input_ids"]
    return len(ids) == 1 and ids[0] != prompter.unknown_id


def _system(prompter: Prompter) -> Iterator[str]:
    system = prompter.config.system
    if system is not None and system.strip() not in prompter.text(_PROBE):
        yield "prompt.system is left out by this model's chat template: write it into prompt.template instead."


def _bos(prompter: Prompter) -> Iterator[str]:
    """The template writes the BOS although the tokenizer adds one: the Prompter keeps one, others may not."""
    bos = prompter.tokenizer.bos_token
    if bos and bos in prompter.config.template and prompter.adds_bos:
        yield (
            f"prompt.template writes {bos} itself, and this model's tokenizer adds it as well. It stands once in what "
            "the model gets; a program that tokenizes the text again may give it two."
        )
