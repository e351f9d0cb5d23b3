"""What will happen: rollouts, samples, optimizer steps, passes over the questions, evaluations, tokens at most."""

from __future__ import annotations

from dataclasses import dataclass

from ..data.order import steps_per_epoch
from ..schema import RunConfig
from . import sets

# success rates whose share of groups without variance is shown where none was given
RATES = (0.05, 0.2, 0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Happens:
    """Counts of a whole run. None: not known before the questions are loaded.

    source: whose answers (samples.source); samples: those that are sampled for training, all steps together. rounds:
    how many times as many answers dynamic sampling may ask for, 1 without it. responses: of one optimizer step. ratio:
    whether there is a probability ratio. compared: whether answers are compared with others of their question.
    training_tokens: of the answers that are trained on; those of the rounds beyond the first come on top.
    sampled_tokens: of `samples`.
    epochs: passes over the questions; seen: different questions that come up. evaluations: how often, 0 for never;
    held_out, evaluated: questions and answers of one evaluation, all sets together, and the most there can be where
    their sizes are not known. even: {success rate: share of groups whose answers are all right or all wrong}.
    """

    steps: int
    questions: int
    group_size: int
    source: str
    samples: int | None
    rounds: int
    updates: int
    ratio: bool
    compared: bool
    responses: float
    optimizer_steps: int
    rows: int | None
    rows_from: str
    epochs: float | None
    seen: int | None
    evaluations: int
    held_out: int
    held_out_known: bool
    evaluated: int
    training_tokens: int
    sampled_tokens: int | None
    evaluation_tokens: int
    even: dict[float, float]

    @property
    def clip(self) -> str:
        """Whether the clip range acts at all, in words."""
        if not self.ratio:
            return "none: there is no ratio"
        if self.updates == 1:
            return "1 update a rollout: the ratio is 1, so the clip range cannot act"
        return f"{self.updates} updates a rollout: the clip range can act in all but the first of them"


def happens(config: RunConfig, success: float | None = None) -> Happens:
    """The counts of a run, success being the share of right answers where it is given."""
    steps, questions, size = config.steps, config.questions_per_step, config.group_size.value
    updates, samples = config.optim.updates_per_rollout, questions * size
    rows, rows_from = sets.rows(config.data)
    source, advantage = config.samples.source, config.advantage
    sampled = {"policy": steps * samples, "base": rows and rows * size, "solutions": 0}[source]
    held_out, known = _held_out(config)
    evaluations = -(-steps // config.evaluation.every) + 1 if config.evaluation.every else 0
    evaluated = held_out * (config.evaluation.greedy + config.evaluation.samples)
    return Happens(
        steps=steps,
        questions=questions,
        group_size=size,
        source=source,
        samples=sampled,
        rounds=1 + config.rollout.dynamic_sampling,
        updates=updates,
        ratio=config.clip.kind != "none",
        compared=(advantage.baseline, advantage.scale) != ("none", "none"),
        responses=samples / (1 if config.optim.minibatch == "whole" else updates),
        optimizer_steps=steps * updates,
        rows=rows,
        rows_from=rows_from,
        epochs=steps / steps_per_epoch(rows, questions, config.data.short_batch) if rows else None,
        seen=min(rows, steps * questions) if rows else None,
        evaluations=evaluations,
        held_out=held_out if evaluations else 0,
        held_out_known=known,
        evaluated=evaluated if evaluations else 0,
        training_tokens=steps * samples * config.max_new_tokens,
        sampled_tokens=None if sampled is None else sampled * config.max_new_tokens,
        evaluation_tokens=evaluations * evaluated * config.evaluation_tokens,
        even={rate: no_variance(rate, size) for rate in (RATES if success is None else (success,))},
    )


def no_variance(rate: float, group_size: int) -> float:
    """Share of groups whose answers are all right or all wrong: p^G + (1 - p)^G, questions being equally hard.

    Where questions differ in difficulty and `rate` is their mean, it is more: the function is convex in p.
    """
    return rate**group_size + (1 - rate) ** group_size


def _held_out(config: RunConfig) -> tuple[int, bool]:
    """(questions of one evaluation, whether that is known and not only the most)."""
    counts = [count for _, count in sets.held_out(config).values()]
    return sum(config.evaluation.questions if count is None else count for count in counts), None not in counts
