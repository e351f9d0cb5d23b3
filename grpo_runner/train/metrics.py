"""What a step is reported as: one dict for metrics.jsonl, one row a question for questions.parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..algorithm import Weighed, concentration, question_rows, std, weigh, zero_variance
from ..objectives import REFERENCES, beside
from ..policy.batch import Batch
from ..policy.update import Update
from ..schema import RunConfig
from ..types import Reward, Status, Verdict
from .collect import Rollout
from .credit import Credited

Row = dict[str, float | int | str | None]


@dataclass(frozen=True)
class Step:
    """All that one step made: Q groups with their verdicts and rewards, and what trained.

    mask_NT: of the loss, False throughout for a response that is excluded. minibatches: rows of each optimizer step.
    """

    config: RunConfig
    number: int
    rollout: Rollout
    credited: Credited
    batch: Batch
    mask_NT: Tensor
    minibatches: Sequence[Tensor]
    weights_NT: Tensor
    update: Update

    @property
    def rewards_QG(self) -> Tensor:
        """(Q, G) as they trained, a KL penalty taken off; NaN where a response is excluded."""
        return self.credited.rewards_QG

    @property
    def penalty_N(self) -> Tensor | None:
        """(N,) the KL in the reward, of each response; None without one."""
        return self.credited.penalty_N

    @cached_property
    def advantages_QG(self) -> Tensor:
        """(Q, G) of each answer: its tokens' mean where they are credited differently; 0 for an excluded one."""
        made_NT = self.credited.advantages_NT
        if made_NT.shape[1] == 1:
            return made_NT.view(self.rewards_QG.shape)
        made_N = (made_NT * self.mask_NT).sum(dim=1) / self.mask_NT.sum(dim=1).clamp(min=1)
        return made_N.view(self.rewards_QG.shape)

    @property
    def included_QG(self) -> Tensor:
        """(Q, G) bool: which responses are in the baseline and in the loss."""
        return self.mask_NT.any(dim=1).view(self.rewards_QG.shape)

    @cached_property
    def references(self) -> dict[str, Weighed]:
        """What GRPO, Dr. GRPO and leave-one-out give the same answers, in the same optimizer batches."""
        return {
            name: weigh(self.rewards_QG, self.mask_NT, self.minibatches, beside(name, self.config))
            for name in REFERENCES
        }

    @property
    def kl_QG(self) -> Tensor | None:
        """(Q, G) mean over a response's tokens of the KL estimate, wherever it is counted; NaN where excluded."""
        if self.penalty_N is not None:
            kl_N = self.penalty_N / self.batch.lengths_N
        elif self.update.kl_N is not None:
            kl_N = self.update.kl_N
        else:
            return None
        return kl_N.view(self.rewards_QG.shape).masked_fill(~self.included_QG, torch.nan)


def mean(values: Sequence[float]) -> float | None:
    """None of nothing: a mean that is not defined is not 0."""
    return sum(values) / len(values) if values else None


def known(values: Sequence[float | None]) -> list[float]:
    """Those that are there."""
    return [value for value in values if value is not None]


def number(value: Tensor) -> float | None:
    """A float; None for NaN, the mean of nothing."""
    return None if value.isnan() else float(value)


def step_metrics(made: Step) -> dict[str, float | None]:
    """Means over all completions that were sampled; accuracy is the checker's word, reward/mean what they earned.

    What speaks of training (stds of the reward, weights, the update) is of the included ones.
    """
    rewards_QG, update, rollout = made.rewards_QG, made.update, made.rollout
    answers = [completion for group in rollout.groups for completion in group.completions]
    flat = [verdict for row in rollout.verdicts for verdict in row]
    scored = [reward for row in rollout.rewards for reward in row]
    lengths = [len(answer.token_ids) for answer in answers]
    entropies = [
        (answer.entropy, length) for answer, length in zip(answers, lengths, strict=True) if answer.entropy is not None
    ]

    def share(status: Status) -> float:
        return sum(verdict.status is status for verdict in flat) / len(flat)

    return {
        "reward/mean": mean(known([reward.total for reward in scored])),
        **{f"reward/{part}": mean(known([reward.parts[part] for reward in scored])) for part in scored[0].parts},
        **_model_gap(scored, flat),
        **(
            {"reward/after_kl": number(rewards_QG.nanmean())}
            if made.penalty_N is not None and made.config.beta.placement == "reward"
            else {}
        ),
        # two meanings of "reward std", named apart: inside the groups (ddof 0, as our advantages divide by), and over
        # all completions of the step (ddof 1: TRL's reward_std, to be read beside its logs)
        "reward/group_std": number(std(rewards_QG, 0).nanmean()),
        "reward/batch_std": number(std(rewards_QG.reshape(1, -1), 1).squeeze()),
        "accuracy": share(Status.CORRECT),
        "tokens/sampled": sum(lengths) if rollout.sampled is None else rollout.sampled,
        "length/mean": mean(lengths),
        "length/min": min(lengths),
        "length/max": max(lengths),
        "length/correct": mean([n for n, verdict in zip(lengths, flat, strict=True) if verdict.correct]),
        "length/wrong": mean([n for n, verdict in zip(lengths, flat, strict=True) if not verdict.correct]),
        "truncated": sum(answer.truncated for answer in answers) / len(answers),
        "no_answer": share(Status.NO_ANSWER),
        "ambiguous": share(Status.AMBIGUOUS),
        "timeout": share(Status.TIMEOUT),
        "error": share(Status.ERROR),
        "unscored": sum(reward.total is None for reward in scored),
        "excluded": int((~made.included_QG).sum()),
        **_dynamic(made),
        **made.credited.metrics,
        "kl": _kl(made),
        # over tokens, so that long answers count by their length, as in the loss under token_mean
        "entropy": sum(e * n for e, n in entropies) / sum(n for _, n in entropies) if entropies else None,
        "clip_fraction": update.clip_fraction,
        "ratio/mean": update.ratio_mean,
        "ratio/max": update.ratio_max,
        "mismatch": update.mismatch,
        **_importance(made),
        "grad_norm": update.grad_norm,
        "lr": update.lr,
        "updates": update.updates,
        "zero_variance_fraction": _without_variance(made),
        "weight/total": float(made.weights_NT.abs().sum()),
        **_concentrations(made),
    }


def _without_variance(made: Step) -> float | None:
    """Share of the groups whose answers all earned the same; None where no answer is compared with its group's."""
    advantage = made.config.advantage
    compared = advantage.baseline not in ("none", "batch_mean") or advantage.scale not in ("none", "batch_std")
    if advantage.credit not in ("outcome", "pairs") or not compared:
        return None
    return float(zero_variance(made.rewards_QG).double().mean())


def _model_gap(scored: Sequence[Reward], verdicts: Sequence[Verdict]) -> dict[str, float | None]:
    """How much better a learned reward model likes right answers than wrong ones, on average; None without both.

    Where the policy learns to please the model and not to be right, `reward/model` goes up, `accuracy` does not, and
    this goes down.
    """
    if "model" not in scored[0].parts:
        return {}
    pairs = [(reward.parts["model"], verdict.correct) for reward, verdict in zip(scored, verdicts, strict=True)]
    right, wrong = (mean(known([score for score, correct in pairs if correct is of])) for of in (True, False))
    return {"reward/model_gap": None if right is None or wrong is None else right - wrong}


def _dynamic(made: Step) -> dict[str, float | None]:
    """How much dynamic sampling had to do."""
    if not made.config.rollout.dynamic_sampling:
        return {}
    return {"refills": made.rollout.refills, "groups/kept": int(made.included_QG.any(dim=1).sum())}


def _importance(made: Step) -> dict[str, float | None]:
    if made.config.rollout.importance == "none":
        return {}
    return {"importance/mean": made.update.importance_mean, "importance/capped": made.update.importance_capped}


def _kl(made: Step) -> float | None:
    """Mean over tokens."""
    if made.penalty_N is None:
        return made.update.kl
    tokens = int(made.mask_NT.sum())
    return float(made.penalty_N.nansum()) / tokens if tokens else None


def _concentrations(made: Step) -> dict[str, float | None]:
    """Gini and share of the top tenth of the questions' weights, under the objective in use and the others."""
    everything = {"": made.weights_NT, **{f"_{n}": given.weights_NT for n, given in made.references.items()}}
    size = len(made.rewards_QG)
    return {
        f"weight/{measure}{name}": value
        for name, weights_NT in everything.items()
        for measure, value in concentration(weights_NT.abs().view(size, -1).sum(dim=1)).items()
    }


def step_questions(made: Step) -> list[Row]:
    """One row a question, in the order of the step's slots: what it is, how it went, and what it weighed."""
    shape = made.advantages_QG.shape
    numbers = question_rows(
        rewards_QG=made.rewards_QG,
        correct_QG=torch.tensor([[verdict.correct for verdict in row] for row in made.rollout.verdicts]),
        advantages_QG=made.advantages_QG,
        token_weights_QGT=made.weights_NT.view(*shape, -1),
        lengths_QG=made.batch.lengths_N.view(shape),
        included_QG=made.included_QG,
        references=made.references,
    )
    kl_QG = made.kl_QG
    rows: list[Row] = []
    for slot, (group, values) in enumerate(zip(made.rollout.groups, numbers, strict=True)):
        row: Row = {"step": made.number, "slot": slot, "question_id": group.question.id}
        row |= {"question": group.question.text, "gold": " or ".join(group.question.golds), **values}
        row["truncated"] = sum(answer.truncated for answer in group.completions)
        row["kl"] = None if kl_QG is None else number(kl_QG[slot].nanmean())
        rows.append(row)
    return rows


def step_completions(made: Step, pieces: Callable[[Sequence[int]], list[str]]) -> list[dict[str, object]]:
    """One row a completion, with its text, and token by token what the update did to it, for `completions/`."""
    rows: list[dict[str, object]] = []
    rollout = made.rollout
    for slot, (group, judged, scored) in enumerate(zip(rollout.groups, rollout.verdicts, rollout.rewards, strict=True)):
        for sample, (answer, verdict, reward) in enumerate(zip(group.completions, judged, scored, strict=True)):
            included = bool(made.included_QG[slot, sample])
            rows.append(
                {
                    "step": made.number,
                    "slot": slot,
                    "sample": sample,
                    "question_id": group.question.id,
                    "question": group.question.text,
                    "gold": group.question.gold,
                    "completion": answer.text,
                    "finish": answer.finish.value,
                    "tokens": len(answer.token_ids),
                    "status": verdict.status.value,
                    "extracted": verdict.extracted,
                    # as it trained: with the KL penalty where that is in the reward
                    "reward": float(made.rewards_QG[slot, sample]) if included else reward.total,
                    "parts": dict(reward.parts),
                    "included": included,
                    "advantage": float(made.advantages_QG[slot, sample]),
                    "token_texts": pieces(answer.token_ids),
                    **_tokens(made, slot * made.rewards_QG.shape[1] + sample, len(answer.token_ids)),
                }
            )
    return rows


def _tokens(made: Step, row: int, length: int) -> dict[str, object]:
    """Lists with an entry a token, to 6 digits; None where a row was not computed, and for a KL not in the loss."""
    names = ("coefficient", "ratio", "kl", "kl_coefficient", "clipped")
    record = made.update.tokens
    if record is None or not record.computed_N[row]:
        return dict.fromkeys(names)
    fields = (record.coefficient_NT, record.ratio_NT, record.kl_NT, record.kl_coefficient_NT)
    lists: list[object] = [[float(f"{value:.6g}") for value in field[row, :length].tolist()] for field in fields]
    found = dict(zip(names, [*lists, record.clipped_NT[row, :length].tolist()], strict=True))
    return found if made.update.kl is not None else {**found, "kl": None, "kl_coefficient": None}
