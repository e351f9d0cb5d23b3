"""Prints the table of docs/objective.md: `python -m tests.proof.table`, from the checkout. Takes half a minute.

Draws, seeds and functions are those of the tests; only the bounds are theirs.
"""

from __future__ import annotations

from collections import defaultdict

from tests.proof import comparison, draws, enumerated, invariance
from tests.proof.test_proof_enumerated import FACTORS
from tests.proof.test_proof_identity import TWINS


def rows():
    """(proof, draws or sums, worst error or figure)."""
    worst, _ = draws.identity()
    for place, title in enumerate(("baseline", "scale", "loss norm", "surrogate", "KL")):
        by = defaultdict(list)
        for objective, error in worst.items():
            by[str(objective[place])].append(error)
        for name, errors in by.items():
            yield f"identity, {title} {name}", f"{len(errors)} objectives × {draws.DRAWS}", f"{max(errors):.1e}"
    yield "identity, all", f"{len(worst)} objectives × {draws.DRAWS}", f"{max(worst.values()):.1e}"
    error, seen = draws.trainer_identity(40)
    yield "identity, Trainer on a small Llama", f"40 draws, {seen['steps']} optimizer steps", f"{error:.1e}"
    for name, (package, concerns) in TWINS.items():
        missed = draws.identity(40, package, concerns)[0]
        yield f"twin: {name}", f"{len(missed)} objectives × 40", f"seen; least error {min(missed.values()):.1e}"
    for name in comparison.EQUAL:
        yield f"equal: {name}", f"{comparison.DRAWS}", f"{comparison.difference(name):.1e}"
    gradients, by = invariance.Gradients(), defaultdict(list)
    for case in invariance.cases():
        for name, error in invariance.variants(gradients, case).items():
            by[name].append(error)
    for name, errors in by.items():
        yield f"invariance: {name}", f"{len(errors)} objectives", f"{max(errors):.1e}"
    for baseline, factor in FACTORS.items():
        errors = [abs(enumerated.bandit(p, g, baseline) - factor(g)) for p in (0.05, 0.3, 0.9) for g in (2, 4, 8)]
        yield (
            f"bandit, {baseline}: expected gradient / true = its factor",
            "9 sums over all groups",
            f"{max(errors):.1e}",
        )
    for size in (4, 8):
        found = [enumerated.bandit(0.3, size, "group_mean", "group_std", ddof) for ddof in (0, 1)]
        yield f"bandit, group std, p = .3, G = {size}: ratio, ddof 0 / 1", "2 sums", f"{found[0]:.4f} / {found[1]:.4f}"
    for kind in ("constant", "token_mean", "sequence_mean"):
        found = enumerated.expected_gradient(4, "leave_one_out", "none", kind) / enumerated.true_gradient()
        scaled = found * (enumerated.BUDGET if kind == "constant" else 1)
        figure = " / ".join(f"{value:.4f}" for value in scaled.tolist())
        yield f"tree, leave_one_out, {kind}: ratio in each parameter", "sum over 81 groups", figure


def main():
    print("| proof | draws | worst error, or figure |\n|---|---|---|")
    for row in rows():
        print("| " + " | ".join(row).replace("1/|o|", "1/length") + " |", flush=True)


if __name__ == "__main__":
    main()
