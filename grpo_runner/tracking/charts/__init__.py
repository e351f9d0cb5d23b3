"""Pictures of how a run went and what questions weigh, and the page that holds them. Matplotlib is imported late."""

from .drawing import png
from .page import Drawn, draw, page
from .progress import progress
from .weights import advantage_weight_theory, weight_scatter

__all__ = ["Drawn", "advantage_weight_theory", "draw", "page", "png", "progress", "weight_scatter"]
