"""One response against its golds, said in plain words."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ..errors import InputError
from ..lessons.show import clean
from ..reward import Grader, Policy, unreadable
from ..reward.check import unboxed
from ..reward.extract import Offer, offer
from ..reward.rules import in_words
from ..types import Status, Verdict
from .describe import describe, short
from .policies import changed
from .words import STDIN, Pair

if TYPE_CHECKING:
    from rich.console import Console

MOST_CHARACTERS = 400
VERDICTS = {
    Status.CORRECT: "correct: the answer is right",
    Status.WRONG: "wrong: the answer is not the gold",
    Status.NO_ANSWER: "no_answer: nothing was found that could be graded; it counts as not right",
    Status.AMBIGUOUS: "ambiguous: the gold is one of several answers on offer; it counts as not right",
    Status.TIMEOUT: "timeout: not decided within the deadline; it counts as not right",
    Status.ERROR: "error: it could not be decided; it counts as not right",
}


def grade(wanted: Pair, console: Console) -> int:
    """Print the verdict; 0 for a right answer, else 1. Raises InputError for a gold that cannot be read."""
    policy = changed(Policy(), wanted.overrides)
    response, *golds = (_stdin() if text == STDIN else text for text in (wanted.response, *wanted.golds))
    for gold in golds:
        if why := unreadable(gold):
            raise InputError(f'--gold "{_text(gold, 80)}" cannot be read: {why}.')
    with Grader(workers=1, deadline_s=wanted.deadline_s, policy=policy) as grader:
        verdict = grader.grade([(response, tuple(golds))])[0]
    _show(console, verdict, offer(response, policy.extract, policy.boxes), golds, policy)
    return 0 if verdict.correct else 1


def _show(console: Console, verdict: Verdict, offered: Offer, golds: list[str], policy: Policy) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    name, _, words = VERDICTS[verdict.status].partition(": ")
    table.add_row("verdict", Text.assemble((name, "bold green" if verdict.correct else "bold red"), f": {words}"))
    reads = policy.equality == "value"
    if offered.answers:
        found = how(offered, policy)
        for answer in offered.answers:
            table.add_row("answer", _text(answer))
            table.add_row("", Text(f"{found}{f'; read as {clean(describe(answer))}' if reads else ''}", style="dim"))
    else:
        table.add_row("answer", f"none: {looked_for(policy)}")
    for gold in golds:
        table.add_row("gold", _text(gold))
        if reads:
            table.add_row("", Text(f"read as {clean(describe(unboxed(gold)))}", style="dim"))
    table.add_row("rule", clean(in_words(verdict.rule)))
    if verdict.seconds >= 0.01:
        table.add_row("seconds", f"{verdict.seconds:.2f}")
    console.print(table)


def how(offered: Offer, policy: Policy) -> str:
    """Where in the response an answer was found."""
    if len(offered.answers) > 1:
        return "in one of several boxes on offer"
    if policy.extract == "box_or_marker" and not offered.in_form:
        return "after the last marker; there is no complete box"
    which = "first" if policy.boxes == "first" else "last" if policy.boxes in ("last", "unhedged") else "only"
    return {
        "answer_tag": "between the answer tags",
        "hash": "after the last ####",
        "whole": "the whole response",
    }.get(policy.extract, f"in the {which} box")


def looked_for(policy: Policy) -> str:
    """What a response without an answer lacks."""
    return {
        "box_or_marker": r"no complete \boxed{…}, and no marker such as “the answer is” or ####",
        "box": r"no complete \boxed{…}",
        "answer_tag": "no </think> <answer> … </answer>",
        "hash": "no #### with a number behind it among the last 300 characters",
        "whole": "the response is empty",
    }[policy.extract]


def _stdin() -> str:
    """Standard input as text; bytes that are no UTF-8 are kept as an argument's are. A last line feed is no part."""
    if sys.stdin is None:
        raise InputError("Standard input is closed, and - reads it.")
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")


def _text(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text of anybody's, made safe to print, on one line and cut."""
    cut = short(clean(text[: 4 * most]), most)
    return cut if len(text) <= most else f"{cut} ({len(text):,} characters)"
