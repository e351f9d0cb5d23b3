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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from measure_tiny_model import BOX, EMBEDDED, EVAL_QUESTIONS, EVAL_SAMPLES, EVAL_SEED, MAX_NEW_TOKENS, measure
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from grpo_runner import rng
from grpo_runner.data import arithmetic

SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"]
SYMBOLS = [*"0123456789+-=?\n ", BOX, "}"]
BATCH = 128
# (steps, peak learning rate, share of worked answers): learn to calculate, then get used to answering at once
PHASES = ((800, 0.02, 1.0), (420, 0.02, 0.25))
WARM_UP = 20  # steps, in each phase


def build_tokenizer(symbols: Sequence[str] = SYMBOLS) -> PreTrainedTokenizerFast:
    r"""One token per character, but `\boxed{` is one token; `add_special_tokens` puts one BOS in front and no EOS."""
    vocab = {token: i for i, token in enumerate([*SPECIALS, *symbols])}
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
    return (
        (Path(__file__).parent / "tiny_model_card.md")
        .read_text()
        .format(
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
            after="",  # measure_tiny_model.py writes it, from runs on this model
        )
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
