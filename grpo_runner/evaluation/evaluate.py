"""One evaluation: greedy once a question and sampled n times, graded by the same checker as training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..parallel import Ranks
from ..rollout import Engine, Sampling, check_finite
from ..schema import EvaluationConfig
from ..types import Group, Question, Status, Verdict
from .estimators import pass_at_k

Grade = Callable[[Sequence[Group]], list[list[Verdict]]]


@dataclass(frozen=True)
class Suite:
    """One set of held-out questions with their prompts. name: its key in evaluation.sets; "" for data.eval alone."""

    name: str
    questions: Sequence[Question]
    prompts: Sequence[tuple[int, ...]]
    stop: tuple[str, ...]
    max_new_tokens: int
    seed: int


def modes(config: EvaluationConfig) -> dict[str, int]:
    """How questions are answered: the mode, and how many answers a question gets in it."""
    found = {"greedy": 1} if config.greedy else {}
    return found | ({"sampled": config.samples} if config.samples else {})


def answer(
    engine: Engine, grade: Grade, suite: Suite, config: EvaluationConfig, mode: str, own: range
) -> list[tuple[Group, list[Verdict]]]:
    """Answers to the questions at the places `own` of the suite, with their verdicts.

    The draws are a function of the suite's seed, the set's name, the mode, the question's place and the sample: the
    same for every policy and every training step, so that two evaluations differ by the policy and not by luck. They
    share nothing with training's.
    """
    if not own:
        return []
    sampling = Sampling(
        temperature=0.0 if mode == "greedy" else config.temperature,
        top_p=1.0 if mode == "greedy" else config.top_p,
        top_k=0,
        max_new_tokens=suite.max_new_tokens,
        stop=suite.stop,
        seed=suite.seed,
        purpose=f"evaluation/{suite.name}/{mode}" if suite.name else f"evaluation/{mode}",
        step=0,
        first_slot=own.start,
    )
    questions, prompts = suite.questions[own.start : own.stop], suite.prompts[own.start : own.stop]
    groups = engine.sample(questions, prompts, modes(config)[mode], sampling)
    check_finite(groups, f"{mode} evaluation")
    return list(zip(groups, grade(groups), strict=True))


def evaluate(
    engine: Engine, grade: Grade, suites: Sequence[Suite], config: EvaluationConfig, ranks: Ranks
) -> dict[str, float | int]:
    """Metrics of the present policy: `greedy/…` and `sampled/…`, over all questions of the suite.

    accuracy is the share of right answers (avg@n when sampled); pass@n is the unbiased estimator at k = n. A truncated
    answer counts by its answer. With named suites each has its own figures, `NAME/greedy/…`, and `greedy/…` is the mean
    over the suites, whatever their sizes. Each process answers its share of the questions, and all have the metrics.
    """
    total = sum(len(suite.questions) for suite in suites)
    metrics: dict[str, float | int] = {"questions": total, "samples": config.samples}
    found = {suite.name: _figures(engine, grade, suite, config, ranks) for suite in suites}
    names = {name: [figures[name] for figures in found.values()] for name in next(iter(found.values()))}
    metrics |= {name: sum(values) / len(values) for name, values in names.items()}
    for suite in suites:
        if suite.name:
            metrics[f"{suite.name}/questions"] = len(suite.questions)
            metrics |= {f"{suite.name}/{name}": value for name, value in found[suite.name].items()}
    return metrics


def _figures(
    engine: Engine, grade: Grade, suite: Suite, config: EvaluationConfig, ranks: Ranks
) -> dict[str, float | int]:
    figures: dict[str, float | int] = {}
    for mode in modes(config):
        own = answer(engine, grade, suite, config, mode, ranks.share(len(suite.questions)))
        judged = ranks.gather(own, "evaluation")
        figures |= {f"{mode}/{name}": value for name, value in summarise(*zip(*judged, strict=True)).items()}
    return figures


def summarise(groups: Sequence[Group], verdicts: Sequence[Sequence[Verdict]]) -> dict[str, float | int]:
    """accuracy, pass@n (n > 1), mean length in tokens, and the shares of truncated and unanswered completions."""
    completions = [completion for group in groups for completion in group.completions]
    flat = [verdict for row in verdicts for verdict in row]
    total, samples = len(completions), len(groups[0].completions)
    result: dict[str, float | int] = {"accuracy": sum(verdict.correct for verdict in flat) / total}
    if samples > 1:
        passed = [pass_at_k(sum(verdict.correct for verdict in row), samples, samples) for row in verdicts]
        result[f"pass@{samples}"] = sum(passed) / len(passed)
    result["length_mean"] = sum(len(one.token_ids) for one in completions) / total
    result["truncated"] = sum(one.truncated for one in completions) / total
    result["no_answer"] = sum(verdict.status is Status.NO_ANSWER for verdict in flat) / total
    return result
