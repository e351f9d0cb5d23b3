#!/usr/bin/env python3
"""What only a GPU can show, in under four minutes, without a network: gpu_check.py [--dry] [--only PART ...]

Makes random models of real shapes on the device, checks what they compute, how fast and in how much memory, trains the
embedded model for a few steps and runs tests/gpu. Prints one table and writes the same as JSON (--output; else
gpu_check.json in the folder $OUT, where that is set). Exits 1 if a check fails; a part that raises is a failed row, and
the rest still run. It is for a GPU of 80 GB or more. --dry does all of it on the CPU with tiny shapes, where speed and
device memory are not judged.
"""

from __future__ import annotations

import time

BEGAN = time.monotonic()  # before the slow imports, which count too

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import platform  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
from gpu import jobs, numbers, speed  # noqa: E402
from gpu.rows import Part, Setting, as_json, failed, run_parts, table  # noqa: E402
from rich.console import Console  # noqa: E402

# Of the whole, imports included. The parts may take less than this together.
SECONDS = 230
PARTS = (
    Part("limits", 6, speed.limits),
    Part("gradients", 18, numbers.gradients),
    Part("engines", 18, numbers.engines),
    Part("merged", 8, numbers.merged),
    Part("halving", 8, numbers.halving),
    Part("decode 0.5B", 14, speed.small_decode),
    Part("7B", 40, speed.large),
    Part("1.5B", 14, speed.middle),
    Part("training", 20, jobs.training),
    Part("tests", 75, jobs.tests),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 where nothing failed, 1 where something did, 2 where there is no GPU for it."""
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="on the CPU, with tiny shapes")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PART", help=", ".join(names))
    parser.add_argument("--output", type=Path, help="JSON file; default: $OUT/gpu_check.json where OUT is set")
    asked = parser.parse_args(arguments)
    if not asked.dry and not torch.cuda.is_available():
        print("gpu_check.py: no CUDA device here; --dry runs on the CPU.", file=sys.stderr)
        return 2
    setting = Setting(torch.device("cpu" if asked.dry else "cuda"), asked.dry)
    until = time.monotonic() + SECONDS if asked.dry else BEGAN + SECONDS
    rows = run_parts([part for part in PARTS if part.name in asked.only], setting, until)
    wrong = failed(rows)
    title = f"gpu_check{' --dry' if asked.dry else ''}: {len(wrong)} of {sum(r.ok is not None for r in rows)} failed"
    Console(width=None if sys.stdout.isatty() else 150).print(table(rows, title))
    output = asked.output or (Path(os.environ["OUT"]) / "gpu_check.json" if os.environ.get("OUT") else None)
    if output:
        versions = {"torch": torch.__version__, "python": platform.python_version()}
        made = {"dry": asked.dry, "seconds": time.monotonic() - BEGAN, "versions": versions, "rows": as_json(rows)}
        output.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
