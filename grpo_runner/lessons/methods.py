"""`explain methods`: every method as a coefficient of ∇log π, where its answers come from, and what runs it here."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text


class Method(NamedTuple):
    """samples: whose answers; coefficient: of a token's ∇log π; command: the overrides that run it here."""

    name: str
    samples: str
    reward: str
    coefficient: str
    source: str
    command: str


_A1 = "DeepSeekMath A.1"
# coefficients stand before the loss norm: DeepSeekMath's 1/|o| unless a row says otherwise
METHODS = (
    Method("SFT", "people's, fixed", "none (chosen by people)", "1", f"{_A1} eq. 6, 7", "method=sft"),
    Method("RFT", "the first policy's, fixed", "rule", "1 if right, else 0", f"{_A1} eq. 8-10", "method=rft"),
    Method("Online RFT", "the policy's", "rule", "1 if right, else 0", f"{_A1} eq. 10, 11", "method=online_rft"),
    Method(
        "DPO", "pairs of the first policy's, fixed (method=online_dpo: the policy's)", "rule",
        "±β σ(β·[log-ratio to π_ref of o- minus that of o+]), + on o+, - on o-; over whole answers (eq. 14 as printed: "
        "a token, and no leading β)",
        f"{_A1} eq. 12-14", "method=dpo",
    ),
    Method(
        "PPO", "the policy's", "model (here: rule), KL in it", "A_t by GAE, with a critic", f"{_A1} eq. 15-18",
        "method=ppo",
    ),
    Method(
        "GRPO, outcome", "G by the policy", "model (here: rule)", "(r_i - mean r)/std r + β(π_ref/π - 1)",
        f"{_A1} eq. 19-21; 4.1.2", "method=grpo",
    ),
    Method(
        "GRPO, process", "G by the policy", "model, each step",
        "Σ over steps that end at or after t of (r - mean R)/std R, + β(π_ref/π - 1)", f"{_A1} eq. 20; 4.1.3",
        "method=grpo_process",
    ),
    Method(
        "GRPO, iterative", "G by the policy", "model, trained on (here: rule)",
        "GRPO's, with π_ref renewed once a round", "DeepSeekMath Algorithm 1", "method=grpo_iterative",
    ),
    Method(
        "Dr. GRPO", "G by the policy", "rule", "r_i - mean r, over a constant instead of |o|",
        "arXiv 2503.20783 3.2, Listing 1", "method=dr_grpo",
    ),
    Method(
        "RLOO", "G by the policy", "any, less β log(π/π_ref)", "r_i - mean of the other r, over no |o|",
        "Kool et al. 2019; arXiv 2402.14740 eq. 3", "method=rloo",
    ),
    Method(
        "REINFORCE", "the policy's", "any", "r (method=reinforce_baseline: less the step's mean), over no |o|",
        "Sutton & Barto 13.3, 13.4", "method=reinforce",
    ),
    Method(
        "MaxRL", "G by the policy", "rule", "(r_i - mean r)/mean r, over the tokens of the batch",
        "arXiv 2602.02710 and its code", "method=maxrl",
    ),
    Method(
        "DAPO", "G by the policy, refilled till they differ", "rule, overlong penalty",
        "GRPO's without KL, clip 0.2 below and 0.28 above; over the tokens of the group, not of the answer",
        "arXiv 2503.14476 eq. 8-13", "method=dapo",
    ),
    Method(
        "GSPO", "G by the policy", "rule",
        "GRPO's without KL, times s = (π/π_old)^(1/|o|), clipped for the whole answer",
        "arXiv 2507.18071 eq. 5, 7", "method=gspo",
    ),
    Method(
        "CISPO", "G by the policy", "rule",
        "GRPO's without KL, times min(π/π_old, 1 + ε) as a constant; over the group's tokens",
        "arXiv 2506.13585 eq. 4, 5",
        "method=cispo",
    ),
)  # fmt: skip


def show(console: Console) -> None:
    """Print the table."""
    lead = "Every method's gradient is a mean over answers of Σ over tokens of coefficient · ∇log π(token)"
    console.print(Text(lead, style="bold"))
    note = (
        "The sum is over |o|, the answer's length, unless a row says otherwise; coefficients stand before the clip. "
        "To run one: python -m grpo_runner and its last line."
    )
    console.print(Text(note, style="dim"))
    console.print()
    made = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    made.add_column("method", no_wrap=True)
    made.add_column("answers\nreward", max_width=25)
    made.add_column("coefficient of ∇log π\nsource; what runs it here")
    for method in METHODS:
        last = Text.assemble(method.coefficient, "\n", (method.source, "dim"), "\n", (method.command, "cyan"))
        made.add_row(Text(method.name, style="bold"), f"{method.samples}\n{method.reward}", last)
    console.print(made)
