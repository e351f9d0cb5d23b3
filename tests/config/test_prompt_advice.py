"""What is said of prompts that fit neither the reward nor the model: a case with the fault beside one without."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_runner import advice, prompt_advice
from grpo_runner.config import compose, find

R1 = ["prompt=r1", "reward=r1_answer_tag"]
BASE_7B, MATH_7B = "model.path=Qwen/Qwen2.5-7B", "model=qwen2_5_math_7b"
INSTRUCT = "model.path=Qwen/Qwen2.5-1.5B-Instruct"
FORMAT = "reward=math_answer_and_format"
LLAMA = "model=llama_3_2_3b"


def hits(overrides: list[str], needle: str) -> int:
    return sum(needle in text for text in advice.warnings(compose(overrides)))


@pytest.mark.parametrize(
    ("overrides", "needle", "count"),
    [
        # what the prompt asks for, and what the reward looks for
        (R1, "The prompt asks for", 0),
        (["prompt=r1", "reward=boxed_strict"], r"asks for <answer>, but reward.extract=box looks for \boxed:", 1),
        (["prompt=r1", "reward=boxed_strict"], "for the R1 template add reward.extract=answer_tag", 1),
        (["prompt=r1"], "The prompt asks for", 0),  # box_or_marker reads <answer>
        (["prompt.stop=['</answer>']", "reward=boxed_strict"], "asks for <answer>, but", 1),
        (["prompt=verl_gsm8k", "reward=gsm8k_hash", INSTRUCT], "The prompt asks for", 0),
        (["prompt=verl_gsm8k", INSTRUCT], "The prompt asks for", 0),  # box_or_marker reads ####
        (["prompt=verl_gsm8k", "reward=boxed_strict"], "asks for ####, but reward.extract=box looks for", 1),
        (["prompt=qwen_math", "reward=gsm8k_hash"], r"asks for \boxed, but reward.extract=hash looks for ####", 1),
        (["prompt=qwen_math", "reward.extract=whole"], "takes the whole completion: take reward.extract=box", 1),
        (["prompt=qwen_math", "reward=math_verify"], "The prompt asks for", 0),  # it finds answers by itself
        (["prompt=open_r1", INSTRUCT], "The prompt asks for", 0),
        (
            ["prompt=open_r1", INSTRUCT, "reward=boxed_strict"],
            "looks for \\boxed: take reward.extract=box_or_marker",
            1,
        ),
        (["prompt=dapo", INSTRUCT, "reward=boxed_strict"], "asks for Answer:, but reward.extract=box looks for", 1),
        (["prompt=dapo", INSTRUCT], "The prompt asks for", 0),
        (["prompt=abel", INSTRUCT], "The prompt asks for", 0),  # its "Answer:" opens the answer
        (["prompt=tinyzero", "reward=countdown", "data=countdown"], "The prompt asks for", 0),  # reads its own tags
        (["prompt=r1", "reward=custom", "reward.function=my:own"], "The prompt asks for", 0),
        # what the part format of the reward counts
        (["prompt=dapo", INSTRUCT, FORMAT], r"asks for Answer:, and the part format of the reward counts \boxed or", 1),
        (["prompt=verl_gsm8k", INSTRUCT, FORMAT, "reward.extract=hash"], "the part format", 0),
        (["prompt=open_r1", INSTRUCT, FORMAT], "the part format", 0),
        (["prompt=r1", FORMAT, "reward.extract=answer_tag"], "the part format", 0),
        (["prompt=chat_boxed", INSTRUCT, FORMAT], "the part format", 0),
        (["prompt=abel", FORMAT], "the part format", 0),
        (["prompt=dapo", INSTRUCT], "the part format", 0),
        # what nothing in the prompt asks for
        (["prompt=none", "reward=r1_answer_tag"], "extract=answer_tag looks for <answer>, and nothing", 1),
        (["prompt=none", "reward=gsm8k_hash"], "extract=hash looks for ####, and nothing", 1),
        (["prompt=abel", "reward=boxed_strict"], r"extract=box looks for \boxed, and nothing", 1),
        (["prompt=none", "reward=boxed_strict", MATH_7B], "and nothing in the prompt asks", 0),  # Dr. GRPO's own pair
        (["prompt=abel"], "and nothing in the prompt asks", 0),
        ([], "and nothing in the prompt asks", 0),
        # the form that answer_tag counts
        (["prompt=open_r1", "reward=r1_answer_tag"], "counts the literal </think> <answer> alone", 1),
        (["prompt=tinyzero", "reward=r1_answer_tag"], "counts the literal", 1),
        (R1, "counts the literal", 0),
        (["prompt=tinyzero", "reward=countdown", "data=countdown"], "counts the literal", 0),
        # what ends an answer
        ([*R1, "prompt.stop=[]"], "Nothing ends an answer at </answer>", 1),
        (R1, "Nothing ends an answer", 0),
        (["prompt=qwen_math"], "Nothing ends an answer", 0),
        # base models
        (["prompt=qwen_boxed", LLAMA], "Llama-3.2-3B is a base model: if it never boxes", 1),
        (["prompt=qwen_boxed", "model=qwen2_5_1_5b"], "if it never boxes", 1),
        (["prompt=qwen_boxed", "model.path=/models/pythia-410m"], "pythia-410m is a base model", 1),
        (["prompt=abel", LLAMA], "if it never boxes", 0),
        (["prompt=qwen_boxed", BASE_7B], "if it never boxes", 0),
        (["prompt=qwen_boxed", MATH_7B], "if it never boxes", 0),
        (["prompt=chat_boxed", INSTRUCT], "if it never boxes", 0),
        (["prompt=qwen_boxed", LLAMA, "reward=math_verify"], "if it never boxes", 0),
        (["prompt=verl_math", "model=qwen2_5_0_5b"], "Qwen2.5-0.5B is a base model, which was not trained to take", 1),
        (["prompt=verl_math", INSTRUCT], "take turns", 0),
        (["prompt=qwen_math", "model=qwen2_5_0_5b"], "take turns", 0),
        # Dr. GRPO, Table 4
        ([*R1, MATH_7B], "Qwen2.5-Math-7B gets 0.0 % right under the R1 template", 1),
        ([*R1, "model=qwen2_5_math_1_5b"], "gets 7.9 % right", 1),
        (["prompt=qwen_math", MATH_7B], "right under the R1 template", 0),
        ([*R1, BASE_7B], "right under the R1 template", 0),
    ],
)
def test_prompt_warnings(overrides: list[str], needle: str, count: int) -> None:
    assert hits(overrides, needle) == count


@pytest.mark.parametrize(
    ("name", "base"),
    {
        "Qwen2.5-0.5B": True, "Qwen2.5-Math-7B": True, "Qwen2-7B": True, "Llama-3.2-3B": True, "Llama-2-7b-hf": True,
        "Meta-Llama-3-8B": True, "Mistral-7B-v0.1": True, "SmolLM2-135M": True, "gemma-3-1b-pt": True, "gpt2": True,
        "Qwen3-0.6B-Base": True, "deepseek-math-7b-base": True,
        "Qwen2.5-0.5B-Instruct": False, "Qwen3-0.6B": False, "Llama-3.2-3B-Instruct": False,
        "Llama-2-7b-chat-hf": False, "Mistral-7B-Instruct-v0.1": False, "SmolLM2-135M-Instruct": False,
        "gemma-3-1b-it": False, "deepseek-math-7b-instruct": False, "DeepSeek-R1-Distill-Qwen-1.5B": False,
        "Llama-3.2-3B-NuminaQA": False, "my-finetune-7B": False,
    }.items(),
)  # fmt: skip
def test_a_base_model_is_known_by_a_published_name(name: str, base: bool) -> None:
    """Of a name that says nothing, nothing is said."""
    assert prompt_advice._is_base(compose([f"model.path=owner/{name}"])) == base


def test_a_prompt_of_ours_with_the_reward_it_names_has_no_fault() -> None:
    """The pairs that docs/prompts.md gives, with a model that they are for."""
    chat, base = INSTRUCT, MATH_7B
    pairs = {
        "none": [base], "r1": ["reward=r1_answer_tag", BASE_7B], "qwen_math": [base], "deepseek_math": [chat],
        "chat_boxed": [chat], "tiny": [], "abel": ["model=qwen2_5_0_5b"], "qwen_boxed": [BASE_7B],
        "verl_gsm8k": ["reward=gsm8k_hash", chat], "verl_math": [chat],
        "open_r1": ["reward=math_verify", chat], "tinyzero": ["reward=countdown", "data=countdown", BASE_7B],
        "dapo": [chat], "r1_distill_qwen": ["model.path=deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"],
    }  # fmt: skip
    assert set(pairs) == {file.stem for file in Path(find() / "prompt").glob("*.yaml")}
    for name, words in pairs.items():
        config = compose([f"prompt={name}", *words])
        assert [said for finder in prompt_advice.FINDERS for said in finder(config)] == [], name
