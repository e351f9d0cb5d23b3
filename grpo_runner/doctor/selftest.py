"""A few seconds of what a run does: greedy answers that are known, verdicts that are known, a damaged checkpoint."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .lines import FAILURE, OK, Line

if TYPE_CHECKING:
    from ..train.checkpoint import Checkpoint

# Greedy answers of the embedded model before any training, each token ahead of the next by a logit or more, so that no
# device's rounding turns one. The third is wrong: it is this model's answer and no other's.
ANSWERS = {"6+3=?": r"\boxed{9}", "4+28=?": r"\boxed{32}", "15+10-21=?": r"\boxed{1}"}
# response, gold, right: by an exact rule, by computer algebra in a process, wrong, and nothing to grade
PAIRS = (
    (r"Half: \boxed{\frac{2}{4}}", "0.5", True),
    (r"\boxed{(x+1)^2}", "x^2+2x+1", True),
    (r"\boxed{3}", "4", False),
    ("no answer at all", "4", False),
)
_DEADLINE_S = 20.0


def sampler() -> Line:
    """The embedded model's greedy answers, on the device that a run would choose by itself."""
    began = time.monotonic()
    import torch

    from ..config import compose
    from ..policy.models import choose_device, eos_ids, load_model, load_tokenizer
    from ..prompts import Prompter
    from ..rollout import NativeEngine, Sampling
    from ..types import Question

    config, device = compose(["model=tiny", "prompt=tiny"]), choose_device("auto")
    tokenizer, model = load_tokenizer(config.model), load_model(config.model, device, torch.float32)
    prompter, questions = Prompter(config.prompt, tokenizer), [Question(text, text, "") for text in ANSWERS]
    engine = NativeEngine(model, tokenizer, eos_ids(model, tokenizer), len(questions))
    sampling = Sampling(0.0, 1.0, 0, 16, config.prompt.stop, seed=0, purpose="doctor", step=0)
    groups = engine.sample(questions, [prompter.encode(question) for question in questions], 1, sampling)
    for group, answer in zip(groups, ANSWERS.values(), strict=True):
        if (said := group.completions[0].text) != answer:
            found = f"{group.question.text} was answered {said!r} on {device}, and not {answer!r}"
            do = "device=cpu gives another device; where that fails too, install torch and grpo_runner again"
            return Line("sampler", FAILURE, found, do)
    return Line("sampler", OK, f"{len(ANSWERS)} greedy answers on {device} are as known, {_since(began)}")


def checker() -> Line:
    """Known verdicts, one of them by computer algebra in a process that could be killed."""
    began = time.monotonic()
    from ..reward import Grader

    with Grader(workers=1, deadline_s=_DEADLINE_S) as grader:
        verdicts = grader.grade([(response, gold) for response, gold, _ in PAIRS])
    for (response, gold, right), verdict in zip(PAIRS, verdicts, strict=True):
        if verdict.correct is not right:
            found = f"{response!r} for {gold!r} is {verdict.status.value} (rule: {verdict.rule})"
            do = "math-verify, sympy and latex2sympy2_extended again; under limits on processes or memory, raise them"
            return Line("checker", FAILURE, found, do)
    return Line("checker", OK, f"{len(PAIRS)} verdicts as known, {_since(began)}")


def checkpoint(home: Path) -> Line:
    """Save two, damage the newer, fall back on the older: on the disk for runs, in a folder that is removed again."""
    began = time.monotonic()
    import torch

    from ..train.checkpoint import Checkpoints

    with tempfile.TemporaryDirectory(dir=home, prefix=".doctor_") as folder:
        checkpoints, said = Checkpoints(Path(folder), keep=2), list[str]()
        for step in (1, 2):
            checkpoints.save(step, {"weight": torch.full((64,), float(step))}, {"moment": torch.ones(64)})
        whole = _sum(checkpoints.latest(said.append))  # before the damage: the file may be mapped
        file = Path(folder) / "step_000002" / "adapter.safetensors"
        damaged = bytearray(file.read_bytes())
        damaged[-1] ^= 1
        file.write_bytes(damaged)
        older = _sum(checkpoints.latest(said.append))
    do = "another disk for runs: hydra.run.dir=FOLDER"
    if whole != (2, 128.0):
        return Line("checkpoint", FAILURE, f"what was saved in {home} did not come back", do)
    if older != (1, 64.0) or len(said) != 1:
        return Line(
            "checkpoint", FAILURE, "a damaged checkpoint was not seen", "report this line: it should not happen"
        )
    return Line("checkpoint", OK, f"saved, damaged, seen, and the one before it taken, {_since(began)}")


def _sum(found: Checkpoint | None) -> tuple[int, float] | None:
    """Its step, and the sum of its weights."""
    return None if found is None else (found.step, float(found.policy["weight"].sum()))


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
