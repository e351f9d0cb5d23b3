"""`explain` without words: six small tables, one screen, every figure from `figures`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..objectives import PRESETS
from . import figures
from .show import compact, fixed, section, signed, table

GROUPS = ((1, 0, 0, 1), (1, 0, 0, 0), (1, 1, 1, 0))
BETA, REF_RATIOS = 0.04, (0.5, 1.0, 2.0)
SIGNED_LENGTHS, BUDGET = ((1.0, 100), (1.0, 400), (-1.0, 100), (-1.0, 400)), 1000.0
RIGHT_OF_100 = (50, 10, 1)
CLIP, DUAL = 0.2, 3.0
CLIP_CASES = ((1.0, 1.5), (-1.0, 1.5), (1.0, 0.5), (-1.0, 0.5), (-1.0, 10.0))
CHANCE, SIZES = 0.3, (2, 4, 8)


def show(console: Console) -> None:
    """Print the screen."""
    lead = "Every method is a weight per token times the gradient of that token's log-probability."
    console.print(Text(lead, style="bold"))
    console.print(Text("Each figure is computed now by grpo_runner.algorithm, which trains.", style="dim"))
    section(
        console,
        "Advantage: an answer's reward against its group",
        "DeepSeekMath 4.1.2 (ddof 0), Dr. GRPO 3.2, Kool 2019",
        _advantages(),
    )
    section(
        console,
        f"KL: beta {BETA:g} adds beta (π_ref/π - 1) to a token of advantage +1",
        "DeepSeekMath eq. 4, 20",
        _kl(),
    )
    section(
        console,
        "Length: under 1/|o| a long answer is pushed less a token, a long wrong one too",
        "DeepSeekMath eq. 3, Dr. GRPO 3.1",
        _lengths(),
    )
    section(
        console,
        "Question weight: the std multiplies it by 1/√(p(1-p)), p the success rate",
        "Dr. GRPO 3.1",
        _questions(),
    )
    section(
        console,
        f"Clip {CLIP:g}: a token that went far enough has no gradient left",
        "PPO eq. 7, DeepSeekMath eq. 3",
        _clip(),
    )
    section(
        console,
        f"Expected over true gradient: its own reward in the baseline costs (G-1)/G (p = {CHANCE:g})",
        "Dr. GRPO app. A",
        _baselines(),
    )
    console.print()
    console.print(Text("your own group: explain --rewards 1,0,0,0,0 --lengths 120,80,300,64,90", style="dim"))
    console.print(
        Text(
            "a step of a run: explain RUN_FOLDER --step N    all methods: explain methods, explain family", style="dim"
        )
    )
    console.print(Text("why wrong answers grow under 1/|o|: explain length", style="dim"))


def _advantages() -> Table:
    methods = [PRESETS[name] for name in ("grpo", "dr_grpo", "rloo")]
    names = ["GRPO", "Dr. GRPO", "leave-one-out"]
    made = table(
        "\nrewards", *(f"{name if which == 'right' else ''}\n{which}" for name in names for which in ("right", "wrong"))
    )
    for rewards in GROUPS:
        cells = []
        for method in methods:
            found = figures.group_advantages(rewards, method.baseline, method.scale)
            cells += [signed(float(found[rewards.index(1)])), signed(float(found[rewards.index(0)]))]
        made.add_row(",".join(map(str, rewards)), *cells)
    return made


def _kl() -> Table:
    made = table("π_ref/π", "k3", "KL part", "coefficient of ∇log π")
    for ratio, penalty, part, whole in figures.kl_table(BETA, 1.0, REF_RATIOS):
        made.add_row(f"{ratio:g}", fixed(penalty), signed(part, 2), fixed(whole, 2))
    return made


def _lengths() -> Table:
    own = figures.length_table(SIGNED_LENGTHS, "sequence_mean", BUDGET)
    constant = figures.length_table(SIGNED_LENGTHS, "constant", BUDGET)
    made = table("answer", "1/|o|: a token", "the answer", f"1/{BUDGET:g}: a token", "the answer")
    for (advantage, length), one, other in zip(SIGNED_LENGTHS, own, constant, strict=True):
        name = f"{'right' if advantage > 0 else 'wrong'}, {length} tokens"
        made.add_row(name, *(compact(value) for value in (*one, *other)))
    return made


def _questions() -> Table:
    made = table("p", "mean |A|: GRPO", "Dr. GRPO", "GRPO over Dr. GRPO")
    for right in RIGHT_OF_100:
        scaled, plain, factor = figures.question_factor(right, 100)
        made.add_row(f"{right / 100:g}", fixed(scaled), fixed(plain), fixed(factor))
    return made


def _clip() -> Table:
    made = table("advantage", "π/π_old", "surrogate", "coefficient", f"dual {DUAL:g}: surrogate", "coefficient")
    plain = figures.clip_table(CLIP_CASES, CLIP, CLIP)
    dual = figures.clip_table(CLIP_CASES, CLIP, CLIP, DUAL)
    for (advantage, ratio), one, other in zip(CLIP_CASES, plain, dual, strict=True):
        made.add_row(f"{advantage:+g}", f"{ratio:g}", *(compact(value) for value in (*one, *other)))
    return made


def _baselines() -> Table:
    made = table("G", "group mean", "leave-one-out", "group mean, over the std")
    for size in SIZES:
        ratios = [
            figures.expected_over_true(CHANCE, size, method.baseline, method.scale)
            for method in (PRESETS["dr_grpo"], PRESETS["rloo"], PRESETS["grpo"])
        ]
        made.add_row(str(size), *(fixed(ratio) for ratio in ratios))
    return made
