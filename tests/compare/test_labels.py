"""What arms are called: by method, by keys, by the runs' own names, and never two alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import configuration

from grpo_runner.compare.arms import arrange
from grpo_runner.compare.labels import LONGEST, labelled
from grpo_runner.compare.series import leaves
from grpo_runner.compare.types import Arm, Run
from grpo_runner.config import compose
from grpo_runner.method import method_name


def arm(values: dict, method: str | None = None, names: tuple[str, ...] = ("x,seed=0",)) -> Arm:
    runs = {
        seed: Run(name=name, folder=Path(name), seed=seed, settings={}, series={}, method=method)
        for seed, name in enumerate(names)
    }
    name = ", ".join(f"{key}={value}" for key, value in values.items())
    return Arm(name, name, values, runs)


def labels(*arms: Arm) -> list[str]:
    return [one.label for one in labelled(arms)]


@pytest.mark.parametrize("beta", ["no_kl", "deepseek_math"])
def test_the_two_by_two_reads_as_methods_whether_or_not_all_have_a_kl_term(beta):
    arms = []
    for advantage in ("grpo", "dr_grpo"):
        for norm in ("sequence_mean", "constant"):
            config = compose([f"advantage={advantage}", f"loss_norm={norm}", f"beta={beta}"])
            arms.append(arm({"advantage": advantage, "loss_norm": norm}, method_name(config)))
    assert labels(*arms) == ["GRPO", "GRPO without its 1/|o|", "GRPO without its std", "Dr. GRPO"]


def test_an_extra_that_all_have_is_left_out_and_one_of_some_stays():
    more = ", with clip-higher and dynamic sampling"
    assert labels(arm({"a": 1}, f"GRPO{more}"), arm({"a": 2}, f"Dr. GRPO{more}")) == ["GRPO", "Dr. GRPO"]
    assert labels(arm({"a": 1}, "GRPO"), arm({"a": 2}, "GRPO, with clip-higher")) == ["GRPO", "GRPO, with clip-higher"]


def test_methods_that_are_alike_leave_it_to_the_keys_then_to_the_runs_names():
    assert labels(arm({"beta": 0.1}, "GRPO"), arm({"beta": 0.2}, "GRPO")) == ["beta=0.1", "beta=0.2"]
    many = [{f"a.long.key.of.{number}": value for number in range(5)} | {"steps": 7} for value in (1, 2)]
    own = ("laptop,seed=0", "laptop,seed=1"), ("quickstart,seed=0", "quickstart,seed=1")
    assert labels(*(arm(one, "GRPO", names) for one, names in zip(many, own, strict=True))) == ["laptop", "quickstart"]


def test_else_as_few_parts_as_tell_them_apart_the_method_first():
    """Three keys go together with the method, so that it and the rate are enough; without a method the shortest key."""
    arms = [
        arm({"advantage.baseline": name, "loss_norm.kind.of.it": name, "advantage": name, "optim.lr": lr}, method)
        for method, name in (("GRPO", "one_of_two"), ("Dr. GRPO", "the_other_one"))
        for lr in (1e-4, 3e-4)
    ]
    assert labels(*arms) == [f"{name}, optim.lr={lr}" for name in ("GRPO", "Dr. GRPO") for lr in ("0.0001", "0.0003")]
    nameless = [Arm(one.name, one.label, one.values, arm(dict(one.values)).runs) for one in arms]
    assert labels(*nameless)[0] == "advantage=one_of_two, optim.lr=0.0001"


def test_where_nothing_short_tells_them_apart_the_name_is_the_label():
    values = [{"key": "v" * LONGEST + text} for text in "ab"]
    arms = [arm(one) for one in values]
    assert labels(*arms) == [one.name for one in arms]  # and each is its own


@pytest.mark.parametrize("name", ["dapo", "gspo", "cispo", "rloo", "dr_grpo"])
def test_whole_methods_that_differ_in_many_keys_have_their_papers_names(name):
    def run(*overrides: str) -> Run:
        method = method_name(compose(list(overrides)))
        return Run("", Path("/".join(overrides)), 0, leaves(configuration(*overrides)), {}, method)

    found = arrange([run("experiment=grpo"), run(f"experiment={name}")], allow=["data"])
    papers = {"dapo": "DAPO", "gspo": "GSPO", "cispo": "CISPO", "rloo": "RLOO", "dr_grpo": "Dr. GRPO"}
    base, other = (one.label for one in found.arms)
    assert base == "GRPO" and other.startswith(papers[name])
    assert all(len(one.label) <= LONGEST for one in found.arms)
