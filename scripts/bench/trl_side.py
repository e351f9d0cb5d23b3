"""TRL's side of compare.py, run by the Python of TRL's environment: trl_side.py SETTINGS.json RESULT.json

GRPOTrainer as one would set it for speed on a CPU: no gradient checkpointing, no saving, no logging, the whole batch in
one micro-batch where it fits, no reference (beta 0), one update a rollout. Prompts are plain texts.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
os.environ |= {"CUDA_VISIBLE_DEVICES": ""}

import peft
import torch
import transformers
import trl
from datasets import Dataset
from noted_reward import checksum_trl


class Observed(trl.GRPOTrainer):
    """GRPOTrainer that notes the prompts' lengths and the seconds of sampling; it changes nothing."""

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        made = super()._generate_single_turn(prompt_ids, *args, **kwargs)
        self.prompt_tokens = sum(len(ids) for ids in prompt_ids)
        self.rollout_s = [*getattr(self, "rollout_s", []), time.monotonic() - began]
        return made


def arguments(settings: dict[str, Any], folder: str) -> Any:
    """The GRPOConfig."""
    rows = settings["questions"] * settings["group_size"]
    micro = settings["trl_rows"] or rows
    return trl.GRPOConfig(
        folder,
        use_cpu=True,
        max_steps=settings["steps"],
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=rows // micro,
        num_generations=settings["group_size"],
        max_completion_length=settings["new_tokens"],
        num_iterations=1,
        beta=0.0,
        loss_type="grpo",
        temperature=1.0,
        learning_rate=settings["lr"],
        lr_scheduler_type="constant",
        bf16=settings["dtype"] == "bfloat16",
        gradient_checkpointing=False,
        shuffle_dataset=False,
        model_init_kwargs={"dtype": settings["dtype"]},
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=settings["seed"],
    )


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    settings = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(settings["threads"])
    texts = [json.loads(line)["question"] for line in Path(settings["data"]).read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Observed(
            settings["model"],
            reward_funcs=checksum_trl,
            args=arguments(settings, folder),
            train_dataset=Dataset.from_dict({"prompt": texts}),
            processing_class=transformers.AutoTokenizer.from_pretrained(settings["model"], padding_side="left"),
            peft_config=peft.LoraConfig(
                r=settings["rank"], lora_alpha=settings["alpha"], target_modules="all-linear", task_type="CAUSAL_LM"
            ),
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    trained = [p for p in trainer.model.parameters() if p.requires_grad]
    result = {
        "trainable": sum(p.numel() for p in trained),
        "trainable_dtype": str(trained[0].dtype).removeprefix("torch."),
        "updates": trainer.state.global_step,
        # a prompt stands once for each of its answers
        "prompt_tokens": trainer.prompt_tokens // settings["group_size"],
        "rollout_s": trainer.rollout_s,
        "threads": torch.get_num_threads(),
        "versions": {module.__name__: module.__version__ for module in (trl, torch, transformers, peft)},
    }
    Path(sys.argv[2]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
