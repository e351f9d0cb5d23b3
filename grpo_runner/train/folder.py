"""A run's folder: one writer at a time, one configuration, and what says that it is finished."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..errors import BusyError, InputError
from ..files import disk_errors, write_atomic, write_json
from ..schema import RunConfig
from ..validate import load, shown, shown_key, to_yaml

# Keys that may differ when a run goes on: they do not change what the steps compute.
MAY_CHANGE = ("run_dir", "run_name", "sweep_name", "tracking", "checkpoint", "rollout.batch_rows")


class RunFolder:
    """Paths of one run. `prepare` checks the folder against the configuration; the README lists what it holds."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.path = config, Path(config.run_dir)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process. Raises BusyError if another has it; a killed one's lock frees itself."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise BusyError(
                    f"{self.path}: another process is writing to this run.\nWait for it, or give another run_name."
                ) from None
        try:
            yield
        finally:
            lock.release()
            if [file.name for file in self.path.iterdir()] == [".lock"]:  # nothing came of it
                with suppress(OSError):
                    (self.path / ".lock").unlink()
                    self.path.rmdir()

    def prepare(self) -> dict[str, Any] | None:
        """Write config.yaml and code.diff, or hold what the folder has against this run. Gives the summary of a run
        that is finished already, which is left as it is; None when there are steps to make.

        Raises InputError naming the keys in which a run that would go on from what is there differs from it.
        """
        file = self.path / "config.yaml"
        started = self._started()  # before its first step, a run may still be corrected
        if not (started and file.exists()):
            write_atomic(file, to_yaml(self.config).encode())
            self._record_code()
            return None
        theirs = asdict(load(file))
        changed = differences(theirs, asdict(self.config))
        refused = [line for key, line in changed.items() if not self._may_change(key, theirs)]
        if refused:
            first = f"{self.path} holds a run with other settings; this one cannot go on from it."
            more = [f"  … and {len(refused) - 3} more"] if len(refused) > 3 else []
            raise InputError("\n".join([f"{first} Give another run_name.", *refused[:3], *more]))
        if done := self._finished():
            return done
        (self.path / "DONE").unlink(missing_ok=True)  # it has more steps to make now
        if changed:
            write_atomic(file, to_yaml(self.config).encode())
        self._record_code()
        return None

    def _started(self) -> bool:
        names = ("metrics.jsonl", "DONE", "checkpoints/step_*")
        return any(True for name in names for _ in self.path.glob(name))

    def _record_code(self) -> None:
        """code.diff of the first start; a later start with other code adds code.2.diff, and so on."""
        diff = code_diff().encode("utf-8", "surrogateescape")
        names = ["code.diff", *(f"code.{number}.diff" for number in range(2, 1000))]
        newest = None
        for name in names:
            if not (self.path / name).exists():
                if newest is None or (self.path / newest).read_bytes() != diff:
                    write_atomic(self.path / name, diff)
                return
            newest = name

    def _may_change(self, key: str, theirs: dict[str, Any]) -> bool:
        if key == "steps":  # a run may be made longer, unless its schedule ends at `steps`
            return self.config.steps > theirs["steps"] and self.config.optim.schedule == "constant"
        return any(key == allowed or key.startswith(allowed + ".") for allowed in MAY_CHANGE)

    def abandon(self) -> None:
        """Take back what `prepare` wrote, for a run that was refused before its first step."""
        if not self._started():
            for name in ("config.yaml", "code.diff"):
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):
                (self.path / "checkpoints").rmdir()

    def _finished(self) -> dict[str, Any] | None:
        if not (self.path / "DONE").exists():
            return None
        try:
            summary: dict[str, Any] = json.loads((self.path / "summary.json").read_text())
            return summary if summary["steps"] >= self.config.steps else None
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{self.path / 'summary.json'} cannot be read, though the run is marked as finished.\n"
                f"Remove {self.path / 'DONE'} to have it written again."
            ) from None

    def finish(self, summary: dict[str, Any]) -> None:
        """Write summary.json, then DONE: the last file that a run writes."""
        write_json(self.path / "summary.json", summary)
        write_atomic(self.path / "DONE", b"")


def differences(theirs: dict[str, Any], mine: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """'key: there X, here Y' by dotted key, for all leaves in which two nested mappings differ."""
    lines: dict[str, str] = {}
    for key in [*mine, *(key for key in theirs if key not in mine)]:
        name, there, here = f"{prefix}{key}", theirs.get(key), mine.get(key)
        if isinstance(there, dict) and isinstance(here, dict):
            lines |= differences(there, here, f"{name}.")
        elif there != here:
            lines[name] = f"  {shown_key(name)}: there {shown(there)}, here {shown(here)}"
    return lines


def code_diff() -> str:
    """What the checkout that ran has beyond its commit: changed files, and new ones that git does not ignore."""
    new = [name for name in git("ls-files", "--others", "--exclude-standard", "-z").split("\0") if name]
    added = (git("diff", "--no-index", "--", "/dev/null", name) for name in new)
    return git("diff", "HEAD") + "".join(added)


def git(*arguments: str) -> str:
    """Output of git on the checkout that this package is in; '' for an installed package or without git."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return ""
    try:
        return subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, errors="surrogateescape", timeout=20
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
