#!/usr/bin/env python3
"""The memory of a step on a GPU, worked out from a model's sizes: memory.py MODEL_CONFIG [...] (--help says what of).

A table in Markdown: what stays, what sampling adds, what the update adds with and without gradient checkpointing. The
parts are those of `plan` (`grpo_runner/planning/needs.py`), here of a step of one question that is updated in one pass.
Nothing is measured: `scripts/gpu_check.py` does that. Needs neither a GPU nor weights, nor torch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from grpo_runner import sizes  # noqa: E402
from grpo_runner.planning.needs import Work, at_once, lasting, sampling, updating  # noqa: E402

CONFIGS = ROOT / "scripts" / "gpu" / "configs"
ITEM = 2  # bytes of a bf16 number


@dataclass(frozen=True)
class Step:
    """One question, `rows` answers of `tokens` tokens each after a prompt of `prompt` tokens; LoRA of rank `rank`."""

    rows: int
    prompt: int
    tokens: int
    rank: int

    @property
    def packed(self) -> int:
        """Tokens of the update: the prompt once, each answer without its last token."""
        return self.prompt + self.rows * (self.tokens - 1)


@dataclass(frozen=True)
class Model:
    """A config.json. parameters: those of the model that it makes."""

    name: str
    sizes: sizes.Sizes

    @property
    def parameters(self) -> int:
        return self.sizes.parameters


def read(path: Path) -> Model:
    """A model from its config.json or the folder that holds one."""
    path = path / "config.json" if path.is_dir() else path
    found = sizes.read(json.loads(path.read_text()))
    if found is None:
        sys.exit(f"{path}: not the config.json of a model of {', '.join(sizes.FAMILIES)}.")
    return Model(path.stem if path.stem != "config" else path.parent.name, found)


def work(model: Model, step: Step, checkpointing: bool = False, item: int = ITEM) -> Work:
    """What such a step holds, all of its tokens in one micro-batch."""
    return Work(
        sizes=model.sizes,
        item=item,
        rows=step.rows,
        groups=1,
        prompt=step.prompt,
        budget=step.tokens,
        micro=step.packed,
        micro_rows=step.rows,
        adapter=model.sizes.lora(step.rank),
        checkpointing=checkpointing,
    )


def total(model: Model, step: Step) -> dict[str, int]:
    """Bytes of the three moments that count."""
    plain, again = work(model, step), work(model, step, True)
    stays = sum(lasting(plain).values())
    return {
        "sampling": stays + sum(sampling(plain).values()),
        "update": stays + sum(updating(plain).values()),
        "update, gradient checkpointing": stays + sum(updating(again).values()),
    }


def lines(models: Sequence[Model], step: Step) -> list[str]:
    """The table."""
    rows = [("**always**", [""] * len(models))]
    sections = {
        "": lambda model: lasting(work(model, step)),
        "sampling": lambda model: sampling(work(model, step)),
        "update": lambda model: updating(work(model, step)),
        "update, gradient checkpointing": lambda model: updating(work(model, step, True)),
    }
    for section, parts in sections.items():
        found = [parts(model) for model in models]
        if section:
            rows.append((f"**{section}**", [""] * len(models)))
        rows += [(name, [_gb(values[name]) for values in found]) for name in found[0]]
    totals = [total(model, step) for model in models]
    rows.append(("**together**", [""] * len(models)))
    rows += [(name, [f"**{_gb(values[name])}**" for values in totals]) for name in totals[0]]
    rows.append(("**a GPU that takes the update in one pass by `auto`**", [""] * len(models)))
    for name, checkpointing in (("update", False), ("update, gradient checkpointing", True)):
        rows.append((name, [_gb(at_once(work(model, step, checkpointing))) for model in models]))
    head = [
        "| GB (10⁹ bytes) | " + " | ".join(model.name for model in models) + " |",
        "| --- |" + " ---: |" * len(models),
    ]
    return head + [f"| {name} | " + " | ".join(values) + " |" for name, values in rows]


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.json")))
    parser.add_argument("models", nargs="+", metavar="MODEL_CONFIG", help=f"a config.json, its folder, or {known}")
    parser.add_argument("--rows", type=int, default=8, help="answers of the question (8)")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of its prompt (128)")
    parser.add_argument("--tokens", type=int, default=1024, help="tokens of each answer (1024)")
    parser.add_argument("--rank", type=int, default=16, help="of the adapter on all linear layers (16)")
    asked = parser.parse_args(arguments)
    step = Step(asked.rows, asked.prompt, asked.tokens, asked.rank)
    paths = [CONFIGS / f"{name}.json" if (CONFIGS / f"{name}.json").is_file() else Path(name) for name in asked.models]
    for path in paths:
        if not path.exists():
            parser.error(f"{path}: no such file. Known by name: {known}.")
    print("\n".join(lines([read(path) for path in paths], step)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
