"""A run's folder: one writer at a time, one configuration, and what says that it is finished."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..data import DataSets
from ..errors import BusyError, InputError
from ..files import disk_errors, write_atomic, write_json
from ..schema import RunConfig
from ..validate import load, shown, shown_key, to_yaml

CODE = (".py", ".sh", ".toml")
DATA = "data.json"  # the digest of the training questions
VERSIONS = "versions.json"  # of the code and libraries that made the last steps
# Keys that may differ when a run goes on: they do not change what the steps compute.
MAY_CHANGE = (
    *("run_dir", "run_name", "sweep_name", "metric", "tracking", "checkpoint", "health", "optim.microbatch_tokens"),
    *("optim.packing", "optim.fused", "rollout.merge_lora", "shard_base"),  # the same to rounding
    *("rollout.batch_rows", "rollout.vllm_python", "rollout.vllm_memory", "rollout.vllm_tensor_parallel"),
    "data.solution_column",  # where solutions are trained on they are in the data's digest; elsewhere it has no say
)


class RunFolder:
    """Paths of one run. `check` comes before anything is built, `begin` after; the README lists its contents."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.path = config, Path(config.run_dir)
        self._name = "run_name" if config.sweep_name is None else "sweep_name"  # the key that gives it another folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process. Raises BusyError if another has it; a killed one's lock frees itself."""
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise BusyError(
                    f"{self.path}: another process is writing to this run.\nWait for it, or give another {self._name}."
                ) from None
        try:
            yield
        finally:
            lock.release()
            if not (self.path / "config.yaml").exists():  # nothing came of it
                with suppress(OSError):
                    (self.path / ".lock").unlink()
                    for folder in made:
                        folder.rmdir()

    def check(self) -> dict[str, Any] | None:
        """Hold what the folder has against this run, and write nothing. Gives the summary of a run that is finished
        already; None when there are steps to make.

        Raises InputError for a folder with files of another kind, or naming the keys in which a run that would go on
        from what is there differs from it. Before its first step, a run may still be corrected.
        """
        file = self.path / "config.yaml"
        if not file.exists():
            if self._started():
                raise InputError(
                    f"{self.path} has steps of a run but no config.yaml, so it cannot be told which run they are of.\n"
                    f"Put the file back, or give another {self._name}."
                )
            return None
        theirs = asdict(load(file))
        if not self._started():
            return None
        changed = differences(theirs, asdict(self.config))
        refused = [line for key, line in changed.items() if not self._may_change(key, theirs)]
        if refused:
            first = f"{self.path} holds a run with other settings; this one cannot go on from it."
            more = [f"  … and {len(refused) - 3} more"] if len(refused) > 3 else []
            raise InputError("\n".join([f"{first} Give another {self._name}.", *refused[:3], *more]))
        return self._finished()

    def check_data(self, found: DataSets) -> None:
        """Raise InputError, naming both, where the run that is there began with other training questions than these.

        The keys may be the same and the questions not: a file was edited, or a hub set has a new revision. A folder
        from before data.json was written has nothing to hold against them.
        """
        file = self.path / DATA
        if not (self._started() and file.exists()):
            return
        try:
            there = json.loads(file.read_text())
            theirs, count = str(there["sha256"]), int(there["questions"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{file} cannot be read. It names the run's training questions; put it back.") from None
        if theirs != found.digest:
            raise InputError(
                f"{self.path} holds a run on other training questions; this one cannot go on from it.\n"
                f"  there: {count:,} questions, sha256 {theirs}\n"
                f"  here:  {len(found.train):,} questions, sha256 {found.digest}\n"
                f"Give the same file or data.train.revision as then, or another {self._name}."
            )

    def begin(self, data: DataSets, versions: Mapping[str, str | None]) -> str | None:
        """Write config.yaml, data.json, versions.json and code.diff; the mark of a finished run goes, for it has more
        to do now. Gives what to say where the steps that are there were made by other code than this.
        """
        (self.path / "DONE").unlink(missing_ok=True)
        write_atomic(self.path / "config.yaml", to_yaml(self.config).encode())
        write_json(self.path / DATA, {"sha256": data.digest, "questions": len(data.train)})
        other = self._other_versions(versions)
        write_json(self.path / VERSIONS, versions)
        # a later start with other code adds code.2.diff, and so on
        diff = code_diff(self.path).encode("utf-8", "surrogateescape")
        there = sorted(self.path.glob("code*.diff"), key=lambda file: file.stat().st_mtime_ns)
        if not there or there[-1].read_bytes() != diff:
            name = f"code.{len(there) + 1}.diff" if there else "code.diff"
            write_atomic(self.path / name, diff)
            if there and not other:
                other = [f"other changes beyond the commit ({there[-1].name}, now {name})"]
        return (
            f"the steps before were made with {'; '.join(other)}. These may differ from what that would have made."
            if other
            else None
        )

    def _other_versions(self, now: Mapping[str, str | None]) -> list[str]:
        """'torch 2.1, now 2.2' of each that differs; nothing of a folder from before versions.json was written."""
        try:
            there = json.loads((self.path / VERSIONS).read_text())
            return [
                f"{name} {there[name] or 'unknown'}, now {value or 'unknown'}"
                for name, value in now.items()
                if name in there and there[name] != value
            ]
        except (OSError, ValueError, TypeError):  # it is only told of
            return []

    def _started(self) -> bool:
        names = ("metrics.jsonl", "DONE", "checkpoints/step_*")
        return any(True for name in names for _ in self.path.glob(name))

    def _may_change(self, key: str, theirs: dict[str, Any]) -> bool:
        if key == "steps":  # a run may be made longer, unless its schedule ends at `steps`
            return self.config.steps > theirs["steps"] and self.config.optim.schedule == "constant"
        return any(key == allowed or key.startswith(allowed + ".") for allowed in MAY_CHANGE)

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


def code_diff(run_dir: Path) -> str:
    """What the checkout that ran has beyond its commit: changed files, and new ones of code that git does not ignore.

    Left out are the run's own folder, and what is no code or large: data, and the folders of other runs.
    """
    here = checkout()
    names = git("ls-files", "--others", "--exclude-standard", "-z", "--", *(f"*{kind}" for kind in CODE)).split("\0")
    files = [here / name for name in names if name and not (here / name).is_relative_to(run_dir.absolute())]
    files = [file for file in files if file.is_file() and file.stat().st_size < 200_000][:100]
    return git("diff", "HEAD") + "".join(git("diff", "--no-index", "--", "/dev/null", str(file)) for file in files)


def checkout() -> Path:
    """The folder that this package lies in: a checkout, or wherever it was installed."""
    return Path(__file__).resolve().parents[2]


def git(*arguments: str) -> str:
    """Output of git on the checkout that this package is in; '' for an installed package or without git."""
    here = checkout()
    if not (here / ".git").exists():
        return ""
    try:
        return subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, errors="surrogateescape", timeout=20
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
