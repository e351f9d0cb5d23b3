"""compose: overrides in, one frozen RunConfig out; numbers for groups; names of folders; YAML there and back."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from functools import reduce
from operator import getitem
from pathlib import Path

import hydra
import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra

import grpo_runner
from grpo_runner import config as configs
from grpo_runner import files
from grpo_runner.config import compose, compose_sweep, names
from grpo_runner.config.overrides import translate
from grpo_runner.errors import InputError
from grpo_runner.validate import LATER, load, to_yaml


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_plain_values_types_and_seed_0(here: Path) -> None:
    config = compose(["seed=0", "optim.lr=1e-4", "clip.low=0", "lora.targets=[q_proj,v_proj]", "tracking.tags=[a]"])
    assert config.seed == 0 and type(config.seed) is int
    assert config.optim.lr == 1e-4 and config.optim.betas == (0.9, 0.999)
    assert config.lora.targets == ("q_proj", "v_proj") and config.tracking.tags == ("a",)
    assert compose(["seed=1"]).seed == 1
    with pytest.raises(FrozenInstanceError):
        config.seed = 3  # type: ignore[misc]


def test_the_package_gives_compose_lazily() -> None:
    assert grpo_runner.compose is compose
    with pytest.raises(AttributeError):
        _ = grpo_runner.no_such_name


def test_interpolation_of_our_own_keys_works() -> None:
    assert compose(["seed=7", "questions_per_step=${seed}"]).questions_per_step == 7


# --- numbers for groups


@pytest.mark.parametrize(
    ("typed", "passed_on"),
    [
        ("beta=0.04", "beta.value=0.04"),
        ("beta=0", "beta.value=0"),
        ("beta=1e-3", "beta.value=1e-3"),
        ("group_size=16", "group_size.value=16"),
        ("++beta=0.1", "++beta.value=0.1"),
        ("beta=0,0.04", "beta.value=0,0.04"),
        ("group_size=8,16", "group_size.value=8,16"),
        ("group_size=range(4,9)", "group_size.value=range(4,9)"),
        ("beta=choice(0,0.04)", "beta.value=choice(0,0.04)"),
        ("beta=-1", "beta.value=-1"),
        ("beta=inf", "beta.value=inf"),
        ("beta=no_kl", "beta=no_kl"),
        ("beta=no_kl,small", "beta=no_kl,small"),
        ("beta=glob(*)", "beta=glob(*)"),
        ("beta.value=0.04", "beta.value=0.04"),
        ("beta.estimator=k2", "beta.estimator=k2"),
        ("seed=3", "seed=3"),
        ("run_name=beta", "run_name=beta"),
        ("run_name=1e3", "run_name='1e3'"),
        ("sweep_name=7", "sweep_name='7'"),
        ("run_name=null", "run_name=null"),
        ("debug=null", "~debug"),
    ],
)
def test_what_hydra_is_given(typed: str, passed_on: str) -> None:
    assert translate([typed]) == [passed_on]


def test_a_number_sets_the_value_and_a_name_picks_the_file() -> None:
    config = compose(["beta=0.01", "group_size=4"])
    assert (config.beta.value, config.beta.estimator, config.group_size.value) == (0.01, "k3", 4)
    assert compose(["beta=no_kl", "group_size=medium"]).beta.value == 0.0
    assert compose(["beta=0"]).beta.value == 0.0


def test_hydra_alone_refuses_the_number() -> None:
    with (
        hydra.initialize_config_dir(str(configs.find()), version_base="1.3"),
        pytest.raises(ValueError, match="must be a string"),
    ):
        hydra.compose("config", ["beta=0.04"])


def test_numbers_in_a_sweep() -> None:
    found = [(c.beta.value, c.group_size.value) for c in compose_sweep(["beta=0,0.04", "group_size=8,16"])]
    assert found == [(0.0, 8), (0.0, 16), (0.04, 8), (0.04, 16)]


def test_sweeps_over_a_switch_keep_the_keys_that_go_with_it() -> None:
    beta = compose_sweep(["beta=0,0.04", "beta.placement=reward", "beta.refresh_every=5"])
    assert [(config.beta.value, config.beta.placement) for config in beta] == [(0.0, "reward"), (0.04, "reward")]
    truncated = compose_sweep(["experiment=dapo", "reward.truncated=zero,soft", "reward.overlong_buffer=6"])
    assert [config.reward.overlong_buffer for config in truncated] == [6, 6]
    methods = compose_sweep(["experiment=grpo,dr_grpo,rloo,dapo,gspo,cispo", "debug=cpu_smoke"])
    assert [config.run_name for config in methods][:2] == ["grpo", "dr_grpo"] and len(methods) == 6


@pytest.mark.parametrize("mixed", [["beta=no_kl,0.04"], ["beta=no_kl", "beta=0.1"], ["group_size=8,medium"]])
def test_names_and_numbers_are_not_mixed(mixed: list[str]) -> None:
    with pytest.raises(InputError, match="both names and numbers") as caught:
        compose(mixed)
    assert len(str(caught.value).splitlines()) == 1


# --- names and folders


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "default"),
        (["advantage=dr_grpo", "seed=1"], "advantage=dr_grpo,seed=1"),
        (["seed=1", "advantage=dr_grpo"], "advantage=dr_grpo,seed=1"),
        (["seed=1", "debug=cpu_smoke", "experiment=dr_grpo"], "dr_grpo,cpu_smoke,seed=1"),
        (["beta.value=0.04", "group_size=4"], "beta=0.04,group_size=4"),
        (["run_name=x", "sweep_name=y", "hydra.run.dir=z", "hydra/launcher=w"], "default"),
        (["seed=1", "seed=2"], "seed=2"),
        (["++seed=0"], "seed=0"),
    ],
)
def test_labels(overrides: list[str], name: str) -> None:
    assert names.label(overrides) == name


def test_a_long_or_unfit_name_is_cut_safe_and_distinct() -> None:
    one = names.label(["model.path=/models/a b/c"])
    other = names.label(["model.path=/models/a_b/c"])
    assert "/" not in one and " " not in one and one != other
    long = [names.label([f"run.key={'x' * 300}{end}"]) for end in "ab"]
    assert len(set(long)) == 2 and all(len(name) <= names.LONGEST for name in long)


def test_run_folder_and_name(here: Path) -> None:
    config = compose(["seed=1", "beta=0.01"])
    assert (config.run_name, config.run_dir) == ("beta=0.01,seed=1", str(here / "outputs/beta=0.01,seed=1"))
    assert compose(["run_name=x", "seed=1"]).run_dir == str(here / "outputs/x")
    elsewhere = compose(["seed=1", f"hydra.run.dir={here}/a"])
    assert (elsewhere.run_dir, elsewhere.run_name) == (str(here / "a"), "seed=1")


@pytest.mark.parametrize("name", ["7", "0", "false", "true", "True", "1e3", "1_0", "-0", "nan", "a.b"])
def test_a_run_is_named_as_typed(here: Path, name: str) -> None:
    config = compose([f"run_name={name}"])
    assert (config.run_name, config.run_dir) == (name, str(here / "outputs" / name))
    assert {config.sweep_name for config in compose_sweep([f"sweep_name={name}", "seed=0,1"])} == {name}


@pytest.mark.parametrize("name", ["0", "false", "1e3"])
def test_a_name_in_an_experiment_is_its_folder(here: Path, name: str) -> None:
    (here / "mine/experiment").mkdir(parents=True)
    (here / "mine/experiment/own.yaml").write_text(f"# @package _global_\nrun_name: {name}\n")
    config = compose(["experiment=own", f"hydra.searchpath=['file://{here}/mine']"])
    assert config.run_dir == str(here / "outputs" / config.run_name) and "own" not in config.run_name


@pytest.mark.parametrize(
    ("overrides", "needle"),
    [
        (["run_name=a,b"], r"Runs 1 \(run_name=a\) and 2 \(run_name=b\)"),
        (["seed=0,1,0"], r"Runs 1 \(seed=0\) and 3 \(seed=0\)"),
        (["seed=0,1", "hydra.sweep.subdir=x"], r"Runs 1 \(seed=0\) and 2 \(seed=1\)"),
    ],
)
def test_two_runs_of_a_sweep_in_one_folder_are_refused(overrides: list[str], needle: str) -> None:
    with pytest.raises(InputError, match=needle) as caught:
        compose_sweep(overrides)
    assert "outputs/sweeps/" in str(caught.value) and len(str(caught.value).splitlines()) == 2


def test_two_runs_that_only_look_alike_are_not_refused() -> None:
    """Negative control."""
    assert len(compose_sweep(["run_name=a,b", "hydra.sweep.subdir=${run_name}"])) == 2
    with pytest.raises(InputError, match="would be the same run"):
        compose_sweep(["beta=0,0.0", "run_name=x"])


def test_sweep_folders_are_named_by_what_differs(here: Path) -> None:
    found = compose_sweep(["advantage=grpo,dr_grpo", "seed=0,1", "debug=cpu_smoke"])
    sweep = here / "outputs/sweeps/cpu_smoke,by-advantage-seed"
    expected = [sweep / f"advantage={a},seed={s}" for a in ("grpo", "dr_grpo") for s in (0, 1)]
    assert [config.run_dir for config in found] == [str(folder) for folder in expected]
    assert {config.sweep_name for config in found} == {"cpu_smoke,by-advantage-seed"}
    # more seeds go on in the same folder
    more = {config.run_dir for config in compose_sweep(["seed=0,1,2", "debug=cpu_smoke", "advantage=grpo,dr_grpo"])}
    assert more > {str(folder) for folder in expected}


def test_sweep_name_and_sweep_dir(here: Path) -> None:
    named = compose_sweep(["sweep_name=night", "seed=range(2)"])
    assert [config.run_dir for config in named] == [str(here / f"outputs/sweeps/night/seed={s}") for s in (0, 1)]
    placed = compose_sweep([f"hydra.sweep.dir={here}/s", "beta=0,0.04", "seed=5"])
    assert [config.run_dir for config in placed] == [str(here / f"s/beta={b}") for b in ("0", "0.04")]
    assert [config.seed for config in placed] == [5, 5]


def test_a_sweep_is_not_one_run() -> None:
    with pytest.raises(InputError, match="sweep"):
        compose(["experiment=grpo_vs_dr_grpo", "seed=0"])
    with pytest.raises(InputError, match="multirun"):
        compose(["seed=0,1"])


def test_every_run_of_a_sweep_is_checked() -> None:
    with pytest.raises(InputError, match=r"group_size=1:\ngroup_size=1 with"):
        compose_sweep(["group_size=4,1"])


def test_compose_leaves_a_notebooks_hydra_alone() -> None:
    with hydra.initialize_config_dir(str(configs.find()), version_base="1.3"):
        before = GlobalHydra.instance().hydra
        compose()
        assert GlobalHydra.instance().hydra is before


# --- config.yaml


def test_yaml_there_and_back_wherever_the_folder_lies(here: Path) -> None:
    config = compose(["optim.lr=1e-6", "lora.targets=[q_proj]", "tracking.tags=[a,b]", "prompt=qwen_math", "seed=0"])
    moved = here / "moved"
    moved.mkdir()
    (moved / "config.yaml").write_text(to_yaml(config))
    assert str(here) not in to_yaml(config)
    assert load(moved / "config.yaml") == replace(config, run_dir=str(moved))
    assert load(moved / "config.yaml") != config


@pytest.mark.parametrize(
    ("text", "needle"),
    [("", "no keys"), ("a: [", "not a readable"), ("seed: 0\n", "is missing"), ("- 1\n", "no keys")],
)
def test_a_bad_config_yaml_names_the_file(here: Path, text: str, needle: str) -> None:
    file = here / "config.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=needle) as caught:
        load(file)
    assert str(file) in str(caught.value) and len(str(caught.value).splitlines()) <= 5
    with pytest.raises(InputError, match="nowhere"):
        load(here / "nowhere.yaml")


def test_find_prefers_the_packages_own_conf(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = here / "site-packages/grpo_runner"
    monkeypatch.setattr(files, "__file__", str(package / "files.py"))
    with pytest.raises(InputError, match="install"):
        configs.find()
    for folder in (package.parent / "conf", package / "conf"):
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("")
        assert configs.find() == folder


def test_a_folder_from_before_the_later_keys_can_be_read(tmp_path):
    """What such a run did is what these keys mean by default, the fast paths aside, which it did not have.

    Another key that is missing is still a fault.
    """
    config = compose(["beta=0.04", "optim.packing=false", "optim.fused=false", "rollout.merge_lora=false"])
    values = yaml.safe_load(to_yaml(config))
    for key in LATER:
        *groups, name = key.split(".")
        del reduce(getitem, groups, values)[name]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    assert replace(load(tmp_path / "config.yaml"), run_dir=config.run_dir) == config
    del values["clip"]["low"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(InputError, match="clip.low is missing"):
        load(tmp_path / "config.yaml")
