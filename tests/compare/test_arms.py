"""Runs -> arms: what makes them, the baseline, what is refused and what is warned of."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from made_runs import configuration

from grpo_runner.compare.arms import arrange
from grpo_runner.compare.series import leaves
from grpo_runner.compare.types import Run, Series
from grpo_runner.errors import InputError

LOGGED = {"kl": Series(np.arange(20), np.zeros(20))}


@cache
def settings(*overrides: str) -> dict:
    return leaves(configuration(*overrides))


def run(seed: int, *overrides: str, method: str | None = None, **changes: object) -> Run:
    name = ",".join([*overrides, f"seed={seed}"])
    made = Run(
        name=name,
        folder=Path("sweep") / name,
        seed=seed,
        settings=settings(*overrides) | {"seed": seed},
        series=LOGGED,
        method=method,
        steps=20,
        commit="a" * 40,
        data="d" * 64,
    )
    return replace(made, **changes)


def keyed(made: Run, **keys: object) -> Run:
    return replace(made, settings={**made.settings, **{key.replace("__", "."): value for key, value in keys.items()}})


def grpo(seed: int, **changes: object) -> Run:
    return run(seed, "advantage=grpo", **({"method": "GRPO"} | changes))


def dr_grpo(seed: int, **changes: object) -> Run:
    return run(seed, "advantage=dr_grpo", "loss_norm=constant", method="Dr. GRPO", **changes)


def test_what_differs_makes_the_arms_in_the_words_that_were_typed():
    found = arrange([dr_grpo(1), dr_grpo(0), grpo(0), grpo(1)])
    assert found.by == ("advantage", "loss_norm")
    assert [(arm.name, arm.label) for arm in found.arms] == [
        ("advantage=grpo, loss_norm=sequence_mean", "GRPO"),
        ("advantage=dr_grpo, loss_norm=constant", "Dr. GRPO"),
    ]
    assert list(found.arms[1].runs) == [0, 1] and found.arms[1].values["advantage"] == "dr_grpo"
    assert found.shared["steps"] == 20 and "advantage.scale" not in found.shared
    assert found.warnings == () and found.title == "sweep"


def test_numbers_stand_in_their_order_and_a_key_of_no_preset_is_itself():
    runs = [run(0, f"beta={value}") for value in (0.04, 0.0, 0.01)]
    found = arrange(runs, baseline="0.01")
    assert (found.by, [arm.name for arm in found.arms]) == (("beta",), ["beta=0.01", "beta=0.0", "beta=0.04"])
    found = arrange([keyed(grpo(0), advantage__ddof=1), grpo(0)])
    assert (found.by, found.arms[0].name) == (("advantage.ddof",), "advantage.ddof=0")
    assert found.arms[0].label == "advantage.ddof=0"  # both call themselves GRPO, so the method tells nothing apart


def test_a_kl_term_that_all_have_or_lack_is_not_in_the_labels():
    plain, added = "GRPO without its KL term", "Dr. GRPO and a KL term"
    runs = [grpo(0, method=plain), run(0, "advantage=dr_grpo", "loss_norm=constant", method="Dr. GRPO")]
    assert [arm.label for arm in arrange(runs).arms] == ["GRPO", "Dr. GRPO"]
    runs = [run(0, "beta=0.0", method=plain), run(0, "beta=0.04", method="GRPO")]
    assert [arm.label for arm in arrange(runs).arms] == ["GRPO", plain]
    runs = [run(0, "advantage=dr_grpo", f"beta={beta}", method=name) for beta, name in ((0, "Dr. GRPO"), (0.1, added))]
    assert [arm.label for arm in arrange(runs).arms] == ["Dr. GRPO", added]


@pytest.mark.parametrize(
    "text",
    [
        *("Dr. GRPO", "advantage=dr_grpo", "dr_grpo", "loss_norm=constant", "CONSTANT"),
        *("advantage=dr_grpo,loss_norm=constant", "loss_norm=constant , advantage=dr_grpo"),
    ],
)
def test_a_baseline_by_any_of_its_names(text):
    assert arrange([grpo(0), dr_grpo(0)], baseline=text).baseline.label == "Dr. GRPO"


def test_a_baseline_that_is_none_or_several():
    four = [run(0, f"advantage={a}", f"loss_norm={n}") for a in ("grpo", "rloo") for n in ("constant", "sequence_mean")]
    assert arrange(four).baseline.name == "advantage=grpo, loss_norm=sequence_mean"
    for text, said in (
        ("rloo", "rloo names 2 arms"),
        ("rlo", 'no arm is named rlo. Did you mean "rloo"'),
        ("advantage=rloo,loss_norm=x", "no arm"),
    ):
        with pytest.raises(InputError, match=said):
            arrange(four, baseline=text)


def test_more_than_the_compared_keys_is_refused_by_name_unless_allowed():
    runs = [grpo(0), dr_grpo(0)]
    with pytest.raises(InputError, match=r"beside advantage:\n  loss_norm.kind: sequence_mean \(1\), constant \(1\)"):
        arrange(runs, by=["advantage"])
    found = arrange(runs, by=["advantage"], allow=["loss_norm"])
    assert found.by == ("advantage",) and "loss_norm.kind differs as well" in found.warnings[0]
    assert arrange(runs, by=["advantage", "loss_norm"]).warnings == ()


def test_a_key_that_differs_within_an_arm_is_refused_too():
    runs = [grpo(0), keyed(grpo(1), optim__lr=0.5), dr_grpo(0), dr_grpo(1)]
    with pytest.raises(InputError, match=r"optim.lr: 0.0003 \(3\), 0.5 \(1\)"):
        arrange(runs, by=["advantage", "loss_norm"])


def test_other_evaluations_are_refused_without_by_and_names_count_nowhere():
    with pytest.raises(InputError, match="in how they were evaluated:\n  evaluation.samples"):
        arrange([grpo(0), keyed(dr_grpo(0), evaluation__samples=1)])
    other = keyed(dr_grpo(0), run_name="x", tracking__wandb="disabled", checkpoint__every=7, health__stop_on=("kl",))
    assert arrange([grpo(0), other]).by == ("advantage", "loss_norm")


def test_what_changes_rounding_alone_is_warned_of():
    found = arrange([grpo(0), keyed(dr_grpo(0), optim__packing=not settings("advantage=grpo")["optim.packing"])])
    assert found.by == ("advantage", "loss_norm")
    assert found.warnings == ("optim.packing differs: the same figures to rounding, but not the same times.",)


def test_names_that_are_no_setting():
    with pytest.raises(InputError, match='"advantge" is no setting of these runs. Did you mean "advantage"'):
        arrange([grpo(0), dr_grpo(0)], by=["advantge"])
    with pytest.raises(InputError, match='"losnorm" is no setting'):
        arrange([grpo(0), dr_grpo(0)], allow=["losnorm"])
    with pytest.raises(InputError, match="--by lora: the runs do not differ in it. They differ in: advantage.scale"):
        arrange([grpo(0), dr_grpo(0)], by=["lora"])


def test_a_seed_counts_once():
    twin = grpo(0, folder=Path("elsewhere"))
    with pytest.raises(InputError, match=r"Two runs of .* with seed 0:\n  sweep.*\n  elsewhere"):
        arrange([grpo(0), twin, dr_grpo(0)])


def test_unpaired_seeds_unfinished_runs_and_other_code_are_warned_of():
    short = {"kl": Series(np.arange(7), np.zeros(7))}
    runs = [grpo(0), grpo(1), grpo(2), dr_grpo(1), dr_grpo(5, finished=False, series=short, commit="b" * 40)]
    mine, other, late, code = arrange(runs).warnings
    assert mine == "Seed 5 of Dr. GRPO: without a pair in GRPO, and so in no difference."
    assert other == "Seeds 0, 2 of GRPO: without a pair in Dr. GRPO, and so in no difference."
    run_of_5 = "advantage=dr_grpo,loss_norm=constant,seed=5 (7 of 20 steps)"
    assert late == f"Not finished, 1 of 5 runs: {run_of_5}. They have no figures of the window."
    assert code == "The runs are of 2 versions of the code: aaaaaaa (4), bbbbbbb (1)."


def test_changes_beyond_a_commit_are_told_apart_by_what_they_are(tmp_path):
    def changed(seed, name, diff):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.diff").write_text(diff)
        return grpo(seed, folder=tmp_path / name, commit="a" * 40 + "+")

    assert arrange([changed(0, "a", "+1"), changed(1, "b", "+1")]).warnings == ()
    assert "2 versions of the code" in arrange([changed(2, "c", "+1"), changed(3, "d", "+2")]).warnings[0]


def test_pairs_on_other_questions_are_refused_unless_allowed_or_compared():
    runs = [grpo(0), grpo(1, data="e" * 64), dr_grpo(0), dr_grpo(1, data="f" * 64)]
    with pytest.raises(
        InputError, match=r"1 pair had different training questions: sha256 eeeeeeee… .*\n.*--allow data"
    ):
        arrange(runs)
    assert "1 pair had" in arrange(runs, allow=["data"]).warnings[0]
    runs = [run(0, "data.train_size=64"), run(0, "data.train_size=128", data="e" * 64)]
    assert "1 pair had" in arrange(runs).warnings[0]  # what is compared
    # each seed draws its own questions: no difference within a pair
    assert arrange([grpo(0), grpo(1, data="e" * 64), dr_grpo(0), dr_grpo(1, data="e" * 64)]).warnings == ()


def test_logs_of_others_say_that_their_settings_are_not_known():
    runs = [grpo(seed, settings={"name": name}, source="columns") for name in "ab" for seed in (0, 1)]
    found = arrange(runs)
    assert [arm.name for arm in found.arms] == ["name=a", "name=b"]
    assert found.warnings == ("What else the runs differ in is not known: 4 of 4 are logs without a config.",)


def test_one_arm_and_none():
    assert [arm.label for arm in arrange([grpo(0), grpo(1)]).arms] == ["GRPO"]
    with pytest.raises(InputError, match="no run to compare"):
        arrange([])


def test_by_method_runs_are_told_apart_by_what_they_call_themselves():
    """Whatever differs between two methods is behind the name; what differs within one is refused, by its key."""
    four = [made(seed) for made in (dr_grpo, grpo) for seed in (0, 1)]
    found = arrange(four, by=["method"])
    assert found.by == ("method",) and found.warnings == ()
    assert [(arm.name, arm.label, sorted(arm.runs)) for arm in found.arms] == [
        ("method=GRPO", "GRPO", [0, 1]),
        ("method=Dr. GRPO", "Dr. GRPO", [0, 1]),
    ]
    with pytest.raises(InputError, match=r"differ beside method:\n  optim.lr"):
        arrange([*four[:3], keyed(four[3], optim__lr=0.5)], by=["method"])
    two_rates = [keyed(one, optim__lr=rate) for one in four for rate in (0.1, 0.5)]
    both = arrange(two_rates, by=["method", "optim.lr"])
    assert both.by == ("method", "optim.lr") and len(both.arms) == 4
    by_its_own = arrange([*four[:2], *(keyed(one, steps=7) for one in four[2:])], by=["method"])  # steps by the method
    assert len(by_its_own.arms) == 2


def test_by_method_wants_several_and_each_named():
    with pytest.raises(InputError, match="do not differ in it; each is GRPO"):
        arrange([grpo(0), grpo(1)], by=["method"])
    with pytest.raises(InputError, match="does not say what its method is called"):
        arrange([grpo(0), dr_grpo(0), grpo(1, method=None)], by=["method"])
    with pytest.raises(InputError, match='"metod" is no setting'):
        arrange([grpo(0), dr_grpo(0)], by=["metod"])
