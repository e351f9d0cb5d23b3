"""The objective as pure functions of tensors: advantages, loss normalisers, KL, clipped surrogate, weights.

Axis suffixes: Q questions, G group size, N = Q·G rows (or the rows of one optimizer batch), T tokens.
"""

from .advantages import BASELINES, SCALES, advantages, std, zero_variance
from .importance import IMPORTANCE, importance_weights
from .kept import kept
from .kl import ESTIMATORS, kl_slope, reward_penalty
from .loss_norm import LOSS_NORMS, loss_norm
from .own import plug_in
from .process import process_advantages
from .question_weights import concentration, question_rows
from .stop_model import STOP_NORMS, Push, StopModel, stop_push
from .surrogate import SURROGATES, Range, clipped_surrogate, sequence_ratio, token_ratio
from .token_weights import Weighed, token_weights, weigh

__all__ = [
    "BASELINES",
    "ESTIMATORS",
    "IMPORTANCE",
    "LOSS_NORMS",
    "SCALES",
    "STOP_NORMS",
    "SURROGATES",
    "Push",
    "Range",
    "StopModel",
    "Weighed",
    "advantages",
    "clipped_surrogate",
    "concentration",
    "importance_weights",
    "kept",
    "kl_slope",
    "loss_norm",
    "plug_in",
    "process_advantages",
    "question_rows",
    "reward_penalty",
    "sequence_ratio",
    "std",
    "stop_push",
    "token_ratio",
    "token_weights",
    "weigh",
    "zero_variance",
]
