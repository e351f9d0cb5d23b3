"""The family view of made runs: rows, who only sharpens, and which view it is; figures worked out here by numpy."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from made_runs import STEPS, pair_of_arms, run_folder
from rich.console import Console
from scipy import stats

from grpo_runner.compare.command import analyse, compare
from grpo_runner.compare.flags import parse
from grpo_runner.compare.types import Family
from grpo_runner.errors import InputError

SEEDS = range(7)
BASE = {seed: 0.30 + 0.05 * seed for seed in SEEDS}  # what the seeds differ in, more than any method moves
WOBBLE = (0.010, -0.012, 0.004, -0.006, 0.008, -0.009, 0.005)  # sums to 0
# of each method by seed: how far accuracy and maj@4 rise, and how far pass@4 does
RISES: dict[str, tuple[Callable[[int], float], Callable[[int], float]]] = {
    "grpo": (lambda seed: 0.10 + WOBBLE[seed], lambda seed: WOBBLE[seed]),  # only sharpens
    "rft": (lambda seed: WOBBLE[seed], lambda seed: WOBBLE[-seed]),  # does nothing
    "dr_grpo": (lambda seed: 0.10 + WOBBLE[seed], lambda seed: 0.08 + WOBBLE[seed]),  # solves more
}


def method(place: Path, name: str, seeds: Sequence[int] = SEEDS, **keys: object) -> None:
    """Runs of 20 steps of 100 tokens and half a second each, evaluated before steps 0, 10 and 20."""
    up, solves = RISES[name]
    for seed in seeds:
        evals = {}
        for step in (0, 10, STEPS):
            share = step / STEPS
            evals[step] = {
                "sampled/accuracy": BASE[seed] + share * up(seed),
                "sampled/maj@4": BASE[seed] + 0.05 + share * up(seed),
                "sampled/pass@4": BASE[seed] + 0.2 + share * solves(seed),
                "sampled/length_right": 20.0 + seed,
                "sampled/length_wrong": 30.0 + seed,
                "greedy/accuracy": BASE[seed] + 0.1,
            }
        run_folder(
            place / f"method={name},seed={seed}",
            seed,
            lambda step: {"time/step_s": 0.5, "tokens/sampled": 100, "time/rollout_s": 0.1, "time/reward_s": 0.0},
            evals,
            f"method={name}",
            memory=600.0 + seed,
            **keys,
        )


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> str:
    place = tmp_path_factory.mktemp("sweeps") / "methods"
    for name in RISES:
        method(place, name)
    return str(place)


def family(*words: str) -> Family:
    found = analyse(parse(words)).family
    assert found is not None
    return found


def printed(*words: str, width: int = 400) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    assert compare(words, console) == 0
    return console.file.getvalue()


def student(values: Sequence[float]) -> tuple[float, float, float]:
    made = np.array(values)
    half = stats.t.ppf(0.975, len(made) - 1) * stats.sem(made)
    return float(made.mean()), float(made.mean() - half), float(made.mean() + half)


# --- rows


def test_a_row_has_every_figure_with_its_interval(sweep):
    rows = {row.name: row for row in family(sweep, "--target", ".5").rows}
    assert list(rows) == ["rft", "grpo", "dr_grpo"]  # the order of conf/method's names in method.py
    found = rows["grpo"].estimates
    ends = [BASE[seed] + RISES["grpo"][0](seed) for seed in SEEDS]
    wanted = {
        "accuracy": student([100 * end for end in ends]),
        "maj@k": student([100 * (end + 0.05) for end in ends]),
        "pass@k": student([100 * (BASE[seed] + 0.2 + WOBBLE[seed]) for seed in SEEDS]),
        "accuracy/greedy": student([100 * (BASE[seed] + 0.1) for seed in SEEDS]),
        "length/right": student([20.0 + seed for seed in SEEDS]),
        "length/wrong": student([30.0 + seed for seed in SEEDS]),
        "memory": student([600.0 + seed for seed in SEEDS]),
    }
    for key, (mean, low, high) in wanted.items():
        one = found[key]
        assert (one.mean, one.low, one.high) == pytest.approx((mean, low, high)), key
        assert one.count == 7
    assert found["seconds"].mean == pytest.approx(10.0) and found["seconds"].low is None  # 20 steps of .5 s, each run
    # answers that RFT samples before its first step: .1 s in each of the rows' first
    assert rows["rft"].estimates["seconds"].mean == pytest.approx(10.1)


def test_tokens_to_the_goal_are_those_before_the_first_evaluation_that_came_there(sweep):
    """At .5 of GRPO: seeds 4 to 6 start at .5 or above (0 tokens); seed 3 is at .45 and half-way at .45 + .05 - .003,
    so that it comes there at the end (2,000); seed 2 ends at .504 (2,000); seeds 0 and 1 end under .5.
    """
    (row,) = [row for row in family(sweep, "--target", ".5").rows if row.name == "grpo"]
    mean, low, high = student([2000, 2000, 0, 0, 0])
    one = row.estimates["tokens_to"]
    assert (one.mean, one.low, one.high) == pytest.approx((mean, low, high))
    assert (one.count, row.goal) == (5, 7)
    line, nobody = (
        next(one for one in printed(sweep, "--target", goal).splitlines() if one.startswith("grpo  "))
        for goal in (".5", ".99")
    )
    assert line.rstrip().endswith("(5 of 7)") and nobody.rstrip().endswith(" - (0 of 7)")


def test_the_goal_is_80_percent_by_itself(sweep):
    assert family(sweep).target == 0.8 and "until 80 % of held-out answers" in printed(sweep)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_line_is_wider_than_the_screen(sweep, width):
    lines = printed(sweep, width=width).splitlines()
    assert max(map(len, lines)) <= width and not any("…" in line for line in lines)


# --- who only sharpens


def test_what_only_sharpens_is_said_with_both_intervals(sweep):
    found = family(sweep)
    assert {one.row.name: one.kind for one in found.changes} == {
        "rft": "none",
        "grpo": "sharpens",
        "dr_grpo": "broadens",
    }
    up, none = (student([100 * rise(seed) for seed in SEEDS]) for rise in RISES["grpo"])
    ends = ["[{:.1f}, {:.1f}]".format(*one[1:]).replace("-", "−") for one in (up, none)]
    said = found.said[0]
    assert said.startswith("grpo only sharpens, against itself before step 0 (7 seeds): maj@4 10.0 points higher")
    assert ends[0] in said and f"pass@4 0.0 points {ends[1]}, no rise shown" in said
    assert "could not have been seen" in said
    assert said in printed(sweep) and not any("dr_grpo only" in one or "rft only" in one for one in found.said)


def test_two_shown_rises_are_corrected_for_both_measures(sweep):
    """All 7 signs alike: 2 of 2^7, for the smaller of two doubled."""
    (one,) = [one for one in family(sweep).changes if one.row.name == "grpo"]
    assert one.majority is not None and one.majority.p_holm == pytest.approx(2 * 2 / 2**7)


def test_seeds_that_are_not_paired_show_nothing(tmp_path):
    """Negative control: the evaluations before step 0 go to other seeds, so that what seeds differ in is in the rise."""
    for name in ("grpo", "dr_grpo"):
        method(tmp_path / "right", name)
        method(tmp_path / "wrong", name)
    right = family(str(tmp_path / "right"), "--view", "family")
    assert [one.kind for one in right.changes] == ["sharpens", "broadens"]
    for name in ("grpo", "dr_grpo"):
        for seed in SEEDS:
            own, its = (f"method={name},seed={one}/evals.jsonl" for one in (seed, (seed + 3) % 7))
            first = (tmp_path / "right" / its).read_text().splitlines()[0]
            rest = (tmp_path / "right" / own).read_text().splitlines()[1:]
            (tmp_path / "wrong" / own).write_text("\n".join([first, *rest]) + "\n")
    wrong = family(str(tmp_path / "wrong"), "--view", "family")
    assert [one.kind for one in wrong.changes] == ["none", "none"]
    assert "only sharpens, against" not in " ".join(wrong.said)


def test_an_interval_above_0_without_a_shown_rise_of_pass_at_k_is_no_sharpening(tmp_path, monkeypatch):
    """Five seeds up by .05 and two down by less than a tenth of it: the interval lies above 0, but with either sign of
    the two the sum is as large, so that 8 of 2^7 flips are as extreme: p .0625.
    """
    rises = [0.05, 0.051, 0.049, 0.05, 0.052, -0.002, -0.003]
    monkeypatch.setitem(RISES, "grpo", (RISES["grpo"][0], lambda seed: rises[seed]))
    for name in ("grpo", "dr_grpo"):
        method(tmp_path, name)
    found = family(str(tmp_path), "--view", "family")
    one = found.changes[0]
    assert one.passed is not None and one.majority is not None
    assert one.passed.p == pytest.approx(8 / 2**7) and one.majority.p == pytest.approx(2 / 2**7)
    assert (one.passed.mean, one.passed.low, one.passed.high) == pytest.approx(student([100 * rise for rise in rises]))
    assert one.passed.low is not None and one.passed.low > 0
    assert one.kind == "undecided" and found.said[0].startswith("Of no method is it shown that it only sharpens")


def test_few_seeds_have_no_verdict_and_no_first_evaluation_none_to_give(tmp_path):
    for name in RISES:
        method(tmp_path / "few", name, range(3))
    found = family(str(tmp_path / "few"))
    assert {one.kind for one in found.changes} == {"few"} and "it needs 7 seeds for two measures" in found.said[0]
    for file in (tmp_path / "few").glob("*/evals.jsonl"):
        file.write_text("\n".join(file.read_text().splitlines()[1:]) + "\n")
    found = family(str(tmp_path / "few"))
    assert {one.kind for one in found.changes} == {"unknown"}
    assert found.said == (
        "Who only sharpens: not known of rft, grpo, dr_grpo, without maj@k and pass@k before step 0 and at the end.",
    )


# --- which view


def test_three_methods_are_a_family_and_two_arms_are_not(sweep, tmp_path):
    assert "so it" in printed(sweep) and "minus GRPO" not in printed(sweep)
    assert "RFT minus GRPO" in printed(sweep, "--view", "pairs", "--by", "method")
    two = str(pair_of_arms(tmp_path / "two", range(3)))
    assert analyse(parse([two])).family is None
    assert [row.name for row in family(two, "--view", "family").rows] == ["grpo", "dr_grpo"]


def test_methods_that_differ_in_more_than_the_method_are_no_family_by_themselves(tmp_path):
    for name in RISES:
        method(tmp_path, name, range(2), optim__lr=1e-3)
        for folder in [*tmp_path.glob(f"method={name},seed=*")]:
            text = (folder / "config.yaml").read_text().replace("lr: 0.001", "lr: 0.003")
            other = tmp_path / f"{folder.name},lr=3e-3"
            other.mkdir()
            for file in folder.iterdir():
                (other / file.name).write_bytes(file.read_bytes())
            (other / "config.yaml").write_text(text)
    assert analyse(parse([str(tmp_path)])).family is None
    rows = family(str(tmp_path), "--view", "family", "--by", "method,optim.lr").rows
    assert len(rows) == 6 and len({row.name for row in rows}) == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--view", "famly"], '--view famly: allowed are family and pairs. Did you mean "family"?'),
        (["--view", ""], "--view '': nothing is given."),
    ],
)
def test_a_bad_view_is_one_sentence(sweep, words, said):
    with pytest.raises(InputError) as error:
        parse([sweep, *words])
    assert str(error.value).startswith(said)


def test_a_family_of_one_method_is_refused(tmp_path):
    method(tmp_path, "grpo", range(2))
    with pytest.raises(InputError) as error:
        analyse(parse([str(tmp_path), "--view", "family"]))
    assert str(error.value) == "--view family: the runs are of one method (GRPO). Name what differs: --by."
