r"""What the embedded model does, and where the gain of reinforcement learning on it lies.

python scripts/measure_tiny_model.py RUN_FOLDER ...           a table over the runs' adapters, beside the base
python scripts/measure_tiny_model.py --card RUN_FOLDER ...    the same, written into the model's card as well
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
from rich.progress import track
from scipy import stats
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpo_runner.data import arithmetic
from grpo_runner.tracking import quiet_libraries
from grpo_runner.types import Question

EMBEDDED = Path(__file__).resolve().parent.parent / "grpo_runner" / "policy" / "embedded"
BOX = r"\boxed{"
MAX_NEW_TOKENS = 32  # the longest worked answer: three lines of nine, the box with two digits, and EOS
EVAL_SEED, EVAL_QUESTIONS, EVAL_SAMPLES = 0, 500, 64


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


SECTION = """## After reinforcement learning

`python -m grpo_runner -m experiment=quickstart seed={seeds}` at commit {commit}, then
`python scripts/measure_tiny_model.py --card` on its run folders: the same {questions} questions with {samples} samples
each. Means over the {count} seeds with 95 % Student-t intervals.

{table}

So the gain is elicitation. The model chooses the better of two ways that it had from the start; it hardly does either
way better, it stays under what the base reaches in 16 tries, and no question is new.

"""
LINES = {
    "sampled accuracy, base": lambda base, after, parts: base["sampled"],
    "sampled accuracy, after": lambda base, after, parts: after["sampled"],
    "greedy accuracy, base": lambda base, after, parts: base["greedy"],
    "greedy accuracy, after": lambda base, after, parts: after["greedy"],
    "gain in sampled accuracy": lambda base, after, parts: parts["gain"],
    "… by choosing the worked way more often": lambda base, after, parts: parts["choosing"],
    "… by doing either way better": lambda base, after, parts: parts["doing"],
    "… on questions that the base failed in all samples (new)": lambda base, after, parts: parts["new"],
    "share of the way to the base's pass@16 (sharpening)": lambda base, after, parts: parts["towards pass@16"],
    "worked answers, share of samples, base": lambda base, after, parts: base["worked share"],
    "worked answers, share of samples, after": lambda base, after, parts: after["worked share"],
    "worked answers that are right, base": lambda base, after, parts: base["worked accuracy"],
    "worked answers that are right, after": lambda base, after, parts: after["worked accuracy"],
    "mean tokens, after": lambda base, after, parts: after["mean tokens"],
}


def interval(values: Sequence[float]) -> str:
    """Mean, and the interval over runs where they differ."""
    mean = float(np.mean(values))
    if len(values) < 2 or np.ptp(values) == 0:
        return f"{mean:.3f}"
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=stats.sem(values))
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    from peft import PeftModel

    parser = argparse.ArgumentParser(description="Where the gain of runs on the embedded model lies.")
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs of the default job")
    parser.add_argument("--card", action="store_true", help="write the table into the model's card")
    options = parser.parse_args()
    quiet_libraries()
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED, local_files_only=True)
    questions = arithmetic.questions("eval", EVAL_SEED, EVAL_QUESTIONS)

    def model() -> Any:
        return AutoModelForCausalLM.from_pretrained(EMBEDDED, local_files_only=True).eval()

    base = measure(model(), tokenizer, questions, EVAL_SAMPLES)
    columns: list[list[float]] = []
    for run in track(options.runs, "measuring runs"):
        adapted = PeftModel.from_pretrained(model(), run / "adapter").merge_and_unload()
        after = measure(adapted, tokenizer, questions, EVAL_SAMPLES)
        columns.append([line(base, after, decompose(base, after)) for line in LINES.values()])
    rows = [f"| {name} | {interval(values)} |" for name, values in zip(LINES, zip(*columns, strict=True), strict=True)]
    table = "\n".join(["| | |", "|---|---|", *rows])
    print(table)
    if options.card:
        summaries = [json.loads((run / "summary.json").read_text()) for run in options.runs]
        section = SECTION.format(
            seeds=",".join(str(summary["seed"]) for summary in summaries),
            commit=summaries[0]["versions"]["commit"][:10],
            questions=EVAL_QUESTIONS,
            samples=EVAL_SAMPLES,
            count=len(summaries),
            table=table,
        )
        card = EMBEDDED / "README.md"
        before, _, rest = card.read_text().partition("## The same figures for programs")
        before = before.partition("## After reinforcement learning")[0]
        card.write_text(f"{before}{section}## The same figures for programs{rest}")


if __name__ == "__main__":
    main()
