"""Prints the table of docs/objective.md: `python -m tests.proof.table`, from the checkout. Takes a minute.

Draws, seeds and functions are those of the tests; only the bounds are theirs.
"""

from __future__ import annotations

from collections import defaultdict

from grpo_runner import algorithm
from tests.proof import comparison, draws, enumerated, invariance
from tests.proof.test_proof_enumerated import FACTORS
from tests.proof.test_proof_identity import TWINS


def rows():
    """(proof, draws or sums, worst error or figure)."""
    worst, _ = draws.identity()
    for place, title in enumerate(("baseline", "scale", "loss norm", "surrogate", "KL")):
        by = defaultdict(float)
        for objective, error in worst.items():
            by[str(objective[place])] = max(by[str(objective[place])], error)
        figures = " · ".join(f"{name} {error:.1e}" for name, error in by.items())
        yield f"identity, by {title}", f"{len(worst)} objectives × {draws.DRAWS}", figures
    error, recorded, seen = draws.trainer_identity(60)
    yield "identity, Trainer on a small Llama", f"60 draws, {seen['steps']} optimizer steps", f"{error:.1e}"
    yield "what the Trainer records of each token", f"{seen['rows recorded']} rows (float32)", f"{recorded:.1e}"
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
    true, whole = enumerated.true_gradient(), enumerated.true_regularised_gradient()
    for kind, questions in (
        ("constant", 1), ("sequence_mean", 1), ("token_mean", 1), ("token_mean", 2), ("group_token_mean", 2),
    ):  # fmt: skip
        found = enumerated.expected_gradient(2, "leave_one_out", "none", kind, questions=questions) / true
        scaled = found * (enumerated.BUDGET if kind == "constant" else 1)
        figure = " / ".join(f"{value:.4f}" for value in scaled.tolist())
        title = f"tree, leave_one_out, {kind}, groups of 2: ratio in each parameter"
        yield title, f"{questions} group{'s' * (questions > 1)} a step", figure

    def off(found, right):
        return f"{enumerated.distance(found, right):.3f}"

    def mean_gradient(**given):
        return enumerated.expected_gradient(3, "leave_one_out", "none", "constant", **given) * enumerated.BUDGET

    by_place = {
        **{f"{k} in the reward": mean_gradient(rewards=enumerated.less_the_penalty(k)) for k in algorithm.ESTIMATORS},
        **{f"{k} in the loss": true - enumerated.BETA * enumerated.expected_kl_gradient(k) for k in ("k2", "k3")},
    }
    for name, found in by_place.items():
        sums = "3 answers" if "loss" in name else "27 groups"
        yield f"tree, {name}: distance from ∇(E r - β KL of answers)", sums, off(found, whole)
    for importance, cap in (("none", None), ("token", None), ("sequence", None), ("sequence", 1.0)):
        found = mean_gradient(sampler=enumerated.SAMPLER, importance=importance, cap=cap)
        title = f"tree, another sampler, importance {importance}{f', cap {cap:g}' if cap else ''}: distance from ∇ E r"
        yield title, "27 groups", off(found, true)


def main():
    print("| proof | draws | worst error, or figure |\n|---|---|---|")
    for row in rows():
        print("| " + " | ".join(row).replace("1/|o|", "1/length") + " |", flush=True)


if __name__ == "__main__":
    main()
