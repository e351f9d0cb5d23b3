"""One evaluation: greedy once a question and sampled n times, graded by the same checker as training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..parallel import Ranks
from ..rollout import Engine, Sampling, check_finite
from ..schema import EvaluationConfig
from ..types import Group, Question, Status, Verdict
from .estimators import majority_at_k, pass_at_k, votes

Grade = Callable[[Sequence[Group]], list[list[Verdict]]]
Figures = dict[str, float | int | None]
Judged = tuple[Group, list[Verdict]]
TEXT = 1000  # characters that are kept of an answer


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


def answer(engine: Engine, grade: Grade, suite: Suite, config: EvaluationConfig, mode: str, own: range) -> list[Judged]:
    """Answers to the questions at the places `own` of the suite, with their verdicts.

    The draws are a function of the suite's seed, the set's name, the mode, the question's place and the sample: the
    same for every policy and every training step, so that two evaluations differ by the policy and not by luck. They
    share nothing with training's.
    """
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
    return list(zip(groups, grade(groups) if groups else [], strict=True))


def evaluate(
    engine: Engine, grade: Grade, suites: Sequence[Suite], config: EvaluationConfig, ranks: Ranks
) -> tuple[Figures, list[dict[str, object]]]:
    """Metrics of the present policy, `greedy/…` and `sampled/…` over all questions of the suite; a row a question.

    accuracy is the share of right answers (avg@n when sampled); pass@n is the unbiased estimator at k = n, maj@n the
    share of questions whose most frequent answer is right (a tie counts by its share). A truncated answer counts by its
    answer. With named suites each has its own figures, `NAME/greedy/…`, and `greedy/…` is the mean over the suites,
    whatever their sizes; None where one of them has none. Each process answers its share of the questions, and all have
    the metrics. Columns of the rows: `question_row`.
    """
    total = sum(len(suite.questions) for suite in suites)
    metrics: Figures = {"questions": total, "samples": config.samples}
    judged = {suite.name: _judged(engine, grade, suite, config, ranks) for suite in suites}
    found = {name: _figures(by_mode) for name, by_mode in judged.items()}
    metrics |= {name: _mean([figures[name] for figures in found.values()]) for name in next(iter(found.values()))}
    for suite in suites:
        if suite.name:
            metrics[f"{suite.name}/questions"] = len(suite.questions)
            metrics |= {f"{suite.name}/{name}": value for name, value in found[suite.name].items()}
    rows = [
        question_row(suite, place, {mode: answers[place] for mode, answers in judged[suite.name].items()})
        for suite in suites
        for place in (range(len(suite.questions)) if judged[suite.name] else ())
    ]
    return metrics, rows


def _judged(
    engine: Engine, grade: Grade, suite: Suite, config: EvaluationConfig, ranks: Ranks
) -> dict[str, list[Judged]]:
    """The answers to all questions of the suite, by mode."""
    share = ranks.share(len(suite.questions))
    return {
        mode: ranks.gather(answer(engine, grade, suite, config, mode, share), "evaluation") for mode in modes(config)
    }


def _figures(by_mode: dict[str, list[Judged]]) -> Figures:
    figures: Figures = {}
    for mode, judged in by_mode.items():
        figures |= {f"{mode}/{name}": value for name, value in summarise(*zip(*judged, strict=True)).items()}
    return figures


def question_row(suite: Suite, place: int, by_mode: dict[str, Judged]) -> dict[str, object]:
    """What became of one question: for each mode `right` of `answers`, lengths in tokens (None: no such answer),
    `truncated`; and the text of its greedy answer, or of the first sampled one where there is none, cut to `TEXT`.
    """
    question = suite.questions[place]
    row: dict[str, object] = {
        "set": suite.name,
        "question_id": question.id,
        "question": question.text,
        "gold": " or ".join(question.golds),
    }
    for mode, (group, verdicts) in by_mode.items():
        row[f"{mode}/answers"] = len(verdicts)
        row[f"{mode}/right"] = sum(verdict.correct for verdict in verdicts)
        row[f"{mode}/truncated"] = sum(one.truncated for one in group.completions)
        row |= {f"{mode}/{name}": value for name, value in _lengths([(group, verdicts)]).items()}
    group, verdicts = next(iter(by_mode.values()))
    text = group.completions[0].text
    cut = text if len(text) <= TEXT else text[: TEXT - 2] + " …"
    return row | {"text": cut, "text_right": verdicts[0].correct}


def summarise(groups: Sequence[Group], verdicts: Sequence[Sequence[Verdict]]) -> Figures:
    """accuracy, pass@n and maj@n (n > 1), mean lengths in tokens, shares of truncated and unanswered completions."""
    completions = [completion for group in groups for completion in group.completions]
    flat = [verdict for row in verdicts for verdict in row]
    total, samples = len(completions), len(groups[0].completions)
    result: Figures = {"accuracy": sum(verdict.correct for verdict in flat) / total}
    if samples > 1:
        passed = [pass_at_k(sum(verdict.correct for verdict in row), samples, samples) for row in verdicts]
        result[f"pass@{samples}"] = sum(passed) / len(passed)
        voted = [majority_at_k(*votes((one.correct, one.extracted) for one in row), samples) for row in verdicts]
        result[f"maj@{samples}"] = sum(voted) / len(voted)
    result |= _lengths(zip(groups, verdicts, strict=True))
    result["truncated"] = sum(one.truncated for one in completions) / total
    result["no_answer"] = sum(verdict.status is Status.NO_ANSWER for verdict in flat) / total
    return result


def _lengths(judged: Iterable[tuple[Group, Sequence[Verdict]]]) -> Figures:
    """Mean tokens of all answers, of the right ones and of all others; None of no answers."""
    pairs = [
        (len(one.token_ids), verdict.correct)
        for group, row in judged
        for one, verdict in zip(group.completions, row, strict=True)
    ]
    return {
        "length_mean": _mean([tokens for tokens, _ in pairs]),
        "length_right": _mean([tokens for tokens, right in pairs if right]),
        "length_wrong": _mean([tokens for tokens, right in pairs if not right]),
    }


def _mean(values: Sequence[float | int | None]) -> float | None:
    """None of nothing, and where one value is not known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
