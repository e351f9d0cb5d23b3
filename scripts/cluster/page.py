"""docs/scale.md: its tables from docs/scale/plan.json and calibration.json, and the picture. No torch."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import plan as planning
from .hardware import ASSUMED, GB, GPUS, USUAL, Assumed
from .plan import LOADS, MODELS, Plan

ROOT = Path(__file__).resolve().parents[2]
PAGE, PICTURE = ROOT / "docs" / "scale.md", ROOT / "docs" / "scale.png"
PLAN, CALIBRATION = ROOT / "docs" / "scale" / "plan.json", ROOT / "docs" / "scale" / "calibration.json"
COUNTS = (8, 16, 32, 64, 128, 256, 512, 1024)
SHOWN = (8, 64, 512)
WHOLE_S = 3e-7  # until it is measured
CHANGES: dict[str, Assumed] = {
    "as assumed": USUAL,
    "decoding reads at 40 % (60 %)": Assumed(read=0.4),
    "decoding reads at 80 %": Assumed(read=0.8),
    "products at 25 % (40 %)": Assumed(mfu=0.25),
    "products at 50 %": Assumed(mfu=0.5),
    "4 ms beyond that in a round (1 ms)": Assumed(round_s=4e-3),
    "answers exchanged at 0.1 GB/s (1)": Assumed(gloo=1e8),
}
BLOCK = re.compile(r"(<!-- scale:(\w+) -->\n).*?(<!-- /scale -->)", re.DOTALL)


# --- what the plan's file holds


def fastest(found: Sequence[Plan]) -> Plan:
    """The shortest step; of nearly equal ones (2 %) the simplest layout."""
    least = min(one.step.seconds for one in found)
    return next(one for one in found if one.step.seconds <= 1.02 * least)


def row(gpu: str, model: str, load: str, kind: str, found: Plan) -> dict[str, Any]:
    """One plan as the file has it; numbers to four digits."""
    step, layout = found.step, found.layout
    figures = {
        "rollout_rate": found.rollout_rate, "update_rate": found.update_rate, "rollout_s": step.rollout,
        "update_s": step.update, "rest_s": step.seconds - step.rollout - step.update, "step_s": step.seconds,
        "idle": step.idle, "waited_rollout_s": step.waited_rollout, "waited_update_s": step.waited_update,
        "floor_s": planning.floor_seconds(model, GPUS[gpu], layout),
    }  # fmt: skip
    return {
        "gpu": gpu, "model": model, "load": load, "kind": kind, "gpus": layout.gpus, "tensor": layout.tensor,
        "sharded": layout.sharded, "rooms": found.rooms, **{name: four(value) for name, value in figures.items()},
    }  # fmt: skip


def four(value: float) -> float:
    return float(f"{value:.4g}")


def rows_of(gpu: str, model: str, load: str, gpus: int, whole_s: float) -> list[dict[str, Any]]:
    """The simplest layout that fits, and the fastest."""
    found = planning.fitting(model, GPUS[gpu], gpus, LOADS[load], whole_s)
    return [row(gpu, model, load, "simplest", found[0]), row(gpu, model, load, "fastest", fastest(found))]


def changes(whole_s: float) -> dict[str, dict[str, float]]:
    """Seconds of the fastest step on 64 H100 for the large load, by what is assumed."""
    return {
        said: {
            model: four(fastest(planning.fitting(model, GPUS["H100"], 64, LOADS["large"], whole_s, one)).step.seconds)
            for model in MODELS
        }
        for said, one in CHANGES.items()
    }


def made(whole_s: float) -> dict[str, Any]:
    """All that the page shows: half a minute."""
    rows = [
        one for gpu in GPUS for load in LOADS for model in MODELS for gpus in COUNTS
        for one in rows_of(gpu, model, load, gpus, whole_s)
    ]  # fmt: skip
    return {"whole_s": whole_s, "rows": rows, "changes": changes(whole_s)}


# --- tables


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Markdown; the first `left` columns are words."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def size(value: float) -> str:
    for unit, name in ((1e12, "TB"), (GB, "GB")):
        if value >= unit:
            return f"{value / unit:.1f} {name}"
    return f"{value / 1e6:.0f} MB"


def layout(one: Mapping[str, Any]) -> str:
    if not one["sharded"]:
        return "whole"
    return f"sharded, {one['tensor']} a replica" if one["tensor"] > 1 else "sharded, 1 a replica"


def assumptions(plan: Mapping[str, Any]) -> str:
    figure = f"{1e6 * plan['whole_s']:.2g} µs a token of the step"
    source = "measured here, seconds of a processor (`whole_seconds` in scripts/cluster/calibrate.py)"
    return table(
        ("what", "figure", "source"),
        [*ASSUMED, ("answers made into tensors and weighed, by every process", figure, source)],
        3,
    )


def memory(plan: Mapping[str, Any]) -> str:
    """GB of a GPU, for the simplest layout that fits."""
    columns, heads = [], []
    for gpu in GPUS:
        for model in MODELS:
            one = next(one for one in plan["rows"] if (one["gpu"], one["model"], one["gpus"]) == (gpu, model, 8))
            heads.append(f"{model}, {gpu}: {layout(one)}")
            own = planning.Layout(8, one["tensor"], one["sharded"])
            columns.append((planning.memory(planning.sizes(model), GPUS[gpu], own), one["rooms"]))
    names = [*columns[0][0]]
    rows = [[name, *(f"{parts[name] / GB:.1f}" for parts, _ in columns)] for name in names]
    rows.append(["answers of a replica at once", *(str(rooms) for _, rooms in columns)])
    return table(("GB a GPU", *heads), rows)


def steps(plan: Mapping[str, Any]) -> str:
    """The large load with the fastest layout."""
    rows = [
        [
            one["gpu"], one["model"], str(one["gpus"]), layout(one), f"{one['rollout_rate']:,.0f}",
            f"{one['update_rate']:,.0f}", seconds(one["rollout_s"]), seconds(one["update_s"]), seconds(one["rest_s"]),
            f"**{seconds(one['step_s'])}**", f"{100 * one['idle']:.0f} %",
        ]
        for one in plan["rows"]
        if one["load"] == "large" and one["kind"] == "fastest" and one["gpus"] in SHOWN
    ]  # fmt: skip
    head = (
        "GPU",
        "model",
        "GPUs",
        "layout",
        "sampling, tokens/s",
        "update, tokens/s",
        "sampling s",
        "update s",
        "rest s",
        "step s",
        "idle",
    )
    return table(head, rows, 4)


def both(plan: Mapping[str, Any]) -> str:
    """Seconds of a step, simplest and fastest layout, both loads; and where it stops."""
    rows = []
    for gpu in GPUS:
        for model in MODELS:
            for kind in ("simplest", "fastest"):
                cells = [gpu, model, kind]
                for load in LOADS:
                    own = {
                        one["gpus"]: one
                        for one in plan["rows"]
                        if (one["gpu"], one["model"], one["load"], one["kind"]) == (gpu, model, load, kind)
                    }
                    cells += [f"{seconds(own[gpus]['step_s'])} ({100 * own[gpus]['idle']:.0f} %)" for gpus in SHOWN]
                    cells.append(str(planning.stops_at({gpus: own[gpus]["step_s"] for gpus in COUNTS})))
                rows.append(cells)
    head = ["GPU", "model", "layout"]
    for load in LOADS.values():
        head += [f"{load.name}: 8 GPUs", "64", "512", "stops at"]
    return table(head, rows, 3)


def bytes_(plan: Mapping[str, Any]) -> str:
    """Received in a step, large load; the base is gathered in the sharded layout alone."""
    rows = []
    for model in MODELS:
        for gpus in SHOWN:
            found = planning.bytes_a_step(
                planning.sizes(model), planning.Layout(gpus, 8, True), planning.lengths(LOADS["large"])
            )
            rows.append([model, str(gpus), *(size(found[name]) for name in found)])
    head = (
        "model",
        "GPUs",
        "adapter, to each engine",
        "gradient, each GPU",
        "answers, each process",
        "base gathered, each GPU",
    )
    return table(head, rows)


def sensitivity(plan: Mapping[str, Any]) -> str:
    rows = [[said, *(seconds(found[model]) for model in MODELS)] for said, found in plan["changes"].items()]
    return table(("step s on 64 H100, 512 × 16", *MODELS), rows)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean (least to most)."""
    texts = [f"{value:.{digits}g}" for value in (statistics.fmean(values), min(values), max(values))]
    return f"{texts[0]} ({texts[1]}–{texts[2]})" if len(values) > 1 else texts[0]


def calibration(found: Mapping[str, Any]) -> str:
    """Measured against predicted, for each case."""
    if not found.get("cases"):
        return "Not measured."
    parts = []
    for case in found["cases"]:
        rows = []
        for place, world in enumerate(one["world"] for one in case["repetitions"][0]["worlds"]):
            own = [repetition["worlds"][place] for repetition in case["repetitions"]]
            cells = [str(world)]
            for what in ("step_s", "update_s", "wait_s"):
                cells += [spread([one[kind][what] for one in own]) for kind in ("predicted", "measured")]
            off = [one["predicted"]["step_s"] / one["measured"]["step_s"] - 1 for one in own]
            cells.append(" to ".join(f"{100 * value:+.0f} %" for value in (min(off), max(off))))
            rows.append(cells)
        head = (
            "processes",
            "step s, predicted",
            "measured",
            "update s, predicted",
            "measured",
            "waited s, predicted",
            "measured",
            "step: predicted over measured",
        )
        neighbour = spread([one["neighbour"] for one in case["repetitions"]])
        load = spread([one["load"] for one in case["repetitions"]])
        at = found["machine"]
        count = len(case["repetitions"])
        said = f"{count} repetitions, of each its median step: mean (least–most). A busy neighbour: × {neighbour}."
        made_by = f"`{case['command']}` · {at['cpu']}, {at['cores']} cores, torch {at['torch']}"
        when = f"commit {case['commit']}, {case['date']}; load before: {load}"
        parts.append(f"**{case['name']}**\n\n{table(head, rows)}\n\n{said} {made_by} · {when}.")
    return "\n\n".join(parts)


def own_core(found: Mapping[str, Any]) -> str:
    """Seconds of the processor: predicted and measured, of the slowest process and of waiting."""
    if not (made := found.get("own_core")):
        return "Not measured."
    rows = []
    for place, world in enumerate(one["world"] for one in made["repetitions"][0]["worlds"]):
        own = [repetition["worlds"][place] for repetition in made["repetitions"]]
        cells = [str(world)]
        for what in ("rollout", "update"):
            cells += [spread([one[kind][f"{what}_s"] for one in own]) for kind in ("predicted", "measured")]
            idle = [[100 * one[kind][f"{what}_idle"] for one in own] for kind in ("predicted", "measured")]
            cells += [f"{spread(values, 2)} %" if world > 1 else "–" for values in idle]
        both_s = [[one[kind]["rollout_s"] + one[kind]["update_s"] for one in own] for kind in ("predicted", "measured")]
        off = [100 * (said / took - 1) for said, took in zip(*both_s, strict=True)]
        rows.append([*cells, f"{round(min(off)):+d} to {round(max(off)):+d} %"])
    head = ["processes"]
    for what in ("sampling", "update"):
        head += [f"{what} s, predicted", "measured", "waiting, predicted", "measured"]
    at, count = found["machine"], len(made["repetitions"])
    said = f"{count} repetitions: mean (least–most). `{made['command']}` · {at['cpu']}, {at['cores']} cores"
    load = spread([one["load"] for one in made["repetitions"]])
    when = f"commit {made['commit']}, {made['date']}; load before: {load}"
    return f"{table([*head, 'both: predicted over measured'], rows)}\n\n{said}, torch {at['torch']} · {when}."


def filled(text: str, plan: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The page with its blocks made anew."""
    blocks = {
        "assumptions": assumptions(plan), "memory": memory(plan), "steps": steps(plan), "both": both(plan),
        "bytes": bytes_(plan), "sensitivity": sensitivity(plan), "calibration": calibration(found),
        "own_core": own_core(found),
    }  # fmt: skip
    return BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]}\n{match[3]}", text)


def read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return values


def write(path: Path, values: Mapping[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
