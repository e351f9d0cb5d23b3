"""Folders of runs in a given state, as a sweep leaves them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path


def made(folder: Path, steps: int = 10, logged: int = 0, saved: int = 0, done: bool = False) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"seed: 0\nsteps: {steps}\n")
    rows = [
        {"step": step, "reward/mean": 0.5, "length/correct": 7.0, "length/wrong": None, "time/step_s": 2.0}
        for step in range(logged)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if saved:
        (folder / f"checkpoints/step_{saved:06d}").mkdir(parents=True)
    if done:
        (folder / "summary.json").write_text(json.dumps({"steps": steps}))
        (folder / "DONE").touch()
    return folder


def failed(folder: Path, code: int = 4, said: str = "step 7: the loss is NaN\nsecond line") -> Path:
    (folder / "failure.json").write_text(json.dumps({"code": code, "said": said}))
    return folder


def marked(folder: Path, pid: int | None = None, host: str | None = None, began: str | None = None) -> Path:
    """As a process leaves it that works there; by default this one."""
    if pid is None:
        pid = os.getpid()
        began = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    mark = {"host": host or socket.gethostname(), "pid": pid, "began": began}
    (folder / ".running").write_text(json.dumps(mark))
    return folder
