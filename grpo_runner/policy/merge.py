"""`merge RUN_FOLDER OUTPUT_FOLDER`: fold a run's adapter into its base and write a full model folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from ..errors import InputError, no_run
from ..files import disk_errors
from ..validate import load
from .models import load_model, load_tokenizer


def merge(run_dir: str, output: str) -> Path:
    """Write a model folder that transformers loads without PEFT, in float32, and give its path.

    Raises InputError where the run has no adapter or the output folder already holds something.
    """
    from peft import PeftModel

    run, target = Path(run_dir), Path(output)
    if not (run / "config.yaml").is_file():
        raise InputError(f"merge: {run}: {no_run(run)}")
    if not (run / "adapter" / "adapter_config.json").is_file():
        raise InputError(
            f"merge: {run} has no adapter/ yet. It is written when a run ends; with lora=off see its model/."
        )
    if target.exists() and any(target.iterdir()):
        raise InputError(f"merge: {target} is not empty; give a new folder.")
    config = replace(load(run / "config.yaml").model, quantize="none")
    base = load_model(config, torch.device("cpu"), torch.float32)
    merged = PeftModel.from_pretrained(base, str(run / "adapter")).merge_and_unload()
    with disk_errors(target):
        merged.save_pretrained(str(target))
        load_tokenizer(config).save_pretrained(str(target))
    return target
