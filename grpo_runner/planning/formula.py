"""The objective of a run and its gradient as formulas on one line, with the values in, and what the letters are."""

from __future__ import annotations

from ..method import placed
from ..objectives import budget_of
from ..schema import RunConfig


def formula(config: RunConfig) -> str:
    """The objective that is maximised, on one line."""
    if config.advantage.credit == "pairs":
        return f"J = 1/N Σ_pairs log σ({config.beta.value:g} (Δ+ − Δ−)), Δ = {_of_answer(config)} log π/π_ref"
    terms = [_surrogate(config)]
    if placed(config) == "loss":
        terms.append(f"− {config.beta.value:g} {_KL[config.beta.estimator]}")
    if config.entropy_bonus > 0:
        terms.append(f"+ {config.entropy_bonus:g} H")
    inner = terms[0] if len(terms) == 1 else f"[ {' '.join(terms)} ]"
    reward = _reward(config)
    return f"J = {_norm(config)} {inner}, A = {_advantage(config)}" + (f", R = {reward}" if reward else "")


def coefficient(config: RunConfig) -> str:
    """The gradient of `formula` where π = π_old: what stands before ∇log π of a token (DeepSeekMath eq. 5)."""
    if config.advantage.credit == "pairs":
        beta = f"{config.beta.value:g}"
        return f"∇J = 1/N Σ_i ±{beta} σ({beta} (Δ− − Δ+)) ∇Δ_i, + on the right answer of a pair"
    inner = "A"
    if config.rollout.importance != "none":
        inner = f"{_importance(config)} A"
    if placed(config) == "loss":
        inner = f"({inner} + {config.beta.value:g} {_KL_SLOPE[config.beta.estimator]})"
    gradient = f"{inner} ∇log π"
    if config.entropy_bonus > 0:
        gradient = f"[ {gradient} + {config.entropy_bonus:g} ∇H ]"
    where = "" if config.clip.kind == "none" else " at π = π_old"
    return f"∇J = {_norm(config)} {gradient}{where}"


def symbols(config: RunConfig) -> str:
    """What the letters stand for, those that are there."""
    if config.advantage.credit == "pairs":
        return "Δ+ of the right answer, Δ− of the wrong one; N the answers that are in pairs; π_ref the reference"
    ratio = {
        "token": "r = π/π_old of a token",
        "sequence": "s = (π/π_old)^(1/|o|) of an answer",
        "cispo": "r = π/π_old of a token, held fixed in the gradient",
    }
    said = [_ANSWERS[config.samples.source]] if config.samples.source != "policy" else []
    if config.samples.keep != "all":
        said.append(_kept(config))
    said += [ratio[config.clip.kind]] if config.clip.kind in ratio else []
    if config.samples.source != "solutions":
        steps = f" of a step (reward.steps={config.reward.steps}), its mean over all steps of a group"
        said.append("R the reward" + (steps if config.advantage.credit == "process" else ""))
    if placed(config) == "loss":
        said.append("ρ = π_ref/π")
    if config.rollout.importance != "none":
        said.append("μ the sampling engine's policy")
    if config.advantage.credit == "gae":
        critic = config.critic
        said.append(f"V the critic's value ({critic.kind}), γ {critic.gamma:g}, λ {critic.lam:g}")
    if config.entropy_bonus > 0:
        said.append("H the entropy")
    return "; ".join(said)


_ANSWERS = {"base": "o what the base answered before the first step", "solutions": "o the data's worked solutions"}
_KL_SLOPE = {"k3": "(ρ − 1)", "k2": "log ρ", "k1": "(−1)"}
_KL = {"k3": "(ρ − log ρ − 1)", "k2": "½(log ρ)²", "k1": "(−log ρ)"}


def _of_answer(config: RunConfig) -> str:
    """What stands before the log-ratio of a token, of an answer by itself."""
    kind = config.loss_norm.kind
    return {"sequence_mean": "1/|o| Σ_t", "constant": f"1/{budget_of(config):g} Σ_t"}.get(kind, "Σ_t")


def _norm(config: RunConfig) -> str:
    """What stands before the sums: over the responses of one optimizer step."""
    rows = config.questions_per_step * config.group_size.value
    parts = 1 if config.optim.minibatch == "whole" else config.optim.updates_per_rollout
    count, groups = f"{rows / parts:g}", f"{config.questions_per_step / parts:g}"
    if config.samples.keep != "all":
        count, groups = "N", "Q"
    kind = config.loss_norm.kind
    return {
        "sequence_mean": f"1/{count} Σ_i 1/|o_i| Σ_t",
        "constant": f"1/({count}·{budget_of(config):g}) Σ_i Σ_t",
        "token_mean": "1/Σ|o_i| Σ_i Σ_t",
        "group_token_mean": f"1/{groups} Σ_q 1/Σ_i|o_i| Σ_i Σ_t",
        "sequence_sum": f"1/{count} Σ_i Σ_t",
    }.get(kind, f"{kind} of Σ_i Σ_t")


def _surrogate(config: RunConfig) -> str:
    clip = config.clip
    high = f"{1 + clip.high:g}"
    if clip.kind == "cispo":
        bound = f"min(r, {high})" if clip.low >= 1 else f"clip(r, {1 - clip.low:g}, {high})"
        made = f"{bound} A log π"
    elif clip.kind == "none":
        made = "A log π"
    else:
        ratio = "s" if clip.kind == "sequence" else "r"
        made = f"min({ratio} A, clip({ratio}, {1 - clip.low:g}, {high}) A)"
    if clip.dual is not None:
        made = f"max({made}, {clip.dual:g} A where A < 0)"
    return made if config.rollout.importance == "none" else f"{_importance(config)} · {made}"


def _importance(config: RunConfig) -> str:
    cap = config.rollout.importance_cap
    return "π_old/μ" if cap is None else f"min(π_old/μ, {cap:g})"


def _kept(config: RunConfig) -> str:
    """Which answers there are, where they are not all that were sampled."""
    most = config.samples.per_question
    up_to = "" if most is None else f", at most {most} a question"
    each = {"right": "of the right answers", "pairs": "of right answers with a wrong one beside each"}
    counted = {"group_token_mean": "Q the questions that have one"}.get(config.loss_norm.kind, "N how many there are")
    told = {"token_mean": ""}.get(config.loss_norm.kind, f", {counted}")
    return f"Σ_i {each[config.samples.keep]}, equal ones once{up_to}{told}"


def _advantage(config: RunConfig) -> str:
    normalised = _normalised(config)
    if config.advantage.credit == "process":  # R of each step, and its mean and std over all steps of a group
        return f"Σ over steps that end at t or later of {normalised}"
    return normalised


def _normalised(config: RunConfig) -> str:
    advantage = config.advantage
    if advantage.credit == "gae":
        return "Σ_k (γλ)^k δ_(t+k), δ_t = R_t + γ V_(t+1) − V_t"
    if config.samples.source == "solutions":
        return "1"
    baseline = {
        "group_mean": "R − mean(R)",
        "leave_one_out": "R − mean of the others' R",
        "batch_mean": "R − mean of the step's R",
        "none": "R",
    }.get(advantage.baseline, f"R − {advantage.baseline}(R)")
    if advantage.scale == "none":
        return baseline
    std = {"group_std": "std(R)", "batch_std": "std of the step's R", "group_mean": "mean(R)"}.get(
        advantage.scale, f"{advantage.scale}(R)"
    )
    if advantage.eps > 0:
        std = f"({std} + {advantage.eps:g})"
    return f"({baseline})/{std}" if advantage.baseline != "none" else f"R/{std}"


def _reward(config: RunConfig) -> str:
    """What R is, where it is more than 1 for a right answer."""
    if config.samples.source == "solutions":
        return ""
    parts = config.reward.parts
    terms = [name if weight == 1 else f"{weight:g} {name}" for name, weight in parts.items() if weight]
    if config.reward.truncated == "soft":
        terms.append("overlong penalty")
    said = " + ".join(terms)
    if placed(config) == "reward":
        if config.advantage.credit == "gae":
            return f"−{config.beta.value:g} log π/π_ref of a token, and {said} at the last"
        return f"{said} − {config.beta.value:g} Σ_t log π/π_ref"
    return "" if said == "correct" else said
