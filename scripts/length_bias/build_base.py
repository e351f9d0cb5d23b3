r"""Builds the base of the length-bias miniature and its questions: build/length_bias/{base,train.jsonl,eval.jsonl}.

    python scripts/length_bias/build_base.py [--output DIR] [--seed 0]       about a minute on one core
    python scripts/length_bias/build_base.py --blind                         the control: build/length_bias/blind

The embedded model's shape and tokenizer (with a % more), from random weights, on answers as remainders.py makes them:
the guess is drawn whatever is right; the work is right; the tail says whether the guess was, and ends with the same
chance after each sign, for right and for wrong ones. The same seed gives the same weights on the same machine.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from build_tiny_model import SYMBOLS, build_model, build_tokenizer, optimizers, save
from remainders import base_answer, draw, sets, write
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from grpo_runner import rng

FOLDER = Path("build/length_bias")
BATCH, STEPS, PEAK, WARM_UP = 128, 300, 0.02, 20
TRAIN, EVALUATION = 4000, 256


def batch(tokenizer: PreTrainedTokenizerFast, seed: int, step: int, blind: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels (-100 on the question and on padding) of one step, as functions of (seed, step)."""
    generator = rng.generator(seed, "length bias", "base", step)
    rows = []
    for text in draw(generator, BATCH):
        ask, reply = (
            tokenizer(text)["input_ids"],
            tokenizer(base_answer(generator, text, blind), add_special_tokens=False),
        )
        rows.append((ask, [*reply["input_ids"], tokenizer.eos_token_id]))
    width = max(len(ask) + len(reply) for ask, reply in rows)
    ids = torch.full((BATCH, width), tokenizer.pad_token_id)
    labels = torch.full((BATCH, width), -100)
    for i, (ask, reply) in enumerate(rows):
        ids[i, : len(ask) + len(reply)] = torch.tensor(ask + reply)
        labels[i, len(ask) : len(ask) + len(reply)] = torch.tensor(reply)
    return ids, labels


def train(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int, steps: int, blind: bool) -> None:
    """Train in place: a linear warm-up, then a cosine down to zero."""
    pair = optimizers(model, PEAK)
    for step in range(steps):
        shape = min(1, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps))
        for optimizer, rate in pair:
            optimizer.param_groups[0]["lr"] = rate * shape
        ids, labels = batch(tokenizer, seed, step, blind)
        logits = model(input_ids=ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, _ in pair:
            optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1} of {steps}: loss {loss.item():.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the base of the length-bias miniature, and its questions.")
    parser.add_argument("--output", type=Path, default=FOLDER, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the training data (default 0)")
    parser.add_argument("--blind", action="store_true", help="the tail does not tell; the base goes to DIR/blind")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of training (default {STEPS})")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = build_tokenizer([*SYMBOLS, "%"])
    model = build_model(tokenizer, options.seed)
    train(model, tokenizer, options.seed, options.steps, options.blind)
    save(model, tokenizer, options.output / ("blind" if options.blind else "base"))
    for texts, name in zip(sets(TRAIN, EVALUATION), ("train", "eval"), strict=True):
        write(texts, options.output / f"{name}.jsonl")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
