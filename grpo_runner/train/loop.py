"""The whole method on one screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..algorithm import advantages, token_weights
from ..data import order
from ..evaluation import Grade
from ..policy.batch import Batch, minibatches
from ..policy.update import Trainer
from ..rollout import Engine, Sampling, check_finite
from ..schema import RunConfig
from ..tracking import Tracker
from ..types import Group, Question, Reward, Verdict
from .checkpoint import Checkpoints
from .metrics import Step, step_completions, step_metrics, step_questions


@dataclass(frozen=True)
class Parts:
    """What the loop works with, each made from its own part of the configuration by `build`."""

    config: RunConfig
    questions: Sequence[Question]
    prompts: Sequence[tuple[int, ...]]
    engine: Engine
    grade: Grade
    reward_of: Callable[[Sequence[Group], Sequence[Sequence[Verdict]]], list[list[Reward]]]
    trainer: Trainer
    evaluate: Callable[[int], None]
    tracker: Tracker
    checkpoints: Checkpoints


def sampling(config: RunConfig, step: int) -> Sampling:
    """How training samples at a step."""
    return Sampling(
        temperature=config.temperature,
        top_p=config.rollout.top_p,
        top_k=config.rollout.top_k,
        max_new_tokens=config.max_new_tokens,
        stop=config.prompt.stop,
        seed=config.seed,
        purpose="rollout",
        step=step,
    )


def times(clock: Sequence[float]) -> dict[str, float]:
    """Seconds of the step and of its three parts, from the four moments between them."""
    parts = {f"time/{name}_s": clock[i + 1] - clock[i] for i, name in enumerate(("rollout", "reward", "update"))}
    return {"time/step_s": clock[-1] - clock[0], **parts}


def train(run: Parts, start: int, stop_asked: Callable[[], bool]) -> int:
    """Make the steps from `start` on; gives the next step to make: config.steps unless a stop was asked for."""
    config, size = run.config, run.config.group_size.value
    advantage, norm, optim = config.advantage, config.loss_norm, config.optim
    budget = norm.divisor or config.max_new_tokens
    for step in range(start, config.steps):
        if config.evaluation.every and step % config.evaluation.every == 0:
            run.evaluate(step)
        clock = [time.perf_counter()]
        chosen = order.batch(len(run.questions), step, config.questions_per_step, config.seed, config.data.short_batch)
        questions, prompts = [run.questions[i] for i in chosen], [run.prompts[i] for i in chosen]
        groups = run.engine.sample(questions, prompts, size, sampling(config, step))
        check_finite(groups, f"step {step}")
        clock.append(time.perf_counter())
        verdicts = run.grade(groups)
        rewards = run.reward_of(groups, verdicts)
        clock.append(time.perf_counter())

        rewards_QG = torch.tensor([[reward.total for reward in row] for row in rewards], dtype=torch.float64)
        advantages_QG = advantages(rewards_QG, advantage.baseline, advantage.scale, advantage.ddof, advantage.eps)
        batch = Batch.of(groups)
        parts = minibatches(rewards_QG.numel(), size, optim.updates_per_rollout, optim.minibatch, config.seed, step)
        weights_NT, norm_NT = token_weights(advantages_QG.flatten(), batch.mask_NT, parts, norm.kind, budget)
        update = run.trainer.update(batch, parts, weights_NT, norm_NT, step)
        clock.append(time.perf_counter())

        made = Step(step, groups, verdicts, rewards, rewards_QG, advantages_QG, batch, weights_NT, update)
        run.tracker.questions(step, step_questions(made))
        run.tracker.completions(step, step_completions(made))
        run.tracker.step(step, {**step_metrics(made), **times(clock)})
        stopping = stop_asked()
        if stopping or (step + 1) % (config.checkpoint.every or config.steps) == 0 or step + 1 == config.steps:
            run.checkpoints.save(step + 1, run.trainer.named, run.trainer.state())
        if stopping:
            return step + 1
    return config.steps
