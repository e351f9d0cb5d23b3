"""Checkpoints: folders written aside, fsynced, listed with hashes in MANIFEST.json and renamed; nothing else counts."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import ANOTHER, InputError, MachineError, NonFiniteError
from ..files import disk_errors, fsync, write_json


@dataclass(frozen=True)
class Checkpoint:
    """What a resumed run starts from: trainable parameters, optimizer tensors, and the next step to make.

    reference: the tensors of a reference policy that is refreshed on the way; {} otherwise. sampler: of the policy that
    the next step's answers come from, where that is an older one (rollout.ahead); {} otherwise. critic: of PPO's value
    model with its optimizer; {} otherwise. reward_model: of one that is trained on by round; {} otherwise.
    """

    step: int
    policy: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    reference: dict[str, Tensor]
    sampler: dict[str, Tensor]
    critic: dict[str, Tensor]
    reward_model: dict[str, Tensor]


class Checkpoints:
    """The folder `checkpoints/` of one run, in which the newest `keep` are kept.

    No generator state is saved: every draw is a function of its key, so the step number is enough. writes: False in
    the processes of a run that leave the folder to the first; theirs are neither written nor looked for.
    """

    def __init__(self, root: Path, keep: int, policy_file: str = "adapter", writes: bool = True) -> None:
        self.root, self.keep, self.policy_file, self.writes = root, keep, policy_file, writes
        if not writes:
            return
        with disk_errors(root):
            for leftover in root.glob(".tmp_*"):  # a save that was killed
                shutil.rmtree(leftover)

    def save(
        self,
        step: int,
        policy: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        reference: Mapping[str, Tensor] = MappingProxyType({}),
        sampler: Mapping[str, Tensor] = MappingProxyType({}),
        critic: Mapping[str, Tensor] = MappingProxyType({}),
        reward_model: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> Path:
        """Write the state in which `step` is the next step to make; older checkpoints stay where it raises.

        Raises MachineError, and NonFiniteError for a tensor that is not finite: what is saved can be gone on from.
        """
        final = self.root / f"step_{step:06d}"
        if not self.writes:
            return final
        some = {"reference": reference, "sampler": sampler, "critic": critic, "reward_model": reward_model}
        parts = {self.policy_file: policy, "optimizer": optimizer, **{k: v for k, v in some.items() if v}}
        for name, tensors in parts.items():
            _check_finite(step - 1, name, tensors)
        aside = self.root / f".tmp_{final.name}"
        try:
            with disk_errors(final):
                aside.mkdir(parents=True)
                for name, tensors in parts.items():
                    save_file(
                        {key: value.detach().cpu().contiguous() for key, value in tensors.items()},
                        aside / f"{name}.safetensors",
                    )
                write_json(aside / "state.json", {"step": step})
                files = sorted(aside.iterdir())
                write_json(aside / "MANIFEST.json", {"files": {file.name: _hash(file) for file in files}})
                for file in files:
                    fsync(file)
                fsync(aside)
                if final.exists():  # the same step again, after a fall-back to an older checkpoint
                    shutil.rmtree(final)
                aside.rename(final)
                fsync(self.root)
        except (MachineError, SafetensorError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            if isinstance(error, MachineError):
                raise
            raise MachineError(f"{final}: cannot be written ({error}).\nThe checkpoint before it is kept.") from error
        # later steps were damaged, or this one would not be made again: they count no more
        kept = [made for made in self.steps() if made <= step][-self.keep :]
        for old in set(self.steps()) - set(kept):
            gone = self.root / f".tmp_old_{old:06d}"  # renamed first, so that half of one never looks like a whole
            with suppress(OSError):
                (self.root / f"step_{old:06d}").rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
        return final

    def steps(self) -> list[int]:
        """Steps with a finished folder, oldest first."""
        names = (folder.name.removeprefix("step_") for folder in self.root.glob("step_*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def latest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest sound checkpoint, None when there is none yet.

        One that does not match its manifest is named and the one before it taken. Raises MachineError when all are bad.
        """
        steps = self.steps() if self.writes else []
        for step in reversed(steps):
            folder = self.root / f"step_{step:06d}"
            if fault := self._fault(folder):
                say(f"checkpoint {folder.name} is damaged ({fault}); trying the one before it")
                continue
            return Checkpoint(
                step=json.loads((folder / "state.json").read_text())["step"],
                policy=load_file(folder / f"{self.policy_file}.safetensors"),
                optimizer=load_file(folder / "optimizer.safetensors"),
                **{
                    name: load_file(file) if (file := folder / f"{name}.safetensors").exists() else {}
                    for name in ("reference", "sampler", "critic", "reward_model")
                },
            )
        if steps:
            raise MachineError(
                f"{self.root}: all {len(steps)} checkpoints are damaged, so the run cannot go on from here.\n"
                f"Remove the folder to start again, or give another {ANOTHER}."
            )
        return None

    def policy(self, step: int) -> dict[str, Tensor]:
        """The trained tensors of one checkpoint, to look at. Raises InputError where it is not there or damaged."""
        folder = self.root / f"step_{step:06d}"
        if not folder.is_dir():
            there = ", ".join(map(str, self.steps())) or "none"
            raise InputError(f"{self.root}: there is no checkpoint of step {step}. There are: {there}.")
        if fault := self._fault(folder):
            raise InputError(f"{folder} is damaged: {fault}.")
        return load_file(folder / f"{self.policy_file}.safetensors")

    def _fault(self, folder: Path) -> str | None:
        try:
            manifest: dict[str, Any] = json.loads((folder / "MANIFEST.json").read_text())
            listed: dict[str, str] = manifest["files"]
            missing = {f"{self.policy_file}.safetensors", "optimizer.safetensors", "state.json"} - set(listed)
            if missing:
                return f"{sorted(missing)[0]} is not in its manifest"
            return next(
                (
                    f"{name} differs from its manifest"
                    for name, digest in listed.items()
                    if _hash(folder / name) != digest
                ),
                None,
            )
        except FileNotFoundError as error:
            return f"{Path(str(error.filename)).name} is missing"
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            return "MANIFEST.json cannot be read"


def _check_finite(step: int, part: str, tensors: Mapping[str, Tensor]) -> None:
    broken = [name for name, value in tensors.items() if value.is_floating_point() and not bool(value.isfinite().all())]
    if broken:
        raise NonFiniteError(
            f"step {step}: after it, {broken[0]} of the {part} is not finite, so that it is not saved.\n"
            "The last good checkpoint is kept."
        )


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
