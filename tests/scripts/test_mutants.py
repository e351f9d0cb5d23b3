"""scripts/reliability/mutants.py: the faults it plants are in the module that the tests see, one at a time."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants", HERE / "scripts/reliability/mutants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_place_gives_one_fault(mutants):
    whole = "y = a + b.detach()\nz = -1 if a < b else 0"
    found = [mutants.planted_at("x.py", whole, *site).source for site in mutants.sites(whole)]
    assert sorted(found) == sorted(
        [
            whole.replace("a + b", "a - b"),
            whole.replace(".detach()", ""),
            whole.replace("a < b", "a <= b"),
            whole.replace("-1", "1"),
            whole.replace("-1", "-2"),
            whole.replace("else 0", "else 1"),
        ]
    )


def test_types_and_paths_are_no_places(mutants):
    assert (
        mutants.sites("def f(x: A | None, y: dict[str, int] | b.C) -> str | A: return folder / 'x', Path(x) / y") == []
    )
    assert len(mutants.sites("mask | clipped")) == len(mutants.sites("total / count")) == 1  # the control


def test_each_module_has_its_share_and_tests_that_are_there(mutants):
    files = [fault.file for fault in mutants.drawn(60, 0)]
    assert {file.split("/")[0] for file in files} == {"algorithm", "reward", "train"}
    assert len(set(files)) > 40 and max(files.count(file) for file in files) <= 2
    assert all(mutants.tests_of(file) for file in files)


def test_written_faults_still_have_their_lines(mutants):
    made = mutants.by_hand()
    assert len(made) == len(mutants.HAND) >= 20
    for fault in made:
        ast.parse(fault.source)
        assert fault.source != (HERE / "grpo_runner" / fault.file).read_text()
    # negative control: a line that is gone is told
    mutants.HAND = (("algorithm/kl.py", "no such line", ""),)
    with pytest.raises(ValueError, match="there is no 'no such line'"):
        mutants.by_hand()


def test_the_same_seed_draws_the_same_faults(mutants):
    first = mutants.drawn(12, 3)
    assert len({fault.source for fault in first}) == 12
    assert first == mutants.drawn(12, 3) and first != mutants.drawn(12, 4)
