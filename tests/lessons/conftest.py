"""What the tests of `explain` share."""

from __future__ import annotations

import functools

import pytest

from tests.lessons.folders import write


@pytest.fixture
def folder(tmp_path):
    """A run folder with the texts of step 4, as `rows`; `overrides` change its config."""
    return functools.partial(write, tmp_path)
