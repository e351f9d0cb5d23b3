"""A run whose processes write down the processor's seconds of their own work: `timed.py FOLDER OVERRIDES`, by torchrun.

FOLDER/RANK.json has, of each step, the seconds that this process itself computed in sampling and in the update,
whatever else ran on the machine and however long it waited, and the lengths of its answers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from grpo_runner import compose, parallel  # noqa: E402
from grpo_runner.policy.update import Trainer  # noqa: E402
from grpo_runner.rollout.native import NativeEngine  # noqa: E402
from grpo_runner.train import run  # noqa: E402

NOTES: dict[str, list[Any]] = {"rollout_s": [], "update_s": [], "lengths": []}


def noted(owner: type, name: str, note: Callable[[float, Any], None]) -> None:
    """Call `note` with the processor's seconds of each call and what it gave."""
    original = getattr(owner, name)

    def wrapped(*given: Any, **named: Any) -> Any:
        began = time.process_time()
        found = original(*given, **named)
        note(time.process_time() - began, found)
        return found

    setattr(owner, name, wrapped)


def sampled(seconds: float, groups: Any) -> None:
    NOTES["rollout_s"].append(seconds)
    NOTES["lengths"].append([[len(answer.token_ids) for answer in group.completions] for group in groups])


def main() -> int:
    """Make the run, and write."""
    folder, words = Path(sys.argv[1]), sys.argv[2:]
    noted(NativeEngine, "sample", sampled)
    noted(Trainer, "_accumulate", lambda seconds, _: NOTES["update_s"].append(seconds))
    run(compose(words))
    (folder / f"{parallel.ranks().rank}.json").write_text(json.dumps(NOTES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
