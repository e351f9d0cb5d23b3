"""The named objectives that are set side by side: which switches each sets. No torch.

`PRESETS` says what `conf/advantage/NAME.yaml` says, and the loss norm of the method of that name (a test holds both).
`HALVES` lie between GRPO and Dr. GRPO: one of the two switches is off. What a question weighs, the probe and `explain`
read from here what GRPO would have given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # no pydantic where only the names are wanted
    from .schema import RunConfig


class Preset(NamedTuple):
    """label: as papers write it; norm: the loss norm that the method goes with; words: what it does, in plain words."""

    label: str
    baseline: str
    scale: str
    norm: str
    words: str


PRESETS = {
    "grpo": Preset("GRPO", "group_mean", "group_std", "sequence_mean", "reward - group mean, over the group's std"),
    "dr_grpo": Preset("Dr. GRPO", "group_mean", "none", "constant", "reward - group mean"),
    "rloo": Preset(
        "RLOO", "leave_one_out", "none", "sequence_sum", "reward - mean of the other answers (leave-one-out)"
    ),
    "reinforce": Preset("REINFORCE", "none", "none", "sequence_sum", "the reward itself"),
    "reinforce_baseline": Preset(
        "REINFORCE with the step's mean as baseline",
        "batch_mean",
        "none",
        "sequence_sum",
        "reward - mean of the whole step",
    ),
    "maxrl": Preset("MaxRL", "group_mean", "group_mean", "token_mean", "reward - group mean, over the group's mean"),
    "batch_std": Preset(
        "the group mean over the step's std",
        "group_mean",
        "batch_std",
        "sequence_mean",
        "reward - group mean, over the std of the whole step",
    ),
}
HALVES = {
    "no_std": Preset("GRPO without its std", "group_mean", "none", "sequence_mean", "Dr. GRPO's advantage over |o|"),
    "no_length_norm": Preset(
        "GRPO without its 1/|o|", "group_mean", "group_std", "constant", "GRPO's advantage over a constant"
    ),
}
NAMED = PRESETS | HALVES
REFERENCES = ("grpo", "dr_grpo", "rloo")  # what a question would have weighed under these stands beside its weight
NORM_WORDS = {
    "sequence_mean": "each answer's loss over its own length |o|",
    "constant": "each answer's loss over a constant, L={budget:g}",
    "token_mean": "every token of the optimizer batch the same",
    "group_token_mean": "every token of its group the same, then the mean over groups",
    "sequence_sum": "each answer's loss summed, over nothing",
}


class Objective(NamedTuple):
    """All switches that make a token's weight."""

    label: str
    baseline: str
    scale: str
    ddof: int
    eps: float
    norm: str
    budget: float

    def same_weights(self, other: Objective) -> bool:
        """Whether both give every token the same weight, whatever they are called."""
        return self._weighing() == other._weighing()

    def _weighing(self) -> tuple[object, ...]:
        deviation = (self.ddof, self.eps) if self.scale != "none" else ()  # of a mean ddof is always 0
        return (self.baseline, self.scale, deviation, self.norm, self.budget if self.norm == "constant" else None)


def preset(name: str, ddof: int, eps: float, budget: float, norm: str | None = None) -> Objective:
    """The objective of that name; norm: another loss norm than its own."""
    label, baseline, scale, own, _ = NAMED[name]
    return Objective(label, baseline, scale, ddof, eps, norm or own, budget)


def budget_of(config: RunConfig) -> float:
    """L of the loss norm `constant`: as set, else the tokens that an answer may have."""
    return float(config.loss_norm.divisor or config.max_new_tokens)


def beside(name: str, config: RunConfig) -> Objective:
    """A named objective as this run would have it: a std follows the run's ddof and eps where the run has a std."""
    advantage = config.advantage
    ddof, eps = (advantage.ddof, advantage.eps) if advantage.scale not in ("none", "group_mean") else (0, 0.0)
    return preset(name, ddof, eps, budget_of(config))
