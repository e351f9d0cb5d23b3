"""From what is wanted to the policies to evaluate: whose settings, which weights, and under which name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import config as composing
from .. import validate
from ..errors import InputError, no_run
from ..reward import policy_of
from ..schema import RunConfig
from ..train.checkpoint import Checkpoints
from ..train.folder import differences
from .words import Wanted


@dataclass(frozen=True)
class Target:
    """One policy.

    step: how many steps it was trained, None for a model that was given as it is. weights: "initial" for what the
    settings begin from, "checkpoint", or "folder" for the run's adapter/ or model/.
    """

    name: str
    config: RunConfig
    step: int | None = None
    weights: str = "initial"

    @property
    def run(self) -> Path:
        return Path(self.config.run_dir)

    @property
    def root(self) -> Path:
        return self.run / "checkpoints"


def to_load(target: Target) -> RunConfig:
    """The settings to load a policy by. Of a fully trained run that kept no checkpoints, its model/ is the model;
    nothing is trained here.
    """
    config = target.config
    if target.weights == "folder" and not config.lora.enabled:
        config = replace(config, model=replace(config.model, path=str(target.run / "model"), revision=None))
    return replace(config, model=replace(config.model, gradient_checkpointing=False))


def targets(wanted: Wanted) -> list[Target]:
    """The policies in the order in which they are shown; the first is the one that others are compared with."""
    if not wanted.adapters:
        config = composing.compose(wanted.overrides)
        found = [Target(_model_name(config), config)]
        return [_without_adapter(config), *found] if wanted.base else found
    configs = [_config_of(folder, wanted.overrides) for folder in wanted.adapters]
    _hold_comparable(wanted.adapters, configs)
    names = _short_names(wanted.adapters)
    found = [one for config, name in zip(configs, names, strict=True) for one in _of_run(config, name, wanted.steps)]
    if wanted.base and not any(one.weights == "initial" for one in found):
        bases = {repr((config.model, config.lora, config.prompt)): config for config in configs}
        before = [Target("base" if len(bases) == 1 else f"base of {_model_name(c)}", c, 0) for c in bases.values()]
        found = [*before, *found]
    return found


def _without_adapter(config: RunConfig) -> Target:
    if config.lora.adapter is None:
        raise InputError("--base goes with adapter=RUN_FOLDER or lora.adapter=FOLDER: here the model is its own base.")
    bare = replace(config, lora=replace(config.lora, adapter=None))
    return Target(_model_name(bare), bare)


def _config_of(folder: Path, overrides: Sequence[str]) -> RunConfig:
    """A run's settings with the overrides in them."""
    if not (folder / "config.yaml").is_file():
        more = f"\nA lone adapter: model=… lora.adapter={folder}" if (folder / "adapter_config.json").is_file() else ""
        raise InputError(f"adapter={folder}: {no_run(folder)}{more}")
    run = validate.load(folder / "config.yaml")
    config = composing.compose_over(run, overrides)
    _hold_trained(folder, run, config)
    return config


def _hold_trained(folder: Path, run: RunConfig, config: RunConfig) -> None:
    """Raise InputError where keys are changed that say what was trained."""
    for name in ("enabled", "rank", "alpha", "targets"):
        own, asked = getattr(run.lora, name), getattr(config.lora, name)
        if own != asked:
            key = f"lora.{name}"
            raise InputError(
                f"{key}={validate.shown(asked)}: {folder} was trained with {key}={validate.shown(own)}, and what it "
                f"trained has that form.\nLeave {key} out: a run's adapter is evaluated as it is."
            )


def _of_run(config: RunConfig, name: str, steps: Sequence[int | str]) -> list[Target]:
    run = Path(config.run_dir)
    there = Checkpoints(run / "checkpoints", 1, writes=False).steps()
    if steps:
        wanted = [0, *there] if "all" in steps else [int(step) for step in steps]
        if missing := [step for step in wanted if step and step not in there]:
            listed = ", ".join(map(str, there)) or "none"
            raise InputError(
                f"--steps {missing[0]}: {run} has no checkpoint of that step. There are: 0, {listed}.\n"
                "A run keeps the newest checkpoint.keep of those made every checkpoint.every steps."
            )
        return [Target(f"{name}, step {s}", config, s, "checkpoint" if s else "initial") for s in wanted]
    if there:
        return [Target(f"{name}, step {there[-1]}", config, there[-1], "checkpoint")]
    if not (run / ("adapter" if config.lora.enabled else "model")).is_dir():
        raise InputError(f"adapter={run}: nothing was trained yet (no checkpoints/, adapter/ or model/ in it).")
    return [Target(f"{name}, step {config.steps}", config, config.steps, "folder")]


def _hold_comparable(folders: Sequence[Path], configs: Sequence[RunConfig]) -> None:
    """Raise InputError where runs would be asked other questions, or be graded by other rules."""
    first = _compared(configs[0])
    for folder, config in zip(folders[1:], configs[1:], strict=True):
        if other := list(differences(first, _compared(config)).values()):
            raise InputError(
                "\n".join(
                    [
                        f"adapter={folder} (here) and adapter={folders[0]} (there) cannot be compared.",
                        "Give these keys once, for both:",
                        *other[:3],
                    ]
                )
            )


def _compared(config: RunConfig) -> dict[str, Any]:
    """What has to be the same for policies that are compared question by question; models and prompts may differ."""
    evaluation = asdict(replace(config.evaluation, every=0, max_new_tokens=None))
    found = {
        "evaluation": evaluation,
        "reward": asdict(policy_of(config.reward)),
        "max_new_tokens": config.evaluation_tokens,
    }
    data = config.data
    return found if config.evaluation.sets else {**found, "data": {"kind": data.kind, "eval": asdict(data.eval)}}


def _model_name(config: RunConfig) -> str:
    name = Path(config.model.path).name or config.model.path
    return f"{name} with {config.lora.adapter}" if config.lora.adapter else name


def _short_names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names, or as much of their paths as tells them apart."""
    parts = [folder.absolute().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]
