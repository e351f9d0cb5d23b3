"""docs/scale.png: seconds of a step over the number of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .page import COUNTS
from .plan import BUDGET, LOADS, MODELS


def draw(plan: Mapping[str, Any], output: Path) -> None:
    """A panel a load: seconds of a step over GPUs, H100, the fastest layout and (dashed) were it proportional."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(LOADS), figsize=(11, 4.4), layout="constrained", sharey=True)
    colours = dict(zip(MODELS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
    for panel, (load, named) in zip(panels, LOADS.items(), strict=True):
        for model, colour in colours.items():
            for kind, mark in (("fastest", "o-"), ("simplest", "s:")):
                own = [
                    one for one in plan["rows"]
                    if (one["gpu"], one["load"], one["kind"], one["model"]) == ("H100", load, kind, model)
                ]  # fmt: skip
                at, took = [one["gpus"] for one in own], [one["step_s"] for one in own]
                label = f"{model}, {'fastest layout' if kind == 'fastest' else 'simplest that fits'}"
                panel.plot(
                    at, took, mark, color=colour, markersize=4, linewidth=1.6 if kind == "fastest" else 1, label=label
                )
                if kind == "fastest":
                    panel.plot(
                        at, [took[0] * at[0] / gpus for gpus in at], "--", color=colour, linewidth=0.8, alpha=0.5
                    )
                    last = own[-1]["floor_s"]
                    panel.plot(at[-1] * 1.35, last, marker=5, color=colour, markersize=7, clip_on=False)
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="GPUs (H100)",
            title=f"{named.name} answers of up to {BUDGET:,} tokens",
            ylim=(10, 6000),
        )
        panel.set_xticks(COUNTS, [str(gpus) for gpus in COUNTS])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("seconds a step (worked out)")
    panels[0].legend(fontsize=8, loc="upper right")
    panels[1].text(
        0.98,
        0.97,
        "dashed: in proportion to 8 GPUs\n▸ one answer of full length, alone",
        transform=panels[1].transAxes,
        ha="right",
        va="top",
        fontsize=8,
    )
    figure.savefig(output, dpi=110)
    plt.close(figure)
