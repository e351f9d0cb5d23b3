"""The reward model trained on, round by round, on what the checker said of the answers (`reward.refresh_every`).

DeepSeekMath, Algorithm 1: after each round the reward model is trained on with a replay of a tenth of older answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from ..policy.reward_model import RewardModel
from ..rng import generator
from ..schema import RunConfig
from ..tracking import jsonl

if TYPE_CHECKING:  # collect needs the loop's parts, of which this is one
    from .collect import Rollout

FILE = (
    "reward_answers.jsonl"  # in the run's folder: all answers with the checker's word, so that a resumed run has them
)


class Rounds:
    """Keeps the answers of the steps, and trains the reward model on them where a round ends."""

    def __init__(self, config: RunConfig, model: RewardModel, start: int, writes: bool) -> None:
        self.config, self.model, self.writes = config, model, writes
        self.file = Path(config.run_dir) / FILE
        if writes:
            jsonl.keep_before(self.file, start)
        self.rows = [row for row in jsonl.rows(self.file) if row["step"] < start]

    def begin(self, step: int) -> dict[str, float | None]:
        """Train the model on where a round is over; gives the mean loss of that, None where none is due."""
        reward, seed = self.config.reward, self.config.seed
        every = reward.refresh_every
        if step == 0 or step % every:
            return {"reward/model_loss": None}
        new = [row for row in self.rows if row["step"] >= step - every]
        old = [row for row in self.rows if row["step"] < step - every]
        draw = generator(seed, "replay", step)
        replayed = min(len(old), round(len(new) * reward.replay / (1 - reward.replay)))  # that share of all
        taken = [*new, *(old[at] for at in sorted(draw.choice(len(old), replayed, replace=False).tolist()))]
        order = draw.permutation(len(taken)).tolist()
        pairs = [(taken[at]["question"], taken[at]["answer"]) for at in order]
        return {
            "reward/model_loss": self.model.train_on(pairs, [taken[at]["correct"] for at in order], reward.model_lr)
        }

    def note(self, step: int, rollout: Rollout) -> None:
        """Keep the step's answers."""
        made = [
            {"step": step, "question": group.question.text, "answer": answer.text, "correct": verdict.correct}
            for group, judged in zip(rollout.groups, rollout.verdicts, strict=True)
            for answer, verdict in zip(group.completions, judged, strict=True)
        ]
        self.rows += made
        if self.writes:
            jsonl.append(self.file, jsonl.encode(made))


def model_state(rounds: Rounds | None) -> Mapping[str, Tensor]:
    """What a checkpoint needs of a reward model that is trained on; nothing of one that is not."""
    return {} if rounds is None else rounds.model.state()
