"""vLLM in a process of its own, from the Python of another environment: lines of JSON to and from vllm_server.py."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError, MachineError

SERVER = Path(__file__).with_name("vllm_server.py")
# what would lead the other environment to our modules, or into our group of processes
OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# no report of use, no limit on the length other than ours; quiet where somebody else's choice does not stand
SWITCHES = {"VLLM_NO_USAGE_STATS": "1", "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
INSTALL = "pip install vllm"
ON_A_CPU = "on a CPU: bash scripts/setup_vllm.sh FOLDER, then rollout.vllm_python=FOLDER/bin/python"


class VllmProcess:
    """Backend's calls (vllm_server.py) in another process, on the trainer's device and those after it, `width` in all.

    Raises InputError where the Python is none, has no vLLM, or vLLM refuses the settings; MachineError where it dies.
    """

    def __init__(
        self, python: str, settings: dict[str, Any], sleeps: bool, device: torch.device, width: int = 1
    ) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (open until close)
        try:
            self.process = subprocess.Popen(
                [str(Path(python).expanduser()), "-P", str(SERVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                env=environment(os.environ, device, width),
                start_new_session=True,  # Ctrl-C is for us alone: the step that it interrupts is finished
                text=True,
            )
        except OSError as error:
            raise InputError(
                f"rollout.vllm_python={python}: cannot be started ({error.strerror}).\n"
                f"Allowed: a Python with vLLM ({INSTALL}; {ON_A_CPU})."
            ) from error
        try:
            self._ask({"settings": settings, "sleeps": sleeps})
        except MachineError as error:
            self.close()
            raise refused(str(error), python) from error

    def generate(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """See Backend.generate."""
        return self._ask(order)

    def close(self) -> None:
        """End of its orders; it is killed where it does not end by itself."""
        with suppress(BrokenPipeError):  # what it did not read any more
            self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()  # type: ignore[union-attr]
        self.log.close()

    def _ask(self, order: dict[str, Any]) -> Any:
        try:
            print(json.dumps(order), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()  # type: ignore[union-attr]
        except BrokenPipeError:
            line = ""
        if not line:
            raise MachineError(f"rollout=vllm: its process ended (code {self.process.wait()}).\n{self._last_words()}")
        said = json.loads(line)
        if isinstance(said, dict) and "error" in said:
            raise MachineError(f"rollout=vllm: {' '.join(said['error'].split())[:400]}")
        return said

    def _last_words(self) -> str:
        self.log.seek(0)
        lines = [line for line in self.log.read().decode(errors="replace").splitlines() if line.strip()]
        return "\n".join(line[:200] for line in lines[-2:]) or "It left no message."


def refused(said: str, python: str | None) -> InputError:
    """What a user can mend when vLLM does not start: install it, or choose other settings."""
    where = f"rollout.vllm_python={python}" if python else "rollout=vllm"
    reason = said.removeprefix("rollout=vllm: ").splitlines()
    if any("No module named 'vllm'" in line for line in reason):
        inside = f"{python} -m {INSTALL}" if python else INSTALL
        return InputError(f"{where}: vLLM is not installed there.\nInstall it: {inside}; {ON_A_CPU}.")
    return InputError("\n".join([f"{where}: vLLM cannot start.", *(line[:300] for line in reason[:3])]))


def environment(of: Mapping[str, str], device: torch.device, width: int = 1) -> dict[str, str]:
    """The variables of a vLLM process: ours without what is for our own Python, and the trainer's GPU as the only one.

    width: GPUs from that one on. Raises InputError where CUDA_VISIBLE_DEVICES has fewer.

    It is one process: vLLM's engine in it, so that nothing outlives it. On a CPU nothing is compiled.
    """
    kept = {name: value for name, value in of.items() if name not in OURS}
    made = {**SWITCHES, **kept, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    if device.type != "cuda":
        return {**made, "TORCHDYNAMO_DISABLE": "1"}
    index, seen = device.index or 0, of.get("CUDA_VISIBLE_DEVICES")
    there = [name.strip() for name in seen.split(",")] if seen else [str(number) for number in range(index + width)]
    if len(there) < index + width:
        raise InputError(
            f"rollout.vllm_tensor_parallel={width}: CUDA_VISIBLE_DEVICES={seen} has fewer GPUs.\n"
            f"Allowed: {len(there) - index} or fewer."
        )
    return {**made, "CUDA_VISIBLE_DEVICES": ",".join(there[index : index + width])}
