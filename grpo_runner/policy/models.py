"""Loading a causal LM and its tokenizer from a folder, the hub or the package itself; choosing device and dtype."""

from __future__ import annotations

import inspect
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from ..errors import InputError
from ..local_paths import adapter_settings, check_model, no_adapter
from ..schema import LoraConfig, ModelConfig
from ..validate import shown
from ..waiting import waiting

EMBEDDED = Path(__file__).parent / "embedded"


def choose_device(name: str) -> torch.device:
    """`auto` is cuda, then mps, then cpu. Raises InputError where the device asked for is absent."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, present in available.items() if present)
    if not available[name]:
        present = ", ".join(kind for kind, there in available.items() if there)
        raise InputError(
            f"device={name}: torch {torch.__version__} finds no such device here.\nAllowed: auto, {present}."
        )
    return torch.device(name)


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on a GPU that computes in it, float32 elsewhere (on CPUs bf16 rarely pays)."""
    if name == "auto":
        name = "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def locate(path: str, key: str = "model.path") -> str:
    """The embedded model's folder, a folder as given, or a hub id. Raises InputError for a folder that is no model."""
    check_model(path, key)
    folder = Path(path).expanduser()
    if path == "embedded":
        return str(EMBEDDED)
    return str(folder) if folder.is_dir() else path


def load_tokenizer(config: ModelConfig) -> Any:
    """The tokenizer, padding on the left, with its EOS as pad where it has none of its own, and id 0 without either.

    Which id it is does not matter: masks come from lengths, never from token values.
    """
    from transformers import AutoTokenizer

    tokenizer = from_pretrained(AutoTokenizer, config, ": its tokenizer")
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else 0
    return tokenizer


def load_model(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> Any:
    """The base model in evaluation mode on the device."""
    from transformers import AutoModelForCausalLM

    options: dict[str, Any] = {"dtype": dtype, "use_safetensors": True}
    if config.attn_implementation != "auto":
        options["attn_implementation"] = config.attn_implementation
    if config.quantize == "nf4":
        options |= {"quantization_config": _nf4(device, dtype), "device_map": {"": device}}
    model, loaded = from_pretrained(AutoModelForCausalLM, config, "", output_loading_info=True, **options)
    if missing := sorted(loaded["missing_keys"]):  # transformers would fill them with random numbers
        raise InputError(
            f"model.path={config.path}: {len(missing)} of the model's tensors are not in its weights.\n"
            f"Missing: {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}"
        )
    return model.eval() if config.quantize == "nf4" else model.to(device).eval()


def _nf4(device: torch.device, dtype: torch.dtype) -> Any:
    """QLoRA's storage: 4-bit NormalFloat with double quantisation (Dettmers et al. 2023, sec. 3)."""
    from importlib.util import find_spec

    from transformers import BitsAndBytesConfig

    if find_spec("bitsandbytes") is None or device.type != "cuda":
        lacks = "a GPU" if device.type != "cuda" else "bitsandbytes (pip install 'grpo-runner[qlora]')"
        raise InputError(f"model.quantize=nf4 needs {lacks}.\nAllowed here: none.")
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )


def from_pretrained(cls: Any, config: ModelConfig, part: str, key: str = "model.path", **options: Any) -> Any:
    """`cls.from_pretrained` with the causes a user can mend told in two lines. part, key: what is loaded, for them."""
    where = locate(config.path, key)
    from_hub = not Path(where).is_dir()
    try:
        with waiting(f"{key}={config.path}{part} from the Hugging Face hub") if from_hub else nullcontext():
            # said, since transformers asks on the terminal where nothing is said
            return cls.from_pretrained(where, revision=config.revision, trust_remote_code=False, **options)
    except (OSError, ValueError, ImportError, KeyError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        if "trust_remote_code" in str(error):
            reason = (
                "It brings code of its own (auto_map), and none is run here. Allowed: kinds that transformers knows."
            )
        raise InputError(f"{key}={config.path}{part} cannot be loaded ({type(error).__name__}).\n{reason}") from error


def eos_ids(model: nn.Module, tokenizer: Any) -> frozenset[int]:
    """Every id that ends an answer: the generation config's list and the tokenizer's own. Many models have several."""
    ids: set[int] = set()
    for source in (getattr(model, "generation_config", None), getattr(model, "config", None), tokenizer):
        value = getattr(source, "eos_token_id", None)
        ids.update([value] if isinstance(value, int) else value or [])
    return frozenset(ids)


def forward_keywords(model: Any) -> frozenset[str]:
    """Keyword names of the causal LM's forward, looked up behind a PEFT wrapper: not every model takes every one."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return frozenset(inspect.signature(base.forward).parameters)


def attach_lora(model: Any, config: LoraConfig, seed: int) -> nn.Module:
    """Freeze the base and add a LoRA adapter (fp32 also on a bf16 base); B is 0 at first, so the policy is the base,
    or the tensors of `config.adapter`.

    A is drawn under `seed` without touching the caller's generator. Raises InputError when targets match no module.
    """
    from peft import LoraConfig as PeftLora
    from peft import get_peft_model

    targets = config.targets if isinstance(config.targets, str) else list(config.targets)
    settings = PeftLora(
        r=config.rank,
        lora_alpha=config.alpha,  # type: ignore[arg-type]
        lora_dropout=config.dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_available() else []):
            torch.manual_seed(seed)
            policy = get_peft_model(model, settings)
    except ValueError as error:
        kinds = sorted(
            {name.rsplit(".", 1)[-1] for name, module in model.named_modules() if isinstance(module, nn.Linear)}
        )
        raise InputError(
            f"lora.targets={shown(config.targets)}: no such modules in this model.\n"
            f"Allowed: all-linear, or names of {', '.join(kinds)}."
        ) from error
    if config.adapter is not None:
        tensors = read_adapter(Path(config.adapter), policy, config, "lora.adapter")
        with torch.no_grad():
            for name, parameter in policy.named_parameters():
                if name in tensors:
                    parameter.copy_(tensors[name])
    return policy


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def peft_name(name: str) -> str:
    """A parameter's name in PEFT's files: without that of the adapter, which may end it (lora_embedding_A.default)."""
    return re.sub(r"\.default(?=\.|$)", "", name)


def read_adapter(folder: Path, policy: Any, config: LoraConfig, key: str) -> dict[str, torch.Tensor]:
    """Tensors of the LoRA adapter in a folder, by the names of the policy's parameters, on its device.

    Raises InputError, naming `key`, unless the folder holds an adapter of the shape that the configuration asks for:
    `lora.rank` and `lora.alpha` would otherwise say what is not so.
    """
    folder = folder.expanduser()
    settings = adapter_settings(folder, config, key)
    try:
        tensors = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise no_adapter(folder, key, type(error).__name__) from error
    if odd := [
        name
        for name in ("use_dora", "use_rslora", "modules_to_save", "rank_pattern", "alpha_pattern")
        if settings.get(name)
    ]:
        raise InputError(f"{key}={folder}: adapters with {odd[0]} are not supported.")
    named, whole = trainable(policy), policy.state_dict()
    # PEFT writes the base's own embedding and head too where an adapter is on them
    copies = [name for name in tensors if ".base_layer." in name and _same(tensors[name], whole.get(name))]
    tensors = {name: value for name, value in tensors.items() if name not in copies}
    found = {name: tensors.pop(peft_name(name), None) for name in named}
    if broken := [name for name, value in found.items() if value is not None and not value.isfinite().all()]:
        raise InputError(f"{key}={folder}: {broken[0]} has numbers that are not finite.")
    fits = all(value is not None and value.shape == named[name].shape for name, value in found.items())
    if not fits or tensors:
        raise InputError(f"{key}={folder}: the adapter is for other modules than lora.targets={shown(config.targets)}.")
    return {name: value.to(named[name]) for name, value in found.items() if value is not None}


def _same(theirs: torch.Tensor, ours: torch.Tensor | None) -> bool:
    return ours is not None and ours.shape == theirs.shape and torch.equal(theirs.to(ours), ours)
