"""`metric`, what a sweep states beforehand: whether a run will log a figure of that name. No torch.

A misspelt one is told before the first run starts. tests/sweeps/ holds the names against the files of real runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .errors import InputError, nearest
from .objectives import REFERENCES
from .schema import RunConfig
from .validate import RULES

EVAL = "eval/"
_TRAINING = (
    *("reward/mean", "reward/group_std", "reward/batch_std", "accuracy", "tokens/sampled"),
    *("length/mean", "length/min", "length/max", "length/correct", "length/wrong"),
    *("truncated", "no_answer", "ambiguous", "timeout", "error", "unscored", "excluded"),
    *("kl", "entropy", "clip_fraction", "ratio/mean", "ratio/max", "mismatch", "grad_norm", "lr", "updates"),
    *("zero_variance_fraction", "weight/total"),
    *("time/rollout_s", "time/reward_s", "time/update_s", "time/step_s"),
    *(f"weight/{what}{of}" for what in ("gini", "top_tenth") for of in ("", *(f"_{name}" for name in REFERENCES))),
    *(f"health/{rule}" for rule in RULES),
    # of runs that have the setting
    *("reward/overlong", "reward/after_kl", "refills", "groups/kept", "importance/mean", "importance/capped"),
    *("time/rank_wait_s", "time/probe_s", "dpo/margin", "dpo/accuracy", "dpo/right", "dpo/wrong", "dpo/loss"),
    *("critic/loss", "critic/grad_norm", "critic/explained_variance", "critic/value", "time/critic_s"),
    *("steps/mean", "steps/right", "reward/model_gap", "reward/model_loss"),
)
_EVALUATED = ("accuracy", "length_mean", "length_right", "length_wrong", "truncated", "no_answer")


def check(configs: Sequence[RunConfig], search: bool = False) -> None:
    """Raise InputError for a metric that no run logs by that name; of a search also for one that its runs will not.

    configs: the runs of a sweep, which state one metric; a name that one of them knows is the sweep's.
    """
    config = configs[0]
    key = config.metric
    if not any(map(is_known, configs)) and not key.startswith("probe/"):  # the probe's names are not known here
        known = {*_of_training(config), *_of_evaluation(config)}
        raise InputError(
            f"metric={key}: no run logs a figure of that name.{nearest(key, known)}\n"
            f"Allowed: a key of metrics.jsonl, such as reward/mean, or {EVAL} and one of evals.jsonl, such as\n"
            f"{EVAL}sampled/accuracy."
        )
    if search and key.startswith(EVAL) and not config.evaluation.every:
        raise InputError(
            f"metric={key}: evaluation.every=0, so that the search has no figure to go by.\n"
            "Evaluate, or search by a figure of training, such as metric=reward/mean."
        )
    if search and (off := _off(config)) and key.startswith(EVAL) and f"/{off}/" in key:
        raise InputError(f"metric={key}: the evaluation has no {off} answers, so that the search has no figure.")


def is_known(config: RunConfig) -> bool:
    """Whether it is a name of figures that runs log, though perhaps not this one."""
    return config.metric in {*_of_training(config), *_of_evaluation(config)}


def _of_training(config: RunConfig) -> Iterator[str]:
    yield from _TRAINING
    yield from (f"reward/{part}" for part in config.reward.parts)


def _of_evaluation(config: RunConfig) -> Iterator[str]:
    """Also of a mode that is off: the default metric is no misspelling there."""
    passed = [f"{of}@{config.evaluation.samples}" for of in ("pass", "maj")] if config.evaluation.samples > 1 else []
    for place in (EVAL, *(f"{EVAL}{name}/" for name in config.evaluation.sets)):
        yield from (f"{place}greedy/{figure}" for figure in _EVALUATED)
        yield from (f"{place}sampled/{figure}" for figure in (*_EVALUATED, *passed))


def _off(config: RunConfig) -> str:
    """The mode that an evaluation leaves out; "" for none."""
    return "sampled" if not config.evaluation.samples else "" if config.evaluation.greedy else "greedy"
