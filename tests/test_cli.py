"""The command line: what reaches train.run, where runs and sweeps are put, exit codes, help. train.run is a stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from grpo_runner import __version__, cli
from grpo_runner.config import compose, compose_sweep
from grpo_runner.errors import InputError, Interrupted, MachineError, NonFiniteError
from grpo_runner.schema import RunConfig

ROOT = Path(__file__).resolve().parents[1]
SMOKE = ["debug=cpu_smoke"]


class Runs(list[RunConfig]):
    """The configs that were run, and what happens in a run."""

    happens: Callable[[RunConfig], None] = staticmethod(lambda config: None)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """A stand-in for grpo_runner.train, without torch, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    found = Runs()

    def run(config: RunConfig) -> None:
        found.append(config)
        found.happens(config)
        (Path(config.run_dir) / "made").touch()  # a run leaves something; an empty folder would be taken away

    stand_in = ModuleType("grpo_runner.train")
    stand_in.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "grpo_runner.train", stand_in)
    return found


def command(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "grpo_runner", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


# --- one run


def test_a_run_is_what_compose_gives(runs: Runs, tmp_path: Path) -> None:
    words = ["seed=0", "beta=0.04", "group_size=4", *SMOKE]
    assert cli.main(words) == 0
    assert list(runs) == [compose(words)]
    assert runs[0].run_dir == str(tmp_path / "outputs/cpu_smoke,beta=0.04,group_size=4,seed=0")


def test_the_verb_train_is_the_default(runs: Runs) -> None:
    assert cli.main(["train", "seed=3"]) == 0
    assert cli.main([]) == 0
    assert [config.seed for config in runs] == [3, 0]


def test_hydra_run_dir_wins(runs: Runs, tmp_path: Path) -> None:
    assert cli.main([*SMOKE, "run_name=x", "beta=0.04", "group_size=4", f"hydra.run.dir={tmp_path}/some/where"]) == 0
    assert (runs[0].run_dir, runs[0].run_name) == (str(tmp_path / "some/where"), "x")
    assert not (tmp_path / "outputs").exists()


def test_hydra_leaves_nothing_of_its_own(runs: Runs, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(SMOKE) == 0
    assert [path.name for path in tmp_path.rglob("*")] == ["outputs", "cpu_smoke", "made"]
    assert tuple(capfd.readouterr()) == ("", "")


def test_argv_environment_and_folder_are_as_before(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    before = (list(sys.argv), os.getcwd())
    cli.main(SMOKE)
    cli.main(["seed=abc"])
    assert (sys.argv, os.getcwd()) == before and "HYDRA_FULL_ERROR" not in os.environ


def test_own_experiments_beside_ours(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "mine/experiment").mkdir(parents=True)
    (tmp_path / "mine/experiment/night.yaml").write_text("# @package _global_\nsteps: 77\n")
    assert cli.main(["experiment=night", "--config-dir", "mine"]) == 0
    assert cli.main(["-cd", "mine", "experiment=night", "steps=5"]) == 0
    assert [config.steps for config in runs] == [77, 5]
    assert cli.main(["experiment=night"]) == 2


# --- sweeps


def test_a_sweep_runs_each_combination_in_its_own_folder(runs: Runs, tmp_path: Path) -> None:
    words = ["advantage=grpo,dr_grpo", "seed=0,1", *SMOKE]
    assert cli.main(["-m", *words]) == 0
    assert list(runs) == compose_sweep(words)
    sweep = tmp_path / "outputs/sweeps/cpu_smoke,by-advantage-seed"
    assert [Path(config.run_dir) for config in runs] == [
        sweep / f"advantage={advantage},seed={seed}" for advantage in ("grpo", "dr_grpo") for seed in (0, 1)
    ]
    assert sorted(path.name for path in sweep.iterdir() if path.is_dir()) == sorted(config.run_name for config in runs)
    assert not list(tmp_path.rglob(".hydra")) and not list(tmp_path.rglob("*.log"))


def test_typed_again_a_sweep_meets_the_same_folders(runs: Runs) -> None:
    for words in (["-m", "seed=0,1", *SMOKE], [*SMOKE, "seed=0,1", "--multirun"]):
        assert cli.main(words) == 0
    assert list(runs[:2]) == list(runs[2:])


def test_numbers_and_names_of_a_sweep(runs: Runs, tmp_path: Path) -> None:
    assert cli.main(["-m", "beta=0,0.04", "group_size=8,16", "sweep_name=night"]) == 0
    assert [(config.beta.value, config.group_size.value) for config in runs] == [(0, 8), (0, 16), (0.04, 8), (0.04, 16)]
    names = [f"beta={beta},group_size={size}" for beta in ("0", "0.04") for size in (8, 16)]
    assert [config.run_dir for config in runs] == [str(tmp_path / "outputs/sweeps/night" / name) for name in names]


def test_hydra_sweep_dir_wins(runs: Runs, tmp_path: Path) -> None:
    assert cli.main(["-m", "seed=0,1", f"hydra.sweep.dir={tmp_path}/here", "hydra.sweep.subdir=${seed}"]) == 0
    assert [config.run_dir for config in runs] == [str(tmp_path / "here/0"), str(tmp_path / "here/1")]


def test_an_experiment_that_is_a_sweep(runs: Runs) -> None:
    assert cli.main(["experiment=grpo_vs_dr_grpo", "seed=0"]) == 0
    assert {(config.advantage.scale, config.loss_norm.kind) for config in runs} == {
        (scale, norm) for scale in ("group_std", "none") for norm in ("sequence_mean", "constant")
    }
    assert {config.sweep_name for config in runs} == {"grpo_vs_dr_grpo,seed=0"}


def test_one_failing_run_does_not_stop_the_others(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(config: RunConfig) -> None:
        if config.seed == 1:
            raise NonFiniteError("step 7: the loss is NaN")
        if config.seed == 2:
            raise InputError("a.jsonl:3: no gold")

    runs.happens = fail
    assert cli.main(["-m", "seed=0,1,2,3", *SMOKE]) == 4
    assert [config.seed for config in runs] == [0, 1, 2, 3]
    out, err = capsys.readouterr()
    assert "[4/4] seed=3" in out and "2 of 4 runs finished" in out
    assert "step 7: the loss is NaN" in err and "Failed: seed=1 (exit 4), seed=2 (exit 2)" in err
    assert "Traceback" not in err and "Error executing job" not in err


def test_a_fault_in_one_run_of_a_sweep_is_found_before_the_first_starts(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["-m", "group_size=4,1"]) == 2
    assert list(runs) == [] and list(tmp_path.iterdir()) == []
    assert "group_size=1" in capsys.readouterr().err


def test_two_names_for_one_sweep_are_refused(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-m", "seed=0,1", "sweep_name=a,b"]) == 2
    assert "one name" in capsys.readouterr().err and not runs


def test_a_choice_typed_beside_a_preset_runs_as_composed(runs: Runs, tmp_path: Path) -> None:
    words = ["group_size=small,medium", "evaluation=never", *SMOKE]
    assert cli.main(["-m", *words]) == 0
    assert list(runs) == compose_sweep(words)
    assert [(config.group_size.value, config.evaluation.every) for config in runs] == [(8, 0), (16, 0)]
    (tmp_path / "mine/evaluation").mkdir(parents=True)
    (tmp_path / "mine/evaluation/rare.yaml").write_text("defaults: [default]\nevery: 99\n")
    assert cli.main(["-cd", "mine", "evaluation=rare", *SMOKE]) == 0
    assert (runs[-1].evaluation.every, runs[-1].evaluation.questions) == (99, 256)


def test_codes_are_kept_by_job_where_names_are_alike(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(config: RunConfig) -> None:
        if config.seed == 0:
            raise NonFiniteError("NaN")

    runs.happens = fail
    words = ["-m", "seed=0,1", "hydra.sweep.subdir=${seed}", "hydra.job.config.override_dirname.exclude_keys=[seed]"]
    assert cli.main(words) == 4
    out, err = capsys.readouterr()
    assert "1 of 2 runs finished" in out and "Failed: default (exit 4)" in err


def test_a_sweep_with_two_runs_in_one_folder_does_not_start(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["-m", "seed=0,0"]) == cli.main(["-m", "run_name=a,b"]) == 2
    assert "share the folder" in capsys.readouterr().err
    assert not runs and not list(tmp_path.iterdir())


# --- ends


@pytest.mark.parametrize("code", [0, None, 3, "words"])
def test_a_run_that_ends_by_sys_exit_has_failed(
    runs: Runs, capsys: pytest.CaptureFixture[str], code: int | str | None
) -> None:
    def leave(config: RunConfig) -> None:
        if config.seed == 0:
            sys.exit(code)

    runs.happens = leave
    assert cli.main(SMOKE) == 1
    err = capsys.readouterr().err
    assert f"sys.exit({code!r})" in err and "test_cli.py:" in err and len(err.splitlines()) == 1
    assert cli.main(["-m", "seed=0,1", *SMOKE]) == 1
    out, err = capsys.readouterr()
    assert [config.seed for config in runs] == [0, 0, 1]
    assert "1 of 2 runs finished" in out and "Failed: seed=0 (exit 1)" in err
    assert cli.main(["seed=1", *SMOKE]) == 0  # negative control


@pytest.mark.parametrize("error", [InputError("no such file"), NonFiniteError("NaN"), MachineError("disk full")])
def test_errors_are_their_message_and_exit_code(
    runs: Runs, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fail(config: RunConfig) -> None:
        raise error

    runs.happens = fail
    assert cli.main(SMOKE) == error.exit_code  # type: ignore[attr-defined]
    assert capsys.readouterr().err == f"{error}\n"


def test_an_unexpected_error_shows_its_traceback_and_is_called_a_fault(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(config: RunConfig) -> None:
        raise ZeroDivisionError("of ours")

    runs.happens = fail
    assert cli.main(SMOKE) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err and "ZeroDivisionError: of ours" in err and "fault in grpo_runner" in err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Interrupted("Saved. The same command goes on."), "Saved. "),
        (KeyboardInterrupt(), "Interrupted. The same command goes on"),
    ],
)
def test_ctrl_c_is_130_and_stops_a_sweep(
    runs: Runs, capsys: pytest.CaptureFixture[str], error: BaseException, said: str
) -> None:
    def stop(config: RunConfig) -> None:
        if config.seed == 1:
            raise error

    runs.happens = stop
    assert cli.main(["-m", "seed=0,1,2", *SMOKE]) == 130
    out, err = capsys.readouterr()
    assert [config.seed for config in runs] == [0, 1]
    assert err.startswith(said) and len(err.splitlines()) == 1
    assert "goes on from there. 1 of 3 runs finished" in out
    assert cli.main(["seed=1", *SMOKE]) == 130


def test_a_folder_that_cannot_be_made(runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "outputs").write_text("a file where the folder should be")
    for words in (SMOKE, ["-m", "seed=0,1"]):
        assert cli.main(words) == 2
        err = capsys.readouterr().err
        assert str(Path("outputs")) in err and "hydra.run.dir" in err and "Traceback" not in err
    assert not runs


BAD = [
    (["group_size=0"], "group_size=0"),
    (["group_size=1"], "advantage=reinforce"),
    (["beta=-1"], "beta=-1"),
    (["beta=inf"], "beta=inf"),
    (["advantage=drgrpo"], 'Did you mean "dr_grpo"?'),
    (["+typo=1"], "typo"),
    (["optim.lrr=1"], 'Did you mean "optim.lr"?'),
    (["loss_norm=["], "loss_norm=["),
    (["seed=abc"], "seed=abc"),
    (["seed=0,1"], "--multirun"),
    (["-m", "seed=0,x"], "seed=x"),
    (["-m", "seed=interval(0,1)"], "seed=interval(0,1)"),
    (["-m", "hydra.run.dir=a,b"], "hydra.run.dir=a,b"),
    (["-m", "beta=no_kl,0.1"], "both names and numbers"),
    (["trian"], 'Did you mean "train"?'),
    (["measure"], "Verbs: train, merge"),
    (["--help", "experimnt"], 'Did you mean "experiment"?'),
    (["quickstart"], 'Did you mean "experiment=quickstart"?'),
    (["experiment", "--help"], "The choices of the group experiment: python -m grpo_runner --help experiment"),
    (["seed=1", "experiment"], "--help experiment"),
    (["cpu_smoke", "seed=1"], 'Did you mean "debug=cpu_smoke"?'),
    (["seed=1", "dr_grpo"], 'Did you mean "experiment=dr_grpo"?'),
    (["../config"], "Verbs: train, merge"),
    (["seed=1", "train"], '"train" is not an override'),
    (["--multrun", "seed=0,1"], 'Did you mean "--multirun"?'),
    (["--experimental-rerun", "x"], "--experimental-rerun"),
    (["--cfg"], "--cfg"),
    (["--cfg", "jobs"], "job"),
    (["--cfg", "job", "-m"], "--multirun"),
    (["--cfg", "job", "advantage=drgrpo"], "advantage=drgrpo"),
    (["--cfg", "job", "seed=0,1"], "seed=0,1"),
    (["--cfg", "job", "tracking.probe.x=1"], "tracking.probe is a list"),
    (["--cfg", "job", "advantage=[grpo,dr_grpo]"], "one of batch_std"),
    (["-m", "+experiment=dapo,gspo"], "Write experiment=dapo"),
    (["-m", "tracking.probe={a:1},[grpo,rloo]"], "tracking.probe={a:1} is not allowed"),
    (["--resolve"], "--cfg job"),
    (["--info", "nothing"], "searchpath"),
    (["-cd", "nowhere"], "nowhere"),
    (["-cp", "nowhere"], "nowhere"),
    (["-cn", "nowhere"], "nowhere"),
    (["beta=1e-3", "beta.estimator=k9"], "beta.estimator=k9"),
    (["-m", "beta.placement=loss,both"], "beta.placement=both"),
    (["-m", "reward.truncated=zero,soft", "reward.overlong_buffer=99"], "at most max_new_tokens=32"),
    (["rollout.importance=token", "rollout.top_p=0.8"], "rollout.top_p=0.8"),
    (["experiment=dap"], 'Did you mean "dapo"?'),
    (["dapo"], 'Did you mean "experiment=dapo"?'),
    (["merge"], "RUN_FOLDER OUTPUT_FOLDER"),
    (["health"], "health RUN_FOLDER"),
    (["health.stop_on=[kl_run]"], 'Did you mean "kl_runaway"?'),
    (["merge", "a", "b", "c"], "RUN_FOLDER OUTPUT_FOLDER"),
]


@pytest.mark.parametrize(("words", "needle"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], needle: str
) -> None:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and needle in err
    assert 1 <= len(err.splitlines()) <= 5 and "Traceback" not in err
    assert not runs and not (tmp_path / "outputs").exists()


# --- what only shows something


def test_help_lists_groups_choices_keys_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for word in ("train", "merge", "advantage=", "dr_grpo", "grpo *", "cpu_smoke", "grpo_vs_dr_grpo", "seed=0", "-m"):
        assert word in out
    words = out.split()
    for word in ("group_token_mean", "in_reward", "cispo", "dapo", "gspo", "rloo", "entropy_bonus=0.0"):
        assert word in words
    assert cli.main(["-h"]) == cli.main(["train", "--help"]) == 0


def test_help_of_one_group_is_its_choices(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help", "beta"]) == cli.main(["--help", "beta="]) == 0
    out = capsys.readouterr().out
    assert out.count("deepseek_math *") == out.count("no_kl") == 2 and "experiment=" not in out and "Usage" not in out


def test_a_twin_stands_in_the_row_of_its_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help", "experiment"]) == 0
    rows = [line.split("  ")[1] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert "deepscaler_8k (…_lora)" in rows and "deepscaler_8k_lora" not in rows and rows[-2:] != ["", ""]
    assert "verl_gsm8k_lora_0_5b" in rows and "…_lora" in rows  # the first is no twin


def test_help_imports_no_torch() -> None:
    code = (
        "import sys; from grpo_runner import cli; assert cli.main(['--help']) == 0; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'sympy', 'wandb')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"grpo_runner {__version__}\n"


def test_cfg_job_prints_the_config_and_nothing_else(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    assert cli.main(["--cfg", "job", "beta=0.5", "experiment=dr_grpo"]) == 0
    out, err = capsys.readouterr()
    values = yaml.safe_load(out)
    assert (values["beta"]["value"], values["loss_norm"]["kind"], values["seed"]) == (0.5, "constant", 0)
    assert "hydra" not in values and err == "" and not runs
    assert cli.main(["--cfg", "job", "--package", "group_size", "group_size=medium", "experiment=null", *SMOKE]) == 0
    assert capsys.readouterr().out == "# @package group_size\nvalue: 16\n"
    assert cli.main(["--cfg", "job", "--package", "beta"]) == 0
    assert capsys.readouterr().out.startswith("# @package beta\nvalue: 0.04")


def test_pb005_pb026_the_resolved_config_shows_ddof_and_the_constant(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment=dr_grpo_oat_zero_7b", "advantage=grpo", "advantage.ddof=1"]
    assert cli.main(["--cfg", "job", "--resolve", *words]) == 0
    out = capsys.readouterr().out
    assert "\n  ddof: 1\n" in out and "\n  divisor: 3000\n" in out
    assert cli.main(["--cfg", "job", "loss_norm=constant"]) == 0
    assert "\n  divisor: ${max_new_tokens}\n" in capsys.readouterr().out


# --- the program itself


def test_the_program_refuses_in_one_line(tmp_path: Path) -> None:
    done = command("advantage=drgrpo", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    options = ", ".join(sorted(file.stem for file in (Path(__file__).parents[1] / "conf" / "advantage").iterdir()))
    expected = f'advantage=drgrpo is not allowed. It takes one of {options}. Did you mean "dr_grpo"?\n'
    assert done.stderr == expected


def test_the_program_shows_info_and_config(tmp_path: Path) -> None:
    assert "experiment: null" in command("--info", "defaults-tree", folder=tmp_path).stdout
    shown = command("--cfg", "job", "seed=5", folder=tmp_path)
    assert shown.returncode == 0 and "\nseed: 5\n" in shown.stdout and shown.stderr == ""


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "grpo_runner", "--info"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout and program.stderr
        program.stdout.close()
        assert program.stderr.read() == b""


def test_a_stand_in_that_differs_would_be_seen(runs: Runs) -> None:
    """Negative control of the comparison with compose."""
    cli.main(["seed=1"])
    assert runs[0] != compose(["seed=2"]) and replace(runs[0], seed=2) != runs[0]


def test_another_python_than_the_environments_is_told(monkeypatch, capsys):
    def needs(name: str) -> Callable[..., int]:
        def verb(words):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        return verb

    monkeypatch.setitem(cli.VERBS, "plan", (needs("hydra"), ""))
    assert cli.main(["plan"]) == 2
    said = capsys.readouterr().err
    assert "has no module hydra" in said and "make setup" in said and "Traceback" not in said
    monkeypatch.setitem(cli.VERBS, "plan", (needs("grpo_runner.no_such"), ""))  # a fault of ours stays one
    assert cli.main(["plan"]) == 1 and "This is a fault in grpo_runner" in capsys.readouterr().err
