"""Can a planned run begin on this machine? `ready PLAN.json SCRIPT` says in up to five lines why not, and exits 2.

The plan's memory is for the longest prompts and answers there can be, so that a user may decide otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def gpu_memory() -> int | None:
    """Bytes of the smallest GPU; None where there is none."""
    words = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    sizes = [int(word) for word in told if word.isdecimal()]
    return min(sizes) * 2**20 if sizes else None


def without_source(bites: list[dict[str, Any]], preset: str) -> list[str]:
    """What to do where the plan says that questions have no source, or one that cannot be read; none where they can."""
    paths = [bite for bite in bites if bite["key"].endswith(".path") and bite["key"] != "model.path"]
    if not paths:
        return []
    key, text = paths[0]["key"], paths[0]["text"]
    if key == "data.train.path" and "has no source" in text:
        text = "The questions to train on come from a file here: data.train.path=FILE goes behind the script's name."
    else:
        text = f"{text}\nA file that can be read: {key}=FILE goes behind the script's name."
    return [*text.split("\n"), f"Which file: conf/experiment/{preset}.yaml and the comments of its conf/data file."]


def too_small(needs: dict[str, Any], memory: int | None) -> list[str]:
    """Why the run does not fit, in lines; none where it does, or where the plan does not know the model.

    needs: the plan's. memory: of a GPU, None for the CPU. A GPU is judged by the largest of the plan's that it holds.
    """
    kind = "CPU" if memory is None else "GPU"
    devices = [device for device in needs["devices"] if device["name"].startswith(kind)]
    if not devices:
        return []
    device = max(
        (d for d in devices if memory is None or d["size"] <= memory), key=lambda d: d["size"], default=devices[0]
    )
    there = device["size"] if memory is None else memory
    most = max(device["peaks"].values())
    if most <= there:
        return []
    told = [f"Needs up to {most / 1e9:.0f} GB on each {kind}, and there are {there / 1e9:.0f} (see the plan above)."]
    if (change := device["change"]) and change["changes"]:
        enough = "enough" if change["fits"] else "not enough yet"
        told.append(f"Change: {' '.join(change['changes'])} ({enough}). It goes behind the script's name.")
    return told


if __name__ == "__main__":
    plan, script = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    lines = without_source(plan["bites"], script.stem)
    if small := too_small(plan["needs"], gpu_memory()):
        lines += [*small, f"To train all the same: ANYWAY=1 {script}"]
    if lines:
        print(*lines, sep="\n", file=sys.stderr)
        sys.exit(2)
