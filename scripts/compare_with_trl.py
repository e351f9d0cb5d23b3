#!/usr/bin/env python3
"""The package beside Hugging Face TRL itself: advantages, loss and gradient of the same optimizer steps.

TRL is no dependency of the project; it goes into an environment of its own (a CPU is enough, a run takes a minute):

    python3 -m venv build/trl-env
    build/trl-env/bin/pip install "torch==2.13.0" "trl==1.16.0"
    build/trl-env/bin/pip install -c constraints.txt -e .
    build/trl-env/bin/python scripts/compare_with_trl.py

GRPOTrainer.train() makes two optimizer steps on given answers and rewards, which enter by TRL's own `rollout_func` and
`reward_funcs`; in the second the policy is not the sampler, so that ratio and clip act. At the same parameters the
package computes both steps from the overrides in the table. All of it twice: with TRL as it is (its log-probabilities
are float32 whatever the model is), and with its log-probabilities in float64, which tells a departure from rounding.
Of a departure the factor is told by which the package's gradient becomes TRL's, in either step, and what that leaves.
Exits 1 where a setting is not as said. docs/trl.md has the last table and what it means.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from typing import Any, NamedTuple

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
os.environ |= {"TRL_EXPERIMENTAL_SILENCE": "1", "CUDA_VISIBLE_DEVICES": ""}
try:
    import torch
    import transformers
    import trl
    import yaml
    from datasets import Dataset
    from rich.console import Console
    from rich.table import Table
    from tokenizers import Tokenizer, models
except ImportError as error:
    sys.exit(f"{error.name} is not installed here: the first lines of {sys.argv[0]} set up an environment with TRL.")

from grpo_runner import compose
from grpo_runner.algorithm import advantages, token_weights
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.logprobs import completion_logprobs
from grpo_runner.policy.loss import Given, loss_of
from grpo_runner.types import Completion, Finish, Group, Question

VOCAB, BUDGET, EOS = 13, 16, 2
# bounds of equality: rounding (6e-8 and 1e-16) times log-probabilities of up to 10 and sums over 60 tokens
AS_IS, DOUBLE = 2e-5, 1e-11
REWARDS = ((1, 0, 0, 0), (1, 0.25, 1, 0), (0.5, 0.5, 0.5, 0.5))


class Setting(NamedTuple):
    """A line of the table. differs: why TRL departs, empty where it is said to be equal; accumulate: its micro-batches
    an optimizer step; cuts: its optimizer steps a generation (at 1, answers are used twice); excluded: rows that the
    package leaves out."""

    trl: str
    ours: str
    differs: str = ""
    accumulate: int = 1
    cuts: int = 1
    rewards: tuple[tuple[float | None, ...], ...] = REWARDS
    excluded: tuple[int, ...] = ()


DDOF = "advantage.ddof=1 advantage.eps=1e-4"
GRPO = f"advantage=grpo {DDOF} loss_norm=sequence_mean"
TOKEN_MEAN = f"advantage=grpo {DDOF} loss_norm=token_mean"
KL, PLAIN_KL = "beta=0.04", "beta=0.04 use_bias_correction_kl=false"
GSPO = "importance_sampling_level=sequence epsilon=0.02 epsilon_high=0.03"
OUR_GSPO = "clip=gspo clip.low=.02 clip.high=.03"
MASKED = "loss_type=grpo mask_truncated_completions=true", f"{GRPO} reward.truncated=mask"
SETTINGS = [
    Setting("loss_type=grpo", GRPO),
    Setting(f"loss_type=grpo {PLAIN_KL}", f"{GRPO} {KL}", accumulate=3),
    Setting(f"loss_type=grpo scale_rewards=batch {PLAIN_KL}", f"{GRPO.replace('=grpo', '=batch_std')} {KL}"),
    Setting("loss_type=grpo scale_rewards=none", "advantage=dr_grpo loss_norm=sequence_mean", accumulate=6),
    Setting(f"loss_type=bnpo {PLAIN_KL}", f"{TOKEN_MEAN} {KL}"),
    Setting("loss_type=bnpo", GRPO, accumulate=12),
    Setting("loss_type=dapo epsilon_high=0.28", f"{TOKEN_MEAN} clip=clip_higher"),
    Setting(f"loss_type=dapo {PLAIN_KL}", f"{TOKEN_MEAN} {KL}", accumulate=3),
    Setting("loss_type=dr_grpo scale_rewards=none", "advantage=dr_grpo loss_norm=constant", accumulate=3),
    Setting(f"loss_type=dr_grpo {PLAIN_KL}", f"advantage=grpo {DDOF} loss_norm=constant {KL}", cuts=2),
    Setting("loss_type=grpo temperature=0.7", f"{GRPO} temperature=0.7"),
    Setting("loss_type=grpo delta=1.5", f"{GRPO} clip.dual=1.5"),
    Setting(f"loss_type=grpo {GSPO}", f"{GRPO} {OUR_GSPO}"),
    Setting(f"loss_type=luspo {GSPO} {PLAIN_KL}", f"advantage=grpo {DDOF} loss_norm=sequence_sum {OUR_GSPO} {KL}"),
    Setting("loss_type=cispo epsilon_high=1.28", f"{TOKEN_MEAN} clip=cispo clip.low=1 clip.high=.28"),
    Setting("loss_type=grpo", "advantage=grpo loss_norm=sequence_mean", "ddof 1, and 1e-4 beside the std"),
    Setting("loss_type=grpo", "advantage=grpo advantage.ddof=1 loss_norm=sequence_mean", "1e-4 beside the std"),
    Setting("loss_type=grpo", GRPO, "seven rewards of 0.1, in float32", rewards=((1, 0, 0, 1, 0, 0, 0), (0.1,) * 7)),
    Setting("loss_type=dr_grpo", "advantage=dr_grpo loss_norm=constant", "keeps the std unless scale_rewards=none"),
    Setting("loss_type=bnpo", TOKEN_MEAN, "mean over each micro-batch", accumulate=3),
    Setting("loss_type=dapo", TOKEN_MEAN, "mean tokens of a step, not this step's", cuts=2),
    Setting(f"loss_type=grpo {KL}", f"{GRPO} {KL}", "KL times ratio"),
    Setting(f"loss_type=grpo {KL}", f"{GRPO} {KL} beta.estimator=k2", "KL times ratio: k2's gradient at ratio 1"),
    Setting("loss_type=cispo", f"{TOKEN_MEAN} clip=cispo", "epsilon_high (0.2) itself caps the ratio"),
    Setting("loss_type=grpo", GRPO, "no reward: in N", rewards=((1, 0, None, 0), *REWARDS[1:]), excluded=(2,)),
    Setting(*MASKED, "masked: in N, and in mean and std of the group", excluded=(4, 9)),
]
FIXED = f"""max_steps=2 max_completion_length={BUDGET} max_grad_norm=0 lr_scheduler_type=constant beta=0
    bf16=false gradient_checkpointing=false shuffle_dataset=false use_cpu=true disable_tqdm=true
    save_strategy="no" logging_strategy="no" report_to=none"""


class Seen(NamedTuple):
    """What one side saw: advantages (N,), and of each of the two optimizer steps the loss and the gradient. The
    package's side has also the sum of the absolute token weights, which losses are compared with (at ratio 1 the terms
    of a loss cancel), and the share of clipped tokens."""

    advantages: torch.Tensor
    losses: list[float]
    gradients: list[torch.Tensor]
    sizes: list[float]
    clipped: list[float]


class Observed(trl.GRPOTrainer):
    """GRPOTrainer that notes the inputs and the loss of each micro-batch; it changes nothing."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        self.noted = [*getattr(self, "noted", []), (inputs, loss.item())]
        return loss


class InDouble(Observed):
    """The same with log-probabilities in the model's float64, and positions counted from a prompt's first token."""

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, *_, **__):
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
        logits = model(input_ids=input_ids, attention_mask=attention_mask, position_ids=positions).logits
        logprobs = (logits[:, -logits_to_keep - 1 : -1] / self.temperature).log_softmax(-1)
        chosen = logprobs.gather(2, input_ids[:, -logits_to_keep:, None]).squeeze(2)
        return chosen, torch.zeros_like(chosen), None


def words(text: str) -> dict[str, Any]:
    return {key: yaml.safe_load(value) for key, value in (word.split("=") for word in text.split())}


def tiny_llama(seed: int) -> Any:
    """A random Llama of two layers in float64."""
    torch.set_default_dtype(torch.float32)  # the draws depend on it
    torch.manual_seed(seed)
    shape = words("hidden_size=16 intermediate_size=24 num_hidden_layers=2 num_attention_heads=2 num_key_value_heads=1")
    ids = {"bos_token_id": 1, "eos_token_id": EOS, "pad_token_id": 0}
    config = transformers.LlamaConfig(vocab_size=VOCAB, initializer_range=0.3, **shape, **ids)
    return transformers.LlamaForCausalLM(config).double().eval()


def make_groups(questions: int, size: int) -> list[Group]:
    """Random prompts and answers of unequal lengths; every fifth answer is cut off, the others end in EOS."""
    draw = torch.Generator().manual_seed(0)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, VOCAB, (length,), generator=draw).tolist())

    def answer(row: int) -> Completion:
        cut, tokens = row % 5 == 4, ids(1 + (row * 5 + row // size) % 9)
        return Completion(tokens if cut else (*tokens, EOS), "", (), Finish.LENGTH if cut else Finish.EOS)

    rows = [[answer(size * slot + i) for i in range(size)] for slot in range(questions)]
    return [Group(Question(f"q{slot}", "", ""), ids(2 + slot), tuple(row)) for slot, row in enumerate(rows)]


def train(setting: Setting, answers: list[Any], size: int, double: bool) -> tuple[Any, list[Any], list[torch.Tensor]]:
    """GRPOTrainer after two optimizer steps, with parameters and gradient before each. TRL takes the reference from
    where the model says it is from: here another model, so that the KL term acts from the first step on."""
    model, reference, thetas, gradients = tiny_llama(0), tiny_llama(1), [], []
    rewards = [reward for row in setting.rewards for reward in row]
    prompts, completions = (list(part) for part in zip(*answers, strict=True))
    vocabulary = Tokenizer(models.WordLevel({f"t{i}": i for i in range(VOCAB)}, unk_token="t0"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary, pad_token="t0", eos_token=f"t{EOS}")
    steps = setting.accumulate * setting.cuts
    batches = f"per_device_train_batch_size={len(answers) // steps} gradient_accumulation_steps={setting.accumulate}"
    reuse = f"steps_per_generation={steps} num_iterations={2 // setting.cuts} num_generations={size}"
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)

    def note(*_: Any) -> None:
        thetas.append({name: value.clone() for name, value in model.state_dict().items()})
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))

    optimizer.register_step_pre_hook(note)
    torch.set_default_dtype(torch.float64 if double else torch.float32)  # TRL makes its advantages in it
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        model.config._name_or_path = folder
        trainer = (InDouble if double else Observed)(
            model,
            reward_funcs=lambda **_: rewards,
            args=trl.GRPOConfig(folder, **words(f"{FIXED} {batches} {reuse} {setting.trl}")),
            train_dataset=Dataset.from_dict({"prompt": [f"q{slot}" for slot in range(len(setting.rewards))]}),
            processing_class=tokenizer,
            optimizers=(optimizer, None),
            rollout_func=lambda *_: {"prompt_ids": prompts, "completion_ids": completions, "logprobs": None},
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return trainer, thetas, gradients


def theirs(setting: Setting, groups: list[Group], double: bool) -> tuple[Seen, list[Any], list[torch.Tensor]]:
    """What TRL saw in its two optimizer steps; the parameters before and the rows in each."""
    answers = [(list(group.prompt_ids), list(c.token_ids)) for group in groups for c in group.completions]
    trainer, thetas, gradients = train(setting, answers, len(groups[0].completions), double)
    found, rows = torch.zeros(len(answers), dtype=torch.float64), []
    for inputs, _ in trainer.noted:  # TRL shuffles the answers: they are found again by their tokens, pad taken off
        pairs = zip(inputs["prompt_ids"].tolist(), inputs["completion_ids"].tolist(), strict=True)
        rows.append(torch.tensor([answers.index(tuple([t for t in part if t] for part in pair)) for pair in pairs]))
        found[rows[-1]] = inputs["advantages"].double()
    cuts = [slice(start, start + setting.accumulate) for start in range(0, len(rows), setting.accumulate)]
    losses = [sum(loss for _, loss in trainer.noted[cut]) for cut in cuts]
    return Seen(found, losses, gradients, [], []), thetas, [torch.cat(rows[cut]) for cut in cuts]


def ours(setting: Setting, groups: list[Group], thetas: list[Any], rows: list[torch.Tensor]) -> Seen:
    """The package at the same parameters, from the overrides alone."""
    config = compose(["beta=0", *setting.ours.split(), f"max_new_tokens={BUDGET}", "lora=off"])
    batch, advantage, model = Batch.of(groups), config.advantage, tiny_llama(0)
    rewards_QG = torch.tensor([[torch.nan if r is None else r for r in row] for row in setting.rewards]).double()
    for row in setting.excluded:
        batch.mask_NT[row], rewards_QG.view(-1)[row] = False, torch.nan
    made_QG = advantages(rewards_QG, advantage.baseline, advantage.scale, advantage.ddof, advantage.eps)
    kept = [part[~torch.isin(part, torch.tensor(setting.excluded))] for part in rows]
    norm, budget = config.loss_norm.kind, config.loss_norm.divisor or config.max_new_tokens
    weights_NT, norm_NT = token_weights(made_QG.flatten(), batch.mask_NT, batch.groups_N, kept, norm, budget)
    padded = batch.pad(torch.arange(len(batch.prompts)), 0, torch.device("cpu"))

    def score(policy: Any) -> torch.Tensor:
        return completion_logprobs(policy, padded, config.temperature).masked_fill(~batch.mask_NT, 0.0)

    with torch.no_grad():
        old_NT, reference_NT = score(model), score(tiny_llama(1))
    seen = Seen(made_QG.flatten(), [], [], [], [])
    for theta, part in zip(thetas, kept, strict=True):
        model.load_state_dict(theta)
        given = (score(model), old_NT, old_NT, weights_NT, norm_NT, batch.mask_NT, reference_NT)
        loss = loss_of(Given(*(values[part] for values in given), entropy=None), config)
        gradients = torch.autograd.grad(loss.value, list(model.parameters()))
        seen.losses.append(loss.value.item())
        seen.gradients.append(torch.cat([gradient.flatten() for gradient in gradients]))
        seen.sizes.append(float(weights_NT[part].abs().sum()))
        seen.clipped.append(float(loss.clipped[batch.mask_NT[part]].double().mean()))
    return seen


def differences(a: Seen, b: Seen) -> tuple[float, float, float]:
    """Largest difference of the advantages; relative difference of losses and of gradients, the larger of two steps."""
    losses = [abs(x - y) / size for x, y, size in zip(a.losses, b.losses, b.sizes, strict=True)]
    gradients = [float((x - y).norm() / y.norm()) for x, y in zip(a.gradients, b.gradients, strict=True)]
    return float((a.advantages - b.advantages).abs().max()), max(losses), max(gradients)


def factors(a: Seen, b: Seen) -> str:
    """How many times the package's gradient TRL's is, in each step, and what share of TRL's that leaves."""
    pairs = list(zip(a.gradients, b.gradients, strict=True))
    scales = [float(x @ y / (y @ y)) for x, y in pairs]
    rests = [float((x - s * y).norm() / x.norm()) for s, (x, y) in zip(scales, pairs, strict=True)]
    return f"× {scales[0]:.4f}, {scales[1]:.4f}, rest {rests[0]:.0e}, {rests[1]:.0e}"


def main() -> int:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    table = Table("TRL", "here", "|Δ A|", "Δ loss", "Δ gradient", "in float64", "verdict", show_lines=True)
    clipped, wrong = [], 0
    for setting in SETTINGS:
        groups, pairs = make_groups(len(setting.rewards), len(setting.rewards[0])), []
        for double in (False, True):
            seen, thetas, rows = theirs(setting, groups, double)
            pairs.append((seen, ours(setting, groups, thetas, rows)))
        as_is, exact = differences(*pairs[0]), differences(*pairs[1])
        verdict = f"differs: {setting.differs}; gradient {factors(*pairs[0])}" if setting.differs else "equal"
        if (max(as_is) <= AS_IS and max(exact) <= DOUBLE) == bool(setting.differs):
            verdict, wrong = f"NOT AS SAID: {verdict}", wrong + 1
        cut = f" · {setting.accumulate} micro-batches" * (setting.accumulate > 1)
        cut += f" · {setting.cuts} steps a generation" * (setting.cuts > 1)
        table.add_row(setting.trl + cut, setting.ours, *(f"{x:.1e}" for x in (*as_is, max(exact))), verdict)
        clipped.append(pairs[1][1].clipped[1])
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table, " · ".join(f"{module.__name__} {module.__version__}" for module in (trl, torch, transformers)))
    console.print(f"equal: within {AS_IS:g} with TRL as it is, and within {DOUBLE:g} in float64")
    console.print(f"clipped in the second step: {min(clipped):.0%} to {max(clipped):.0%} of the tokens")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
