"""A user's own baseline, scale or loss norm: a function named by import path, put beside those of the package.

    advantage.baseline=my_module:median          def median(rewards_QG): ...
    advantage.scale=my_module:spread             def spread(rewards_QG, ddof, eps): ...
    loss_norm.kind=my_module:by_root             def by_root(mask_NT, groups_N, budget): ...

Shapes, and what NaN in rewards means, are as in advantages.py and loss_norm.py. The path is the name under which the
function stands in its dict, so that all that looks names up finds it: the loop, question weights, `explain`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..plugin import imported
from ..schema import AdvantageConfig, LossNormConfig
from .advantages import BASELINES, SCALES
from .loss_norm import LOSS_NORMS

_REWARDS = torch.tensor([[1.0, 0.0, 0.5], [0.0, 0.0, 1.0]], dtype=torch.float64)
_MASK = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)


def plug_in(advantage: AdvantageConfig, loss_norm: LossNormConfig) -> None:
    """Import what the configuration names by path, and try it on a small rollout.

    Raises InputError, naming the key, for what cannot be imported, fails, or does not give a tensor that fits.
    """
    of_rewards = (_REWARDS.shape, "one that fits (Q, G) = (2, 3), such as (2, 1)")
    of_mask = (_MASK.shape, "(N, T) = (2, 2)")
    trials: list[tuple[str, str, dict[str, Any], tuple[Any, ...], tuple[torch.Size, str]]] = [
        ("advantage.baseline", advantage.baseline, BASELINES, (_REWARDS,), of_rewards),
        ("advantage.scale", advantage.scale, SCALES, (_REWARDS, advantage.ddof, advantage.eps), of_rewards),
        ("loss_norm.kind", loss_norm.kind, LOSS_NORMS, (_MASK, torch.tensor([0, 0]), 8.0), of_mask),
    ]
    for key, path, known, arguments, (shape, wanted) in trials:
        if ":" in path and path not in known:
            function = imported(path, key)
            _try(key, path, function, arguments, shape, wanted)
            known[path] = function


def _try(
    key: str, path: str, function: Callable[..., Any], arguments: tuple[Any, ...], shape: torch.Size, wanted: str
) -> None:
    try:
        made = function(*(value.clone() if isinstance(value, Tensor) else value for value in arguments))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise InputError(
            f"{key}: {path} raised {type(error).__name__}: {error}\n({place.filename}, line {place.lineno})"
        ) from error
    if not isinstance(made, Tensor):
        raise InputError(f"{key}: {path} must return a tensor, not {type(made).__name__}.")
    try:
        fits = torch.broadcast_shapes(made.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise InputError(f"{key}: {path} returned a tensor of shape {tuple(made.shape)}; it must be {wanted}.")
    if not torch.isfinite(made).all():
        raise InputError(f"{key}: {path} returned a tensor that is not finite for rewards or masks that are.")
