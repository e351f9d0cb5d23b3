r"""Builds the embedded tiny model (grpo_runner/policy/embedded): a small Llama that answers made-up arithmetic questions.

    python scripts/build_tiny_model.py [--output DIR] [--seed 0]    train, save, measure, write the card
    python scripts/build_tiny_model.py --card [--output DIR]        measure a folder again and rewrite its card

It is trained on right answers only, to questions of the train split: first on worked answers, then on a mix in which
most answers are written at once. It can do one operation well and a chain in its head badly, so what it gets wrong is
its own error, and what reinforcement learning can find is that showing the work pays.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from grpo_runner import rng
from grpo_runner.data import arithmetic
from grpo_runner.types import Question

EMBEDDED = Path(__file__).resolve().parent.parent / "grpo_runner" / "policy" / "embedded"
SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"]
SYMBOLS = [*"0123456789+-=?\n ", r"\boxed{", "}"]
MAX_NEW_TOKENS = 32  # the longest worked answer: three lines of nine, the box with two digits, and EOS
BATCH = 128
# (steps, peak learning rate, share of worked answers)
PHASES = [(800, 0.02, 1.0), (400, 0.01, 0.25)]
WARM_UP = 50


def build_tokenizer() -> PreTrainedTokenizerFast:
    r"""One token per character, but `\boxed{` is one token; `add_special_tokens` puts one BOS in front and no EOS."""
    vocab = {token: i for i, token in enumerate(SPECIALS + SYMBOLS)}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"\\boxed\{|[\s\S]"), behavior="isolated")
    inner.decoder = decoders.Fuse()
    inner.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", vocab["<bos>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """The untrained model; the weights are a function of the seed."""
    torch.manual_seed(rng.key(seed, "tiny model", "weights") % 2**63)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config)


def batch(tokenizer: PreTrainedTokenizerFast, seed: int, step: int, worked: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels (-100 on the question and on padding) of one step, as functions of (seed, step)."""
    found = arithmetic.questions("train", rng.key(seed, "tiny model", "questions", step), BATCH)
    show = rng.generator(seed, "tiny model", "worked", step).random(BATCH) < worked
    rows = []
    for question, long in zip(found, show, strict=True):
        answer = (arithmetic.worked_solution if long else arithmetic.direct_solution)(question.text)
        ask = tokenizer(question.text).input_ids
        rows.append((ask, [*tokenizer(answer, add_special_tokens=False).input_ids, tokenizer.eos_token_id]))
    width = max(len(ask) + len(answer) for ask, answer in rows)
    ids = torch.full((BATCH, width), tokenizer.pad_token_id)
    labels = torch.full((BATCH, width), -100)
    for i, (ask, answer) in enumerate(rows):
        ids[i, : len(ask) + len(answer)] = torch.tensor(ask + answer)
        labels[i, len(ask) : len(ask) + len(answer)] = torch.tensor(answer)
    return ids, labels


def optimizers(model: LlamaForCausalLM, peak: float) -> list[tuple[torch.optim.Optimizer, float]]:
    """Muon for the matrices inside the layers and AdamW for the rest, each with its peak learning rate."""
    inner = [p for name, p in model.named_parameters() if ".layers." in name and p.ndim == 2]
    outer = [p for name, p in model.named_parameters() if not (".layers." in name and p.ndim == 2)]
    muon = torch.optim.Muon(inner, lr=peak, weight_decay=0.01, momentum=0.95)
    adam = torch.optim.AdamW(outer, lr=peak / 5, betas=(0.9, 0.98), weight_decay=0.01)
    return [(muon, peak), (adam, peak / 5)]


def train(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int, phases: Sequence[tuple]) -> None:
    """Both phases, in place; each has its own AdamW with a linear warm-up and a cosine down to zero."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]}"))
    step = 0
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn()) as progress:
        for phase, (steps, peak, worked) in enumerate(phases, start=1):
            bar = progress.add_task(f"phase {phase}", total=steps, loss="")
            pair = optimizers(model, peak)
            for at in range(steps):
                shape = min(1, (at + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * at / steps))
                for optimizer, rate in pair:
                    optimizer.param_groups[0]["lr"] = rate * shape
                ids, labels = batch(tokenizer, seed, step, worked)
                logits = model(input_ids=ids[:, :-1]).logits
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
                model.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for optimizer, _ in pair:
                    optimizer.step()
                step += 1
                progress.update(bar, advance=1, loss=f"{loss.item():.3f}")


def answers(
    model: Any, tokenizer: Any, texts: Sequence[str], *, greedy: bool = False, seed: int = 0, at_once: int = 1024
) -> Iterator[tuple[str, int, bool]]:
    """(answer text, its length in tokens, whether it stopped) for each question text, sampled at temperature 1."""
    torch.manual_seed(seed)
    how = {"do_sample": False} if greedy else {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    for start in range(0, len(texts), at_once):
        asked = tokenizer(list(texts[start : start + at_once]), return_tensors="pt", padding=True, padding_side="left")
        with torch.no_grad():
            whole = model.generate(
                input_ids=asked.input_ids, attention_mask=asked.attention_mask, max_new_tokens=MAX_NEW_TOKENS, **how
            )
        for row in whole[:, asked.input_ids.shape[1] :].tolist():
            stopped = tokenizer.eos_token_id in row
            ids = row[: row.index(tokenizer.eos_token_id)] if stopped else row
            yield tokenizer.decode(ids), len(ids) + stopped, stopped


def boxed(text: str) -> str | None:
    r"""The number in the last `\boxed{}`, or None."""
    found = re.findall(r"\\boxed\{(\d+)\}", text)
    return found[-1] if found else None


def pass_at(k: int, right: np.ndarray, samples: int) -> float:
    """The unbiased pass@k, in the mean over questions of which `right` of `samples` answers were right."""
    return float(np.mean([1 - math.comb(samples - c, k) / math.comb(samples, k) for c in right.tolist()]))


def measure(model: Any, tokenizer: Any, questions: Sequence[Question], samples: int = 64, seed: int = 0) -> dict[str, Any]:
    """What a model does on questions: accuracies, lengths, ways of answering; plain numbers and lists, JSON-ready.

    An answer is `direct` if it begins with the box and `worked` otherwise. `right` and `worked` count per question.
    """
    texts = [q.text for q in questions]
    rows = list(answers(model, tokenizer, [t for t in texts for _ in range(samples)], seed=seed))
    shape = (len(questions), samples)
    golds = np.repeat([q.gold for q in questions], samples)
    ok = np.array([boxed(row[0]) == gold for row, gold in zip(rows, golds, strict=True)]).reshape(shape)
    direct = np.array([row[0].startswith(r"\boxed{") for row in rows]).reshape(shape)
    tokens = np.array([row[1] for row in rows]).reshape(shape)
    operations = np.array([len(re.findall(r"[+-]", t)) for t in texts])
    best = list(answers(model, tokenizer, texts, greedy=True))
    right = ok.sum(axis=1)

    def mean(values: np.ndarray) -> float | None:
        return round(float(values.mean()), 4) if values.size else None

    group = min(8, samples)
    mixed = pass_at(group, right, samples) + pass_at(group, samples - right, samples) - 1
    return {
        "questions": len(questions),
        "samples": samples,
        "sampled": mean(ok),
        "pass@16": round(pass_at(min(16, samples), right, samples), 4),
        "greedy": mean(np.array([boxed(b[0]) == q.gold for b, q in zip(best, questions, strict=True)])),
        "greedy worked share": mean(np.array([not b[0].startswith(r"\boxed{") for b in best])),
        "worked share": mean(~direct),
        "worked accuracy": mean(ok[~direct]),
        "direct accuracy": mean(ok[direct]),
        "by operations": {
            int(n): {
                "questions": int((operations == n).sum()),
                "sampled": mean(ok[operations == n]),
                "worked accuracy": mean(ok[operations == n][~direct[operations == n]]),
                "direct accuracy": mean(ok[operations == n][direct[operations == n]]),
            }
            for n in sorted(set(operations.tolist()))
        },
        "mean tokens": mean(tokens),
        "mean tokens worked": mean(tokens[~direct]),
        "mean tokens direct": mean(tokens[direct]),
        "longest": int(tokens.max()),
        "stopped": mean(np.array([row[2] for row in rows])),
        "greedy stopped": mean(np.array([b[2] for b in best])),
        "mixed groups of 8": round(mixed, 4),
        "never right": mean(right == 0),
        "right": right.tolist(),
        "worked": (~direct).sum(axis=1).tolist(),
    }
