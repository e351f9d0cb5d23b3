"""`explain --rewards …`: what each answer of a group of the user's own gets, as if the group were the whole batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..objectives import NORM_WORDS, PRESETS, Objective, preset
from . import figures
from .show import compact, section, share, signed, table
from .words import Own


def objectives(own: Own) -> list[tuple[str, Objective]]:
    """(name, objective) of each table: the one that was asked for, or GRPO, Dr. GRPO and RLOO."""
    budget = own.budget or float(max(own.lengths))
    names = [own.advantage] if own.advantage else ["grpo", "dr_grpo", "rloo"]
    return [(name, preset(name, own.ddof, 0.0, budget, own.loss_norm)) for name in names]


def show(console: Console, own: Own) -> None:
    """One table an objective."""
    count, counted = len(own.rewards), sum(reward is not None for reward in own.rewards)
    lead = f"A group of {count} answers, as the whole optimizer batch: a mean over answers divides by {counted}."
    console.print(Text(lead, style="bold"))
    out = f"excluded: {count - counted}; neither in the baseline nor in the loss, as if never sampled"
    notes = [out] if counted < count else []
    notes.append("weight: what multiplies ∇log π, the same for every token of an answer before clipping and KL")
    if _moved(own):
        notes.append(f"coefficient: autograd's, with {_parts(own)}")
    if own.beta > 0 and own.ref_ratio is None:
        notes.append("reference = policy: the KL part is 0; give --ref-ratio, for example 0.5")
    for note in notes:
        console.print(Text(note, style="dim"))
    for name, objective in objectives(own):
        norm = NORM_WORDS.get(objective.norm, objective.norm).format(budget=objective.budget)
        deviation = f" (ddof {objective.ddof})" if objective.scale != "none" else ""
        title = f"{objective.label}: {PRESETS[name].words}{deviation}; {norm}"
        section(console, title, f"advantage={name} loss_norm={objective.norm}", _answers(own, objective))


def _moved(own: Own) -> bool:
    return own.beta > 0 or any(ratio != 1 for ratio in own.ratio or ())


def _parts(own: Own) -> str:
    """What the coefficient has in it, of clip and KL term."""
    parts = ["the clip"] if own.ratio is not None else []
    parts += ["the KL term"] if own.beta > 0 else []
    given = own.ratio is not None or own.ref_ratio is not None
    return " and ".join(parts) + (" at the ratios given" if given else "")


def _answers(own: Own, objective: Objective) -> Table:
    count = len(own.rewards)
    rewards_QG = torch.tensor([[math.nan if reward is None else reward for reward in own.rewards]], dtype=torch.float64)
    rows = (~rewards_QG[0].isnan()).nonzero().squeeze(1)  # the whole optimizer batch
    advantages_N, token_N, total_N, norm_N = figures.weigh(rewards_QG, torch.tensor(own.lengths), objective, [rows])

    def counted(write: Callable[[Any], str], values: Iterable[Any]) -> list[str]:
        """A dash for an answer that is excluded: it has none, which is not a 0."""
        return ["-" if reward is None else write(value) for reward, value in zip(own.rewards, values, strict=True)]

    columns = [
        ["\nanswer", *(str(place + 1) for place in range(count))],
        ["\nreward", *("excluded" if reward is None else f"{reward:g}" for reward in own.rewards)],
        ["\ntokens", *map(str, own.lengths)],
        ["\nadvantage", *counted(signed, advantages_N.tolist())],
        ["weight of\na token", *counted(compact, token_N.tolist())],
        ["weight of\nthe answer", *counted(compact, total_N.tolist())],
        ["\nshare", *counted(share, figures.shares(total_N))],
    ]
    if _moved(own):
        ratio_N = torch.tensor(own.ratio or (1.0,) * count, dtype=torch.float64)
        ref_N = torch.tensor(own.ref_ratio or (1.0,) * count, dtype=torch.float64)
        _, found_N = figures.coefficients(token_N, norm_N, ratio_N, ref_N, own.beta, own.low, own.high)
        columns.append(["coefficient\nof a token", *counted(compact, found_N.tolist())])
    made = table(*(column[0] for column in columns))
    for row in zip(*(column[1:] for column in columns), strict=True):
        made.add_row(*row)
    return made
