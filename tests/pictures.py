"""Pictures of a run without their drawing, for tests of everything else."""

from __future__ import annotations

from importlib import import_module

import pytest

ONE_DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c63680000008200"
    "8177cd72b60000000049454e44ae426082"
)


def plain(patch: pytest.MonkeyPatch) -> None:
    """The figures of a run are made, with their captions, and saved as one dot: matplotlib's layout and drawing take
    half of the time of a small run.
    """
    patch.setattr(import_module("grpo_runner.tracking.charts.page"), "png", lambda figure: ONE_DOT)


def real(patch: pytest.MonkeyPatch) -> None:
    """They are drawn as they are outside tests."""
    from grpo_runner.tracking.charts.drawing import png

    patch.setattr(import_module("grpo_runner.tracking.charts.page"), "png", png)
