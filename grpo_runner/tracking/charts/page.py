"""All pictures of a run, and one self-contained page of them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ...method import method_name
from ...schema import RunConfig
from .cumulative import cumulative_weight
from .drawing import count, png
from .length import weight_by_length
from .probe import probe_cosines
from .weights import weight_scatter

if TYPE_CHECKING:
    import pyarrow as pa

# picture -> title, caption
CAPTIONS = {
    "weights": (
        "Weight against success rate",
        """Each dot is a group of answers to one question in one step; dots at the same place are one. Left: the sum of
|A| over the group's answers, with the closed form of the advantage in use (line) and of GRPO and Dr. GRPO (dashed,
dotted). Right: the sum of |token weight| over their tokens, after the loss norm.""",
    ),
    "weight_by_length": (
        "Weight per token against length",
        """What one token of a right and of a wrong answer weighs, by the length of the answer; both axes are
logarithmic. Under 1/|o| the lines fall: a token of a long answer counts less. Under a constant they are flat.""",
    ),
    "cumulative_weight": (
        "Cumulative weight of easy, medium and hard questions",
        """The class of a group is by its success rate p at that step: hard p ≤ 1/3, easy p ≥ 2/3. Dashed and dotted,
the shares that GRPO and Dr. GRPO would have given the same answers, where every group records them; a run of theirs
would have had other answers.""",
    ),
    "probe": (
        "Cosines between objectives",
        """The gradients of several objectives on the same answers and the same parameters: 1 is the same direction.
Left, of the whole step (of more than four objectives, the pairs with the first); right, of single questions.""",
    ),
}


def draw(config: RunConfig, table: pa.Table, probe: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Picture -> PNG, in the order of `CAPTIONS`: those of the questions where there is a row, and that of the probe.

    table: rows of questions.parquet; probe: rows of probe.jsonl.
    """
    figures = {}
    if table.num_rows:
        norm = config.loss_norm
        figures["weights"] = weight_scatter(table, config.advantage, norm)
        figures["weight_by_length"] = weight_by_length(table, norm.kind, float(norm.divisor or config.max_new_tokens))
        figures["cumulative_weight"] = cumulative_weight(table)
    if probe:
        figures["probe"] = probe_cosines(probe)
    return {name: png(figure) for name, figure in figures.items()}


def page(config: RunConfig, pictures: Mapping[str, bytes], files: Sequence[str]) -> bytes:
    """An HTML page with the pictures in it, nothing to fetch, and links to the files beside it that it is made of."""
    title = escape(f"{config.run_name}: what questions weigh")
    links = " · ".join(f'<a href="{escape(name)}">{escape(name)}</a>' for name in files)
    size = f"{count(config.steps, 'step')} · {count(config.questions_per_step, 'question')} × "
    size += count(config.group_size.value, "answer")
    figures = [_figure(name, data) for name, data in pictures.items()]
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; max-width: 1340px; margin: 2em auto; padding: 0 1em; color: #222; line-height: 1.45; }}
figure {{ margin: 2em 0; }}
img {{ max-width: 100%; }}
figcaption {{ max-width: 52em; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{escape(method_name(config))} · seed {config.seed} · {size} a step</p>
<p>Made from {links}</p>
{"".join(figures)}</body>
</html>
"""
    return text.encode()


def _figure(name: str, data: bytes) -> str:
    title, caption = CAPTIONS[name]
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return (
        f'<figure>\n<h2>{escape(title)}</h2>\n<img src="{source}" alt="{escape(title)}">\n'
        f'<figcaption>{escape(caption)} <a href="{name}.png">{name}.png</a></figcaption>\n</figure>\n'
    )
