"""Time and cost from measured tokens a second: `--calibrate` times two steps of the run, and keeps the figure.

Nothing is said of a time where nothing was measured. A figure holds for the machine, the model and what else decides a
token's cost (`fingerprint`); it is kept in the user's cache, so that later plans of such runs have it.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ..files import disk_errors, write_json
from ..schema import RunConfig
from .happens import Happens

if TYPE_CHECKING:
    from rich.console import Console

STEPS = 2


@dataclass(frozen=True)
class Speed:
    """Of the last of two timed steps. rollout, update: sampled tokens a second of sampling, and of all that follows it
    in a step; length: mean tokens of an answer there; budget: the most they could have had; date: when it was measured.
    """

    rollout: float
    update: float
    length: float
    budget: int
    date: str


@dataclass(frozen=True)
class Estimate:
    """Hours of the whole run, evaluation included: with answers as long as measured, and as long as they may be."""

    least: float
    most: float
    speed: Speed


def cache_file() -> Path:
    """Where measured speeds are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "grpo_runner" / "speed.json"


def fingerprint(config: RunConfig) -> str:
    """What a measured speed belongs to: the machine, and the keys that decide what a token costs."""
    rollout, optim, model = config.rollout, config.optim, config.model
    parts = (
        platform.node(), config.device, config.dtype, os.environ.get("OMP_NUM_THREADS"), asdict(model),
        asdict(config.lora), rollout.engine, rollout.batch_rows, rollout.merge_lora, rollout.ahead, optim.packing,
        optim.fused, optim.updates_per_rollout, optim.minibatch, optim.microbatch_tokens, config.beta.value > 0,
        config.entropy_bonus > 0, config.group_size.value, config.questions_per_step, config.max_new_tokens,
        config.critic.kind,
    )  # fmt: skip
    return blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def known(config: RunConfig, file: Path | None = None) -> Speed | None:
    """The speed that was measured for such a run on this machine; None where none was, or the file cannot be read."""
    try:
        found = json.loads((file or cache_file()).read_text(encoding="utf-8"))[fingerprint(config)]
        return Speed(**found)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(config: RunConfig, speed: Speed, file: Path | None = None) -> Path:
    """Add a measured speed to the file; a file that cannot be read is begun anew. Raises MachineError."""
    file = file or cache_file()
    try:
        speeds: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        speeds = {}
    with disk_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {**speeds, fingerprint(config): asdict(speed)})
    return file


def estimate(config: RunConfig, counts: Happens, speed: Speed, world: int = 1) -> Estimate:
    """From tokens to hours. Evaluation only samples, and so do the rounds of dynamic sampling beyond the first: none at
    the least, all at the most. Processes share answers evenly, which is the best they can do.
    """
    share = speed.length / speed.budget

    def hours(part: float, rounds: int) -> float:
        sampled = rounds * (counts.sampled_tokens or 0) + counts.evaluation_tokens
        return part * (sampled / speed.rollout + counts.training_tokens / speed.update) / world / 3600

    return Estimate(hours(share, 1), hours(1.0, counts.rounds), speed)


def of_row(row: dict[str, Any], budget: int, date: str) -> Speed:
    """The speed of a step from its row of metrics.jsonl."""
    tokens, rollout = row["tokens/sampled"], row["time/rollout_s"]
    rest = max(row["time/step_s"] - rollout, 1e-9)
    return Speed(tokens / max(rollout, 1e-9), tokens / rest, row["length/mean"], budget, date)


def by_text(questions: Sequence[str], golds: Sequence[object], completions: Sequence[str]) -> list[float]:
    """The reward of the timed steps, a checksum: it differs from answer to answer, so that each has weight."""
    return [crc32(text.encode("utf-8", "replace")) / 2**32 for text in completions]


def calibrate(config: RunConfig, console: Console) -> Speed:
    """Make two steps of the run in a temporary folder, and keep the speed of the second. Loads torch and the model.

    The reward is `by_text`: under its own, a model that answers nothing right would have no update to time.
    """
    from ..tracking import jsonl, quiet_libraries
    from ..train import run

    quiet_libraries()
    console.print(f"timing {STEPS} steps of this run", style="dim")
    with tempfile.TemporaryDirectory() as name:
        timed = replace(
            config,
            steps=STEPS,
            run_dir=str(Path(name) / "run"),
            reward=replace(
                config.reward,
                parts={"function": 1.0},
                function=f"{__name__}:by_text",
                truncated="keep",
                overlong_buffer=None,
            ),
            evaluation=replace(config.evaluation, every=0),
            tracking=replace(config.tracking, wandb="disabled", probe_every=0),
            checkpoint=replace(config.checkpoint, every=0),
        )
        run(timed)
        row = [row for _, row in jsonl.whole_lines(Path(timed.run_dir) / "metrics.jsonl")][-1]
    speed = of_row(row, config.max_new_tokens, time.strftime("%Y-%m-%d"))
    console.print(f"kept in {keep(config, speed)}", style="dim", soft_wrap=True)
    return speed
