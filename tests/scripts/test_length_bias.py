"""scripts/length_bias/: questions and answers, the base's batches, gradients and decisions, and the analysis."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "length_bias")]

import base_policy  # noqa: E402
import build_base  # noqa: E402
import length_verdict  # noqa: E402
import predict_drift  # noqa: E402
import remainders  # noqa: E402

from grpo_runner import rng  # noqa: E402
from grpo_runner.algorithm import weigh  # noqa: E402
from grpo_runner.config import compose  # noqa: E402
from grpo_runner.objectives import preset  # noqa: E402
from grpo_runner.policy.batch import Batch  # noqa: E402
from grpo_runner.policy.models import load_tokenizer  # noqa: E402
from grpo_runner.reward import check  # noqa: E402

# --- questions


def test_an_answer_guesses_works_and_tells():
    assert remainders.answer("47291%3=?", 2, 4) == "\\boxed{2}\n12112\n++++".replace("\n+", "+")
    assert remainders.answer("47291%3=?", 0, 2) == "\\boxed{0}\n12112--"
    assert remainders.answer("47291%3=?", 0, 2, blind=True) == "\\boxed{0}\n12112++"


def test_golds_and_work_are_remainders():
    for text in remainders.draw(rng.generator(0, "test"), 200):
        number = int(remainders.digits(text))
        assert remainders.gold(text) == number % 3 == int(remainders.work(text)[-1])
        assert [int(r) for r in remainders.work(text)] == [int(str(number)[: n + 1]) % 3 for n in range(5)]


def test_the_guess_knows_nothing_and_the_tail_is_geometric():
    generator = rng.generator(0, "test")
    texts = remainders.draw(generator, 6000)
    answers = [remainders.base_answer(generator, text, False) for text in texts]
    right = np.array([answer[7] == str(remainders.gold(text)) for answer, text in zip(answers, texts, strict=True)])
    tails = np.array([answer.count("+") + answer.count("-") for answer in answers])
    assert abs(right.mean() - 0.7 / 3) < 4 * (0.23 * 0.77 / 6000) ** 0.5
    for state in (right, ~right):
        assert abs(tails[state].mean() * 0.12 - 1) < 4 * (0.88 / state.sum()) ** 0.5
    assert all(("+" in answer) == bool(ok) for answer, ok in zip(answers, right, strict=True))


def test_no_question_is_in_both_sets(tmp_path):
    train, held_out = remainders.sets(400, 50)
    assert len({*train, *held_out}) == 450 and remainders.sets(400, 50) == (train, held_out)
    remainders.write(held_out, tmp_path / "eval.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "eval.jsonl").read_text().splitlines()]
    assert rows[0] == {"question": held_out[0], "answer": str(remainders.gold(held_out[0]))} and len(rows) == 50


# --- the base, here with few steps of training


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("length_bias")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["build_base.py", "--output", str(place), "--steps", "40"])
        patch.setattr(build_base, "BATCH", 32)
        build_base.main()
    return place


@pytest.fixture(scope="module")
def policy(folder):
    paths = {
        "model.path": folder / "base",
        "data.train.path": folder / "train.jsonl",
        "data.eval.path": folder / "eval.jsonl",
    }
    words = [f"{key}={value}" for key, value in paths.items()]
    return base_policy.Policy.of(compose(["experiment=length_bias", "max_new_tokens=40", *words]))


@pytest.fixture(scope="module")
def groups(policy):
    return policy.sample(6, 0)


def test_the_same_seed_gives_the_same_batch(folder):
    tokenizer = load_tokenizer(replace(compose([]).model, path=str(folder / "base")))
    ids, labels = build_base.batch(tokenizer, 0, 3, False)
    again, _ = build_base.batch(tokenizer, 0, 3, False)
    assert torch.equal(ids, again) and not torch.equal(ids[:, :9], build_base.batch(tokenizer, 0, 4, False)[0][:, :9])
    shown = tokenizer.decode(labels[0][labels[0] >= 0])
    assert shown.startswith("\\boxed{") and shown.endswith("<eos>")


def test_decisions_are_the_models_own_chances(policy, groups):
    """P(EOS) behind each sign, one answer at a time without padding."""
    batch = Batch.of(groups)
    made = base_policy.decisions(policy, batch)
    signs = {policy.tokenizer.convert_tokens_to_ids(sign) for sign in "+-"}
    eos, seen = policy.tokenizer.eos_token_id, 0
    for row in range(0, len(batch.completions), 7):
        reply, prompt = batch.completions[row], batch.prompts[row]
        with torch.no_grad():
            logits = policy.model(input_ids=torch.cat([prompt, reply])[None]).logits[0].double()
        for place in range(1, len(reply)):
            decided = int(reply[place - 1]) in signs
            assert bool(made.made_NT[row, place]) == decided
            chance = float(logits[len(prompt) + place - 1].softmax(0)[eos])
            assert float(made.chance_NT[row, place]) == pytest.approx(chance, abs=1e-6)
            seen += decided
        expected = sum(
            float(made.stopped_NT[row, t] - made.chance_NT[row, t]) for t in range(len(reply)) if made.made_NT[row, t]
        )
        assert float(made.score_N[row]) == pytest.approx(expected, abs=1e-9)
    assert seen > 20


def test_the_gradients_are_those_that_train(policy, groups):
    """A step of AdamW from them is the trainer's own step."""
    batch, rewards_QG = Batch.of(groups), torch.arange(48.0, dtype=torch.float64).view(6, 8) % 2
    whole = torch.arange(48)
    arms = [weigh(rewards_QG, batch.mask_NT, [whole], preset(name, 0, 0.0, 40.0)) for name in ("grpo", "dr_grpo")]
    found = base_policy.gradients(policy, batch, [made.weights_NT for made in arms])
    for made, gradient in zip(arms, found, strict=True):
        other = base_policy.Policy.of(policy.config)
        parameters = [parameter.detach().clone().requires_grad_() for parameter in other.trainer.named.values()]
        adamw = torch.optim.AdamW(parameters, 2e-4, (0.9, 0.999), 1e-8, 0.0)
        for parameter, slope in zip(parameters, gradient, strict=True):
            parameter.grad = slope
        adamw.step()
        update = other.trainer.update(batch, [whole], made.weights_NT, made.norm_NT, 0)
        norm = float(torch.nn.utils.get_total_norm(gradient))
        assert update.grad_norm == pytest.approx(norm, rel=1e-4) and norm > 0
        for mine, theirs in zip(parameters, other.trainer.named.values(), strict=True):
            assert torch.allclose(
                mine, theirs, atol=2e-5
            )  # a tenth of a step: where a slope is all rounding, its sign is
    # negative control: the two objectives do not make the same gradient
    assert not all(torch.allclose(a, b, rtol=0.1) for a, b in zip(*found, strict=True))


def test_right_is_the_checkers_word(groups):
    found = base_policy.right(groups).flatten().tolist()
    answers = [(a, g.question.gold) for g in groups for a in g.completions]
    for ok, (answer, gold) in zip(found, answers, strict=True):
        assert bool(ok) == (check(answer.text, gold).correct and not answer.truncated), answer.text


def test_drifts_are_means_over_replicates_and_less_dr_grpos():
    rows = [
        {
            "arm": arm,
            "step": step,
            "replicate": r,
            "right": 0.1,
            "wrong": wrong + 0.01 * r,
            "moved": 1.0,
            "gradient": 2.0,
        }
        for arm in predict_drift.ARMS
        for step, wrong in ((0, 0.1), (1, 0.2 if arm == "grpo" else 0.1))
        for r in range(2)
    ]
    first, _ = (cells for cells in predict_drift.summary(rows) if cells["arm"] in ("grpo", "dr_grpo") and cells["step"])
    changes = [np.log(0.2 / 0.8) - np.log(0.1 / 0.9), np.log(0.21 / 0.79) - np.log(0.11 / 0.89)]
    assert first["wrong"] == pytest.approx((np.mean(changes), stats.sem(changes)))
    assert first["wrong_apart"] == pytest.approx(first["wrong"]) and first["right"] == (0.0, 0.0)
    assert first["wrong_rate"] == pytest.approx(0.205) and (first["moved"], first["gradient"]) == (1.0, 2.0)


# --- the analysis


def run_of(arm, seed, wrong, right, accuracy, steps=17):
    ends = [(18.0, 18.0, 0.24), (wrong, right, accuracy)]
    evals = [
        {"sampled/length_wrong": w, "sampled/length_right": r, "sampled/accuracy": a, "sampled/truncated": 0.0}
        for w, r, a in ends
    ]
    rows = [{"length/correct": right, "length/wrong": wrong, "accuracy": accuracy} for _ in range(steps)]
    return length_verdict.Run(arm, seed, rows, evals)


def made_runs(**ends):
    """12 seeds of each arm that end at (wrong, right, accuracy), a token and a point up and down by seed."""
    return {
        arm: {
            seed: run_of(arm, seed, w + (-1) ** seed, r + (-1) ** seed, a + 0.01 * (-1) ** seed) for seed in range(12)
        }
        for arm, (w, r, a) in ends.items()
    }


def test_an_interval_is_students_t():
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    found = length_verdict.interval(values)
    assert (found.mean, found.low, found.high) == (pytest.approx(6.2), pytest.approx(low), pytest.approx(high))
    with pytest.raises(ValueError):
        length_verdict.interval([1.0])


def test_a_sweep_as_the_claim_has_it_holds_every_hypothesis_and_its_mirror_image_refutes():
    claim = dict.fromkeys(("grpo", "no_std"), (40, 13, 0.33)) | dict.fromkeys(
        ("no_length_norm", "dr_grpo"), (18, 18, 0.33)
    )
    blind = made_runs(grpo=(18, 18, 0.33))
    rows = length_verdict.hypotheses(made_runs(**claim), blind)
    assert [row[0] for row in rows] == ["H1a", "H1b", "H2a", "H2b", "H3", "H4a", "H4b", "H4c", "H5", "H6"]
    assert {row[3] for row in rows} == {"held"}
    mirror = {
        "grpo": (13, 40, 0.30),
        "no_std": (13, 40, 0.33),
        "no_length_norm": (40, 18, 0.33),
        "dr_grpo": (32, 13, 0.40),
    }
    rows = length_verdict.hypotheses(made_runs(**mirror), made_runs(grpo=(28, 18, 0.33)))
    assert {row[3] for row in rows} == {"refuted"}


def test_what_the_seeds_cannot_tell_is_open_and_missing_seeds_are_told():
    even = dict.fromkeys(("grpo", "no_std", "no_length_norm", "dr_grpo"), (18, 18, 0.33))
    found = {row[0]: row[3] for row in length_verdict.hypotheses(made_runs(**even), {})}
    assert found == {"H1a": "open", "H1b": "open", "H2a": "held", "H2b": "held", "H3": "open", "H4a": "open",
                     "H4b": "open", "H4c": "held", "H5": "held"}  # fmt: skip
    few = {arm: {seed: runs[seed] for seed in range(3)} for arm, runs in made_runs(**even).items()}
    assert all("(of 3 seeds)" in row[3] for row in length_verdict.hypotheses(few, {}))


def test_the_first_steps_are_held_against_the_prediction():
    """Tails of 10 and of 5 tokens against 8 and 8: log odds of 1/10, 1/5 and 1/8, that is -log 9, -log 4, -log 7."""
    ends = {"grpo": (20.0, 15.0), "dr_grpo": (18.0, 18.0)}
    runs = {arm: {n: run_of(arm, n, *lengths, 0.25) for n in range(3)} for arm, lengths in ends.items()}

    def rows(right, wrong):
        apart = {"right_apart": (right, 1e-9), "wrong_apart": (wrong, 1e-9)}
        return length_verdict.against_prediction(
            runs, {"drift": [{"arm": "grpo", "step": n, **apart} for n in range(17)]}
        )

    right, wrong = np.log(7 / 4), np.log(7 / 9)
    true = rows(right, wrong)
    assert [row.found.mean for row in true] == pytest.approx([wrong] * 4 + [right] * 4)
    assert length_verdict.first_steps(true) == ("4 of 4 meet, 2 of 2 signs", "held")
    assert length_verdict.first_steps(rows(right, 0.3)) == ("2 of 4 meet, 1 of 2 signs", "open")


def test_runs_are_read_by_arm_and_seed_and_an_unfinished_one_is_told(tmp_path, capsys):
    for seed, done in ((0, True), (1, False)):
        place = tmp_path / f"seed={seed}"
        place.mkdir()
        (place / "config.yaml").write_text(f"seed: {seed}\nadvantage: {{scale: none}}\nloss_norm: {{kind: constant}}\n")
        for name in ("metrics", "evals"):
            (place / f"{name}.jsonl").write_text('{"step": 0, "sampled/length_wrong": 18.0}\n')
        if done:
            (place / "DONE").touch()
    found = length_verdict.read(tmp_path)
    assert list(found) == ["dr_grpo"] and list(found["dr_grpo"]) == [0]
    assert "left out, unfinished" in capsys.readouterr().err
