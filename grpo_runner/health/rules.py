"""The rules. Each gives what it found, in words with the figures, or None; of the rows up to a step and nothing else.

A threshold is stated with its source in `RULES`, from which docs/health.md is written (scripts/health_table.py). A rule
looks at a window of steps: one noisy step is no news. Where a source gives no figure, the threshold is our choice, set
where no rule holds in runs of the embedded model that learn as they should (docs/health.md has how near they come).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .series import LONG, WINDOW, Rows, known, mean, middle, of, share, stays_over

TRUNCATED = 0.2
NO_ANSWER = 0.3
ZERO_VARIANCE = 0.8
ENTROPY_LEFT, SOLVED, RISE = 0.1, 0.75, 0.02
KL = 0.5
CLIPPED, RATIO_BESIDE, RATIO = 0.2, 2.0, 10.0
GROWTH, LONGER, LAG = 1.1, 1.2, 50
UNGRADED = 0.01
SPIKE, SPIKES, BASELINE = 10.0, 3, 50


def truncation(rows: Rows) -> str | None:
    if (found := stays_over(rows, of("truncated"), TRUNCATED)) is None:
        return None
    return f"{share(found)} of the answers of the last {WINDOW} steps were cut off at the token budget"


def without_answer(row: Mapping[str, Any]) -> float | None:
    """At least this share: an answer that was cut off may be without one too, and `truncation` speaks of those."""
    without, cut = of("no_answer")(row), of("truncated")(row)
    return None if without is None or cut is None else without - cut


def no_answer(rows: Rows) -> str | None:
    if (found := stays_over(rows, without_answer, NO_ANSWER)) is None:
        return None
    return f"{share(found)} of the answers of the last {WINDOW} steps ended by themselves without an answer to grade"


def zero_variance(rows: Rows) -> str | None:
    if not rows or "refills" in rows[-1]:  # dynamic sampling turns such groups down and fills the step with others
        return None
    found, accuracy = (mean(rows, of(key), LONG) for key in ("zero_variance_fraction", "accuracy"))
    if found is None or found <= ZERO_VARIANCE:
        return None
    at = "" if accuracy is None else f" (accuracy {share(accuracy)})"
    return f"in {share(found)} of the groups of the last {LONG} steps all answers earned the same{at}: nothing to learn"


def entropy_collapse(rows: Rows) -> str | None:
    first, now = mean(rows[:WINDOW], of("entropy")), mean(rows, of("entropy"), LONG)
    before, accuracy = (mean(rows, of("accuracy"), LONG, back) for back in (LONG, 0))
    if first is None or now is None or before is None or accuracy is None:
        return None
    if now >= ENTROPY_LEFT * first or accuracy >= SOLVED or accuracy - before >= RISE:
        return None
    return (
        f"the entropy of the last {LONG} steps is {share(now / first)} of that of the first {WINDOW}, and accuracy "
        f"stands at {share(accuracy)}"
    )


def kl_runaway(rows: Rows) -> str | None:
    if (found := middle(rows, of("kl"))) is None or found <= KL:
        return None
    return f"the KL to the reference is {found:.3g} nats a token (median of the last {WINDOW} steps)"


def ratio(rows: Rows) -> str | None:
    largest, clipped = middle(rows, of("ratio/max")), mean(rows, of("clip_fraction"))
    if largest is None or clipped is None:
        return None
    if largest <= RATIO and not (clipped > CLIPPED and largest > RATIO_BESIDE):
        return None
    return (
        f"within a rollout's updates a token's probability grows up to {largest:.3g} times, and {share(clipped)} of "
        f"the tokens are clipped (last {WINDOW} steps)"
    )


def wrong_longer(rows: Rows) -> str | None:
    wrong, wrong_before = (mean(rows, of("length/wrong"), LONG, back) for back in (0, LAG))
    accuracy, accuracy_before = (mean(rows, of("accuracy"), LONG, back) for back in (0, LAG))
    right = mean(rows, of("length/correct"), LONG)
    if wrong is None or wrong_before is None or right is None or accuracy is None or accuracy_before is None:
        return None
    if wrong < GROWTH * wrong_before or wrong < LONGER * right or accuracy - accuracy_before >= RISE:
        return None
    return (
        f"wrong answers grew from {wrong_before:.0f} to {wrong:.0f} tokens in {LAG} steps (right ones have "
        f"{right:.0f}), and accuracy went from {share(accuracy_before)} to {share(accuracy)}"
    )


def zero_reward(rows: Rows) -> str | None:
    if len(rows) < WINDOW or any(row.get("reward/mean") != 0 or row.get("reward/batch_std") != 0 for row in rows):
        return None
    return f"every reward of the {len(rows)} steps so far was 0: there was nothing to learn from"


def ungraded(row: Mapping[str, Any]) -> float | None:
    late, broken = of("timeout")(row), of("error")(row)
    return None if late is None or broken is None else late + broken


def grader(rows: Rows) -> str | None:
    if (found := mean(rows, ungraded)) is None or found <= UNGRADED:
        return None
    return f"{share(found)} of the answers of the last {WINDOW} steps could not be graded in time, and earned nothing"


def grad_spikes(rows: Rows) -> str | None:
    norm = of("grad_norm")
    usual = middle(rows, norm, min(BASELINE, len(rows) - WINDOW), WINDOW) if len(rows) >= LONG + WINDOW else None
    if not usual:
        return None
    spikes = [value for value in known(rows, norm, WINDOW) if value > SPIKE * usual]
    if len(spikes) < SPIKES:
        return None
    times = max(spikes) / usual
    return f"in {len(spikes)} of the last {WINDOW} steps the gradient's norm was up to {times:.0f} times the usual"


@dataclass(frozen=True)
class Rule:
    """A rule and what docs/health.md says of it.

    finds: from the rows of metrics.jsonl, newest last, to what is wrong, or None. tries: what may help, by its keys.
    """

    finds: Callable[[Rows], str | None]
    looks_at: str
    threshold: str
    source: str
    tries: str


# the names are those of validate.RULES, and each is logged as health/NAME
RULES: dict[str, Rule] = {
    "truncation": Rule(
        truncation,
        "share of the answers that reached `max_new_tokens`",
        f"mean of {WINDOW} steps over {share(TRUNCATED)}, and not a fifth below the {WINDOW} steps before",
        "Truncated answers earn 0 whatever they hold. TRL #5697: 97 to 99 % cut off, and nothing learned; #5759: 14 "
        "% at four times the budget, and it learns; verl #7412: 20 %, and a weak reward. verl's GSM8K run of "
        "Qwen2.5-0.5B ended with 43 %. DAPO (arXiv 2503.14476) §3.4: such rewards are noise. 20 %: our choice",
        "a larger max_new_tokens; reward.truncated=soft (DAPO's penalty before the end) or reward.truncated=mask; a "
        "lower optim.lr where it began well",
    ),
    "no_answer": Rule(
        no_answer,
        "share of the answers that ended by themselves and hold no answer: `no_answer` − `truncated`",
        f"mean of {WINDOW} steps over {share(NO_ANSWER)}, and not a fifth below the {WINDOW} steps before",
        "Dr. GRPO (arXiv 2503.20783) Table 4: with the R1 template Qwen2.5-Math-7B falls from 38 to 0; open-r1 #538: "
        "an accuracy that fell from 55 to 18. 30 %: our choice",
        "prompt and reward.extract that go together and fit the model (completions/ has the texts); "
        "reward=math_answer_and_format; a lower optim.lr where it began well",
    ),
    "zero_variance": Rule(
        zero_variance,
        "share of the groups whose answers all earned the same; not with `rollout.dynamic_sampling`, which replaces "
        "them",
        f"mean of {LONG} steps over {share(ZERO_VARIANCE)}",
        "Such a group has no gradient: DAPO (arXiv 2503.14476) §3.2; TRL #6365, verl #5228. 80 %: our choice (a fifth "
        "of what is sampled still teaches). A job that is solved comes here too",
        "easier or harder questions, as the accuracy says; a larger group_size; rollout.dynamic_sampling=10 (DAPO)",
    ),
    "entropy_collapse": Rule(
        entropy_collapse,
        "entropy of the policy a token, beside accuracy",
        f"mean of {LONG} steps under {share(ENTROPY_LEFT)} of the first {WINDOW}, while accuracy is under "
        f"{share(SOLVED)} and has not risen by {share(RISE)} over the {LONG} steps before",
        "DAPO (arXiv 2503.14476) §3.1. arXiv 2505.22617: reward is bought with entropy (73 % of it in the first 200 "
        "of 2,400 steps, for 76 % of the gain), and without any left it stands still. A fall by itself is no fault: "
        "our default job ends at 6 %, with 95 % right. Figures: our choice",
        "clip=clip_higher (DAPO) where a rollout feeds several updates; entropy_bonus=0.001 (verl); a lower optim.lr",
    ),
    "kl_runaway": Rule(
        kl_runaway,
        "KL to the reference, nats a token (with `beta` above 0)",
        f"median of {WINDOW} steps over {KL:g}",
        "torchforge #664 (a mean KL of millions), open-r1 #373 (a jump, and the run lost). Single spikes end no run "
        "(OpenRLHF #931), hence the median. 0.5: our choice; a sampled token is then 1.6 times as likely as under "
        "the reference, at every place. Our default job's median stays under 0.09",
        "a lower optim.lr; a larger beta; a smaller optim.max_grad_norm",
    ),
    "ratio": Rule(
        ratio,
        "share of the tokens that are clipped, and the largest ratio of a step (with several updates a rollout)",
        f"mean of {WINDOW} steps over {share(CLIPPED)} clipped beside a largest ratio over {RATIO_BESIDE:g} "
        f"(median), or that median over {RATIO:g}",
        "OpenRLHF #931 (ratios of 5e8), TRL #2980; verl bounds the ratio at 3 (its dual clip). In verl #2775 GRPO "
        "clips 0.03 % and GSPO 10 to 30 %: GSPO (arXiv 2507.18071) does so by design, with ratios near 1, hence the "
        "second condition. Figures: our choice",
        "a lower optim.lr; a smaller optim.updates_per_rollout; clip.dual=3 (verl)",
    ),
    "wrong_longer": Rule(
        wrong_longer,
        "length of wrong answers beside that of right ones, and accuracy",
        f"means of {LONG} steps: wrong answers {GROWTH:g} times as long as {LAG} steps ago and {LONGER:g} times as "
        f"long as right ones, and accuracy not up by {share(RISE)}",
        "Dr. GRPO (arXiv 2503.20783) Fig. 5: with 1/|o| wrong answers grow on after the reward stands still. In "
        "Fig. 1 GRPO's answers end 1.9 times as long as Dr. GRPO's (by eye) after some 300 steps: 1.1 times in 50. "
        "Figures: our choice",
        "loss_norm=constant with advantage=dr_grpo (experiment=dr_grpo); reward.truncated=soft",
    ),
    "zero_reward": Rule(
        zero_reward,
        "rewards since the first step",
        f"all 0 in the first {WINDOW} steps or more",
        "TRL #5281, verl #5635: a checker that fails without a word; unsloth's notebook: up to 100 steps without a "
        f"reward. With 64 answers a step of which one in 150 is right, {WINDOW} steps without one come in 1 run of 70",
        "python -m grpo_runner check RUN_FOLDER (does the checker read the answers?); easier questions; a larger "
        "group_size; reward=math_answer_and_format",
    ),
    "grader": Rule(
        grader,
        "share of the answers whose grading ran out of time or failed: `timeout` + `error`",
        f"mean of {WINDOW} steps over {share(UNGRADED)}",
        "oat grades with 1 s and scores 0 after it, so that a slow machine changes the rewards; verl #6673. 1 %: our "
        "choice (our runs have none)",
        "a larger reward.deadline_s; more reward.workers; a machine that does not grade and train on the same cores",
    ),
    "grad_spikes": Rule(
        grad_spikes,
        "norm of the gradient before clipping",
        f"over {SPIKE:g} times the median of the {BASELINE} steps before (or of as many as there are, {LONG} at "
        f"least) in {SPIKES} of {WINDOW} steps",
        "TRL #2980: norms that spike higher and higher after 10,000 steps (its reward rose on). ZClip (arXiv "
        "2504.02507): a spike is told from the recent norms, not by a fixed bound. One spike is cut by "
        "optim.max_grad_norm: our DAPO run had one of 10 times, and learned on. Figures: our choice",
        "a lower optim.lr; a smaller optim.max_grad_norm; optim.warmup_steps",
    ),
}
