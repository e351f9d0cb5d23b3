"""Silences the progress bars, banners and warnings of other libraries, without importing them."""

from __future__ import annotations

import logging
import os
import sys
import warnings

# read by the libraries when they are imported; a value that the user has set stays
_SETTINGS = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "error",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "DATASETS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",  # else each fork for grading warns
    "WANDB_SILENT": "true",
}
_LIBRARIES = [
    "accelerate",
    "datasets",
    "filelock",
    "fsspec",
    "huggingface_hub",
    "httpx",
    "matplotlib",
    "peft",
    "torch",
    "transformers",
    "urllib3",
    "wandb",
]


def quiet_libraries() -> None:
    """Call it before the heavy imports; called later, it also reaches the libraries that are already there."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module=rf"{library}(\.|$)", append=True)
    for name, function in (
        ("transformers.utils.logging", "disable_progress_bar"),
        ("datasets.utils.logging", "disable_progress_bar"),
        ("huggingface_hub.utils", "disable_progress_bars"),
    ):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, function):
            getattr(module, function)()
