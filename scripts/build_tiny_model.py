r"""Builds the embedded tiny model (grpo_runner/policy/embedded): a small Llama that answers arithmetic questions.

    python scripts/build_tiny_model.py [--output DIR] [--seed 0]    train, save, measure, write the card
    python scripts/build_tiny_model.py --card [--output DIR]        measure a folder again and rewrite its card

It is trained on right answers only, to questions of the train split: first on worked answers, then on a mix in which
most answers are written at once. It can do one operation well and a chain in its head badly, so what it gets wrong is
its own error, and what reinforcement learning can find is that showing the work pays.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Sequence
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
BOX = r"\boxed{"
SYMBOLS = [*"0123456789+-=?\n ", BOX, "}"]
MAX_NEW_TOKENS = 32  # the longest worked answer: three lines of nine, the box with two digits, and EOS
BATCH = 128
# (steps, peak learning rate, share of worked answers): learn to calculate, then get used to answering at once
PHASES = ((800, 0.02, 1.0), (420, 0.02, 0.25))
WARM_UP = 20  # steps, in each phase


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
        written = (arithmetic.worked_solution if long else arithmetic.direct_solution)(question.text)
        ask = tokenizer(question.text)["input_ids"]
        rows.append((ask, [*tokenizer(written, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]))
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


def train(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int, phases: Sequence[tuple[int, float, float]]
) -> None:
    """Train in place; each phase has fresh optimizers, a linear warm-up and a cosine down to zero."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
    )
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
) -> list[tuple[str, int, bool]]:
    """(answer text, its length in tokens, whether it stopped) for each question text; sampled at temperature 1."""
    how = {"do_sample": False} if greedy else {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    found = []
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        for start in range(0, len(texts), at_once):
            asked = tokenizer(
                list(texts[start : start + at_once]), return_tensors="pt", padding=True, padding_side="left"
            )
            asked = asked.to(model.device)
            whole = model.generate(
                input_ids=asked.input_ids, attention_mask=asked.attention_mask, max_new_tokens=MAX_NEW_TOKENS, **how
            )
            for row in whole[:, asked.input_ids.shape[1] :].tolist():
                stopped = tokenizer.eos_token_id in row
                ids = row[: row.index(tokenizer.eos_token_id)] if stopped else row
                found.append((tokenizer.decode(ids), len(ids) + stopped, stopped))
    return found


def boxed(text: str) -> str | None:
    r"""The number in the last `\boxed{}`, or None."""
    found = re.findall(r"\\boxed\{(\d+)\}", text)
    return found[-1] if found else None


def pass_at(k: int, right: np.ndarray, samples: int) -> float:
    """The unbiased pass@k, in the mean over questions of which `right` of `samples` answers were right."""
    return float(np.mean([1 - math.comb(samples - c, k) / math.comb(samples, k) for c in right.tolist()]))


def measure(
    model: Any, tokenizer: Any, questions: Sequence[Question], samples: int = 64, seed: int = 0
) -> dict[str, Any]:
    """What a model does on questions: accuracies, lengths, ways of answering; plain numbers and lists, JSON-ready.

    An answer is `direct` if it begins with the box and `worked` otherwise. `right` counts right samples per question.
    """
    texts = [q.text for q in questions]
    rows = answers(model, tokenizer, [t for t in texts for _ in range(samples)], seed=seed)
    shape = (len(questions), samples)
    golds = np.repeat([q.gold for q in questions], samples)
    ok = np.array([boxed(row[0]) == gold for row, gold in zip(rows, golds, strict=True)]).reshape(shape)
    direct = np.array([row[0].startswith(BOX) for row in rows]).reshape(shape)
    tokens = np.array([row[1] for row in rows]).reshape(shape)
    operations = np.array([len(re.findall(r"[+-]", t)) for t in texts])
    best = answers(model, tokenizer, texts, greedy=True)
    right = ok.sum(axis=1)

    def mean(values: np.ndarray) -> float | None:
        return round(float(values.mean()), 4) if values.size else None

    few = min(8, samples)
    mixed = pass_at(few, right, samples) + pass_at(few, samples - right, samples) - 1
    return {
        "questions": len(questions),
        "samples": samples,
        "sampled": mean(ok),
        "pass@16": round(pass_at(min(16, samples), right, samples), 4),
        "greedy": mean(np.array([boxed(b[0]) == q.gold for b, q in zip(best, questions, strict=True)])),
        "greedy worked share": mean(np.array([not b[0].startswith(BOX) for b in best])),
        "worked share": mean(~direct),
        "worked accuracy": mean(ok[~direct]),
        "direct accuracy": mean(ok[direct]),
        "by operations": {
            str(n): {
                "questions": int((operations == n).sum()),
                "sampled": mean(ok[operations == n]),
                "worked accuracy": mean(ok[(operations == n)[:, None] & ~direct]),
                "direct accuracy": mean(ok[(operations == n)[:, None] & direct]),
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
    }


def decompose(before: dict[str, Any], after: dict[str, Any]) -> dict[str, float]:
    """Where a gain in sampled accuracy comes from; both sides measured on the same questions.

    `choosing` + `doing` = `gain`: choosing is what the new share of worked answers would give at the old accuracies,
    doing is the rest. `towards pass@16` is the share of the way from the old accuracy to the old pass@16. `new` is the
    part of the gain that lies on questions that were never right before.
    """
    gain = after["sampled"] - before["sampled"]
    edge = (before["worked accuracy"] or 0.0) - (before["direct accuracy"] or 0.0)
    choosing = (after["worked share"] - before["worked share"]) * edge
    fresh = np.array(before["right"]) == 0
    room = before["pass@16"] - before["sampled"]
    return {
        "gain": gain,
        "choosing": choosing,
        "doing": gain - choosing,
        "towards pass@16": gain / room if room else 0.0,
        "new": float((np.array(after["right"]) / after["samples"] * fresh).mean()),
    }


CARD = r"""---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---
# The embedded tiny model

A Llama with {parameters:,} parameters for trying out reinforcement learning on one CPU core in a minute. It answers
made-up arithmetic questions such as `29+22+6-20=?` and is of no other use. It has no chat template: the prompt is BOS
and the question; the answer follows at once and ends with EOS. It knows two ways to answer, both from training:

- worked: `29+22=51`, `51+6=57`, `57-20=37`, each on a line of its own, then `\boxed{{37}}`;
- direct: `\boxed{{37}}`.

## How it was built

`python scripts/build_tiny_model.py --seed {seed}`, from random weights and on nothing but questions of the train split
of `grpo_runner/data/arithmetic.py`, {batch} fresh ones a step. A hash of the text decides on the split, so no question
that is measured below was trained on. Every training answer is right. Phase 1 ({steps1} steps) has worked answers
only; in phase 2 ({steps2} steps) {direct} of the answers, drawn by chance, are direct. The model learns to do one
operation on paper well and a chain in its head badly; the errors are its own. Muon (peak rates {rate1} and {rate2},
warm-up and cosine) for the matrices in the layers, AdamW for the rest. The same seed gives the same weights on the
same machine with the same versions; elsewhere rounding differs.

Hidden size {hidden}, {layers} layers, {heads} heads, feed-forward {inner}. {vocab} tokens: one per character,
`\boxed{{` as one, `<pad>`, `<bos>`, `<eos>` and `<unk>`. Encoding puts one BOS in front and no EOS. An answer needs up
to {most} new tokens, EOS included.

## What it does before any reinforcement learning

{questions} questions of the eval split (seed {eval_seed}), {samples} samples each at temperature 1 without top-k or
top-p, at most {most} new tokens.

| | |
|---|---|
{table}

| operations | questions | sampled | worked answers right | direct answers right |
|---|---|---|---|---|
{kinds}

The room for improvement is in the choice of the way: worked answers are mostly right and seldom given. A run that
raises the accuracy of this model has found the better of two ways that it knew; it has not learned new arithmetic, and
it says nothing about what the same settings do to a real model.

## The same figures for programs

```json
{figures}
```
"""
ROWS = {
    "sampled accuracy (pass@1)": "sampled",
    "pass@16": "pass@16",
    "greedy accuracy": "greedy",
    "worked answers, share of samples": "worked share",
    "worked answers, share of greedy answers": "greedy worked share",
    "worked answers that are right": "worked accuracy",
    "direct answers that are right": "direct accuracy",
    "mean tokens": "mean tokens",
    "mean tokens of worked answers": "mean tokens worked",
    "mean tokens of direct answers": "mean tokens direct",
    "most tokens": "longest",
    "samples that stop by themselves": "stopped",
    "greedy answers that stop by themselves": "greedy stopped",
    "groups of 8 with right and wrong answers": "mixed groups of 8",
    "questions wrong in all samples": "never right",
}
KIND_COLUMNS = ("sampled", "worked accuracy", "direct accuracy")
EVAL_SEED, EVAL_QUESTIONS, EVAL_SAMPLES = 0, 500, 64


def shown(value: float | None) -> str:
    """A figure in a table; a dash where there was nothing to take the mean of."""
    return "-" if value is None else f"{value:.4g}"


def card(model: Any, tokenizer: Any, seed: int) -> str:
    """The model card, with figures that are measured now."""
    found = measure(model, tokenizer, arithmetic.questions("eval", EVAL_SEED, EVAL_QUESTIONS), EVAL_SAMPLES)
    figures = {name: value for name, value in found.items() if name != "right"} | {"seed": seed}
    (steps1, rate1, _), (steps2, rate2, worked) = PHASES
    kinds = [
        f"| {n} | {k['questions']} | " + " | ".join(shown(k[name]) for name in KIND_COLUMNS) + " |"
        for n, k in found["by operations"].items()
    ]
    return CARD.format(
        parameters=sum(p.numel() for p in model.parameters()),
        seed=seed,
        batch=BATCH,
        steps1=steps1,
        steps2=steps2,
        direct=f"{1 - worked:.0%}",
        rate1=rate1,
        rate2=rate2,
        hidden=model.config.hidden_size,
        layers=model.config.num_hidden_layers,
        heads=model.config.num_attention_heads,
        inner=model.config.intermediate_size,
        vocab=len(tokenizer),
        most=MAX_NEW_TOKENS,
        questions=EVAL_QUESTIONS,
        samples=EVAL_SAMPLES,
        eval_seed=EVAL_SEED,
        table="\n".join(f"| {label} | {shown(found[name])} |" for label, name in ROWS.items()),
        kinds="\n".join(kinds),
        figures=json.dumps(figures, indent=2),
    )


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """A Hugging Face folder that older and newer versions of transformers can read."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = folder / "tokenizer_config.json"
    known = json.loads(settings.read_text())
    settings.write_text(json.dumps(known | {"tokenizer_class": "PreTrainedTokenizerFast"}, indent=2) + "\n")
    (folder / "model.safetensors").chmod(0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the embedded tiny model, or measure it again.")
    parser.add_argument("--output", type=Path, default=EMBEDDED, metavar="DIR")
    parser.add_argument("--seed", type=int, help="of the weights and the training data (default 0, or the card's)")
    parser.add_argument("--card", action="store_true", help="do not train; measure the model in DIR and write its card")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seed, readme = options.seed, options.output / "README.md"
    if options.card and seed is None and readme.exists():
        seed = json.loads(readme.read_text().split("```json")[1].split("```")[0])["seed"]
    seed = seed or 0
    if not options.card:
        characters = build_tokenizer()
        fresh = build_model(characters, seed)
        train(fresh, characters, seed, PHASES)
        save(fresh, characters, options.output)
    model = AutoModelForCausalLM.from_pretrained(options.output, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(options.output, local_files_only=True)
    print(f"measuring {EVAL_QUESTIONS} questions, {EVAL_SAMPLES} samples each")
    readme.write_text(card(model, tokenizer, seed))
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
