"""What a run is: formulas written by hand from the papers, halves, departures, conventions."""

from __future__ import annotations

import pytest

from grpo_runner.config import compose
from grpo_runner.facts import Fact
from grpo_runner.planning import what as module
from grpo_runner.planning.departs import conventions, departures
from grpo_runner.planning.formula import formula
from grpo_runner.planning.what import Typed, halves, what

OAT = "experiment=dr_grpo_oat_zero_7b"
FORMULAS = {
    # Dr. GRPO: 1,024 responses in 8 optimizer steps, over the constant 3000
    (OAT,): "J = 1/(128·3000) Σ_i Σ_t min(r A, clip(r, 0.8, 1.2) A), A = R − mean(R)",
    # DeepSeekMath eq. 3 and 4, 16 questions of 64
    ("experiment=deepseekmath_grpo",): (
        "J = 1/1024 Σ_i 1/|o_i| Σ_t [ min(r A, clip(r, 0.8, 1.2) A) − 0.04 (ρ − log ρ − 1) ], A = (R − mean(R))/std(R)"
    ),
    # DAPO eq. 8 to 13; 8 questions in two optimizer steps
    ("experiment=dapo",): (
        "J = 1/4 Σ_q 1/Σ_i|o_i| Σ_i Σ_t min(r A, clip(r, 0.8, 1.28) A), A = (R − mean(R))/std(R), "
        "R = 2 correct + overlong penalty"
    ),
    ("experiment=gspo",): (
        "J = 1/16 Σ_i 1/|o_i| Σ_t min(s A, clip(s, 0.9997, 1.0004) A), A = (R − mean(R))/std(R)"
    ),
    ("experiment=cispo",): (
        "J = 1/4 Σ_q 1/Σ_i|o_i| Σ_i Σ_t min(r, 1.2) A log π, A = (R − mean(R))/std(R), R = 2 correct + overlong penalty"
    ),
    ("experiment=rloo",): (
        "J = 1/64 Σ_i Σ_t min(r A, clip(r, 0.8, 1.2) A), A = R − mean of the others' R, "
        "R = correct − 0.03 Σ_t log π/π_ref"
    ),
    # oat's GRPO arm: std over G - 1 (a convention), 1e-8 beside it
    (OAT, "advantage=grpo", "advantage.ddof=1", "advantage.eps=1e-8", "loss_norm=sequence_mean"): (
        "J = 1/128 Σ_i 1/|o_i| Σ_t min(r A, clip(r, 0.8, 1.2) A), A = (R − mean(R))/(std(R) + 1e-08)"
    ),
    ("advantage=reinforce", "loss_norm=token_mean", "beta=no_kl", "clip.dual=3", "entropy_bonus=0.001"): (
        "J = 1/Σ|o_i| Σ_i Σ_t [ max(min(r A, clip(r, 0.8, 1.2) A), 3 A where A < 0) + 0.001 H ], A = R"
    ),
    ("beta=no_kl", "rollout.importance=token", "rollout.importance_cap=2"): (
        "J = 1/64 Σ_i 1/|o_i| Σ_t min(π_old/μ, 2) · min(r A, clip(r, 0.8, 1.2) A), A = (R − mean(R))/std(R)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("overrides", FORMULAS, ids=" ".join)
def test_the_formula_with_the_values_in(overrides):
    assert formula(compose(list(overrides))) == FORMULAS[overrides]


def test_one_bias_removed_is_half_of_dr_grpo():
    no_std, constant = ["advantage=dr_grpo", "beta=no_kl"], ["loss_norm=constant", "beta=no_kl"]
    assert halves(compose(no_std)).startswith("half of Dr. GRPO: the std is gone")
    assert halves(compose(constant)).startswith("half of Dr. GRPO: the division by each answer's length is gone")
    for whole in (["experiment=grpo"], ["experiment=dr_grpo"], ["experiment=rloo"], ["experiment=gspo"]):
        assert halves(compose(whole)) == ""


FACTS = {
    fact.key: fact
    for fact in (
        Fact("p", "beta.value", "0", "Dr. GRPO (arXiv 2503.20783) Table 6", "stated"),
        Fact("p", "steps", "300", "figures end near 300", "our choice"),
        Fact("p", "lora.enabled", "false", "Dr. GRPO, script", "stated"),
    )
}


def test_departures_name_key_values_and_whether_it_is_still_the_papers():
    plain = compose([OAT])
    aside = ["run_name=x", "tracking=off", "health.stop_on=[]", "rollout.batch_rows=8", "data.train.path=x.jsonl"]
    changed = compose([OAT, "beta=0.04", "steps=10", "seed=3", *aside])
    assert list(departures(changed, plain, FACTS, {})) == [
        "beta 0.0 → 0.04: no longer the paper's (Dr. GRPO (arXiv 2503.20783) Table 6)",
        "steps 300 → 10: our choice in the preset",
        "seed 0 → 3",
    ]
    assert list(departures(plain, plain, FACTS, {})) == []  # the preset itself departs in nothing


def test_what_is_lost_is_the_papers_or_the_librarys_whose_run_it_was():
    plain, changed = compose([OAT]), compose([OAT, "beta=0.04", "steps=10", "seed=3"])
    known = {
        "beta.value": Fact("p", "beta.value", "0", "verl-data gsm8k/Qwen2.5-7B.log: kl_loss_coef", "stated"),
        "steps": Fact("p", "steps", "300", "somebody's notebook", "stated"),
    }
    said = list(departures(changed, plain, known, {}))
    assert said[0].startswith("beta 0.0 → 0.04: no longer verl's (verl-data")
    assert said[1] == "steps 300 → 10: no longer the source's (somebody's notebook)"


def test_many_keys_that_one_choice_sets_are_one_line():
    plain = compose([OAT])
    changed = compose([OAT, "data=arithmetic", "steps=10", "beta=0.04"])
    keys = frozenset(key for key in ("data.kind", "data.train_size", "data.eval_size", "beta.value"))
    two = {"a=b": frozenset(["steps", "beta.value"])}
    said = list(departures(changed, plain, FACTS, {"data=arithmetic": keys} | two))
    assert said[0] == "data=arithmetic: data.kind, data.train_size, data.eval_size, beta; no longer the paper's in beta"
    assert "steps 300 → 10: our choice in the preset" in said and not any("data.kind " in line for line in said[1:])
    apart = list(departures(changed, plain, FACTS, two))
    assert (
        "beta 0.0 → 0.04: no longer the paper's (Dr. GRPO (arXiv 2503.20783) Table 6)" in apart
    )  # two keys stay apart


def test_a_long_value_is_shown_by_its_beginning_on_one_line():
    said = [line for line in departures(compose([OAT, "prompt=tiny"]), compose([OAT]), {}, {}) if "template" in line]
    assert said and all("\n" not in line and len(line) < 150 and "…" in line for line in said)


def test_conventions_of_libraries_are_told_where_they_act():
    said = " ".join(conventions(compose([OAT, "advantage=grpo", "advantage.ddof=1", "advantage.eps=1e-8"]), {}))
    assert "× 0.935 at G = 8" in said and "advantage.eps=1e-08" in said
    tis = ["rollout.importance=token", "rollout.importance_cap=2", "clip.dual=3", "loss_norm=token_mean"]
    said = " ".join(conventions(compose(tis), {}))
    assert "cut at 2" in said and "clip.dual=3" in said and "eq. 8" in said and "ddof" not in said
    said = list(conventions(compose([OAT]), FACTS))
    assert len(said) == 1 and "over 3000 tokens" in said[0] and "Listing 1" in said[0]
    assert list(conventions(compose(["experiment=grpo"]), {})) == []


def test_an_adapter_where_the_source_has_none_is_told():
    adapter = compose(["experiment=grpo", "lora=default"])
    assert "where the source trains all weights" in " ".join(conventions(adapter, FACTS))
    ours = {"lora.enabled": Fact("p_lora", "lora.enabled", "true", "ours", "our choice")}
    assert "this twin is ours" in " ".join(conventions(adapter, ours, twin=True))
    # a preset of ours, or of a source that had an adapter, is no twin
    assert list(conventions(adapter, ours)) == []
    assert list(conventions(adapter, {"lora.enabled": Fact("p", "lora.enabled", "true", "verl", "stated")})) == []


def test_switches_say_where_their_value_is_from():
    plain = compose([OAT])
    told = what(
        compose([OAT, "beta=0.04", "temperature=1"]), "p", plain, FACTS.values(), Typed(["beta", "temperature"])
    )
    rows = {switch.key: switch for switch in told.switches}
    assert rows["beta"].value == "0.04" and rows["beta"].source == "typed; experiment=p has 0.0"
    assert rows["temperature"].source == "typed"
    assert rows["lora.enabled"].source == "Dr. GRPO, script"
    assert rows["optim.lr"].source == "as in experiment=p"
    assert rows["beta.estimator"].value == "k3" and "advantage.ddof" not in rows
    assert told.method == "Dr. GRPO and a KL term" and told.preset == "p"
    alone = {switch.key: switch.source for switch in what(compose([])).switches}
    assert alone["optim.lr"] == "default" and "advantage.ddof" in alone


def test_all_keys_that_are_shown_are_keys():
    from grpo_runner.validate import keys

    every = compose(["beta=0.1", "clip.dual=3", "rollout.dynamic_sampling=2", "entropy_bonus=0.1"])
    assert set(module._shown_keys(every)) <= set(keys())
