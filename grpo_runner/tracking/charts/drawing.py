"""What the pictures share: columns as arrays, the axes' dress, the bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# told apart with any colour vision (Okabe and Ito 2008)
VERMILLION, BLUE, GREEN, PURPLE, SKY, ORANGE = "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
GREY = "#777777"


def column(table: pa.Table, name: str) -> np.ndarray:
    """A column of numbers as floats (R,), NaN for null."""
    return table[name].to_numpy().astype(float)


def new_figure(height: float = 4.8) -> tuple[Figure, Axes, Axes]:
    """Two panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, height), dpi=120, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1)  # type: ignore[union-attr, call-arg]
    left, right = figure.subplots(1, 2)
    return figure, left, right


def dress(axes: Axes) -> None:
    """A light grid, and no frame above and to the right."""
    axes.grid(alpha=0.25, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def whole_numbers(axis: Axis) -> None:
    """Ticks of the axis at whole numbers: steps. One step has one tick."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def say_nothing_to_show(axes: Axes, text: str) -> None:
    """One sentence in the middle of an empty panel."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=GREY, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])


def count(number: float, noun: str) -> str:
    """1 group, 2 groups."""
    return f"{number:,.12g} {noun}{'' if number == 1 else 's'}"


def asked(table: pa.Table) -> str:
    """How many questions, how many times, in which steps."""
    steps, distinct = column(table, "step"), len(set(table["question_id"].to_pylist()))
    first, last = f"{steps.min():.0f}", f"{steps.max():.0f}"
    when = f"step {first}" if first == last else f"steps {first} to {last}"
    return f"{count(distinct, 'question')}, asked {count(table.num_rows, 'time')} in {when}"


def png(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return buffer.getvalue()
