"""`explain family` on the screen and as a page: the answers as rows, their tokens as cells, a block a method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text

from ..errors import InputError, MachineError
from ..files import write_atomic
from .family import BETA, DPO_BETA, MADE, RLOO_BETA, Case, Weighed, weigh
from .family_words import Family
from .methods import METHODS, Method
from .page import colour_class
from .show import clean, compact, one_line, share, signed, table
from .show import put as put_table
from .step import read as read_step
from .style import CSS

OVER = {
    "sequence_mean": "|o|",
    "constant": "L",
    "sequence_sum": "nothing",
    "group_token_mean": "Σ|o| of the group",
    "token_mean": "Σ|o|",
}
LACKS = {
    "SFT": "no answer here is the data's own solution",
    "DPO": "no right answer has a wrong one beside it",
    "GRPO, process": "the steps of these answers have no rewards",
}
LEAD = "Every method is coefficient · ∇log π(token), summed over an answer and divided (DeepSeekMath A.1, eq. 5)."
BETAS = f"β is {BETA:g} for GRPO, {RLOO_BETA:g} in the reward of PPO and RLOO, {DPO_BETA:g} for DPO; λ = γ = 1 for PPO."
_PAGE = """p.f{margin:.1rem 0}.a span{padding:.15em .1em}.r{display:flex;flex-wrap:wrap;gap:0 1.6rem}
td:first-child,th:first-child{text-align:left}
.g{display:grid;grid-template-columns:repeat(auto-fit,minmax(30rem,1fr));gap:0 2rem}
@media(max-width:40rem){.g{grid-template-columns:1fr}}"""


def show(console: Console, wanted: Family) -> None:
    """Print the table, and write the page where one was asked for."""
    case, notes = _case(wanted)
    found = weigh(case)
    said = _write(wanted, case, notes, found) if wanted.html else ""  # first: the screen's reader may go away
    console.print(Text(LEAD, style="bold"))
    for note in [*_described(case), BETAS, *notes]:
        console.print(Text(note, style="dim"))
    console.print()
    made = table("\nmethod", *(f"answer {n + 1}\n{_state(case, n)}" for n in range(len(case.texts))), "divided\nby")
    for name, weighed in found.items():
        if weighed is not None:
            made.add_row(
                name, *(_spans(weighed, n, len(case.texts[n])) for n in range(len(case.texts))), OVER[weighed.norm]
            )
    put_table(console, made)
    console.print()
    console.print(Text("What part of the update each answer is (Σ |weight|, the divisor in it)", style="bold"))
    made = table("method", *(f"answer {n + 1}" for n in range(len(case.texts))))
    for name, weighed in found.items():
        if weighed is not None:
            made.add_row(name, *(share(_part(value)) for value in weighed.shares_N.tolist()))
    put_table(console, made)
    console.print()
    for name in (name for name, weighed in found.items() if weighed is None):
        console.print(Text(f"{name}: not here; {LACKS[name]}", style="dim"))
    console.print(Text("equations and commands: explain methods    as a page: explain family --html FILE", style="dim"))
    if said:
        console.print(said, style="dim", soft_wrap=True)


def _case(wanted: Family) -> tuple[Case, list[str]]:
    """The made group, or a question's of a run's step; with what a reader should know."""
    if wanted.folder is None:
        return MADE, ["A made group; its critic's values and log π/π_ref are made, too."]
    step = read_step(wanted.folder, wanted.number)
    slot = step.slots(wanted.question)[0]
    rows = [row for row in step.of(slot) if step.included[row]]
    if not rows or any(step.tokens[row] is None for row in rows):
        raise InputError(f"{wanted.folder}: step {step.number} has no tokens of this question's answers to show.")
    texts = [tokens.texts for row in rows if (tokens := step.tokens[row]) is not None]
    records = [step.rows[row] for row in rows]
    case = Case(
        question=records[0]["question"],
        gold=str(records[0].get("gold")),
        texts=tuple(map(tuple, texts)),
        right=tuple(record["status"] == "correct" for record in records),
        rewards=tuple(float(record["reward"]) for record in records),
    )
    return case, [
        f"Step {step.number} of {one_line(wanted.folder.absolute().name)}, trained with {step.method}.",
        "As if this group were the batch, at π = π_ref; PPO's critic expects what the group earned on average.",
    ]


def _described(case: Case) -> Iterator[str]:
    yield f"{one_line(case.question)}  (gold answer {one_line(case.gold)})"
    for number, texts in enumerate(case.texts):
        yield f"  answer {number + 1}, {_state(case, number)}: {one_line(''.join(texts))[:160]}"


def _state(case: Case, number: int) -> str:
    return f"{'right' if case.right[number] else 'wrong'}, {len(case.texts[number])} tokens"


def _part(value: float) -> float | None:
    return None if value != value else value


def _spans(weighed: Weighed, row: int, length: int) -> str:
    """`+1.0000`, `+0.58 ×6, -1.73 ×6` where tokens differ, a range where they differ often; a dash for no part."""
    if not weighed.counted_N[row]:
        return "-"
    values = (
        weighed.coefficient_NT[row].expand(length)[:length]
        if weighed.coefficient_NT.shape[1] == 1
        else (weighed.coefficient_NT[row, :length])
    )
    shown, counts = torch.unique_consecutive(values.mul(1e9).round(), return_counts=True)
    firsts = [float(values[place]) for place in (counts.cumsum(0) - counts).tolist()]
    if len(shown) == 1:
        return signed(firsts[0])
    if len(shown) == 2:
        return ", ".join(f"{signed(value, 2)} ×{count}" for value, count in zip(firsts, counts.tolist(), strict=True))
    return f"{signed(float(values.min()), 2)} to {signed(float(values.max()), 2)}"


# --- the page


def _write(wanted: Family, case: Case, notes: Sequence[str], found: dict[str, Weighed | None]) -> str:
    assert wanted.html is not None
    content = "\n".join(_lines(case, notes, found)) + "\n"
    try:
        write_atomic(Path(wanted.html), content.encode())
    except MachineError as error:
        raise InputError(one_line(str(error).splitlines()[0])) from None
    return f"page: {one_line(str(wanted.html))} ({len(content) / 1000:,.0f} kB)"


def _lines(case: Case, notes: Sequence[str], found: dict[str, Weighed | None]) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # whatever a text might smuggle in: nothing runs and nothing is fetched
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>One template, every method</title>\n<style>\n{CSS}{_PAGE}</style>\n</head>\n<body>"
    yield f"<h1>One template, every method</h1>\n<p>{_safe(LEAD)}</p>"
    yield f'<p class="q">{_safe(case.question)} (gold answer {_safe(case.gold)})</p>'
    for note in [BETAS, *notes]:
        yield f'<p class="dim">{_safe(note)}</p>'
    yield (
        '<p class="legend">Background: how hard a token is pushed, <span class="k u20">up</span> or '
        '<span class="k d20">down</span>, against the hardest pushed token of the same method. A pointer over a token '
        "says its coefficient, and its weight with the divisor in it. A ∅ is the end of an answer.</p>"
    )
    yield _shares(case, found)
    yield '<div class="g">'
    methods = {method.name: method for method in METHODS}
    for name, weighed in found.items():
        yield from _method(case, methods[name], weighed)
    yield "</div>\n</body>\n</html>"


def _shares(case: Case, found: dict[str, Weighed | None]) -> str:
    head = "".join(f"<th>answer {n + 1}<br>{_state(case, n)}</th>" for n in range(len(case.texts)))
    lines = "".join(
        f"<tr><td>{_safe(name)}</td>"
        + "".join(f"<td>{share(_part(value))}</td>" for value in weighed.shares_N.tolist())
        + f"<td>{_safe(OVER[weighed.norm])}</td></tr>\n"
        for name, weighed in found.items()
        if weighed is not None
    )
    title = f"<tr class=t><th></th><th colspan={len(case.texts)}>part of the update, Σ |weight|</th><th></th></tr>"
    return f'<div class="wide"><table>\n{title}<tr><th>method</th>{head}<th>divided by</th></tr>\n{lines}</table></div>'


def _method(case: Case, method: Method, weighed: Weighed | None) -> Iterator[str]:
    yield f"<section>\n<h2>{_safe(method.name)}</h2>\n<p class=f>{_safe(method.coefficient)}</p>"
    yield f'<p class="dim f">{_safe(method.source)} · <code>{_safe(method.command)}</code></p>'
    if weighed is None:
        yield f'<p class="dim">not here: {_safe(LACKS[method.name])}</p>\n</section>'
        return
    most = float(weighed.weights_NT.abs().max())
    yield '<div class="r">'
    for row, texts in enumerate(case.texts):
        said = _spans(weighed, row, len(texts)) if weighed.counted_N[row] else "not in the batch"
        cells = "".join(_cells(weighed, row, texts, most))
        head = f"answer {row + 1}, {'right' if case.right[row] else 'wrong'}: {said}"
        yield f'<div><h3>{_safe(head)}</h3>\n<p class="a">{cells}</p></div>'
    yield "</div>\n</section>"


def _cells(weighed: Weighed, row: int, texts: Sequence[str], most: float) -> Iterator[str]:
    coefficient_T = weighed.coefficient_NT[row].expand(weighed.weights_NT.shape[1])
    for place, text in enumerate(texts):
        weight = float(weighed.weights_NT[row, place])
        said = f"coefficient {compact(float(coefficient_T[place]))}\nweight {compact(weight)}"
        names = colour_class(weight, most, *("n" * text.startswith("\n")), *("e" * (not text)))
        yield f'<span{names} title="{_safe(said)}">{_safe(text)}</span>'


def _safe(text: str) -> str:
    return escape(clean(text), quote=True)
