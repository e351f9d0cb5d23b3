"""`explain length`: what each objective does to the lengths of right and of wrong answers, in the stop-only model."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..algorithm import StopModel, stop_push
from .show import put, table
from .words import Length

# (name, scale, norm): the two switches between GRPO and Dr. GRPO, and DAPO's mean over the tokens of a group
ARMS = (
    ("GRPO", "group_std", "sequence_mean"),
    ("GRPO without its std", "none", "sequence_mean"),
    ("GRPO without its 1/|o|", "group_std", "constant"),
    ("Dr. GRPO", "none", "constant"),
    ("DAPO's token mean", "group_std", "group_token_mean"),
)
TINY = 1e-12  # rounding of a sum that is 0


def show(console: Console, wanted: Length) -> None:
    """Print the screen."""
    wrong_body = wanted.body if wanted.wrong_body is None else wanted.wrong_body
    model = StopModel(wanted.right, wanted.group, wanted.stop, wanted.body, wrong_body)
    lead = "A policy that can only stop or go on: a body, then a tail that ends with chance s at each token"
    note = (
        "How hard each objective pushes the logit to stop, in the mean over answers, summed over all groups and tails: "
        "advantage · norm · (1 - s·t) with t tokens in the tail. Above 0 answers stop sooner and shrink, below 0 they "
        "grow."
    )
    console.print(Text(lead, style="bold"))
    console.print(Text(note, style="dim"))
    console.print()
    body = f"{wanted.body}" if wrong_body == wanted.body else f"{wanted.body} if right, {wrong_body} if wrong"
    console.print(
        f"right with chance {wanted.right:g}, {wanted.group} answers a group, s {wanted.stop:g}, body {body}; "
        f"L = {_budget(model):g}, the mean length"
    )
    console.print()
    put(console, _table(model))
    console.print()
    for text in _words(model):
        console.print(Text(text))


def _budget(model: StopModel) -> float:
    """The constant of the loss norm `constant`, which is only a factor: the mean length, to one decimal."""
    body = model.right * model.body_right + (1 - model.right) * model.body_wrong
    return round(body + 1 / model.stop, 1)


def _table(model: StopModel) -> Table:
    made = table("pushes the logit to stop by", "right answers", "wrong answers", "one rule for both")
    for name, scale, norm in ARMS:
        push = stop_push(model, "group_mean", scale, norm, _budget(model))
        made.add_row(name, *(_figure(value) for value in (push.right, push.wrong, push.right + push.wrong)))
    return made


def _words(model: StopModel) -> list[str]:
    """What the figures say, by their signs."""
    push = stop_push(model, "group_mean", "group_std", "sequence_mean")
    both = push.right + push.wrong
    said = (
        "Under 1/|o|, where the policy can tell which its answer is, wrong answers grow and right ones shrink. Over a "
        "constant neither is pushed: 1 - s·t has mean 0, whatever the advantage."
    )
    if abs(both) < TINY:
        return [said, "With one rule for both, bodies of equal length cancel."]
    way = "sooner: all answers shrink" if both > 0 else "later: all answers grow"
    return [said, f"With one rule for both, bodies of different length do not cancel: it stops {way}."]


def _figure(value: float) -> str:
    """+0.0111; in powers of ten where four places do not show it."""
    return "0" if abs(value) < TINY else f"{value:+.4f}" if abs(value) >= 0.0005 else f"{value:+.1e}"
