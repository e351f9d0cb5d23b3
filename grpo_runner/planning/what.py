"""What a run is: its method, the formula with the values in, where each switch comes from, and what departs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from ..facts import Fact
from ..method import method_name
from ..schema import RunConfig
from ..validate import shown, shown_key
from .departs import conventions, departures, leaves
from .formula import coefficient, formula, symbols


@dataclass(frozen=True)
class Switch:
    """One key that makes the method what it is. source: who says so, in words; typed: whether the user does."""

    key: str
    value: str
    source: str
    typed: bool = False


@dataclass(frozen=True)
class Typed:
    """What the user typed. keys: keys and groups, presets aside; chosen: {a choice as typed: the keys that it sets}, of
    groups and of `debug=`.
    """

    keys: Sequence[str] = ()
    chosen: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def says(self, key: str) -> str:
        """In a word, what set the key: "typed", `debug=NAME`, or "" where something else did."""
        if any(key == word or key.startswith(f"{word}.") for word in self.keys):  # the key, or its group
            return "typed"
        return next((words for words, keys in self.chosen.items() if key in keys), "")


@dataclass(frozen=True)
class What:
    """preset: its name, '' for none; group: `experiment` or `method`. halves: what there is of Dr. GRPO where that is
    half of it. coefficient: the gradient of the formula where the policy is the one that sampled.

    departures: from the preset, one sentence a key. conventions: where the run follows a library and not the formula.
    """

    preset: str
    method: str
    halves: str
    formula: str
    coefficient: str
    symbols: str
    switches: tuple[Switch, ...]
    departures: tuple[str, ...]
    conventions: tuple[str, ...]
    group: str = "experiment"


def what(
    config: RunConfig,
    preset: str = "",
    plain: RunConfig | None = None,
    facts: Iterable[Fact] = (),
    typed: Typed | None = None,
    group: str = "experiment",
) -> What:
    """plain: the preset without the user's overrides; facts: its rows of docs/facts.csv; group: which of conf/."""
    known, typed = {fact.key: fact for fact in facts}, typed or Typed()
    return What(
        preset=preset,
        method=method_name(config),
        halves=halves(config),
        formula=formula(config),
        coefficient=coefficient(config),
        symbols=symbols(config),
        switches=tuple(_switches(config, f"{group}={preset}" if preset else "", plain, known, typed)),
        departures=tuple(departures(config, plain, known, typed.chosen)) if plain is not None else (),
        conventions=tuple(conventions(config, known, twin=preset.endswith("_lora"))),
        group=group,
    )


def halves(config: RunConfig) -> str:
    """ "half of Dr. GRPO: …" where just one of the two biases is taken out."""
    if config.advantage.baseline != "group_mean" or config.clip.kind != "token":
        return ""
    no_std, constant = config.advantage.scale == "none", config.loss_norm.kind == "constant"
    if no_std and config.loss_norm.kind == "sequence_mean":
        return "half of Dr. GRPO: the std is gone, the division by each answer's length is still there"
    if constant and config.advantage.scale == "group_std":
        return "half of Dr. GRPO: the division by each answer's length is gone, the std is still there"
    return ""


# --- the switches, and where they come from


def _switches(
    config: RunConfig, preset: str, plain: RunConfig | None, known: dict[str, Fact], typed: Typed
) -> Iterator[Switch]:
    values, before = leaves(asdict(config)), leaves(asdict(plain)) if plain is not None else {}
    for key in _shown_keys(config):
        fact, value, said = known.get(key), values[key], typed.says(key)
        if plain is not None and before.get(key) != value:
            source = f"{said or 'follows from what was typed'}; {preset} has {shown(before.get(key))}"
        elif said:
            source = said
        elif fact is not None:
            source = fact.source if fact.kind == "stated" else f"{fact.source} ({fact.kind})"
        else:
            source = f"as in {preset}" if preset else "default"
        changed = bool(said) or (plain is not None and before.get(key) != value)
        yield Switch(shown_key(key), shown(value), source, changed)


def _shown_keys(config: RunConfig) -> list[str]:
    """The keys that make the method and its step, without those that have no say here."""
    advantage, clip, rollout, samples = config.advantage, config.clip, config.rollout, config.samples
    std = advantage.scale not in ("none", "group_mean")
    several = config.optim.updates_per_rollout > 1
    wanted = {
        "samples.source": samples.source != "policy",
        "samples.keep": samples.keep != "all",
        "samples.per_question": samples.per_question is not None,
        "advantage.credit": advantage.credit != "outcome",
        "advantage.baseline": advantage.credit not in ("pairs", "gae"),
        "advantage.scale": advantage.credit not in ("pairs", "gae"),
        "advantage.ddof": std,
        "advantage.eps": std or advantage.eps > 0,
        "loss_norm.kind": True,
        "loss_norm.divisor": config.loss_norm.kind == "constant",
        "beta.value": True,
        "beta.estimator": config.beta.value > 0,
        "beta.placement": config.beta.value > 0,
        "beta.refresh_every": config.beta.refresh_every > 0,
        "clip.kind": clip.kind != "token",
        "clip.low": clip.kind != "none",
        "clip.high": clip.kind != "none",
        "clip.dual": clip.dual is not None,
        **{f"critic.{name}": config.critic.kind != "none" for name in ("kind", "lr", "gamma", "lam", "clip")},
        "group_size.value": True,
        "questions_per_step": True,
        "optim.updates_per_rollout": True,
        "optim.minibatch": several,
        "reward.truncated": True,
        "rollout.dynamic_sampling": rollout.dynamic_sampling > 0,
        "rollout.importance": rollout.importance != "none",
        "entropy_bonus": config.entropy_bonus > 0,
        "temperature": True,
        "max_new_tokens": True,
        "optim.lr": True,
        "lora.enabled": True,
        "lora.rank": config.lora.enabled,
    }
    return [key for key, has in wanted.items() if has]
