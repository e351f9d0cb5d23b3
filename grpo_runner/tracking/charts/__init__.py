"""Pictures of what questions weigh, and the page that holds them. Matplotlib is imported late."""

from .drawing import png
from .page import draw, page
from .weights import advantage_weight_theory, weight_scatter

__all__ = ["advantage_weight_theory", "draw", "page", "png", "weight_scatter"]
