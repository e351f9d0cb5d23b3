"""Claims about a checker: each takes the checker, so that one with a known fault can be put in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from grpo_runner.reward import Policy, check, unreadable
from grpo_runner.types import Status, Verdict
from tests.reward.kinds import Typed
from tests.reward.strategies import Pair

Check = Callable[..., Verdict]
Claim = Callable[[Check, Any], None]


def holds(claim: Claim, cases: SearchStrategy[Any], checker: Check = check, examples: int = 16, shrink: bool = True) -> None:  # fmt: skip
    """Try a claim about a checker on drawn cases, the same ones on every run."""

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(cases)
    def tried(case: Any) -> None:
        claim(checker, case)

    tried()


def box(text: str) -> str:
    return rf"\boxed{{{text}}}"


def accepts_equal(checker: Check, pair: Pair) -> None:
    verdict = checker(box(pair[0].text), pair[1].text)
    assert verdict.correct, verdict


def refuses_others(checker: Check, pair: Pair) -> None:
    verdict = checker(box(pair[0].text), pair[1].text)
    assert not verdict.correct, verdict


def is_reflexive(checker: Check, case: tuple[Typed, str]) -> None:
    answer, wrapper = case
    assert unreadable(answer.text) is None
    verdict = checker(wrapper.replace("@", answer.text), answer.text)
    assert verdict.correct, verdict


def is_symmetric(checker: Check, pair: Pair) -> None:
    forth, back = (checker(box(one.text), other.text) for one, other in (pair, pair[::-1]))
    assert forth.correct == back.correct, (forth, back)


def never_raises(checker: Check, case: tuple[str, str]) -> None:
    response, gold = case
    for text in (response, box(response), f"The answer is {response}"):
        assert isinstance(checker(text, gold).status, Status)


def ignores_prose(checker: Check, case: tuple[Pair, str, str]) -> None:
    (answer, gold), before, after = case
    assert checker(before + box(answer.text) + after, gold.text) == checker(box(answer.text), gold.text)


def ignores_earlier_boxes(checker: Check, case: tuple[Pair, str, str, str]) -> None:
    (answer, gold), before, earlier, bridge = case
    assert checker(before + box(earlier) + bridge + box(answer.text), gold.text) == checker(box(answer.text), gold.text)


def looser_accepts_more(strict: dict[str, Any], loose: dict[str, Any]) -> Claim:
    def claim(checker: Check, case: tuple[str, str]) -> None:
        verdict = checker(*case, Policy(**strict))
        assert not verdict.correct or checker(*case, Policy(**loose)).correct, verdict

    return claim
