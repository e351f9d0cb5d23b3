"""What a meeting of processes takes here: `torchrun --nproc-per-node N scripts/cluster/meet.py BYTES NUMBERS`.

Rank 0 prints one line of JSON: seconds of an empty meeting, of one in which all give BYTES bytes together, and of a sum
of NUMBERS float32 numbers; medians.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import torch  # noqa: E402

from grpo_runner import parallel  # noqa: E402

TIMES = 30


def median_s(work: Callable[[], object]) -> float:
    """Seconds of one call, the first two left out."""
    taken = []
    for _ in range(TIMES + 2):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[2:])


def main() -> int:
    """Time the three, and print them."""
    bytes_, numbers = int(sys.argv[1]), int(sys.argv[2])
    own = parallel.ranks()
    given, tensor = b"x" * (bytes_ // own.world), torch.zeros(numbers)
    found = {
        "meeting_s": median_s(lambda: own.gather([0], "empty")),
        "gather_s": median_s(lambda: own.gather([given], "answers")),
        "sum_s": median_s(lambda: own.sum(tensor, "gradient")),
    }
    if own.leads:
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
