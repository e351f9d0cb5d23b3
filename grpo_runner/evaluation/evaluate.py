"""One evaluation: greedy once a question and sampled n times, graded by the same checker as training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

from ..parallel import Ranks
from ..rollout import Engine, Sampling, check_finite
from ..schema import EvaluationConfig
from ..types import Group, Question, Status, Verdict

Grade = Callable[[Sequence[Group]], list[list[Verdict]]]


def pass_at_k(successes: int, samples: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k answers is right (Chen et al. 2021): 1 - C(n-c, k) / C(n, k)."""
    return 1.0 - comb(samples - successes, k) / comb(samples, k)


@dataclass(frozen=True)
class Suite:
    """Held-out questions with their prompts."""

    questions: Sequence[Question]
    prompts: Sequence[tuple[int, ...]]
    stop: tuple[str, ...]
    max_new_tokens: int
    seed: int


def evaluate(
    engine: Engine, grade: Grade, suite: Suite, config: EvaluationConfig, ranks: Ranks
) -> dict[str, float | int]:
    """Metrics of the present policy: `greedy/…` and `sampled/…`, over all questions of the suite.

    accuracy is the share of right answers (avg@n when sampled); pass@n is the unbiased estimator at k = n. A truncated
    answer counts by its answer. The draws do not depend on the training step, so that two evaluations differ by the
    policy and not by luck, and they share nothing with training's draws. Each process answers its share of the
    questions, and all have the metrics.
    """
    own = ranks.share(len(suite.questions))
    questions, prompts = suite.questions[own.start : own.stop], suite.prompts[own.start : own.stop]
    modes = {"greedy": 1} if config.greedy else {}
    if config.samples:
        modes["sampled"] = config.samples
    metrics: dict[str, float | int] = {"questions": len(suite.questions), "samples": config.samples}
    for mode, count in modes.items():
        sampling = Sampling(
            temperature=0.0 if mode == "greedy" else config.temperature,
            top_p=1.0 if mode == "greedy" else config.top_p,
            top_k=0,
            max_new_tokens=suite.max_new_tokens,
            stop=suite.stop,
            seed=suite.seed,
            purpose=f"evaluation/{mode}",
            step=0,
            first_slot=own.start,
        )
        groups = engine.sample(questions, prompts, count, sampling) if own else []
        check_finite(groups, f"{mode} evaluation")
        judged = ranks.gather(list(zip(groups, grade(groups) if own else [], strict=True)), "evaluation")
        metrics |= {f"{mode}/{name}": value for name, value in summarise(*zip(*judged, strict=True)).items()}
    return metrics


def summarise(groups: Sequence[Group], verdicts: Sequence[Sequence[Verdict]]) -> dict[str, float | int]:
    """accuracy, pass@n (n > 1), mean length in tokens, and the shares of truncated and unanswered completions."""
    answers = [completion for group in groups for completion in group.completions]
    flat = [verdict for row in verdicts for verdict in row]
    total, samples = len(answers), len(groups[0].completions)
    result: dict[str, float | int] = {"accuracy": sum(verdict.correct for verdict in flat) / total}
    if samples > 1:
        passed = [pass_at_k(sum(verdict.correct for verdict in row), samples, samples) for row in verdicts]
        result[f"pass@{samples}"] = sum(passed) / len(passed)
    result["length_mean"] = sum(len(answer.token_ids) for answer in answers) / total
    result["truncated"] = sum(answer.truncated for answer in answers) / total
    result["no_answer"] = sum(verdict.status is Status.NO_ANSWER for verdict in flat) / total
    return result
