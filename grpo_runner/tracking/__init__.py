"""What a run leaves and shows: files, W&B, the terminal, behind one Protocol. Nothing heavy is imported here."""

from .base import Row, Tracker, Trackers
from .local import LocalTracker, check_record
from .questions import read_questions
from .quiet import quiet_libraries
from .terminal import Terminal
from .wandb_tracker import WandbTracker

__all__ = [
    "LocalTracker",
    "Row",
    "Terminal",
    "Tracker",
    "Trackers",
    "WandbTracker",
    "check_record",
    "quiet_libraries",
    "read_questions",
]
