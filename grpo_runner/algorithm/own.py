"""A user's own baseline, scale or loss norm: a function named by import path, put beside those of the package.

    advantage.baseline=my_module:median          def median(rewards_QG): ...
    advantage.scale=my_module:spread             def spread(rewards_QG, ddof, eps): ...
    loss_norm.kind=my_module:by_root             def by_root(mask_NT, groups_N, budget): ...

Shapes, and what NaN in rewards means, are as in advantages.py and loss_norm.py. The path is the name under which the
function stands in its dict, so that all that looks names up finds it: the loop, question weights, `explain`. It is
given copies, and what it returns is looked at each time: a number where the package's own would have one.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import InputError, in_a_line
from ..plugin import imported
from .advantages import BASELINES, SCALES, zero_variance
from .loss_norm import LOSS_NORMS

if TYPE_CHECKING:  # so that `explain` starts without pydantic
    from ..schema import AdvantageConfig, LossNormConfig

_NONE = torch.nan  # an excluded answer
_REWARDS = torch.tensor([[1.0, 0.0, 0.5], [0.0, 0.0, 0.0], [1.0, _NONE, 0.0], [_NONE, _NONE, _NONE]])
_MASK = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
_GROUPS = torch.tensor([0, 0, 1])


def plug_in(advantage: AdvantageConfig, loss_norm: LossNormConfig) -> None:
    """Import what the configuration names by path, and try it on a small rollout with all that a real one may hold.

    Raises InputError, naming the key, for what cannot be imported, fails, or does not give a tensor that fits; the
    functions raise the same later, for what only a real rollout shows.
    """
    trials: list[tuple[str, str, dict[str, Any], Callable[[str, str], Callable[..., Tensor]], tuple[Any, ...]]] = [
        ("advantage.baseline", advantage.baseline, BASELINES, _of_rewards, (_REWARDS.double(),)),
        ("advantage.scale", advantage.scale, SCALES, _of_rewards, (_REWARDS.double(), advantage.ddof, advantage.eps)),
        ("loss_norm.kind", loss_norm.kind, LOSS_NORMS, _of_mask, (_MASK, _GROUPS, 8.0)),
    ]
    for key, path, known, guarded, arguments in trials:
        if ":" in path and path not in known:
            function = guarded(key, path)
            function(*arguments)
            known[path] = function


def _of_rewards(key: str, path: str) -> Callable[..., Tensor]:
    """Baselines and scales: what fits (Q, G), with a number wherever there is a reward.

    A scale may be anything where the group has no variance: nothing is left there to be divided.
    """
    function = imported(path, key)
    is_scale = key == "advantage.scale"

    def called(rewards_QG: Tensor, *rest: Any) -> Tensor:
        made = _tensor(key, path, function, (rewards_QG, *rest))
        shape = tuple(rewards_QG.shape)
        try:
            if made.dim() != 2:  # one number for all groups is (1, 1), and meant
                raise RuntimeError
            found_QG = made.broadcast_to(shape)
        except RuntimeError:
            raise InputError(
                f"{key}: {path} returned a tensor of shape {tuple(made.shape)}; it must fit (Q, G) = {shape}, "
                f"such as ({shape[0]}, 1)."
            ) from None
        there_QG, usable_QG = ~rewards_QG.isnan(), found_QG.isfinite()
        if is_scale:
            there_QG, usable_QG = there_QG & ~zero_variance(rewards_QG)[:, None], usable_QG & (found_QG != 0)
        wrong_QG = there_QG & ~usable_QG
        if wrong_QG.any():
            rewards = rewards_QG[int(wrong_QG.any(1).nonzero()[0])].tolist()
            value = float(found_QG[wrong_QG][0])
            raise InputError(
                f"{key}: {path} gives {value:g} for a group with the rewards {_shown(rewards)}; it must be a number"
                f"{' other than 0' if is_scale else ''} (nan marks an excluded answer)."
            )
        # where there is nothing to weigh, nothing that is not a number may come in
        return torch.where(there_QG, found_QG, 1.0 if is_scale else 0.0)

    return called


def _of_mask(key: str, path: str) -> Callable[..., Tensor]:
    """Loss norms: (N, T) exactly, and 0 outside the mask."""
    function = imported(path, key)

    def called(mask_NT: Tensor, groups_N: Tensor, budget: float) -> Tensor:
        made = _tensor(key, path, function, (mask_NT, groups_N, budget))
        if made.shape != mask_NT.shape:
            raise InputError(
                f"{key}: {path} returned a tensor of shape {tuple(made.shape)}; it must be (N, T) = "
                f"{tuple(mask_NT.shape)}, the mask's."
            )
        inside = mask_NT > 0
        if not made[inside].isfinite().all() or (made[inside] < 0).any():
            raise InputError(f"{key}: {path} gives a token of the loss a norm that is no number of at least 0.")
        return torch.where(inside, made, 0.0)

    return called


def _tensor(key: str, path: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Tensor:
    """What the function returns for copies of its arguments, in float64 and without a graph."""
    try:
        made = function(*(value.clone() if isinstance(value, Tensor) else value for value in arguments))
    except (Exception, SystemExit) as error:
        places = [place for place in traceback.extract_tb(error.__traceback__) if place.filename != __file__]
        where = f"\n({places[-1].filename}, line {places[-1].lineno})" if places else ""
        raise InputError(f"{key}: {path} raised {in_a_line(error)}{where}") from error
    if not isinstance(made, Tensor) or not made.is_floating_point():
        kind = f"one of {made.dtype}" if isinstance(made, Tensor) else type(made).__name__
        raise InputError(f"{key}: {path} must return a tensor of floating-point numbers, not {kind}.")
    return made.detach().double()


def _shown(rewards: list[float]) -> str:
    return "[" + ", ".join(f"{reward:g}" for reward in rewards[:6]) + (", …]" if len(rewards) > 6 else "]")
