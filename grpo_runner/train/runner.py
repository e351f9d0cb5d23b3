"""`run(config) -> Summary`: take the folder, build the parts, train or go on, and leave the results."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__, checks, parallel
from ..errors import Interrupted, Unhealthy
from ..health import Watched
from ..method import method_name
from ..parallel import Ranks
from ..policy.memory import forget_peak, peak
from ..policy.models import choose_device
from ..schema import RunConfig
from ..signals import error_of, finishing_the_step
from ..tracking import LocalTracker, Terminal, Trackers, WandbTracker, jsonl, quiet_libraries
from ..tracking.local import check_record
from ..validate import shown
from .build import build
from .folder import RunFolder, git
from .loop import train


@dataclass(frozen=True)
class Summary:
    """What a run came to; also summary.json.

    status: done, stopped, interrupted or failed. steps: steps made in all. before, after: the first and the last row of
    evals.jsonl, {} when evaluation.every is 0. health: the rules that held, each with the step at which it first did.
    seconds: wall time of this call. data: sha256 of the training questions (DataSets.digest). machine: `machine()`.
    command: the command line that made it; None where that was another program's. peak_memory_mb: `memory.peak`, of
    this call and of this process alone.
    """

    run_dir: str
    method: str
    seed: int
    steps: int
    status: str
    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)
    health: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    versions: dict[str, str | None] = field(default_factory=dict)
    data: str | None = None
    machine: str | None = None
    command: str | None = None
    peak_memory_mb: float | None = None


def run(config: RunConfig) -> Summary:
    """Train as the configuration says, or go on where its folder left off.

    Raises RunnerError of the fitting kind: InputError for what the user can mend, BusyError for a folder in use,
    NonFiniteError for a run that stopped itself, Unhealthy where health.stop_on ended it, Interrupted after Ctrl-C, its
    kind Preempted after SIGTERM or SIGUSR1. In each case the folder can be gone on from.
    Under torchrun, all processes raise or return the same, and the first alone has the folder and the terminal.
    """
    quiet_libraries()
    ranks = parallel.ranks()
    with ranks.together(), ExitStack() as held:
        checks.check(config)
        folder, terminal = RunFolder(config), Terminal()

        def take() -> dict[str, Any] | None:
            held.enter_context(folder.locked())
            if done := folder.check():
                terminal.say(f"{folder.path}: finished before, with {done['steps']} steps; nothing to do")
            return done

        if done := ranks.by_first(take, "folder"):
            return Summary(**done)
        return _train(config, folder, terminal, ranks)


def _train(config: RunConfig, folder: RunFolder, terminal: Terminal, ranks: Ranks) -> Summary:
    began = time.perf_counter()
    method = method_name(config)
    say = terminal.say if ranks.leads else _silent
    watched = Watched([LocalTracker(), WandbTracker(say), terminal], config.health.stop_on)
    tracker: Trackers = watched if ranks.leads else Trackers([])  # the others have no record to look at
    reached, status, end = 0, "failed", Interrupted
    held: dict[str, str] = {}

    def summary() -> Summary:
        before, after = _first_and_last(folder.path / "evals.jsonl")
        seconds = round(time.perf_counter() - began, 1)
        of_run = (str(folder.path), method, config.seed, reached, status, before, after, watched.first)
        made_on = machine(built.plan["device"]), _command(), peak(device)
        return Summary(*of_run, seconds, versions(), built.data.digest, *made_on)

    device = ranks.device(choose_device(config.device))
    forget_peak(device)
    with ExitStack() as closing:
        built = build(config, folder.path, tracker, say, closing, ranks)
        if ranks.leads:
            check_record(config, built.start)
            if built.start:
                say(f"going on from step {built.start}")
            # not before all was found to be in order: a refused run leaves nothing
            other = folder.begin(built.data, versions())
            if built.start and other:
                say(other)
            terminal.announce(method, built.plan, built.notes)
        reached = built.start
        tracker.start(config, built.start or None)
        asked = closing.enter_context(finishing_the_step(say))
        try:
            reached = train(built.parts, built.start, lambda: ranks.any(bool(asked() or watched.stopping), "stop"))
            if reached == config.steps and config.evaluation.every:
                built.parts.evaluate(reached)
            if ranks.leads:
                built.save_model()
            if reached < config.steps:
                # where processes were sent different signals, all say what a scheduler is to hear
                if number := max(ranks.gather([asked()], "asked")):
                    end = error_of(number)
                else:
                    held = ranks.by_first(lambda: watched.stopping, "health")
            status = "done" if reached == config.steps else "stopped" if held else "interrupted"
        except (KeyboardInterrupt, Interrupted) as error:  # the latter: of another process
            status, end = "interrupted", type(error) if isinstance(error, Interrupted) else Interrupted
        finally:
            tracker.finish(asdict(summary()))
    if status == "stopped":
        raise Unhealthy(_unhealthy(folder.path, reached - 1, held))
    if status == "interrupted":
        raise end(f"Stopped; what was done is saved in {folder.path}.\nThe same command goes on from there.")

    def finished() -> Summary:
        result = summary()
        folder.finish(asdict(result))
        return result

    return ranks.by_first(finished, "summary")


def _unhealthy(path: Path, step: int, held: dict[str, str]) -> str:
    """What a run that health.stop_on ended says: at most five lines."""
    found = [f"{name}: {text}" for name, text in held.items()][:2]
    return "\n".join(
        [
            f"health.stop_on={shown(list(held))}: stopped after step {step}.",
            *found,
            f"What was done is saved in {path}. The same command stops here again:",
            "leave the rule out of health.stop_on to go on all the same.",
        ]
    )


def _silent(text: str) -> None:
    """What the other processes say."""


def versions() -> dict[str, str | None]:
    """What the figures of a run depend on: this package with its commit, Python, and the libraries that compute.

    commit is None for an installed package, and ends in "+changes" where the checkout had some (see code.diff).
    """
    libraries = {name: version(name) for name in ("torch", "transformers", "peft")}
    commit = git("rev-parse", "HEAD").strip() or None
    if commit and git("status", "--porcelain"):
        commit += "+changes"
    return {
        "grpo_runner": __version__,
        "commit": commit,
        "python": platform.python_version(),
    } | libraries


def machine(device: str) -> str:
    """`Linux x86_64, 2 CPU cores; cpu, float32`: the machine and the device with its number type."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpu = f", {torch.cuda.get_device_name()}" if device.startswith("cuda") else ""
    return f"{platform.system()} {platform.machine()}, {cores} CPU core{'s' * (cores != 1)}{gpu}; {device}"


def _command() -> str | None:
    """As it was typed: Hydra has another sys.argv while a run goes on."""
    words = sys.orig_argv
    if "-m" in words and words[words.index("-m") + 1 :][:1] == ["grpo_runner"]:
        return shlex.join(["python", *words[words.index("-m") :]])
    at = next((place for place, word in enumerate(words) if Path(word).name == "grpo-runner"), None)
    return None if at is None else shlex.join(["grpo-runner", *words[at + 1 :]])


def _first_and_last(evals: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    rows = [row for _, row in jsonl.whole_lines(evals)]
    return (rows[0], rows[-1]) if rows else ({}, {})
