"""The measurement of compare's page, on a small sweep."""

from __future__ import annotations

import shutil

import pytest

from scripts.bench import page


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), reason="no Chromium")
def test_the_page_is_measured_and_a_limit_makes_it_fail(capsys, monkeypatch):
    assert page.main(["--steps", "20", "--seeds", "2", "--repeats", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 runs of 20 steps, 1 visits"
    loaded, first, every = (float(line.split(" s,")[0].split()[-1]) for line in lines[3:])
    assert 0 < loaded <= every and 0 < first <= every
    monkeypatch.setattr(page, "LARGEST", 1000)
    assert page.main(["--steps", "20", "--seeds", "2", "--repeats", "1"]) == 1
