"""RunConfig: the one typed object that a run is, all of it here. Frozen dataclasses by pydantic; no Hydra, no torch.

Fields carry type and range only. Their meaning, unit and the papers' values stand once, as comments above each key of
`conf/`, where users read them. Types are strict (a bool is no int, "3" is no 3) and nothing may be NaN or infinite.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
# far above any rate that trains, far below where AdamW overflows
Rate = Annotated[float, Field(gt=0, le=1000)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Tolerance = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
# a function of the user's own, package.module:name
OwnFunction = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
# YAML gives lists; they are stored as tuples so that a RunConfig cannot change after it was made
Strings = Annotated[tuple[Text, ...], Field(strict=False)]
# levels of a set are numbers in some files and texts in others
Levels = Annotated[tuple[Text | int, ...], Field(strict=False)]


@dataclass(frozen=True, config=_STRICT)
class ModelConfig:
    """Which causal LM, from a hub id or a folder. `embedded` is the model shipped in the package."""

    path: Text
    revision: str | None
    gradient_checkpointing: bool
    quantize: Literal["none", "nf4"]
    attn_implementation: Literal["auto", "eager", "sdpa", "flash_attention_2"]


@dataclass(frozen=True, config=_STRICT)
class SourceConfig:
    """One set of questions: a local file or a hub id."""

    path: str | None
    hub_id: str | None
    hub_config: str | None
    split: Text
    revision: str | None
    question_column: Text | None
    answer_column: Text | None


@dataclass(frozen=True, config=_STRICT)
class SetConfig(SourceConfig):
    """One set to evaluate on; null stands for what `data` says."""

    answer_pattern: str | None


@dataclass(frozen=True, config=_STRICT)
class DataConfig:
    """Where questions come from, and the rules for columns, sizes and long prompts."""

    kind: Literal["arithmetic", "countdown", "table"]
    train: SourceConfig
    eval: SourceConfig
    question_column: Text
    answer_column: Text
    answer_pattern: str | None
    solution_column: Text | None
    unreadable_gold: Literal["error", "drop"]
    levels: Levels
    level_column: Text
    max_question_characters: Count | None
    train_size: Count | None
    eval_size: Count | None
    short_batch: Literal["wrap", "drop"]
    small_set: Literal["wrap", "error"]
    max_prompt_tokens: Count
    long_prompt: Literal["drop", "error", "truncate_left"]


@dataclass(frozen=True, config=_STRICT)
class SamplesConfig:
    """Whose answers are trained on, and which of them: the data source of DeepSeekMath's appendix A.1."""

    source: Literal["policy", "base", "solutions"]
    keep: Literal["all", "right", "pairs"]
    per_question: Count | None


@dataclass(frozen=True, config=_STRICT)
class PromptConfig:
    """A jinja2 template, or the model's own chat template around it."""

    template: Text
    system: str | None
    chat: bool
    stop: Strings


@dataclass(frozen=True, config=_STRICT)
class RewardConfig:
    """Weighted parts of the reward, and the processes that grade."""

    parts: dict[str, float]
    function: str | None
    model: Text | None
    model_revision: Text | None
    refresh_every: Natural
    model_lr: Rate
    replay: Probability
    steps: Literal["none", "lines"] | OwnFunction
    extract: Literal["box_or_marker", "box", "answer_tag", "hash", "whole"]
    boxes: Literal["unhedged", "last", "first", "only"]
    equality: Literal["value", "string", "math_verify"]
    units: Literal["optional", "ignored", "required"]
    percent: Literal["sign_optional", "strict", "any_scale"]
    decimal_tolerance: Tolerance
    rounded_golds: bool
    numeric_tolerance: Tolerance
    letters: Literal["with_text", "alone"]
    lists: Literal["unordered", "ordered"]
    several_golds: Literal["any", "all"]
    truncated: Literal["zero", "keep", "mask", "soft"]
    overlong_buffer: Count | None
    deadline_s: Positive
    workers: Count


@dataclass(frozen=True, config=_STRICT)
class AdvantageConfig:
    """Baseline and scale of the centred reward, each its own switch, and which tokens are credited with it."""

    credit: Literal["outcome", "process", "gae", "pairs"]
    baseline: Literal["group_mean", "leave_one_out", "batch_mean", "none"] | OwnFunction
    scale: Literal["none", "group_std", "batch_std", "group_mean"] | OwnFunction
    ddof: Literal[0, 1]
    eps: NonNegative


@dataclass(frozen=True, config=_STRICT)
class LossNormConfig:
    """How the token losses of an optimizer batch become one number."""

    kind: Literal["sequence_mean", "constant", "token_mean", "group_token_mean", "sequence_sum"] | OwnFunction
    divisor: Positive | None


@dataclass(frozen=True, config=_STRICT)
class BetaConfig:
    """The KL penalty against the reference policy. reference: initial, base, or the folder of a LoRA adapter."""

    value: NonNegative
    estimator: Literal["k1", "k2", "k3"]
    placement: Literal["loss", "reward", "preference"]
    reference: Text
    refresh_every: Natural


@dataclass(frozen=True, config=_STRICT)
class GroupSizeConfig:
    """G, the completions sampled per question."""

    value: Count


@dataclass(frozen=True, config=_STRICT)
class ClipConfig:
    """The ratio that is clipped, and its range: it is held in [1 - low, 1 + high]."""

    kind: Literal["token", "sequence", "cispo", "none"]
    low: NonNegative
    high: NonNegative
    dual: Annotated[float, Field(gt=1)] | None


@dataclass(frozen=True, config=_STRICT)
class CriticConfig:
    """PPO's value model, and the estimator that rests on it; all null where there is none."""

    kind: Literal["none", "shared_base", "own_model"]
    lr: Rate | None
    gamma: Fraction | None
    lam: Annotated[float, Field(ge=0, le=1)] | None
    clip: Positive | None


@dataclass(frozen=True, config=_STRICT)
class LoraConfig:
    """The adapter that is trained, or full fine-tuning when disabled."""

    enabled: bool
    rank: Count
    alpha: Positive
    dropout: Probability
    targets: Text | Strings
    adapter: Text | None


@dataclass(frozen=True, config=_STRICT)
class OptimConfig:
    """AdamW, the schedule, and how a rollout is cut into optimizer steps and micro-batches."""

    lr: Rate
    betas: Annotated[tuple[Probability, Probability], Field(strict=False)]
    eps: Positive
    weight_decay: NonNegative
    max_grad_norm: Positive | None
    schedule: Literal["constant", "linear", "cosine"]
    warmup_steps: Natural
    updates_per_rollout: Count
    minibatch: Literal["whole", "response", "group"]
    microbatch_tokens: Count | Literal["auto"]
    packing: bool
    fused: bool


@dataclass(frozen=True, config=_STRICT)
class RolloutConfig:
    """The sampling engine, what is sampled again, and what its mismatch with the trainer does."""

    engine: Literal["native", "transformers", "vllm"]
    top_p: Fraction
    top_k: Natural
    batch_rows: Count
    merge_lora: bool
    ahead: bool
    dynamic_sampling: Natural
    when_short: Literal["smaller", "error"]
    importance: Literal["none", "token", "sequence"]
    importance_cap: Positive | None
    vllm_python: Text | None
    vllm_memory: Fraction
    vllm_tensor_parallel: Count


@dataclass(frozen=True, config=_STRICT)
class EvaluationConfig:
    """Held-out questions: how often, which sets (none named: data.eval), how many of each, how sampled."""

    every: Natural
    sets: dict[str, SetConfig]
    questions: Count
    samples: Natural
    greedy: bool
    temperature: Positive
    top_p: Fraction
    max_new_tokens: Count | None


@dataclass(frozen=True, config=_STRICT)
class TrackingConfig:
    """What is written beside metrics.jsonl and questions.parquet, which always are."""

    wandb: Literal["auto", "online", "offline", "disabled"]
    project: Text
    entity: str | None
    group: str | None
    tags: Strings
    completions_every: Natural
    probe_every: Natural
    probe: Strings


@dataclass(frozen=True, config=_STRICT)
class CheckpointConfig:
    """How often a checkpoint is written, and how many are kept."""

    every: Natural
    keep: Count


@dataclass(frozen=True, config=_STRICT)
class HealthConfig:
    """Which rules of health/ end the run where they hold."""

    stop_on: Strings


@dataclass(frozen=True, config=_STRICT)
class RunConfig:
    """Everything a run depends on. `grpo_runner.config.compose` makes one; `grpo_runner.train.run` runs it.

    run_dir is where Hydra put the run (`hydra.run.dir`, or the sweep's sub-folder); all other fields are keys of conf/.
    """

    model: ModelConfig
    data: DataConfig
    prompt: PromptConfig
    samples: SamplesConfig
    reward: RewardConfig
    advantage: AdvantageConfig
    loss_norm: LossNormConfig
    beta: BetaConfig
    group_size: GroupSizeConfig
    clip: ClipConfig
    critic: CriticConfig
    lora: LoraConfig
    optim: OptimConfig
    rollout: RolloutConfig
    evaluation: EvaluationConfig
    tracking: TrackingConfig
    checkpoint: CheckpointConfig
    health: HealthConfig
    entropy_bonus: Annotated[float, Field(ge=0, le=1000)]
    steps: Count
    seed: Natural
    questions_per_step: Count
    max_new_tokens: Count
    temperature: Positive
    device: Literal["auto", "cpu", "cuda", "mps"]
    dtype: Literal["auto", "float32", "bfloat16"]
    shard_base: Literal["none", "machine", "all"]
    run_name: Text
    sweep_name: str | None
    metric: Text
    run_dir: Text

    @property
    def evaluation_tokens(self) -> int:
        """Tokens that an answer may have in an evaluation."""
        return self.evaluation.max_new_tokens or self.max_new_tokens
