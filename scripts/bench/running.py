"""Processes that are measured: start one, watch its memory, read what it left. No torch here."""

from __future__ import annotations

import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
POLL_S = 0.1


def processes(pid: int) -> list[int]:
    """A process and all that descend from it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(found for child in children for found in processes(int(child)))]


def resident(pid: int) -> tuple[float, float]:
    """(peak, present) resident memory of one process in MiB; 0 where it has gone."""
    try:
        rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    except OSError:
        return 0.0, 0.0
    return tuple(int(rows.get(key, "0").split()[0]) / 1024 for key in ("VmHWM", "VmRSS"))  # type: ignore[return-value]


def watched(command: list[str], environment: dict[str, str], folder: Path, name: str) -> dict[str, Any]:
    """Run to the end; seconds, and peak memory of the process and of all its processes together, in MiB.

    The peak is the kernel's own high-water mark, read ten times a second (ru_maxrss would begin at the size of the
    process that starts it). The sum counts shared pages once for each process. Exits with the output's end on failure.
    """
    log = folder / f"{name}.log"
    began = time.monotonic()
    peak = together = 0.0
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=os.environ | environment, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                peak = max(peak, resident(process.pid)[0])
                together = max(together, sum(resident(pid)[1] for pid in processes(process.pid)))
                time.sleep(POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        sys.exit(f"{name} ended with {process.returncode}:\n{' '.join(command)}\n{tail}")
    return {"began": began, "wall_s": time.monotonic() - began, "peak_mib": peak, "peak_all_mib": max(peak, together)}


def environment(threads: int, notes: Path | None = None) -> dict[str, str]:
    """What both sides get: so many threads, no network, and the folder of the shared reward on the import path."""
    paths = [str(ROOT), str(HERE)]
    made = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(paths)}
    made |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return made | ({"GRPO_BENCH_NOTES": str(notes)} if notes else {})


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def overrides(settings: dict[str, Any]) -> list[str]:
    """The settings as overrides of the runner: GRPO without KL, one update, nothing but training."""
    words = {
        "model.path": settings["model"],
        "data": "jsonl",
        "data.train.path": settings["data"],
        "data.max_prompt_tokens": 4096,
        "prompt": "none",
        "reward": "custom",
        "reward.function": "noted_reward:checksum",
        "reward.truncated": "keep",
        "advantage": "grpo",
        "loss_norm": "sequence_mean",
        "beta": 0,
        "questions_per_step": settings["questions"],
        "group_size": settings["group_size"],
        "max_new_tokens": settings["new_tokens"],
        "lora.rank": settings["rank"],
        "lora.alpha": settings["alpha"],
        "optim.lr": settings["lr"],
        "dtype": settings["dtype"],
        "device": "cpu",
        "steps": settings["steps"],
        "seed": settings["seed"],
        "evaluation.every": 0,
        "tracking": "off",
    }
    return [f"{key}={value}" for key, value in words.items()] + settings.get("ours", [])


def run_ours(settings: dict[str, Any], python: str = sys.executable) -> dict[str, Any]:
    """One run of this package in a process of its own, and what it left."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        notes, run = folder / "notes.jsonl", folder / "run"
        command = [python, "-m", "grpo_runner", *overrides(settings), f"hydra.run.dir={run}"]
        made = watched(command, environment(settings["threads"], notes), folder, "ours")
        rows = json_lines(run / "metrics.jsonl")
        made |= noted(json_lines(notes), made.pop("began"))
        made |= {
            "side": "ours",
            "tokens": [row["tokens/sampled"] for row in rows],
            "updates": sum(row["updates"] for row in rows),
            "trainable": parameters(run / "adapter" / "adapter_model.safetensors"),
            "rollout_s": [row["time/rollout_s"] for row in rows],
            "reward_s": [row["time/reward_s"] for row in rows],
            "update_s": [row["time/update_s"] for row in rows],
            "prompt_tokens": prompt_tokens(settings),
            "versions": {"torch": version("torch"), "transformers": version("transformers"), "peft": version("peft")},
        }
    return made


def run_trl(settings: dict[str, Any], python: Path) -> dict[str, Any]:
    """One run of TRL in a process of its own, and what it left."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        notes, asked, result = folder / "notes.jsonl", folder / "settings.json", folder / "result.json"
        asked.write_text(json.dumps(settings))
        command = [str(python), str(HERE / "trl_side.py"), str(asked), str(result)]
        made = watched(command, environment(settings["threads"], notes), folder, "trl")
        rows = json_lines(notes)
        made |= {**noted(rows, made.pop("began")), "side": "trl", "tokens": [row["tokens"] for row in rows]}
        made |= json.loads(result.read_text())
    return made


def noted(rows: list[dict[str, Any]], began: float) -> dict[str, Any]:
    """Of the shared reward's notes: the time to the first rollout, seconds of each whole step, rows with weight."""
    times = [row["t"] for row in rows]
    return {
        "first_rollout_s": times[0] - began,
        "steps_s": [after - before for before, after in itertools.pairwise(times)],
        "weighted": [row["weighted"] for row in rows],
    }


def parameters(path: Path) -> int:
    """Numbers in a safetensors file, from its header alone."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    count = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            size = 1
            for side in tensor["shape"]:
                size *= side
            count += size
    return count


def prompt_tokens(settings: dict[str, Any]) -> int:
    """Of a step's questions, as this package makes them."""
    from transformers import AutoTokenizer

    from grpo_runner import compose
    from grpo_runner.prompts import Prompter
    from grpo_runner.types import Question

    prompter = Prompter(compose(["prompt=none"]).prompt, AutoTokenizer.from_pretrained(settings["model"]))
    rows = json_lines(Path(settings["data"]))
    return sum(len(prompter.encode(Question(str(i), row["question"], "1"))) for i, row in enumerate(rows))


def machine(threads: int) -> dict[str, Any]:
    """What figures depend on."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    bytes_ = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu[0].split(":", 1)[1].strip() if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "memory_gib": round(bytes_ / 2**30),
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "commit": commit(),
        "load": round(os.getloadavg()[0], 2),  # of the minute before: figures of a busy machine mean nothing
        "date": time.strftime("%Y-%m-%d"),
    }


def commit() -> str | None:
    """The checkout's commit, with "+changes" where it has some beside earlier figures; None outside git."""
    status = ["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/speed", ":!docs/speed*"]
    found = [
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        for words in (["rev-parse", "--short", "HEAD"], status)
    ]
    return found[0] + "+changes" * bool(found[1]) if found[0] else None


def command_line() -> str:
    """How the script was called, without this machine's folders."""
    words = ["FOLDER" if "/" in word else word for word in sys.argv[1:]]
    return " ".join(["python", f"scripts/bench/{Path(sys.argv[0]).name}", *words])


def write(output: Path, made: dict[str, Any]) -> None:
    """The JSON of one measurement."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(made, indent=1) + "\n")
    print(f"written: {output}")
