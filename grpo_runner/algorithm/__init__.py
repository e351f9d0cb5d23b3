"""The objective as pure functions of tensors: advantages, loss normalisers, KL, clipped surrogate, weights.

Axis suffixes: Q questions, G group size, N = Q·G rows (or the rows of one optimizer batch), T tokens.
"""

from .advantages import BASELINES, SCALES, advantages, zero_variance
from .kl import ESTIMATORS
from .loss_norm import LOSS_NORMS, loss_norm
from .question_weights import question_rows
from .surrogate import SURROGATES, Range, clipped_surrogate, sequence_ratio, token_ratio
from .token_weights import token_weights

__all__ = [
    "BASELINES",
    "ESTIMATORS",
    "LOSS_NORMS",
    "SCALES",
    "SURROGATES",
    "Range",
    "advantages",
    "clipped_surrogate",
    "loss_norm",
    "question_rows",
    "sequence_ratio",
    "token_ratio",
    "token_weights",
    "zero_variance",
]
