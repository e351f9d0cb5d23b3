"""What the loop works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from ..evaluation import Grade
from ..parallel import Ranks
from ..policy.critic import Critic
from ..policy.update import Trainer
from ..rollout import Engine
from ..schema import RunConfig
from ..tracking import Tracker
from ..types import Group, Question, Reward, Verdict
from .checkpoint import Checkpoints
from .rounds import Rounds


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
    critic: Critic | None
    evaluate: Callable[[int], None]
    tracker: Tracker
    checkpoints: Checkpoints
    pieces: Callable[[Sequence[int]], list[str]]  # the text of each token of an answer
    encode: Callable[[str], tuple[int, ...]]  # the tokens of an answer, the EOS that ends it included
    say: Callable[[str], None]  # a line for whoever watches
    rounds: Rounds | None = None  # of a reward model that is trained on
    ranks: Ranks = field(default_factory=Ranks)
    sampler: Mapping[str, Tensor] = field(default_factory=dict)  # what a resumed run samples from first; see ahead.py

    def critic_state(self) -> Mapping[str, Tensor]:
        """What a checkpoint needs of PPO's critic; nothing without one."""
        return self.critic.state() if self.critic is not None else {}
