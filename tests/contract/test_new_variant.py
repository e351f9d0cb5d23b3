"""CONTRIBUTING promises that a new variant is one function and one YAML file, with no change to the package."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from grpo_runner import algorithm, compose
from grpo_runner.algorithm.own import plug_in
from grpo_runner.errors import InputError
from grpo_runner.schema import AdvantageConfig, LossNormConfig
from tests.program import Program

ROOT = Path(__file__).parents[2]
FUNCTION = '''
def median(rewards_QG):
    """(Q, 1) median of the group; NaN marks an excluded answer."""
    return rewards_QG.nanmedian(dim=1, keepdim=True).values
'''
YAML = "# Reward minus the group's median\ncredit: outcome\nbaseline: variants:median\nscale: none\nddof: 0\neps: 0.0\n"
SMALL = ["debug=cpu_smoke", "tracking=off", "data.train_size=16", "data.eval_size=8", "tracking.completions_every=1"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A user's folder: variants.py and my_conf/advantage/median.yaml."""
    (tmp_path / "variants.py").write_text(FUNCTION)
    (tmp_path / "my_conf" / "advantage").mkdir(parents=True)
    (tmp_path / "my_conf" / "advantage" / "median.yaml").write_text(YAML)
    return tmp_path


def test_a_new_baseline_runs_from_its_method_line_to_its_picture_and_is_explained(here):
    made = Program("--config-dir", "my_conf", "advantage=median", *SMALL, "hydra.run.dir=run", folder=here)
    printed = made.communicate()[0]
    assert made.returncode == 0, printed
    assert "baseline variants:median and scale none" in printed
    assert {"DONE", "weights.png", "charts.html", "adapter"} <= {file.name for file in (here / "run").iterdir()}
    rows = [json.loads(line) for line in (here / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    # rewards of 0 and 1, four of them: torch's median is the lower middle one, 1 only from three right on
    for row in pq.read_table(here / "run" / "questions.parquet").to_pylist():
        right = row["successes"]
        assert row["advantage_weight"] == pytest.approx(right if right < 3 else 4 - right)
    again = Program("--config-dir", "my_conf", "advantage=median", *SMALL, "hydra.run.dir=run", folder=here)
    assert "finished before" in again.communicate()[0]
    told = Program("explain", "run", "--step", "1", folder=here)
    said = told.communicate()[0]
    assert told.returncode == 0 and "these weights are not" not in said, said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "def f(r): return r.nanmean()[None, None, None]",
            "shape (1, 1, 1); it must fit (Q, G) = (4, 3), such as (4, 1)",
        ),
        ("def f(r): return r.nanmean(dim=1)", "shape (4,); it must fit"),
        ("def f(r): return r.nanmean()", "shape (); it must fit"),
        ("def f(r): return 1 / (r - r)", "gives inf for a group with the rewards [1, 0, 0.5]"),
        ("def f(r): return r.mean(dim=1, keepdim=True)", "gives nan for a group with the rewards [1, nan, 0]"),
        ("def f(r): return 0.5", "must return a tensor of floating-point numbers, not float"),
        ("def f(r): return r > 0", "not one of torch.bool"),
        ("def f(r): return r + 0j", "not one of torch.complex128"),
        ("def f(r): raise ValueError('one\\ntwo\\n' * 30)", "raised ValueError: one"),
        ("def f(r): raise SystemExit(3)", "raised SystemExit: 3"),
        ("def f(r): return r.no_such()", "own_baseline.py, line 1"),
        ("def f(r, more): return r", "raised TypeError: f() missing 1 required positional argument"),
        ("f = 3", "is int, not a function"),
        ("def g(r): return r", 'has no "f"'),
    ],
)
def test_a_function_that_does_not_fit_is_told_before_anything_is_sampled(tmp_path, monkeypatch, body, said):
    (tmp_path / "own_baseline.py").write_text(body + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_baseline", raising=False)
    config = compose(["advantage.baseline=own_baseline:f"])
    with pytest.raises(InputError) as caught:
        plug_in(config.advantage, config.loss_norm)
    message = str(caught.value)
    assert message.startswith("advantage.baseline: ") and said in message and len(message.splitlines()) <= 2
    assert "own_baseline:f" not in algorithm.BASELINES


def own(tmp_path, monkeypatch, **bodies):
    """Configurations with functions of a module written here, plugged in until the test ends."""
    (tmp_path / "own_parts.py").write_text("\n".join(bodies.values()) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    for known in (algorithm.BASELINES, algorithm.SCALES, algorithm.LOSS_NORMS):
        for name in [name for name in known if name.startswith("own_parts:")]:
            del known[name]
    names = {"baseline": "group_mean", "scale": "none", "kind": "sequence_mean"}
    names |= {name: f"own_parts:{name}" for name in bodies}
    plug_in(AdvantageConfig("outcome", names["baseline"], names["scale"], 0, 0.0), LossNormConfig(names["kind"], None))
    return names


def test_what_only_a_real_rollout_shows_is_told_with_the_key(tmp_path, monkeypatch):
    names = own(
        tmp_path, monkeypatch, baseline="def baseline(r):\n    return r.nanmean(1, keepdim=True) / (r.shape[1] < 8)"
    )
    with pytest.raises(
        InputError, match="advantage.baseline: own_parts:baseline gives inf for a group with the rewards"
    ):
        algorithm.advantages(torch.tensor([[1.0, 0] * 4]), names["baseline"], "none")


def test_a_function_that_works_in_place_changes_nothing(tmp_path, monkeypatch):
    names = own(
        tmp_path, monkeypatch,
        baseline="def baseline(r):\n    r[r.isnan()] = 0.0\n    return r.mean(1, keepdim=True)",
        kind="def kind(mask, groups, budget):\n    mask += 1\n    return mask",
    )  # fmt: skip
    rewards = torch.tensor([[1.0, torch.nan, 0.5, 0.0]], dtype=torch.float64)
    found = algorithm.advantages(rewards, names["baseline"], "none")
    assert found.tolist() == [[0.625, 0.0, 0.125, -0.375]] and rewards.isnan().sum() == 1
    mask = torch.tensor([[True, False], [False, False]])
    norm = algorithm.loss_norm(mask, torch.tensor([0, 0]), names["kind"], 4.0)
    assert norm.tolist() == [[2.0, 0.0], [0.0, 0.0]] and mask.sum() == 1  # outside the mask nothing weighs


def test_a_norm_must_have_the_masks_shape_and_no_negative_numbers(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"shape \(3, 1\); it must be \(N, T\) = \(3, 2\)"):
        own(
            tmp_path,
            monkeypatch,
            kind="def kind(mask, groups, budget): return 1 / mask.sum(1, keepdim=True).clamp(min=1)",
        )
    with pytest.raises(InputError, match="no number of at least 0"):
        own(tmp_path, monkeypatch, kind="def kind(mask, groups, budget): return -mask")


def test_a_scale_may_be_nothing_where_there_is_no_variance(tmp_path, monkeypatch):
    names = own(
        tmp_path, monkeypatch, scale="def scale(r, ddof, eps): return (r - r.nanmean(1, True)).abs().nanmean(1, True)"
    )
    rewards = torch.tensor([[1.0, 0, 0, 1], [1, 1, 1, 1], [0.1 + 0.2, 0.3, 0.3, 0.3]], dtype=torch.float64)
    found = algorithm.advantages(rewards, "group_mean", names["scale"])
    assert found.tolist() == [[1, -1, -1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]  # the last by what rounding leaves
    with pytest.raises(InputError, match="gives 0 for a group with the rewards .* other than 0"):
        own(tmp_path, monkeypatch, scale="def scale(r, ddof, eps): return 0 * r")


def test_scales_and_loss_norms_are_plugged_in_alike(tmp_path, monkeypatch):
    (tmp_path / "own_norms.py").write_text(
        "def spread(r, ddof, eps): return (r.nan_to_num(-9).amax(1, True) - r.nan_to_num(9).amin(1, True)).clamp(min=1)\n"
        "def by_root(mask, groups, budget): return mask / mask.sum(1, keepdim=True).clamp(min=1).sqrt()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    advantage = AdvantageConfig("outcome", "group_mean", "own_norms:spread", 0, 0.0)
    plug_in(advantage, LossNormConfig("own_norms:by_root", None))
    try:
        found = algorithm.advantages(torch.tensor([[2.0, 0, 0, 2]]), "group_mean", "own_norms:spread")
        assert found.tolist() == [[0.5, -0.5, -0.5, 0.5]]
        norm = algorithm.loss_norm(torch.ones(1, 4), torch.zeros(1, dtype=torch.long), "own_norms:by_root", 1.0)
        assert norm.tolist() == [[0.5] * 4]
    finally:
        algorithm.SCALES.pop("own_norms:spread")
        algorithm.LOSS_NORMS.pop("own_norms:by_root")


def test_a_name_that_is_neither_is_refused_with_both_kinds(tmp_path):
    with pytest.raises(InputError) as caught:
        compose(["advantage.baseline=group_men"])
    assert "package.module:function" in str(caught.value) and 'Did you mean "group_mean"?' in str(caught.value)
