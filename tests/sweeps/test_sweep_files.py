"""conf/sweep: the arms of each, paired by seed, on top of any experiment; names of their folders; what a search takes."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from grpo_runner.cli import main
from grpo_runner.config import compose, compose_sweep, find, names, plan
from grpo_runner.config.hydra_errors import OF_EXTRA, explain, no_choice
from grpo_runner.errors import InputError
from grpo_runner.method import method_name

ROOT = Path(__file__).resolve().parents[2]
ARMS: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {  # keys in which the arms differ, and their values
    "two_by_two": (
        ("advantage.scale", "loss_norm.kind", "loss_norm.divisor"),
        [(scale, *norm) for scale in ("group_std", "none") for norm in (("sequence_mean", None), ("constant", 32))],
    ),
    "grpo_vs_dr_grpo": (
        ("advantage.scale", "loss_norm.kind", "loss_norm.divisor"),
        [("group_std", "sequence_mean", None), ("none", "constant", 32)],
    ),
    "beta": (("beta.value",), [(0.0,), (0.001,), (0.04,)]),
    "group_size": (("group_size.value", "questions_per_step"), [(4, 16), (8, 8), (16, 4), (32, 2)]),
    "lora_rank_lr": (("lora.rank", "optim.lr"), [(rank, lr) for rank in (1, 8, 32) for lr in (1e-4, 3e-4, 1e-3)]),
    "clip_higher": (("clip.high",), [(0.2,), (0.28,)]),
    "updates_per_rollout": (("optim.updates_per_rollout",), [(1,), (2,), (4,), (8,)]),
}
ASIDE = {"run_name", "run_dir"}


def leaves(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix[:-1]: value}
    return {key: leaf for name, inner in value.items() for key, leaf in leaves(inner, f"{prefix}{name}.").items()}


def test_there_is_a_row_here_for_every_file() -> None:
    assert sorted(ARMS) == sorted(file.stem for file in (find() / "sweep").glob("*.yaml"))


@pytest.mark.parametrize("name", ARMS)
def test_arms_differ_in_what_is_compared_and_in_nothing_else(name: str) -> None:
    """At one seed; so its arms have the same questions, initial weights and sampling seeds."""
    keys, values = ARMS[name]
    arms = [leaves(asdict(config)) for config in compose_sweep([f"sweep={name}", "seed=3"])]
    assert [tuple(arm[key] for key in keys) for arm in arms] == values
    for arm in arms:
        assert {key for key in arm if arm[key] != arms[0][key]} <= {*keys, *ASIDE} and arm["seed"] == 3


def test_a_sweep_goes_over_any_experiment_and_more_seeds_go_into_its_folder() -> None:
    words = ["experiment=quickstart", "sweep=two_by_two"]
    configs = compose_sweep([*words, "seed=range(0,2)"])
    assert len(configs) == 8 and {config.sweep_name for config in configs} == {"quickstart,two_by_two"}
    assert Path(configs[0].run_dir).name == "advantage=grpo,loss_norm=sequence_mean,seed=0"
    assert plan(words, first_only=True).runs == 32
    [name] = {config.sweep_name for config in plan(words, first_only=True).configs}
    assert name == "quickstart,two_by_two"
    kept = compose_sweep(["experiment=dr_grpo", "sweep=grpo_vs_dr_grpo", "seed=0"])
    assert [method_name(config) for config in kept] == ["GRPO without its KL term", "Dr. GRPO"]


def test_what_is_typed_wins_over_a_sweeps_file() -> None:
    assert {config.beta.value for config in compose_sweep(["sweep=two_by_two", "beta=0.2", "seed=0"])} == {0.2}
    assert [config.beta.value for config in compose_sweep(["sweep=beta", "beta=0.5,0.6", "seed=0"])] == [0.5, 0.6]
    assert len(compose_sweep(["sweep=two_by_two", "advantage=grpo", "seed=0"])) == 2


def test_equal_samples_need_whole_groups() -> None:
    more = compose_sweep(["sweep=group_size", "seed=0", "questions_per_step=${grpo.share:128}"])
    assert [config.questions_per_step * config.group_size.value for config in more] == [128] * 4
    with pytest.raises(InputError, match="64 answers"):
        compose_sweep(["sweep=group_size", "seed=0", "group_size=8,24"])


def test_a_metric_that_is_null_is_no_metric() -> None:
    with pytest.raises(InputError, match="metric"):
        compose(["metric=null"])


def test_a_search_is_known_to_have_a_figure_to_go_by() -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="hydra-optuna-sweeper is in the extra `sweep`")
    words = ["hydra/sweeper=optuna", "optim.lr=interval(1e-4,1e-3)", "sweep_name=search"]
    found = plan(words, sweep=True)
    assert (found.configs, found.runs, found.metric) == ((), 0, "eval/sampled/accuracy")
    assert found.folder == Path("outputs/sweeps/search")
    with pytest.raises(InputError, match=r"metric=reward/mean"):
        plan([*words, "evaluation.every=0"], sweep=True)
    with pytest.raises(InputError, match=r"hydra/sweeper=optuna"):
        plan(["optim.lr=interval(1e-4,1e-3)"], sweep=True)


def test_choices_of_an_extra_that_is_not_installed_name_its_installation() -> None:
    for group, name in [("hydra/sweeper", "optuna"), ("hydra/launcher", "ray"), ("hydra/launcher", "submitit_slurm")]:
        said = no_choice(group, name, ["basic"])
        assert said.startswith(f"{group}={name} ") and said.endswith("pip install 'grpo-runner[sweep]'")
    assert 'Did you mean "optuna"' in no_choice("hydra/sweeper", "optunas", ["basic", "resuming"])
    assert "pip install" not in no_choice("hydra/launcher", "slurm", ["basic", "gpus"])
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["sweep"]
    assert all(any(name.split("_")[0] in package for package in extra) for names in OF_EXTRA.values() for name in names)


def test_joblibs_word_on_killed_workers_promises_no_traceback() -> None:
    said = "A worker process was unexpectedly terminated.\n\nThe exit codes of the workers are {SIGKILL(-9)}\n"
    told = explain(RuntimeError(said + "Detailed tracebacks of the workers should have been printed to stderr"))
    assert str(told).splitlines() == said.replace("\n\n", "\n").splitlines()


def test_the_rule_of_names_has_the_blanks_that_it_allows() -> None:
    names.check("sweep_name", "nächt ü")
    with pytest.raises(InputError, match="letters, digits, blanks and"):
        names.check("sweep_name", "night/1")


@pytest.mark.parametrize("word", ["hydra.sweeper.done=[0]", "++hydra.sweeper.done=[0]", "hydra/sweeper=resuming"])
def test_the_runners_own_sweeper_is_not_typed(word: str) -> None:
    with pytest.raises(InputError, match="Leave it out") as refused:
        plan(["seed=0,1", word], sweep=True)
    assert len(str(refused.value).splitlines()) == 1
    assert len(plan(["seed=0,1", "hydra/sweeper=basic"], sweep=True).configs) == 2  # negative control


def test_a_misspelt_metric_is_told_before_the_sweep_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", "debug=cpu_smoke", "seed=0,1", "metric=eval/sampled/acuracy"]) == 2
    said = capsys.readouterr().err
    assert 'Did you mean "eval/sampled/accuracy"?' in said and len(said.splitlines()) <= 5
    with pytest.raises(InputError, match='Did you mean "reward/mean"'):
        plan(["seed=0,1", "metric=reward/maen"], sweep=True)
    with pytest.raises(InputError, match='Did you mean "health/kl_runaway"'):
        plan(["seed=0,1", "metric=health/kl_runawy"], sweep=True)
    assert len(plan(["reward.truncated=zero,soft", "metric=reward/overlong"], sweep=True).configs) == 2
    assert len(plan(["reward=math_answer,math_answer_and_format", "metric=reward/format"], sweep=True).configs) == 2
    with pytest.raises(InputError, match="no run logs"):
        plan(["seed=0,1", "metric=eval/sampled/pass@16", "evaluation.samples=4"], sweep=True)


@pytest.mark.parametrize(
    "words",
    [
        ["evaluation.every=0"],  # the default metric, of which a sweep has no need
        ["evaluation.samples=0"],
        ["metric=eval/sampled/pass@4", "evaluation.samples=4"],
        ["metric=time/step_s"],
        ["metric=health/kl_runaway"],
        ["metric=reward/overlong", "reward.truncated=soft"],
        ["metric=reward/format", "reward=math_answer_and_format"],
        ["metric=reward/function", "reward.function=own:mine", "+reward.parts.function=1.0"],
    ],
)
def test_a_metric_that_may_be_is_none_to_refuse(words: list[str]) -> None:
    assert len(plan(["seed=0,1", *words], sweep=True).configs) == 2


def test_a_search_wants_a_figure_that_its_runs_will_have() -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="hydra-optuna-sweeper is in the extra `sweep`")
    words = ["hydra/sweeper=optuna", "optim.lr=interval(1e-4,1e-3)"]
    with pytest.raises(InputError, match="no greedy answers"):
        plan([*words, "evaluation.greedy=false", "metric=eval/greedy/accuracy"], sweep=True)
    with pytest.raises(InputError, match="Did you mean"):
        plan([*words, "metric=eval/sampled/acuracy"], sweep=True)
