"""The objective as pure functions of tensors: advantages, loss normalisers, KL, clipped surrogate, weights.

Axis suffixes: Q questions, G group size, N = Q·G rows (or the rows of one optimizer batch), T tokens.
"""

from .advantages import BASELINES, SCALES, advantages, std, zero_variance
from .gae import explained_variance, gae, token_rewards, value_loss
from .importance import IMPORTANCE, importance_weights
from .kept import kept
from .kl import ESTIMATORS, kl_slope, reward_penalty
from .loss_norm import LOSS_NORMS, loss_norm
from .own import plug_in
from .pairs import answer_log_ratios, partners, preference_coefficients, preference_margins
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
    "answer_log_ratios",
    "clipped_surrogate",
    "concentration",
    "explained_variance",
    "gae",
    "importance_weights",
    "kept",
    "kl_slope",
    "loss_norm",
    "partners",
    "plug_in",
    "preference_coefficients",
    "preference_margins",
    "process_advantages",
    "question_rows",
    "reward_penalty",
    "sequence_ratio",
    "std",
    "stop_push",
    "token_ratio",
    "token_rewards",
    "token_weights",
    "value_loss",
    "weigh",
    "zero_variance",
]
