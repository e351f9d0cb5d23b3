"""From a question to the token ids that a model is given: a jinja2 template, a chat template, exactly one BOS.

Training, rollout and evaluation all use the ids made here, so that they cannot differ in a BOS or a template.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.meta
from jinja2.sandbox import SandboxedEnvironment

from ..errors import InputError, nearest
from ..schema import PromptConfig
from ..types import Question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TEXT_PROMPTS = "prompt=qwen_math, r1, deepseek_math or none"
# what becomes of a prompt above data.max_prompt_tokens, by data.long_prompt
LONG = {"drop": "left out", "truncate_left": "cut at the beginning of the question", "error": "refused, with the run"}


class Prompter:
    """Makes prompts for one tokenizer. Raises InputError when the template or the chat template cannot be used."""

    def __init__(self, config: PromptConfig, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        # some tokenizers (GPT-2's) use one id for both: then it says nothing
        self.unknown_id = tokenizer.unk_token_id if tokenizer.unk_token_id != tokenizer.bos_token_id else None
        self.config = config
        self._template = check(config)
        if config.chat and not getattr(tokenizer, "chat_template", None):
            raise InputError(
                f"prompt.chat is true, but this model's tokenizer has no chat template: use {_TEXT_PROMPTS}."
            )
        self.text(Question("probe", "1+1=?", "2"))  # a template that fails should fail before anything is loaded

    @property
    def adds_bos(self) -> bool:
        """Whether the tokenizer puts its BOS in front of a text."""
        bare, full = (self._ids("1", add_special_tokens=special) for special in (False, True))
        return self.tokenizer.bos_token_id in _front(full, bare)

    def text(self, question: Question) -> str:
        """The whole prompt as text, with the special tokens that the template writes itself."""
        try:
            content = self._template.render(question=question.text)
        except Exception as error:  # a template is the user's program and may fail in any way
            raise InputError(f"prompt.template fails: {type(error).__name__}: {_first_line(error)}") from error
        _check_utf8(content)
        if not self.config.chat:
            return content
        messages = [{"role": "user", "content": content}]
        if self.config.system is not None:
            messages.insert(0, {"role": "system", "content": self.config.system})
        try:
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        except Exception as error:  # likewise, of the model's author: some raise on a system message
            raise InputError(
                f"The model's chat template fails: {_first_line(error)}\n"
                f"Try prompt.system=null, or a prompt without it: {_TEXT_PROMPTS}."
            ) from error

    def encode(self, question: Question) -> tuple[int, ...]:
        """The prompt's token ids: with what the tokenizer puts in front of a text (BOS), once, and no EOS behind.

        Where the text already begins with it, it is not added again; a tokenizer that adds none gets none.
        """
        text = self.text(question)
        bare = self._ids(text, add_special_tokens=False)
        if not bare:
            raise InputError(f"The prompt of question {question.id} has no tokens: the tokenizer knows none of it.")
        front = _front(self._ids(text, add_special_tokens=True), bare)
        ids = bare if bare[: len(front)] == front else front + bare
        bos = self.tokenizer.bos_token_id
        while bos is not None and ids[:2] == [bos, bos]:  # a template of ours around one that writes it too
            ids = ids[1:]
        return tuple(ids)

    def _ids(self, text: str, add_special_tokens: bool) -> list[int]:
        # verbose=False: a warning about the model's length does not belong here; `fit` decides about long prompts
        return list(self.tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)["input_ids"])


def fit(
    questions: Sequence[Question], prompter: Prompter, max_prompt_tokens: int | None, long_prompt: str
) -> tuple[tuple[Question, ...], dict[str, tuple[int, ...]], str | None]:
    """Prompts within `max_prompt_tokens`: (questions kept, prompt ids by question id, a note or None).

    max_prompt_tokens: None for no limit. long_prompt: "drop" leaves longer ones out and counts them in the note;
    "error" refuses the first; "truncate_left" takes characters off the beginning of the question until the prompt fits.
    The template around it stays whole, so the model still sees where its turn begins. Questions themselves are returned
    unchanged.
    Raises InputError when none is left, or when the template leaves no room for a question.
    """
    kept: list[Question] = []
    prompt_ids: dict[str, tuple[int, ...]] = {}
    long, unknown, longest = 0, 0, 0
    for question in questions:
        ids = prompter.encode(question)
        if max_prompt_tokens is not None and len(ids) > max_prompt_tokens:
            long, longest = long + 1, max(longest, len(ids))
            if long_prompt == "error":
                raise InputError(
                    f"The prompt of question {question.id} has {len(ids)} tokens; data.max_prompt_tokens is "
                    f"{max_prompt_tokens}.\nRaise the limit, or set data.long_prompt to drop or truncate_left."
                )
            if long_prompt == "drop":
                continue
            ids = prompter.encode(shortened(question, prompter, max_prompt_tokens))
        unknown += prompter.unknown_id in ids
        kept.append(question)
        prompt_ids[question.id] = ids
    if questions and not kept:
        raise InputError(
            f"None of the {len(questions)} prompts fits data.max_prompt_tokens={max_prompt_tokens}; "
            f"the longest has {longest} tokens. Raise the limit, or set data.long_prompt=truncate_left."
        )
    notes = []
    if long:
        notes.append(
            f"{long} of {len(questions)} prompts are longer than {max_prompt_tokens} tokens (the longest: {longest}) "
            f"and were {LONG[long_prompt]} (data.long_prompt={long_prompt})."
        )
    if unknown:
        notes.append(
            f"Warning: {unknown} of {len(kept)} prompts hold characters that this model's tokenizer does not know."
        )
    return tuple(kept), prompt_ids, " ".join(notes) or None


def shortened(question: Question, prompter: Prompter, limit: int) -> Question:
    """The question with the fewest characters taken off its beginning that let the prompt fit, by bisection.

    At least one character stays: a prompt without a question asks nothing, and without a template has no tokens.
    Raises InputError when the limit leaves no room for it.
    """

    def cut(characters: int) -> Question:
        return replace(question, text=question.text[characters:])

    fails, fits = 0, len(question.text) - 1
    best = cut(fits)
    if (least := len(prompter.encode(best))) > limit:
        raise InputError(
            f"data.max_prompt_tokens={limit} leaves no room for a question: the prompt template with one character of "
            f"it takes {least} tokens."
        )
    while fits - fails > 1:
        middle = (fails + fits) // 2
        shorter = cut(middle)
        if len(prompter.encode(shorter)) <= limit:
            fits, best = middle, shorter
        else:
            fails = middle
    return best


def check(config: PromptConfig) -> jinja2.Template:
    """The template, compiled; what can be said without a tokenizer is said. Raises InputError."""
    template = _compile(config.template)
    if config.system is not None and not config.chat:
        raise InputError(
            "prompt.system is given, but prompt.chat is false: only a chat template has a place for it.\n"
            "Write it into prompt.template, or set prompt.chat=true."
        )
    return template


def _compile(source: str) -> jinja2.Template:
    """The template, which must use the one variable `question` and no other."""
    environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    try:
        names = jinja2.meta.find_undeclared_variables(environment.parse(source)) - set(environment.globals)
        template = environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"prompt.template is not a jinja2 template: line {error.lineno}: {error.message}") from error
    for name in sorted(names - {"question"}):
        hint = nearest(name, ["question"])
        raise InputError(f'prompt.template uses "{name}"; the one variable there is is "question".{hint}')
    if "question" not in names:
        raise InputError("prompt.template does not use the question: write {{ question }} where it belongs.")
    return template


def _check_utf8(text: str) -> None:
    """Raise for a lone surrogate, which an escape in a template can make (the schema takes none as it stands)."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text[max(0, error.start - 40) : error.start + 1].encode("utf-8", "backslashreplace").decode()
        raise InputError(
            f'What prompt.template gives is not UTF-8 text: "{shown}", character {error.start + 1}.'
        ) from error


def _front(full: list[int], bare: list[int]) -> list[int]:
    """What a tokenizer puts in front: the part of `full` (with special tokens) before `bare` (without)."""
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return full[:start]
    return []


def _first_line(error: Any) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
