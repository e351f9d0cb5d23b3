"""A short supervised start on worked answers, for models that are seldom right: an adapter for `lora.adapter`.

python scripts/warm_start.py experiment=laptop_gsm8k --output outputs/warm_start [--epochs 2] [--lr 5e-4] [KEY=VALUE …]

Supervised fine-tuning is the policy gradient with coefficient 1 on given answers (DeepSeekMath, appendix A.1.1), so the
run's own trainer makes it: prompts, LoRA, data and dtype are those of the overrides, each answer a row of weight 1.
The answers are the worked ones of GSM8K's own column, in one line that ends in "The answer is 18." and the first of
`prompt.stop`, or the EOS.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

from grpo_runner.config import compose
from grpo_runner.data import load, table
from grpo_runner.errors import InputError
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.models import choose_device, load_tokenizer
from grpo_runner.policy.update import Trainer
from grpo_runner.prompts import Prompter, fit
from grpo_runner.reward import unreadable
from grpo_runner.rng import generator
from grpo_runner.schema import RunConfig
from grpo_runner.tracking import quiet_libraries
from grpo_runner.train.build import save_model
from grpo_runner.train.loading import load_policy
from grpo_runner.types import Completion, Finish, Group, Question

MARK = re.compile(r"\s*####\s*(.+)\s*$")
CALCULATOR = re.compile(r"<<[^<>]*>>")


def one_line(worked: str) -> str | None:
    """GSM8K's worked answer in a line: without its calculator's marks, its last line as "The answer is 18.".

    None where it does not end in "#### 18" with some work before it.
    """
    body, mark = CALCULATOR.sub("", worked), MARK.search(worked)
    if mark is None:
        return None
    steps = [line.strip() for line in MARK.sub("", body).splitlines() if line.strip()]
    if not steps:
        return None
    steps = [line if line.endswith((".", "!", "?")) else f"{line}." for line in steps]
    return f" {' '.join(steps)} The answer is {mark[1].strip()}."


def examples(config: RunConfig, prompter: Prompter) -> list[tuple[tuple[int, ...], str]]:
    """(prompt, answer in a line) of each training question of the run that has a worked answer. Raises InputError."""
    data = config.data
    if data.kind != "table":
        raise InputError(f"data.kind={data.kind}: a generator has no worked answers. Allowed: table, as in data=gsm8k.")
    answer = data.train.answer_column or data.answer_column
    cells = {row.id: row.cells[answer] for row in table.read(data.train, "data.train", {answer: "data.answer_column"})}
    asked = load(data, config.seed, unreadable, evaluated=False).train
    kept, prompts, _ = fit(asked, prompter, data.max_prompt_tokens, data.long_prompt)
    texts = {question.id: one_line(str(cells[question.id])) for question in kept}
    found = [(prompts[name], text) for name, text in texts.items() if text is not None]
    if not found:
        raise InputError(
            f"data.train: none of the {len(kept)} answers is a worked one that ends in '#### 18'.\n"
            "GSM8K has them on the hub and in its own repository; a file of bare answers has none."
        )
    return found


def supervised(config: RunConfig, steps: int, lr: float) -> RunConfig:
    """The run's settings with nothing in the loss but the answers' log-likelihood, at temperature 1."""
    return replace(
        config,
        steps=steps,
        temperature=1.0,
        entropy_bonus=0.0,
        beta=replace(config.beta, value=0.0),
        clip=replace(config.clip, kind="token", dual=None),
        rollout=replace(config.rollout, importance="none"),
        optim=replace(config.optim, lr=lr, updates_per_rollout=1),
    )


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="as for a run")
    parser.add_argument("--output", type=Path, required=True, help="folder for adapter/ and warm_start.json")
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--rows", type=int, default=16, help="answers a step")
    given = parser.parse_intermixed_args(words)
    for name in ("epochs", "lr", "rows"):
        if not 0 < getattr(given, name) < math.inf:
            raise InputError(f"--{name} {getattr(given, name)}: not allowed. It takes a number above 0.")
    quiet_libraries()
    config = compose(given.overrides)
    device, tokenizer = choose_device(config.device), load_tokenizer(config.model)
    worked = examples(config, Prompter(config.prompt, tokenizer))
    steps = math.ceil(given.epochs * len(worked) / given.rows)
    config = supervised(config, steps, given.lr)
    model, autocast = load_policy(config, device)
    trainer = Trainer(model, tokenizer.pad_token_id, config, device, autocast)
    end = config.prompt.stop[0] if config.prompt.stop else ""
    order = [int(row) for epoch in range(math.ceil(given.epochs)) for row in _shuffled(config.seed, epoch, len(worked))]
    losses, began = [], time.monotonic()
    for step in track(range(steps), "warm start"):
        rows = order[step * given.rows : (step + 1) * given.rows]
        batch = Batch.of([_group(tokenizer, *worked[row], end) for row in rows])
        norm_NT = batch.mask_NT / batch.mask_NT.sum()
        found = trainer.update(batch, [torch.arange(len(rows))], norm_NT, norm_NT, step)
        # |log π - log μ| beside a log μ of 0, the negative log-likelihood of a token; not known with dropout
        losses.append(found.mismatch if found.mismatch is not None else math.nan)
    save_model(model, tokenizer, given.output, config)
    tenth = max(1, steps // 10)
    told = {
        "command": words,
        "answers": len(worked),
        "steps": steps,
        "seconds": round(time.monotonic() - began, 1),
        "loss_first": sum(losses[:tenth]) / tenth,
        "loss_last": sum(losses[-tenth:]) / tenth,
    }
    (given.output / "warm_start.json").write_text(json.dumps(told, indent=1) + "\n")
    Console().print_json(data=told)


def _shuffled(seed: int, epoch: int, size: int) -> list[int]:
    return list(generator(seed, "warm start", epoch).permutation(size))


def _group(tokenizer: Any, prompt: tuple[int, ...], answer: str, end: str) -> Group:
    ids = tokenizer(answer + end, add_special_tokens=False)["input_ids"]
    ids += [] if end else [tokenizer.eos_token_id]
    answered = Completion(tuple(ids), answer, (0.0,) * len(ids), Finish.STOP)
    return Group(Question("", "", ""), prompt, (answered,))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.exit(str(error))
