"""A step as one HTML file: the tables of the screen, and each answer token by token. No scripts, nothing fetched."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from ..errors import InputError, MachineError
from ..files import disk_errors, write_atomic
from .show import clean, compact, one_line
from .step import StepRecord
from .step_table import EXPLAINED, RECORDED, Block, blocks, level, scale, state
from .style import CSS

_LARGE = 5_000_000  # bytes: from here on a page is slow to open


def put(step: StepRecord, folder: Path, question: str | None, file: Path | None) -> str:
    """Write the page and say in one line where it is, or why it is not where nobody asked for it.

    file: None for the run's own folder. Raises InputError where a file that was named cannot be written.
    """
    slots = step.slots(question)
    words = ["explain", str(folder), "--step", str(step.number)]
    words += ["--question", question] if question is not None else []
    words += ["--html", str(file)] if file is not None else []
    content = render(step, slots, one_line(folder.absolute().name), shlex.join(["python", "-m", "grpo_runner", *words]))
    packed = content.encode("utf-8")
    try:
        # a link is followed: what it leads to is written, and the link stays
        target = Path(os.path.realpath(file)) if file else _place(folder, step, None if question is None else slots[0])
        write_atomic(target, packed)
    except MachineError as error:
        said = one_line(str(error).splitlines()[0])
        if file is not None:
            raise InputError(said) from None
        return f"no page: {said} Another place: --html FILE"
    large = "; --question ID makes a small one" if len(packed) > _LARGE and question is None else ""
    return f"page: {one_line(str(file or target))} ({len(packed) / 1000:,.0f} kB{large})"


def _place(folder: Path, step: StepRecord, slot: int | None) -> Path:
    """The page of all questions and that of one do not overwrite each other."""
    pages = folder / "explain"
    with disk_errors(pages):
        pages.mkdir(exist_ok=True)
    return pages / f"step_{step.number:06d}{'' if slot is None else f'_slot_{slot:06d}'}.html"


def render(step: StepRecord, slots: Sequence[int], run: str, command: str) -> str:
    """The page as text."""
    return "\n".join(_lines(step, slots, run, command)) + "\n"


def _lines(step: StepRecord, slots: Sequence[int], run: str, command: str) -> Iterator[str]:
    most = scale(step)
    title = f"step {step.number} (counted from 0) · {step.method}"
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # whatever a text might smuggle in: nothing runs and nothing is fetched
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{_safe(f'step {step.number} of {run}')}</title>\n<style>\n{CSS}</style>\n</head>\n<body>"
    yield f"<h1>{_safe(title)}</h1>\n<p><code>{_safe(command)}</code></p>"
    for note in step.notes:
        yield f'<p class="note"><b>note:</b> {_safe(note)}</p>'
    yield f"<p>{_safe(EXPLAINED)}{_safe(f' {RECORDED}') if step.has_tokens else ''}</p>"
    yield _legend(step, most)
    for slot in slots:
        yield from _question(step, slot, most)
    yield "</body>\n</html>"


def _legend(step: StepRecord, most: float) -> str:
    what = "Background: the coefficient of a token" if step.has_tokens else "Background: the weight of a token"
    keys = "".join(
        f"<span{colour_class(part * most, most, 'k')}>{compact(part * most, 3)}</span>"
        for part in (1.0, 0.5, 0.25, 0.1, 0.0, -0.1, -0.25, -0.5, -1.0)
    )
    rest = '; <span class="c">clipped</span> tokens are underlined; every token says its figures under the pointer'
    return f'<p class="legend">{what}, from up {keys} to down{rest if step.has_tokens else ""}.</p>'


def _question(step: StepRecord, slot: int, most: float) -> Iterator[str]:
    rows = step.of(slot)
    head = step.rows[rows[0]]
    weight = compact(float(step.columns[0].total_N[rows.start : rows.stop].abs().sum())).lstrip("+")
    recorded = step.question_weights.get(slot)
    said = f" (as recorded: {compact(recorded).lstrip('+')})" if recorded is not None else ""
    yield f"<section>\n<h2>question {_safe(one_line(head['question_id']))}</h2>"
    yield f'<p class="q">{_safe(head["question"])}</p>'
    yield f'<p class="dim">gold answer {_safe(one_line(str(head.get("gold"))))}, weight {weight}{said}</p>'
    yield _table(blocks(step, slot), [step.included[row] for row in rows])
    for place, row in enumerate(rows):
        status = _safe(one_line(step.rows[row]["status"]))
        yield f"<h3>answer {place + 1}, {status}, {_safe(state(step, row))}</h3>"
        yield f'<p class="a">{"".join(_text(step, row, most))}</p>'
    yield "</section>"


def _table(parts: Sequence[Block], included: Sequence[bool]) -> str:
    """Two lines of headings; a rule before each block."""

    def line(cells: Sequence[Sequence[str]], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=b' if number and not place else ''}>{_safe(cell)}</{tag}>"
            for number, some in enumerate(cells)
            for place, cell in enumerate(some)
        )

    titles = "".join(
        f"<th{' class=b' if number else ''} colspan={len(part.names)}>{_safe(part.title)}</th>"
        for number, part in enumerate(parts)
    )
    made = f"<tr class=t>{titles}</tr>\n<tr>{line([part.names for part in parts], 'th')}</tr>\n"
    for place, counts in enumerate(included):
        made += f"<tr{'' if counts else ' class=x'}>{line([part.cells[place] for part in parts], 'td')}</tr>\n"
    return f'<div class="wide"><table>\n{made}</table></div>'


def _text(step: StepRecord, row: int, most: float) -> Iterator[str]:
    """A span a token; one for the whole answer where the run recorded no tokens."""
    tokens, weight = step.tokens[row], float(step.columns[0].token_N[row])
    if tokens is None:
        value = 0.0 if step.has_tokens else weight
        yield f"<span{colour_class(value, most)}>{_safe(step.rows[row]['completion'] or '(no text)')}</span>"
        return
    for place, text in enumerate(tokens.texts):
        coefficient = tokens.coefficient[place] if tokens.coefficient else None
        clipped = bool(tokens.clipped and tokens.clipped[place])
        said = [f"“{clean(text)}”".replace("\n", "\\n").replace("\t", "\\t")]
        said.append("not computed" if coefficient is None else f"coefficient {compact(coefficient)}")
        said.append(f"weight before clip and KL {compact(weight)}")
        if tokens.ratio:
            said.append(f"ratio {tokens.ratio[place]:.5g}")
        if tokens.kl:
            part = f" ({compact(tokens.kl_coefficient[place])} of the coefficient)" if tokens.kl_coefficient else ""
            said.append(f"KL {tokens.kl[place]:.4g}{part}")
        said += ["clipped"] if clipped else []
        shown = colour_class(
            coefficient or 0.0, most, *("c" * clipped), *("n" * text.startswith("\n")), *("e" * (not text))
        )
        yield f'<span{shown} title="{_safe(chr(10).join(said))}">{_safe(text)}</span>'


def colour_class(value: float, most: float, *more: str) -> str:
    """The class attribute of a colour: u1 to u20 for up, d1 to d20 for down."""
    size = level(value, most)
    names = ([f"{'u' if size > 0 else 'd'}{abs(size)}"] if size else []) + list(more)
    return f' class="{" ".join(names)}"' if names else ""


def _safe(text: str) -> str:
    """Text as HTML that shows it, in an attribute too; what would be invisible or reorder a line is written out."""
    return escape(clean(text), quote=True)
