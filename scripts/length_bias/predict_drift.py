r"""What the first steps of each arm should do to the base's two stopping rules, worked out before anything is trained.

    python scripts/length_bias/predict_drift.py [--answers 8192] [--steps 16] [--json FILE] [KEY=VALUE ...]

Two predictions, both from answers of the base alone:

1. the push: mean over answers of advantage · norm · Σ(1{stop} - s), for right and for wrong answers, with its
   standard error over groups, beside what the stop-only model gives for the measured p, s and body;
2. the drift: the arms' own optimizer fed with gradients of the base for so many steps (nothing is sampled again, so
   that what the policy becomes has no part in it), then the chance to stop on answers of the base. Each replicate has
   another adapter and other answers; standard errors are over replicates.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from base_policy import Decisions, Policy, decisions, gradients, right
from rich.console import Console
from rich.table import Table
from torch import Tensor

from grpo_runner.algorithm import weigh
from grpo_runner.algorithm.stop_model import StopModel, stop_push
from grpo_runner.config import compose
from grpo_runner.objectives import NAMED, Objective, budget_of, preset
from grpo_runner.policy.batch import Batch
from grpo_runner.schema import RunConfig
from grpo_runner.tracking import quiet_libraries

ARMS = ("grpo", "no_std", "no_length_norm", "dr_grpo")
STEP_ANSWERS = 64
SEED = 100  # an exploring seed: no confirming run shares its draws
FIXED = 10_000  # the `step` that keys the answers on which chances to stop are measured


def objective(name: str, config: RunConfig) -> Objective:
    """The arm's switches, with the run's ddof, eps and budget."""
    return preset(name, config.advantage.ddof, config.advantage.eps, budget_of(config))


def pushes(config: RunConfig, rewards_QG: Tensor, batch: Batch, score_N: Tensor) -> dict[str, dict[str, Any]]:
    """Mean push over answers and its standard error over groups, of right, wrong and all, for each arm."""
    size = rewards_QG.shape[1]
    found: dict[str, dict[str, Any]] = {}
    for name in ARMS:
        whole = torch.arange(rewards_QG.numel())
        made = weigh(rewards_QG, batch.mask_NT, [whole], objective(name, config))
        per_answer_QG = (made.advantages_QG.flatten() * made.norm_NT[:, 0] * len(whole) * score_N).view(-1, size)
        parts = {"right": per_answer_QG * rewards_QG, "wrong": per_answer_QG * (1 - rewards_QG), "all": per_answer_QG}
        found[name] = {
            part: (float(values.mean()), float(values.mean(dim=1).std() / len(values) ** 0.5))
            for part, values in parts.items()
        }
    return found


def drift(config: RunConfig, steps: int, replicate: int) -> list[dict[str, Any]]:
    """Chances to stop after each step of each arm, of one replicate; step 0 is the base."""
    policy = Policy.of(replace(config, seed=SEED + replicate))
    per_step = STEP_ANSWERS // config.group_size.value
    fixed = policy.sample(16, FIXED)
    fixed_batch, fixed_right_N = Batch.of(fixed), right(fixed).flatten() > 0
    parameters = list(policy.trainer.named.values())
    start = [parameter.detach().clone() for parameter in parameters]
    by_arm: dict[str, list[list[Tensor]]] = {name: [] for name in ARMS}
    groups = policy.sample(per_step * steps, replicate)
    for step in range(steps):
        part = groups[step * per_step : (step + 1) * per_step]
        batch, rewards_QG = Batch.of(part), right(part)
        whole = torch.arange(rewards_QG.numel())
        weights = [weigh(rewards_QG, batch.mask_NT, [whole], objective(name, config)).weights_NT for name in ARMS]
        for name, gradient in zip(ARMS, gradients(policy, batch, weights), strict=True):
            by_arm[name].append(gradient)
    rows = []
    for name in ARMS:
        with torch.no_grad():
            for parameter, value in zip(parameters, start, strict=True):
                parameter.copy_(value)
        optim = config.optim
        adamw = torch.optim.AdamW(parameters, optim.lr, optim.betas, optim.eps, optim.weight_decay)
        for step in range(steps + 1):
            if step:
                for parameter, slope in zip(parameters, by_arm[name][step - 1], strict=True):
                    parameter.grad = slope
                adamw.step()
            made = decisions(policy, fixed_batch)
            rates = {"right": made.rate(fixed_right_N), "wrong": made.rate(~fixed_right_N)}
            moved = torch.nn.utils.get_total_norm([now - before for now, before in zip(parameters, start, strict=True)])
            slope = torch.nn.utils.get_total_norm(by_arm[name][max(0, step - 1)])
            sizes = {"moved": float(moved), "gradient": float(slope)}
            rows.append({"arm": name, "step": step, "replicate": replicate, **rates, **sizes})
        for parameter in parameters:
            parameter.grad = None
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By arm and step, means over replicates and standard errors.

    right, wrong: change of the log odds to stop against the base's. right_apart, wrong_apart: the same less Dr. GRPO's,
    replicate by replicate.
    """
    steps = sorted({row["step"] for row in rows})
    chance = {(row["arm"], row["step"], row["replicate"]): row for row in rows}
    replicates = sorted({row["replicate"] for row in rows})

    def change(name: str, step: int, state: str) -> Tensor:
        now_R, base_R = (
            torch.tensor([chance[name, at, r][state] for r in replicates], dtype=torch.float64).logit()
            for at in (step, 0)
        )
        return now_R - base_R

    found = []
    for name in ARMS:
        for step in steps:
            here = [chance[name, step, r] for r in replicates]
            cells: dict[str, Any] = {"arm": name, "step": step}
            for state in ("right", "wrong"):
                change_R = change(name, step, state)
                cells[state] = with_error(change_R)
                cells[f"{state}_apart"] = with_error(change_R - change("dr_grpo", step, state))
                cells[f"{state}_rate"] = sum(row[state] for row in here) / len(here)
            cells |= {size: sum(row[size] for row in here) / len(here) for size in ("moved", "gradient")}
            found.append(cells)
    return found


def with_error(values_R: Tensor) -> tuple[float, float]:
    """Mean and standard error."""
    return float(values_R.mean()), float(values_R.std() / len(values_R) ** 0.5)


def of_base(batch: Batch, rewards_QG: Tensor, made: Decisions) -> dict[str, Any]:
    """What the predictions stand on: p, and of right and of wrong answers body, length and chance to stop."""
    right_N, lengths_N = rewards_QG.flatten() > 0, batch.lengths_N.double()
    bodies_N = lengths_N - made.made_NT.sum(dim=1)
    found: dict[str, Any] = {"answers": len(right_N), "p": float(rewards_QG.mean()), "longest": int(lengths_N.max())}
    found["correlation"] = float(torch.corrcoef(torch.stack([lengths_N, right_N.double()]))[0, 1])
    for state, rows_N in (("right", right_N), ("wrong", ~right_N)):
        found[state] = {
            "body": float(bodies_N[rows_N].mean()),
            "length": float(lengths_N[rows_N].mean()),
            "stop": made.rate(rows_N),
        }
    return found


def exact(config: RunConfig, base: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The pushes of the stop-only model with the base's figures."""
    bodies = [round(base[state]["body"]) for state in ("right", "wrong")]
    stop = (base["right"]["stop"] + base["wrong"]["stop"]) / 2
    model = StopModel(base["p"], config.group_size.value, stop, *bodies)
    switches = {name: (NAMED[name].baseline, NAMED[name].scale, NAMED[name].norm) for name in ARMS}
    return {name: stop_push(model, *given, budget_of(config))._asdict() for name, given in switches.items()}


def show(console: Console, found: dict[str, Any], replicates: int) -> None:
    """The figures as tables."""
    base = found["base"]
    console.print(
        f"base: {base['answers']:,} answers, p {base['p']:.4f}, longest {base['longest']}, "
        f"correlation of length and right {base['correlation']:+.3f}"
    )
    for state in ("right", "wrong"):
        one = base[state]
        console.print(f"  {state}: body {one['body']:.2f}, length {one['length']:.2f}, stops with {one['stop']:.4f}")
    console.print()
    title = "1. push on the logit to stop, x 1000 (± standard error); exact: the stop-only model"
    shown = table(title, "arm", "right", "exact", "wrong", "exact", "both")
    for name in ARMS:
        cells = {part: f"{1e3 * mean:+.3f} ± {1e3 * error:.3f}" for part, (mean, error) in found["push"][name].items()}
        ones = {part: f"{1e3 * value:+.3f}" for part, value in found["exact"][name].items()}
        shown.add_row(NAMED[name].label, cells["right"], ones["right"], cells["wrong"], ones["wrong"], cells["all"])
    console.print(shown)
    console.print()
    title = f"2. change of the log odds to stop, from gradients of the base, {replicates} replicates (± standard error)"
    shown = table(title, "arm", "step", "right", "wrong", "tail: right", "wrong", "adapter moved", "gradient")
    for cells in found["drift"]:
        if cells["step"] and cells["step"] % 4 == 0:
            shown.add_row(
                NAMED[cells["arm"]].label,
                str(cells["step"]),
                *(f"{cells[state][0]:+.3f} ± {cells[state][1]:.3f}" for state in ("right", "wrong")),
                *(f"{1 / cells[f'{state}_rate']:.2f}" for state in ("right", "wrong")),
                *(f"{cells[size]:.3g}" for size in ("moved", "gradient")),
            )
    console.print(shown)


def table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", box=None, header_style="dim", padding=(0, 2, 0, 0))
    for place, name in enumerate(columns):
        made.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=8192, help="of the base, for the push (default 8192)")
    parser.add_argument("--steps", type=int, default=16, help="of the drift (default 16)")
    parser.add_argument("--replicates", type=int, default=8, help="of the drift (default 8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides over experiment=length_bias")
    options = parser.parse_args()
    torch.set_num_threads(1)
    quiet_libraries()
    config = compose(["experiment=length_bias", f"seed={SEED}", *options.overrides])
    policy = Policy.of(config)
    groups = policy.sample(options.answers // config.group_size.value, FIXED + 1)
    batch, rewards_QG = Batch.of(groups), right(groups)
    made = decisions(policy, batch)
    base = of_base(batch, rewards_QG, made)
    rows = [row for replicate in range(options.replicates) for row in drift(config, options.steps, replicate)]
    found = {
        "base": base,
        "push": pushes(config, rewards_QG, batch, made.score_N),
        "exact": exact(config, base),
        "drift": summary(rows),
    }
    show(Console(highlight=False, width=110), found, options.replicates)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
