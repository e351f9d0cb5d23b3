"""The direction of imports, held by the code's own import statements."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "grpo_runner"
# each room may import those named here, itself, and the nouns
NOUNS = {
    "schema",
    "types",
    "errors",
    "signals",
    "rng",
    "files",
    "checks",
    "reward_checks",
    "critic_checks",
    "pair_checks",
    "advice",
    "prompt_advice",
    "sample_checks",
    "method",
    "metric",
    "plugin",
    "validate",
    "later",
    "objectives",
    "parallel",
    "sizes",
    "facts",
    "waiting",
    "grpo_runner",
}
ARROWS = {
    "algorithm": set(),
    "data": set(),
    "prompts": set(),
    "local_paths": {"data", "prompts"},
    "reward": set(),
    "policy": {"algorithm", "local_paths"},
    "rollout": {"policy"},
    "tracking": set(),
    "evaluation": {"rollout", "reward"},
    "health": {"tracking", "lessons"},  # of lessons only show, as below
    "train": {
        "local_paths",
        "algorithm",
        "data",
        "prompts",
        "reward",
        "policy",
        "rollout",
        "tracking",
        "evaluation",
        "health",
    },
    "lessons": {"algorithm", "policy", "tracking"},  # of policy only batch.minibatches: what was one optimizer batch
    "grading": {
        "reward",
        "config",
        "tracking",
        "lessons",
    },  # of lessons only show: the console, tables, text made safe to print
    "compare": {"config", "lessons", "tracking"},  # of lessons only show; of config only where conf/ is
    "planning": {
        "config",
        "data",
        "lessons",
        "local_paths",
        "tracking",
        "train",
    },  # of lessons only show; of data the order and a glance at files; of tracking and train only what times two steps
    "preview": {"local_paths", "config", "data", "prompts", "policy", "reward", "tracking", "grading", "lessons"},
    "config": set(),
    "sweeps": {"train", "tracking", "lessons"},  # of lessons only show
    "jobs": {"config", "train", "sweeps", "lessons", "compare"},  # of lessons only show; of compare only a run's page
    "contamination": {"local_paths", "config", "data", "reward", "lessons"},  # of lessons only show, as grading
    # of grading: policies and the bar; of lessons only show
    # of lessons only show; of tracking only whether W&B has a key and what keeps libraries quiet; of train only checkpoint
    "doctor": {"config", "lessons", "policy", "prompts", "reward", "rollout", "tracking", "train"},
    "suite": {
        "config",
        "data",
        "evaluation",
        "facts",
        "grading",
        "lessons",
        "local_paths",
        "policy",
        "prompts",
        "reward",
        "rollout",
        "tracking",
        "train",
    },
    "cli": {
        "config",
        "helptext",
        "jobs",
        "lessons",
        "grading",
        "compare",
        "contamination",
        "doctor",
        "health",
        "planning",
        "preview",
        "suite",
        "sweeps",
        "policy",
        "tracking",
        "words",
    },
    "words": {"config"},
    "__main__": {"cli"},
    "__init__": {"config", "train"},
}


def room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imported_rooms(source: str, package: tuple[str, ...]) -> set[str]:
    """Rooms of ours that a module imports, late imports inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) + 1 - node.level]] if node.level else []
            stem = ".".join([*base, node.module] if node.module else base)
            names = [stem] if stem.count(".") else [f"{stem}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("grpo_runner.")}
    return {name for name in found if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()}


def violations(own: str, rooms: set[str]) -> set[str]:
    return rooms - NOUNS - {own} - ARROWS.get(own, set())


def test_imports_point_one_way():
    wrong = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        own = room(path)
        if own in NOUNS - {"grpo_runner"}:
            allowed = imported_rooms(path.read_text(), ("grpo_runner",)) - NOUNS
        else:
            package = ("grpo_runner", *path.relative_to(PACKAGE).parts[:-1])
            allowed = violations(own, imported_rooms(path.read_text(), package))
        if allowed:
            wrong[str(path.relative_to(PACKAGE))] = allowed
    assert wrong == {}


def test_an_arrow_against_the_direction_is_seen():
    """Negative control."""
    assert violations("algorithm", imported_rooms("from ..train.loop import train", ("grpo_runner", "algorithm"))) == {
        "train"
    }
    assert violations(
        "tracking", imported_rooms("def f():\n    import grpo_runner.policy.batch", ("grpo_runner",))
    ) == {"policy"}
    assert violations("data", imported_rooms("from .. import prompts", ("grpo_runner", "data"))) == {"prompts"}


def test_only_config_and_the_command_line_know_hydra():
    knows = {room(path) for path in PACKAGE.rglob("*.py") if {"hydra", "omegaconf"} & set(_roots(path))}
    assert knows <= {"config", "cli", "jobs"}


RUNS_DATA = {"eval", "exec", "torch.load", "yaml.unsafe_load", "yaml.full_load", "jinja2.Environment"}
RUNS_DATA |= {"joblib.load", "os.system"}
SAID = {"trust_remote_code": "False", "weights_only": "True", "shell": "False", "allow_pickle": "False"}


def _runs_data(text: str) -> list[str]:
    """What in a module's text would run what it reads: SECURITY.md says that nothing does."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    words = [word for call in calls for word in call.keywords if word.arg in SAID]
    found = [name for call in calls if (name := ast.unparse(call.func)) in RUNS_DATA]
    return found + [ast.unparse(word) for word in words if ast.unparse(word.value) != SAID[word.arg]]


def test_no_pickle_and_nothing_that_runs_what_it_reads():
    for path in PACKAGE.rglob("*.py"):
        assert not {"pickle", "dill", "cloudpickle", "marshal"} & set(_roots(path)), path
        assert not _runs_data(path.read_text()), path


@pytest.mark.parametrize(
    "text", ["torch.load(f)", "yaml.unsafe_load(t)", "eval(t)", "f(trust_remote_code=True)", "f(trust_remote_code=x)"]
)
def test_what_runs_data_would_be_seen(text):
    assert _runs_data(text) and not _runs_data("model.eval(); yaml.safe_load(t); f(trust_remote_code=False)")


def test_the_command_line_starts_without_torch():
    code = (
        "import sys, grpo_runner.cli, grpo_runner.reward, grpo_runner.compare.command as c; c.compare(['--help']); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'sympy', 'wandb', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def _roots(path: Path) -> list[str]:
    roots = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            roots += [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.append(node.module.split(".")[0])
    return roots
