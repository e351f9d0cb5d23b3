"""Each warning in a run that has the fault, and not in one that has it not."""

from __future__ import annotations

import pytest

from grpo_runner.config import compose
from grpo_runner.planning.bites import _key_in, bites

REAL = ["model=qwen2_5_math_7b", "data=gsm8k", "prompt=qwen_math", "max_new_tokens=1024"]
OWN = ["data=jsonl", "data.question_column=problem"]
HELD_OUT = "data.eval.hub_id=HuggingFaceH4/MATH-500"
CASES = {  # words of the warning: (overrides that have the fault, overrides that have it not)
    "seldom ends in it": ([*REAL, "max_new_tokens=128"], REAL),
    "distilled reasoning model": (
        [*REAL, "model.path=deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "max_new_tokens=3000"],
        [*REAL, "model.path=deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "max_new_tokens=8192"],
    ),
    # prompts that do not fit the model: prompt_advice.py
    "if it never boxes an answer": ([*REAL, "model=llama_3_2_3b"], REAL),
    "under the R1 template before training": ([*REAL, "prompt=r1", "reward.extract=answer_tag"], REAL),
    "was not trained to take turns": (
        [*REAL, "model=llama_3_2_3b", "prompt=chat_boxed"],
        [*REAL, "model.path=Qwen/Qwen2.5-7B-Instruct", "prompt=chat_boxed"],
    ),
    "template alone takes": ([*REAL, "prompt=r1", "data.max_prompt_tokens=128"], [*REAL, "prompt=r1"]),
    "is a rate for all weights": ([*REAL, "optim.lr=1e-6"], [*REAL, "optim.lr=1e-5"]),
    "18.2 on MATH-500": (
        [*REAL, "lora=off", "optim=full_finetune", "optim.lr=2e-5"],
        [*REAL, "lora=off", "optim=full_finetune"],
    ),
    "scales the gradient": (
        ["experiment=dr_grpo", "loss_norm.divisor=3000"],
        ["experiment=dr_grpo"],
    ),
    "optimizer steps are of unequal size": (
        ["optim.updates_per_rollout=3", "optim.minibatch=response"],
        ["optim.updates_per_rollout=4", "optim.minibatch=response"],
    ),
    "fewer than questions_per_step": (["questions_per_step=256"], ["questions_per_step=200"]),
    "has no source yet": (["experiment=dr_grpo_oat_zero_7b"], ["experiment=dr_grpo_oat_zero_7b", "data.train.path=x.jsonl"]),
    "training and the test set of GSM8K together": (
        [*REAL, "data.train.path=datasets/train/gsm_8k/train/data-00000-of-00001.arrow"],
        [*REAL, "data.train.path=gsm8k_train.jsonl"],
    ),
    "4,500 of the 5,000 test questions": (
        [*REAL, "data=math_12k", "data.eval.hub_id=EleutherAI/hendrycks_math"],
        [*REAL, "data=math_12k"],
    ),
    "are the same set": (
        [*REAL, *OWN, "data.train.hub_id=a/b", "data.eval.hub_id=a/b", "data.eval.split=train"],
        [*REAL, *OWN, "data.train.hub_id=a/b", "data.eval.hub_id=a/b"],
    ),
    "is known to ±": ([*REAL, "evaluation.questions=30"], [*REAL, "evaluation.questions=500"]),
    "aime24: 30 questions": ([*REAL, "evaluation=dr_grpo_suite"], [*REAL, "evaluation=math500"]),
    # those that every run is told
    "beta.refresh_every changes nothing with beta=0": (["beta=no_kl", "beta.refresh_every=5"], ["beta=0.1", "beta.refresh_every=5"]),
    "the clip range cannot act": ([], ["optim.updates_per_rollout=2"]),
    "half of it": (["advantage=dr_grpo", "beta=no_kl"], ["experiment=dr_grpo"]),
}  # fmt: skip


def said(overrides, **more):
    return " ".join(bite.text for bite in bites(compose(list(overrides)), **more))


@pytest.mark.parametrize("words", CASES)
def test_a_warning_stands_where_the_fault_is_and_nowhere_else(words):
    has, has_not = CASES[words]
    assert words in said(has)
    assert words not in said(has_not)


def test_groups_without_variance_at_the_given_success_rate():
    """.95^8 + .05^8 = .663; .5^8 · 2 = .008."""
    assert "66 % of groups of 8 are all right or all wrong" in said([], success=0.95)
    assert "all right or all wrong" not in said([], success=0.5)
    assert "all right or all wrong" not in said([])
    assert "all right or all wrong" not in said(["rollout.dynamic_sampling=10"], success=0.95)
    # without a group there is nothing to be even in
    assert "all right or all wrong" not in said(["advantage=reinforce"], success=0.95)


def test_a_sentence_is_about_its_first_key():
    assert _key_in("Two optimizer steps: optim.lr=1 with steps=2.") == "optim.lr"
    assert _key_in("The prompt asks for a box, and the model is a base.") == "prompt"
    assert _key_in("Nothing here.") == ""


def test_every_warning_has_a_key_and_a_source():
    from grpo_runner.validate import keys

    known = {*keys(), "data.train", "data.eval", "prompt", "group_size"}
    for has, _ in CASES.values():
        for bite in bites(compose(list(has)), success=0.95):
            assert bite.source and (bite.key in known or bite.key == ""), bite
            assert bite.text[-1] in ".)"
