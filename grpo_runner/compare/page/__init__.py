"""The page: a comparison, or one run, as one HTML file that needs no network."""

from .html import render, save_figures, write
from .single import REPORT, write_run

__all__ = ["REPORT", "render", "save_figures", "write", "write_run"]
