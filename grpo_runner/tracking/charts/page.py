"""All pictures of a run, and one self-contained page of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...method import method_name
from ...objectives import NAMED, budget_of
from ...schema import RunConfig
from .cumulative import REFERENCES, cumulative_weight
from .drawing import GREY, count, png
from .length import weight_by_length
from .probe import probe_cosines
from .progress import progress
from .weights import THEORY, weight_scatter

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class Drawn(NamedTuple):
    """caption: of what is in this very picture."""

    png: bytes
    caption: str


def draw(
    config: RunConfig,
    table: pa.Table,
    metrics: Sequence[Mapping[str, Any]],
    evals: Sequence[Mapping[str, Any]],
    probe: Sequence[Mapping[str, Any]],
) -> dict[str, Drawn]:
    """The pictures in the order of `CAPTIONS`: of the steps, of the questions, of the probe, each where it has a row.

    table: rows of questions.parquet; the others: rows of metrics.jsonl, evals.jsonl and probe.jsonl.
    """
    figures = {}
    if metrics:
        figures["progress"] = progress(metrics, evals)
    if table.num_rows:
        figures["weights"] = weight_scatter(table, config.advantage, config.loss_norm, config.samples)
        figures["weight_by_length"] = weight_by_length(table, config.loss_norm.kind, budget_of(config))
        figures["cumulative_weight"] = cumulative_weight(table)
    if probe:
        figures["probe"] = probe_cosines(probe)
    return {name: Drawn(png(figure), CAPTIONS[name][1](figure)) for name, figure in figures.items()}


def _of_progress(figure: Figure) -> str:
    labels = {label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]}
    text = ["Figures of training are of the answers of that step."]
    if any(label.startswith("held-out") for label in labels):
        text.append("Held-out accuracy is that of the policy as it was before the update of the step where it stands.")
    return " ".join(text)


def _of_weights(figure: Figure) -> str:
    left, right = figure.axes[:2]
    own = [line for line in left.lines if line.get_color() == THEORY]
    others = [line for line in left.lines if line.get_color() == GREY]
    text = [
        """A dot stands for all groups at its place, its size for how many they are; a group is the answers to one
question in one step. Left: the sum of |A| over the group's answers. Right: the sum of |token weight| over their tokens,
after the loss norm."""
    ]
    if own:
        scaled = "; on the right it is scaled as its label says" if right.lines else ""
        text.append(f"Red: the closed form of the advantage in use{scaled}.")
    if others:
        names = [f"{str(line.get_label()).split(':')[0]} ({_style(line)})" for line in others]
        text.append(f"Grey: the closed form of {' and '.join(names)}.")
    return " ".join(text)


def _of_length(figure: Figure) -> str:
    text = [
        """What one token of a right (left) and of a wrong answer (right) weighs, by the length of the answers: means
over the answers of this kind to one question in one step, where they have weight and their advantages do not cancel
out."""
    ]
    lines = [line for axes in figure.axes[:2] for line in axes.lines]
    if any(axes.collections for axes in figure.axes[:2]):
        text.append("Both axes are logarithmic.")
    if lines and all(np.ptp(line.get_ydata()) == 0 for line in lines):
        text.append("Lines: an answer with the |A| of their colour. They are flat: the length does not enter.")
    elif lines:
        text.append("Lines: an answer with the |A| of their colour. They fall: a token of a long answer counts less.")
    if len(figure.axes) > 2:  # a colour bar
        off = ", and the dot may lie off its line" if lines else ""
        text.append(f"Where answers of a kind have unlike advantages, the colour is that of their mean{off}.")
    return " ".join(text)


def _of_cumulative(figure: Figure) -> str:
    right = figure.axes[1]
    text = ["The class of a group is by its success rate p at that step: hard p ≤ 1/3, easy p ≥ 2/3."]
    styles = {line.get_linestyle(): _style(line) for line in right.lines}
    names = [f"{NAMED[name].label} ({styles[style]})" for name, style in REFERENCES.values() if style in styles]
    if names:
        runs = "a run of its own" if len(names) == 1 else "runs of their own"
        text.append(
            f"Right, also the shares that {' and '.join(names)} would have given the same answers; {runs} would have "
            "had other answers."
        )
    return " ".join(text)


def _of_probe(figure: Figure) -> str:
    return """The gradients of several objectives on the same answers and the same parameters: 1 is the same direction.
Left, of the whole step; right, of single questions."""


def _style(line: Line2D) -> str:
    return {"-": "solid", "--": "dashed", ":": "dotted"}[str(line.get_linestyle())]


# picture -> title, and what its figure shows in words
CAPTIONS: dict[str, tuple[str, Callable[[Figure], str]]] = {
    "progress": ("How the run went", _of_progress),
    "weights": ("Weight against success rate", _of_weights),
    "weight_by_length": ("Weight per token against length", _of_length),
    "cumulative_weight": ("Cumulative weight of easy, medium and hard questions", _of_cumulative),
    "probe": ("Cosines between objectives", _of_probe),
}


def page(
    config: RunConfig, pictures: Mapping[str, Drawn], files: Sequence[str], alerts: Sequence[tuple[int, str, str]] = ()
) -> bytes:
    """An HTML page with the pictures in it, nothing to fetch, and links to the files beside it that it is made of.

    alerts: (step, rule, text) of each rule of health/ that held, where it first did.
    """
    title = escape(f"{config.run_name}: how it went and what questions weighed")
    links = " · ".join(f'<a href="{escape(name)}">{escape(name)}</a>' for name in files)
    size = f"{count(config.steps, 'step')} · {count(config.questions_per_step, 'question')} × "
    size += count(config.group_size.value, "answer")
    figures = [_figure(name, drawn) for name, drawn in pictures.items()]
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; max-width: 1340px; margin: 2em auto; padding: 0 1em; color: #222; line-height: 1.45; }}
figure {{ margin: 2em 0; max-width: 1320px; }}
img {{ width: 100%; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{escape(method_name(config))} · seed {config.seed} · {size} a step</p>
<p>Made from {links}</p>
{_health(alerts)}{"".join(figures)}</body>
</html>
"""
    return text.encode()


def _health(alerts: Sequence[tuple[int, str, str]]) -> str:
    """What the rules found, or that they found nothing."""
    lines = [f"<li><b>{escape(rule)}</b>, from step {step}: {escape(text)}</li>\n" for step, rule, text in alerts]
    found = f"<ul>\n{''.join(lines)}</ul>" if lines else "<p>No rule held at any step.</p>"
    return f"<h2>Health</h2>\n{found}\n"


def _figure(name: str, drawn: Drawn) -> str:
    title = CAPTIONS[name][0]
    source = f"data:image/png;base64,{base64.b64encode(drawn.png).decode()}"
    return (
        f'<figure>\n<h2>{escape(title)}</h2>\n<img src="{source}" alt="{escape(title)}">\n'
        f'<figcaption>{escape(drawn.caption)} <a href="{name}.png">{name}.png</a></figcaption>\n</figure>\n'
    )
