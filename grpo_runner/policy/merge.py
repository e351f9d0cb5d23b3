"""`merge RUN_FOLDER OUTPUT_FOLDER`: fold a run's adapter into its base and write a full model folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

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
    # PEFT would fall back on adapter_model.bin, which is a pickle
    if not (run / "adapter" / "adapter_model.safetensors").is_file():
        raise InputError(f"merge: {run}: adapter/ has no adapter_model.safetensors; no other weights are read.")
    if target.exists() and any(target.iterdir()):
        raise InputError(f"merge: {target} is not empty; give a new folder.")
    config = replace(load(run / "config.yaml").model, quantize="none")
    base = load_model(config, torch.device("cpu"), torch.float32)
    policy = PeftModel.from_pretrained(base, str(run / "adapter"))
    _untie(policy.get_base_model())
    merged = policy.merge_and_unload()
    with disk_errors(target):
        merged.save_pretrained(str(target))
        load_tokenizer(config).save_pretrained(str(target))
    return target


def _untie(model: Any) -> None:
    """Give the head a weight of its own where it is the embedding's and an adapter is on one of the two.

    Folded into the shared weight, the adapter would act in both places: another policy than the one that was trained.
    """
    layers = [model.get_output_embeddings(), model.get_input_embeddings()]
    head, embedding = (getattr(layer, "base_layer", layer) for layer in layers)
    if head.weight is embedding.weight and [head, embedding] != layers:
        head.weight = nn.Parameter(head.weight.detach().clone())
        model.config.tie_word_embeddings = False
