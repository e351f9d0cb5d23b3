"""Beside a preset: key typed > group typed > preset > defaults, in one run, in a sweep and in what Hydra shows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import hydra
import pytest

from grpo_runner.config import Source, compose, compose_sweep, find, plan, to_show
from grpo_runner.errors import InputError

OAT = "experiment=dr_grpo_oat_zero_7b"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("overrides", "group"),
    [
        (["debug=cpu_smoke", "group_size=medium"], "group_size"),
        (["group_size=small", "debug=cpu_smoke"], "group_size"),
        (["debug=cpu_smoke", "evaluation=never"], "evaluation"),
        (["debug=cpu_smoke", "tracking=wandb"], "tracking"),
        ([OAT, "evaluation=never"], "evaluation"),
        ([OAT, "optim=full_finetune"], "optim"),
        ([OAT, "debug=cpu_smoke", "evaluation=thorough"], "evaluation"),
    ],
    ids=" ".join,
)
def test_a_typed_choice_means_the_same_beside_a_preset(overrides: list[str], group: str) -> None:
    typed = [text for text in overrides if text.startswith(f"{group}=")]
    presets = [text for text in overrides if text not in typed]
    ours = asdict(compose(overrides))
    assert ours[group] == asdict(compose(typed))[group]
    # the preset keeps the rest; negative control: it would have changed the group
    preset = asdict(compose(presets))
    assert preset[group] != ours[group]
    apart = {group, "run_name", "run_dir"}
    assert {k: v for k, v in ours.items() if k not in apart} == {k: v for k, v in preset.items() if k not in apart}


def test_hydra_alone_overrules_the_typed_choice() -> None:
    """Negative control."""
    with hydra.initialize_config_dir(str(find()), version_base="1.3"):
        assert hydra.compose("config", ["debug=cpu_smoke", "group_size=medium"]).group_size.value == 4


@pytest.mark.parametrize("key", ["evaluation.every=7", "++evaluation.every=7", "evaluation.every=${seed}"])
def test_a_typed_key_wins_over_a_typed_choice(key: str) -> None:
    config = compose([key, "debug=cpu_smoke", "evaluation=thorough", "seed=7"])
    assert (config.evaluation.every, config.evaluation.questions, config.tracking.wandb) == (7, 512, "disabled")


def test_a_number_and_an_untyped_group_are_as_before() -> None:
    config = compose(["debug=cpu_smoke", "group_size=6", "evaluation.questions=9"])
    assert (config.group_size.value, config.evaluation.every, config.evaluation.questions) == (6, 2, 9)


def test_keys_that_are_added_or_taken_away() -> None:
    both = ["debug=cpu_smoke", "reward=math_answer_and_format"]
    assert compose([*both, "+reward.parts.short=0.5"]).reward.parts == {"correct": 1.0, "format": 0.1, "short": 0.5}
    assert compose([*both, "~reward.parts.format"]).reward.parts == {"correct": 1.0}


def test_the_runs_of_a_sweep_over_a_typed_choice_differ() -> None:
    swept = compose_sweep(["group_size=small,medium", "debug=cpu_smoke"])
    assert [(config.group_size.value, config.steps) for config in swept] == [(8, 2), (16, 2)]
    assert [config.run_name for config in swept] == ["group_size=small", "group_size=medium"]
    constant = compose_sweep(["evaluation=never", "seed=0,1", "debug=cpu_smoke"])
    assert [config.evaluation.every for config in constant] == [0, 0]


def test_an_experiments_own_sweep_is_not_typed(here: Path) -> None:
    (here / "mine/experiment").mkdir(parents=True)
    (here / "mine/experiment/own.yaml").write_text(
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {'advantage': 'grpo,rloo'}}}\n"
        "advantage: {ddof: 1, eps: 0.5, scale: group_std}\n"
    )
    words = ["experiment=own", f"hydra.searchpath=['file://{here}/mine']"]
    assert [config.advantage.eps for config in compose_sweep(words)] == [0.5, 0.5]
    (here / "mine/experiment/own.yaml").write_text(  # sets the very key in which the runs would differ
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {'advantage': 'grpo,rloo'}}}\n"
        "advantage: {baseline: group_mean, scale: group_std}\n"
    )
    with pytest.raises(InputError, match="would be the same run"):
        compose_sweep(words)
    (here / "mine/advantage").mkdir()
    (here / "mine/advantage/own.yaml").write_text("defaults: [grpo]\neps: 0.25\n")
    typed = compose(
        ["advantage=own", "experiment=own", *words[1:], "hydra.mode=RUN", "~hydra.sweeper.params.advantage"]
    )
    assert (typed.advantage.eps, typed.advantage.ddof) == (0.25, compose().advantage.ddof)


def test_an_unknown_key_of_a_typed_choice_is_named() -> None:
    with pytest.raises(InputError, match=r'Unknown key "evaluation.evry". Did you mean "evaluation.every"'):
        compose(["debug=cpu_smoke", "evaluation=never", "+evaluation.evry=1"])


def test_what_hydra_shows_is_what_runs() -> None:
    source = Source(find())
    for words in (["debug=cpu_smoke", "evaluation=never", "prompt=r1"], [OAT, "reward=math_answer_and_format"]):
        shown = to_show(words, source)
        assert shown[: len(words)] == words and len(shown) > len(words)
        with hydra.initialize_config_dir(str(find()), version_base="1.3"):
            groups = {word.partition("=")[0] for word in words} - {"debug", "experiment"}
            for group in groups:
                node = hydra.compose("config", shown)[group]
                assert dict(node, stop=()) == dict(asdict(compose(words))[group], stop=())
    assert to_show(["evaluation=never"], source) == ["evaluation=never"]
    assert to_show(["debug=cpu_smoke", "seed=0,1"], source) == ["debug=cpu_smoke", "seed=0,1"]


# --- null, as conf/config.yaml has it


@pytest.mark.parametrize(
    "overrides",
    [
        ["experiment=null"],
        ["debug=null", "experiment=null"],
        ["debug=cpu_smoke", "debug=null"],
        ["experiment=null", "~debug"],
    ],
    ids=" ".join,
)
def test_no_preset(overrides: list[str]) -> None:
    assert compose(overrides) == compose()
    assert [config.run_dir for config in compose_sweep([*overrides, "seed=0,1"])] == [
        config.run_dir for config in compose_sweep(["seed=0,1"])
    ]


def test_the_last_word_about_a_preset_counts() -> None:
    assert compose(["debug=null", "debug=cpu_smoke"]) == compose(["debug=cpu_smoke"]) != compose()
    with pytest.raises(InputError, match="null is no value of a sweep") as caught:
        plan(["experiment=null,dr_grpo"], sweep=True)
    assert len(str(caught.value).splitlines()) == 1
