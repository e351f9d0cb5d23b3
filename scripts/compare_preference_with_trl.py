#!/usr/bin/env python3
"""DPO and RLOO beside Hugging Face TRL itself: loss, margins or advantages, and gradient of the same optimizer steps.

In the environment of compare_with_trl.py, whose first lines set it up (half a minute on a CPU):

    build/trl-env/bin/python scripts/compare_preference_with_trl.py

DPOTrainer.train() makes two optimizer steps on given pairs, RLOOTrainer.train() one on given answers and rewards. Data
enter where TRL would tokenize or sample; the reference is another random model. At the same parameters the package goes
from the verdicts to the gradient by the overrides in the table. Where the two say the same in other words: TRL's DPO is
a mean over pairs, the package's over answers, half of it; its margins are of sums under `sigmoid_norm` too, and are
not compared there; its RLOO has one ratio an answer, the package one a token, so that at ratio 1 the gradients are
equal and TRL's loss is minus the mean advantage. Exits 1 where a setting is not as said.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import compare_with_trl as beside  # says how to get TRL, where it is missing
import torch
import transformers
import trl
from datasets import Dataset
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer, models

from grpo_runner import compose
from grpo_runner.algorithm import token_weights
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.logprobs import completion_logprobs
from grpo_runner.policy.loss import Given as LossGiven
from grpo_runner.policy.loss import loss_of
from grpo_runner.train.collect import Rollout
from grpo_runner.train.credit import CREDITS, Given
from grpo_runner.types import Reward, Status, Verdict

BOUND = 1e-5  # TRL's log-probabilities are float32 whatever the model is
RIGHT = ((1, 0, 0, 0), (1, 0, 1, 0), (1, 1, 0, 1))
PAIRS = ((0, 1), (4, 5), (6, 7), (8, 10))  # rows of the right and of the wrong answer, by hand: the i-th with the i-th


class Setting(NamedTuple):
    """A line of the table. differs: why TRL departs, empty where it is said to be equal; micro: TRL's micro-batches."""

    trl: str
    ours: str
    differs: str = ""
    micro: int = 1


DPO = [
    Setting("loss_type=sigmoid beta=0.1", "method=dpo"),
    Setting("loss_type=sigmoid beta=1.5", "method=dpo beta=1.5", micro=2),
    Setting("loss_type=sigmoid_norm beta=0.1", "method=dpo loss_norm=sequence_mean"),
    Setting("loss_type=sigmoid_norm beta=5", "method=dpo loss_norm=sequence_mean beta=5", micro=4),
    Setting("loss_type=sigmoid beta=0.1", f"method=dpo loss_norm=constant beta={0.1 * beside.BUDGET}"),
    Setting("loss_type=sigmoid beta=0.1", "method=dpo loss_norm=sequence_mean", "sums, not means"),
    Setting("loss_type=sigmoid beta=0.1", "method=dpo beta=0.2", "another beta"),
]
RLOO = [
    Setting("beta=0.03", "method=rloo"),
    Setting("beta=0.5", "method=rloo beta.value=0.5", micro=3),
    Setting("beta=0", "method=rloo beta.value=0"),
    Setting("beta=0.03 normalize_advantages=true", "method=rloo", "divides by the step's std"),
    Setting("beta=0.03", "method=rloo advantage.baseline=group_mean", "leaves an answer out of its own baseline"),
]


class Seen(NamedTuple):
    """figures: mean margin and accuracy of each step (DPO), or advantages (RLOO); of each step loss and gradient."""

    figures: list[float]
    losses: list[float]
    gradients: list[torch.Tensor]


def noting(base: type) -> Any:
    """A trainer that notes the loss of each micro-batch; it changes nothing."""

    class Noting(base):  # type: ignore[misc]
        def compute_loss(self, model, inputs, *args, **kwargs):
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            self.noted = [*getattr(self, "noted", []), (inputs, loss.item())]
            return loss

    return Noting


class Dpo(noting(trl.DPOTrainer)):
    """Takes token ids as they are."""

    def _prepare_dataset(self, dataset, *_, **__):
        return dataset


class Rloo(noting(trl.RLOOTrainer)):
    """Takes prompts and answers as they are given."""

    answers: ClassVar[list[tuple[list[int], list[int]]]] = []

    def _tokenize_prompts(self, prompts):
        return [list(prompt) for prompt, _ in self.answers], None, {}

    def _generate_single_turn(self, *_):
        return [list(answer) for _, answer in self.answers]


def fitted(make: Any, settings: str) -> tuple[Any, list[Any], list[torch.Tensor]]:
    """A trainer after its steps, with parameters and gradient before each. TRL finds the reference in the folder."""
    model, thetas, gradients = beside.tiny_llama(0), [], []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)

    def note(*_: Any) -> None:
        thetas.append({name: value.clone() for name, value in model.state_dict().items()})
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))

    optimizer.register_step_pre_hook(note)
    vocabulary = Tokenizer(models.WordLevel({f"t{i}": i for i in range(beside.VOCAB)}, unk_token="t0"))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=vocabulary, pad_token="t0", eos_token=f"t{beside.EOS}"
    )
    with tempfile.TemporaryDirectory() as folder:
        beside.tiny_llama(1).save_pretrained(folder)
        model.config._name_or_path = folder
        trainer = make(model, folder, beside.words(settings), tokenizer, (optimizer, None))
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return trainer, thetas, gradients


COMMON = """lr_scheduler_type=constant max_grad_norm=0 bf16=false gradient_checkpointing=false use_cpu=true
    disable_tqdm=true save_strategy="no" report_to=none"""


def dpo_of_trl(setting: Setting, groups: list[Any]) -> tuple[Seen, list[Any]]:
    rows = [(list(g.prompt_ids), list(c.token_ids)) for g in groups for c in g.completions]
    data = [{"prompt_ids": rows[a][0], "chosen_ids": rows[a][1], "rejected_ids": rows[b][1]} for a, b in PAIRS]
    batches = f"per_device_train_batch_size={len(PAIRS) // setting.micro} gradient_accumulation_steps={setting.micro}"

    def make(model: Any, folder: str, words: Any, tokenizer: Any, optimizers: Any) -> Any:
        args = trl.DPOConfig(folder, **words)
        return Dpo(
            model, beside.tiny_llama(1), args, None, Dataset.from_list(data), None, tokenizer, None, None, optimizers
        )

    steps = 'max_steps=2 logging_strategy="steps" logging_steps=1'
    trainer, thetas, gradients = fitted(make, f"{COMMON} {steps} {batches} {setting.trl}")
    losses = [loss for _, loss in trainer.noted]
    cuts = [losses[at : at + setting.micro] for at in range(0, len(losses), setting.micro)]
    logged = [row for row in trainer.state.log_history if "rewards/margins" in row]
    figures = [row[f"rewards/{figure}"] for row in logged for figure in ("margins", "accuracies")]
    if "sigmoid_norm" in setting.trl:
        figures = []
    return Seen(figures, [sum(cut) / setting.micro for cut in cuts], gradients), thetas


def rloo_of_trl(setting: Setting, groups: list[Any]) -> tuple[Seen, list[Any]]:
    answers = [(list(g.prompt_ids), list(c.token_ids)) for g in groups for c in g.completions]
    micro, size = setting.micro, len(groups[0].completions)
    Rloo.answers = answers
    batches = f"per_device_train_batch_size={len(answers) // micro} gradient_accumulation_steps={micro}"
    reuse = f"steps_per_generation={micro} num_iterations=1 num_generations={size} max_steps=1 shuffle_dataset=false"

    def make(model: Any, folder: str, words: Any, tokenizer: Any, optimizers: Any) -> Any:
        return Rloo(
            model,
            reward_funcs=lambda **_: [float(reward) for row in RIGHT for reward in row],
            args=trl.RLOOConfig(folder, **words),
            train_dataset=Dataset.from_dict({"prompt": [f"q{slot}" for slot in range(len(groups))]}),
            processing_class=tokenizer,
            optimizers=optimizers,
        )

    length = f'max_completion_length={beside.BUDGET} logging_strategy="no"'
    trainer, thetas, gradients = fitted(make, f"{COMMON} {length} {batches} {reuse} {setting.trl}")
    found = [0.0] * len(answers)
    for inputs, _ in trainer.noted:  # shuffled: found again by their tokens, pad taken off
        pairs = zip(inputs["prompt_ids"].tolist(), inputs["completion_ids"].tolist(), strict=True)
        for pair, value in zip(pairs, inputs["advantages"].tolist(), strict=True):
            found[answers.index(tuple([t for t in part if t] for part in pair))] = value
    return Seen(found, [sum(loss for _, loss in trainer.noted) / micro], gradients), thetas


def ours(setting: Setting, groups: list[Any], thetas: list[Any]) -> Seen:
    """The package at the same parameters: rewards, credit, weights and loss from the overrides alone."""
    config = compose([*setting.ours.split(), f"max_new_tokens={beside.BUDGET}", "lora=off", "reward.truncated=keep"])
    words = [[Verdict(Status.CORRECT if right else Status.WRONG) for right in row] for row in RIGHT]
    rollout = Rollout(groups, words, [[Reward(float(right), {}) for right in row] for row in RIGHT])
    batch, rewards_QG, model = Batch.of(groups), rollout.rewards_QG(config), beside.tiny_llama(0)
    included_N = ~rewards_QG.flatten().isnan()
    mask_NT, rows = batch.mask_NT & included_N[:, None], included_N.nonzero().flatten()
    padded = batch.pad(torch.arange(len(batch.prompts)), 0, torch.device("cpu"))

    def score(policy: Any) -> torch.Tensor:
        return completion_logprobs(policy, padded, 1.0).masked_fill(~mask_NT, 0.0)

    with torch.no_grad():
        reference_NT = score(beside.tiny_llama(1))
    seen, credit = Seen([], [], []), CREDITS[config.advantage.credit]
    for theta in thetas:
        model.load_state_dict(theta)
        scores_NT = score(model)
        old_NT = scores_NT.detach()
        penalty_NT = old_NT - reference_NT if config.beta.value > 0 else None
        credited = credit(SimpleNamespace(config=config), Given(0, rollout, batch, rewards_QG, mask_NT, penalty_NT))  # type: ignore[arg-type]
        norm, budget = config.loss_norm.kind, config.loss_norm.divisor or config.max_new_tokens
        weights_NT, norm_NT = token_weights(credited.advantages_NT, mask_NT, batch.groups_N, [rows], norm, budget)
        loss = loss_of(LossGiven(scores_NT, old_NT, old_NT, weights_NT, norm_NT, mask_NT, None, None), config)
        of_pairs = 2 if config.advantage.credit == "pairs" else 1  # TRL divides by pairs, the package by answers
        gradients = torch.autograd.grad(loss.value, list(model.parameters()))
        seen.gradients.append(of_pairs * torch.cat([gradient.flatten() for gradient in gradients]))
        if of_pairs == 2:
            seen.figures.extend(credited.metrics[f"dpo/{figure}"] or 0.0 for figure in ("margin", "accuracy"))
            seen.losses.append(credited.metrics["dpo/loss"] or 0.0)
        else:
            seen.figures.extend(credited.advantages_NT.flatten().tolist())
            seen.losses.append(-float(credited.advantages_NT.mean()))
    return seen


def differences(a: Seen, b: Seen) -> tuple[float | None, float, float]:
    """Largest difference of the figures (None: TRL's are others) and of losses; of the gradients over their norm."""
    figures = max(abs(x - y) for x, y in zip(a.figures, b.figures, strict=True)) if a.figures else None
    losses = max(abs(x - y) for x, y in zip(a.losses, b.losses, strict=True))
    return figures, losses, max(float((x - y).norm() / y.norm()) for x, y in zip(a.gradients, b.gradients, strict=True))


def main() -> int:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    table = Table("TRL", "here", "|Δ margin| or |Δ A|", "|Δ loss|", "Δ gradient", "verdict", show_lines=True)
    groups, wrong = beside.make_groups(len(RIGHT), len(RIGHT[0])), 0
    for name, settings, theirs in (("DPO", DPO, dpo_of_trl), ("RLOO", RLOO, rloo_of_trl)):
        for setting in settings:
            seen, thetas = theirs(setting, groups)
            found = differences(seen, ours(setting, groups, thetas))
            verdict = f"differs: {setting.differs}" if setting.differs else "equal"
            if (max(x for x in found if x is not None) <= BOUND) == bool(setting.differs):
                verdict, wrong = f"NOT AS SAID: {verdict}", wrong + 1
            cut = f" · {setting.micro} micro-batches" * (setting.micro > 1)
            table.add_row(
                f"{name} {setting.trl}{cut}", setting.ours, *("-" if x is None else f"{x:.1e}" for x in found), verdict
            )
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table, " · ".join(f"{module.__name__} {module.__version__}" for module in (trl, torch, transformers)))
    console.print(f"equal: all three within {BOUND:g}, with TRL as it is")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
