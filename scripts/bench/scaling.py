#!/usr/bin/env python3
"""Step time against group size, answer length and model size: scaling.py [--model FOLDER] [--quick]

Each point is one run of this package in a process of its own: 4 questions, 8 answers of 64 tokens and the tiny model
except for what is varied. --model adds a real model as the last point of the model sizes. Leaves the figures
(docs/speed/scaling.json) and a picture (docs/speed_scaling.png).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import flops  # noqa: E402
from cases import Case, model_folder, prompts, write_questions  # noqa: E402
from compare import WARM_UP, settings_of, spread, unequal  # noqa: E402
from running import ROOT, command_line, machine, run_ours, write  # noqa: E402

GROUP_SIZES = (4, 8, 16, 32, 64)
LENGTHS = (64, 128, 256, 512, 1024)
AXES = {"group size": "answers a question", "answer length": "tokens an answer", "model size": "parameters"}


def points(models: list[str], quick: bool) -> list[tuple[str, str, Case]]:
    """(axis, model, case) of each run. quick: the ends of each axis alone."""
    every = 4 if quick else 1
    steps = WARM_UP + (2 if quick else 4)
    made = [
        ("group size", "tiny", Case("group size", 4, size, 64, rank=8, characters=16, steps=steps))
        for size in GROUP_SIZES[::every]
    ]
    made += [
        ("answer length", "tiny", Case("answer length", 4, 8, length, rank=8, characters=16, steps=steps))
        for length in LENGTHS[::every]
    ]
    return made + [
        ("model size", model, Case("model size", 4, 8, 64, rank=8, characters=16, steps=steps)) for model in models
    ]


def measured(axis: str, model: str, case: Case, folder: Path, threads: int, dtype: str) -> dict[str, Any]:
    """One point."""
    made = model_folder(model, folder)
    data = write_questions(folder, prompts(case.questions, case.characters, arithmetic=model == "embedded"))
    run = run_ours(settings_of(case, made, data, threads, dtype, 0))
    if problems := unequal(case, [run]):
        sys.exit("\n".join(problems))
    config = json.loads((made / "config.json").read_text())
    shape = flops.shapes(config)
    size = shape.base + shape.head[0] * shape.head[1] * (1 if config.get("tie_word_embeddings") else 2)
    name = model if model in ("tiny", "embedded") else Path(model).name
    values = {"group size": case.group_size, "answer length": case.new_tokens, "model size": size}
    return {
        "axis": axis,
        "at": values[axis],
        "value": f"{values[axis]:,}",
        "model": name,
        "questions": case.questions,
        "group_size": case.group_size,
        "new_tokens": case.new_tokens,
        "tokens": case.sampled,
        "step_s": spread(run["steps_s"][WARM_UP:]),
        "rollout_s": spread(run["rollout_s"][WARM_UP:]),
        "update_s": spread(run["update_s"][WARM_UP:]),
        "peak_mib": run["peak_mib"],
    }


def draw(rows: list[dict[str, Any]], output: Path) -> None:
    """A panel an axis: step, sampling and update, in logarithms; the dashed line is "twice as much, twice as long"."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(AXES), figsize=(11, 3.6), layout="constrained", sharey=True)
    for panel, (axis, label) in zip(panels, AXES.items(), strict=True):
        own = sorted((row for row in rows if row["axis"] == axis), key=lambda row: row["at"])
        at = [row["at"] for row in own]
        for key, name in (("step_s", "step"), ("rollout_s", "sampling"), ("update_s", "update")):
            panel.plot(at, [row[key]["median"] for row in own], marker="o", markersize=4, label=name)
        first = own[0]["step_s"]["median"]
        panel.plot(at, [first * value / at[0] for value in at], "k--", linewidth=0.8, alpha=0.5, label="proportional")
        if axis == "model size":
            for row in own:
                near = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center", "fontsize": 8}
                panel.annotate(row["model"], (row["at"], row["step_s"]["median"]), **near)
            panel.margins(x=0.15, y=0.12)
        panel.set(xscale="log", yscale="log", xlabel=label, title=axis)
        if axis != "model size":
            panel.set_xticks(at, [str(value) for value in at])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("seconds (median)")
    panels[0].legend(fontsize=8)
    figure.savefig(output, dpi=110)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model folder, as the last point of the model sizes")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="the ends of each axis, two steps each")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "speed" / "scaling.json")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "speed_scaling.png")
    asked = parser.parse_args()
    rows, at = [], machine(asked.threads)
    for axis, model, case in points(["embedded", "tiny", *([asked.model] if asked.model else [])], asked.quick):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(axis, model, case, Path(folder), asked.threads, asked.dtype))
        row = rows[-1]
        print(f"{axis} {row['value']} ({row['model']}): {row['step_s']['median']:.3f} s", flush=True)
    write(
        asked.output, {"kind": "scaling", "dtype": asked.dtype, "command": command_line(), "machine": at, "rows": rows}
    )
    draw(rows, asked.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
