"""The report of `prompt` on a screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..lessons.show import clean, one_line, put, table
from ..prompts import LONG, Lengths
from .report import Report, Shown, Special

# white space that is seen; a token is one word on the screen
_SEEN = str.maketrans({" ": "·", "\n": "\\n", "\t": "\\t", "\r": "\\r"})
_BETWEEN = "  "


def show(console: Console, found: Report) -> None:
    """Settings, prompts with their tokens, the sets' lengths, and notes."""
    chosen = found.config
    if found.runs > 1:
        console.print(Text(f"A sweep of {found.runs} runs; this is its first.", style="dim"))
    form = "within the tokenizer's chat template" if chosen.prompt.chat else "written out"
    _line(console, "model", one_line(chosen.model.path))
    _line(console, "prompt", form)
    _line(console, "BOS", _bos(found))
    _line(console, "an answer ends at", _ends(found))
    for one in found.shown:
        _prompt(console, found, one)
    console.print()
    _lengths(console, found)
    if found.notes:
        console.print()
    for note in found.notes:
        console.print(Text.assemble(("note: ", "bold yellow"), one_line(note)), soft_wrap=True)


def _line(console: Console, name: str, value: str) -> None:
    console.print(Text.assemble((f"{name:<19}", "dim"), value), soft_wrap=True)


def _bos(found: Report) -> str:
    if found.bos is None:
        return "none: the tokenizer has none"
    put_there = "which the tokenizer puts in front of a text" if found.adds_bos else "which the tokenizer does not add"
    return f"{_special(found.bos)}, {put_there}"


def _ends(found: Report) -> str:
    stops = [f'the text "{one_line(stop.translate(_SEEN))}"' for stop in found.config.prompt.stop]
    eos = [f"the EOS {_special(found.eos)}"] if found.eos else []
    return ", or ".join([*stops, *eos]) or "max_new_tokens alone"


def _special(token: Special) -> str:
    return f"{one_line(token.text)} (id {token.id})"


def _prompt(console: Console, found: Report, one: Shown) -> None:
    count = "no BOS" if found.bos is None else f"{one.bos} BOS"
    fate = f", over the limit of {found.config.data.max_prompt_tokens}: {one.fate}" if one.fate else ""
    title = f"{one_line(one.question)}: {len(one.ids)} tokens, {count}{fate}"
    console.print()
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(Text(clean(one.text)), soft_wrap=True)
    console.print()
    for line in flow(one.tokens, one.ids, console.width):
        text = Text()
        for place, (token, number) in enumerate(line):
            text.append((_BETWEEN if place else "") + token, style="bold").append(f" {number}", style="dim")
        console.print(text, soft_wrap=True)


def flow(tokens: Sequence[str], ids: Sequence[int], width: int) -> list[list[tuple[str, int]]]:
    """Tokens as (text, id) in lines of at most `width` cells; a token that ends a line of the prompt ends one here.

    White space is written out as · and \\n; a token without a text of its own (part of a character) as ''.
    """
    lines: list[list[tuple[str, int]]] = [[]]
    taken = 0
    for token, number in zip(tokens, ids, strict=True):
        seen = clean(token.translate(_SEEN)) or "''"
        cells = cell_len(f"{_BETWEEN}{seen} {number}")
        if lines[-1] and taken + cells > width:
            lines.append([])
        taken = (taken if lines[-1] else -len(_BETWEEN)) + cells
        lines[-1].append((seen, number))
        if token.endswith("\n"):
            lines.append([])
    return [line for line in lines if line]


def _lengths(console: Console, found: Report) -> None:
    limit = found.config.data.max_prompt_tokens
    made = table("tokens of a prompt", "prompts", "least", "median", "95 %", "most", f"over {limit}")
    for name, row in found.sets.items():
        figures = (row.count, row.minimum, row.median, row.p95, row.maximum, row.over)
        made.add_row(one_line(name), *(f"{figure:,}" for figure in figures))
    put(console, made)
    for name, row in found.sets.items():
        for said in _consequences(name, row, found):
            console.print(Text(said), soft_wrap=True)


def _consequences(name: str, row: Lengths, found: Report) -> list[str]:
    limit, long_prompt = found.config.data.max_prompt_tokens, found.config.data.long_prompt
    said = []
    if row.over == row.count and long_prompt == "drop":
        said.append(f"{name}: none is within data.max_prompt_tokens={limit}, so the run is refused.")
    elif row.over:
        said.append(f"{name}: {row.over:,} of {row.count:,} are {LONG[long_prompt]} (data.long_prompt={long_prompt}).")
    if row.unknown:
        said.append(f"{name}: {row.unknown:,} of {row.count:,} hold characters that the tokenizer does not know.")
    return [one_line(text) for text in said]
