"""The whole method on one screen."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..algorithm import token_weights
from ..objectives import budget_of
from ..policy.batch import Batch, minibatches
from ..tracking.local import wants_completions
from .credit import CREDITS, Given, fit_critic
from .fixed import answers_of
from .metrics import Step, step_completions, step_metrics, step_questions
from .parts import Parts
from .probing import probe_step
from .rounds import model_state


def train(run: Parts, start: int, stop_asked: Callable[[], bool]) -> int:
    """Make the steps from `start` on; gives the next step to make: config.steps unless a stop was asked for."""
    if start < run.config.steps and stop_asked():  # by a rule that holds at the step before
        return start
    config, size, trainer = run.config, run.config.group_size.value, run.trainer
    credit, norm, optim = CREDITS[config.advantage.credit], config.loss_norm, config.optim
    budget = budget_of(config)
    ahead = answers_of(run, start)
    for step in range(start, config.steps):
        ahead.join()
        if config.evaluation.every and step % config.evaluation.every == 0:
            run.evaluate(step)
        trainer.refresh_reference(step)
        refreshed = run.rounds.begin(step) if run.rounds else {}
        run.ranks.waited, began = 0.0, time.perf_counter()
        rollout, rewards_QG = ahead.take(step)  # NaN where a response is excluded
        batch, included_N = Batch.of(rollout.groups), ~rewards_QG.flatten().isnan()
        mask_NT = batch.mask_NT & included_N[:, None]
        penalty_NT = trainer.penalty(batch, included_N, step)
        given = Given(step, rollout, batch, rewards_QG, mask_NT, penalty_NT)
        credited = credit(run, given)
        parts = minibatches(included_N, size, optim.updates_per_rollout, optim.minibatch, config.seed, step)
        weights_NT, norm_NT = token_weights(credited.advantages_NT, mask_NT, batch.groups_N, parts, norm.kind, budget)
        probed = probe_step(run, step, rollout, batch, credited.rewards_QG, mask_NT, parts)
        record, ready = wants_completions(config, step), time.perf_counter()
        ahead.begin(step + 1)
        update = trainer.update(batch, parts, weights_NT, norm_NT, step, record)
        fitted = fit_critic(run, given, credited, parts)
        now = time.perf_counter()
        times = {"time/step_s": now - began, **rollout.seconds, "time/update_s": now - ready, **run.ranks.idle()}

        made = Step(config, step, rollout, credited, batch, mask_NT, parts, weights_NT, update)
        run.tracker.questions(step, step_questions(made))
        if record:
            run.tracker.completions(step, step_completions(made, run.pieces))
        if run.rounds:
            run.rounds.note(step, rollout)
        if probed.row is not None:
            run.tracker.probe(step, probed.row)
        run.tracker.step(step, {**step_metrics(made), **fitted, **probed.metrics, **refreshed, **times})
        stopping = stop_asked()
        if stopping or (step + 1) % (config.checkpoint.every or config.steps) == 0 or step + 1 == config.steps:
            reference, learned = trainer.reference_state(), model_state(run.rounds)
            state = (trainer.named, trainer.state(), reference, ahead.sampler, run.critic_state(), learned)
            run.checkpoints.save(step + 1, *state)
        if stopping:
            return step + 1
    return config.steps
