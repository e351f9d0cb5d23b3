"""What is measured: the cases, their prompts, and model folders whose models never end an answer by themselves."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """One step of so many questions × group_size answers of new_tokens tokens, LoRA of this rank on all linear layers.

    characters: of a prompt. steps: optimizer steps a run, the first two of which are warm-up. trl_rows: answers in a
    micro-batch of TRL's; None: all of them, which is fastest where the memory is there. model: None where a folder
    must be given.
    """

    name: str
    questions: int
    group_size: int
    new_tokens: int
    rank: int
    characters: int
    steps: int
    trl_rows: int | None = None
    model: str | None = None

    @property
    def rows(self) -> int:
        return self.questions * self.group_size

    @property
    def sampled(self) -> int:
        """Tokens that a step samples when no answer ends early."""
        return self.rows * self.new_tokens


CASES = {
    case.name: case
    for case in (
        Case("tiny", 16, 8, 64, rank=8, characters=16, steps=14, model="tiny"),
        Case("smollm2", 4, 8, 64, rank=16, characters=64, steps=6),
        # 32 rows of about 300 tokens do not fit a small machine in TRL at once
        Case("smollm2_1k", 4, 8, 64, rank=16, characters=1024, steps=6, trl_rows=8),
    )
}

SENTENCES = (
    "a train leaves the station and covers the same distance every hour. ",
    "the baker sells bread in the morning and counts what is left at noon. ",
    "two friends share the cost of a tent and of the food for a week. ",
    "a tank is filled by one pipe and emptied by another that is slower. ",
    "the garden is as long as the street and half as wide as the house. ",
)


def prompts(count: int, characters: int, arithmetic: bool = False) -> list[str]:
    """`count` texts of exactly so many characters that differ from the first character on.

    arithmetic: sums of small numbers, for the embedded model, whose tokenizer knows nothing else.
    """
    if arithmetic:
        return [f"{11 + slot % 80}+{10 + slot * 7 % 90}=?" for slot in range(count)]
    made = []
    for slot in range(count):
        text, sentence = f"{slot + 10} ", slot
        while len(text) < characters:
            text, sentence = text + SENTENCES[sentence % len(SENTENCES)], sentence + 1
        made.append(text[:characters])
    return made


def write_questions(folder: Path, texts: list[str]) -> Path:
    """The prompts as the JSONL file that both sides read."""
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps({"question": text, "answer": "1"}) + "\n" for text in texts))
    return path


def never_ending(source: str, target: Path) -> Path:
    """A copy of a model folder (weights linked) whose only EOS is an id past the last row of the logits.

    Both sides read the EOS from configuration, generation configuration and tokenizer; neither can sample this one.
    """
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    tokenizer, config = AutoTokenizer.from_pretrained(source), AutoConfig.from_pretrained(source)
    pad = tokenizer.pad_token or tokenizer.eos_token
    fillers = max(0, config.vocab_size - len(tokenizer))
    tokenizer.add_tokens([f"<|never_{i}|>" for i in range(fillers)], special_tokens=True)
    tokenizer.add_special_tokens({"eos_token": "<|never|>", "pad_token": pad})
    if tokenizer.eos_token_id < config.vocab_size:
        raise SystemExit(f"{source}: no unreachable EOS could be made for this tokenizer.")
    target.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(target)
    config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    config.save_pretrained(target)
    GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    ).save_pretrained(target)
    for path in Path(source).glob("*.safetensors*"):
        link = target / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path.resolve())
    return target


def tiny_llama(
    target: Path, layers: int = 4, hidden: int = 128, intermediate: int = 352, vocabulary: int = 512
) -> Path:
    """A random Llama with a tokenizer of one token a character; seed 0."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(target)
    _characters(vocabulary).save_pretrained(target)
    return target


def _characters(vocabulary: int) -> Any:
    """A tokenizer of printable ASCII, and of other letters up to the size of the vocabulary."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<bos>", "<eos>", "<unk>"]
    letters = [*string.printable[:95], *(chr(0x4E00 + i) for i in range(vocabulary))]
    words = {word: number for number, word in enumerate([*special, *letters][:vocabulary])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def model_folder(name: str, target: Path) -> Path:
    """`tiny`, `embedded` or a Hugging Face folder, as a folder that never ends an answer."""
    if name == "tiny":
        return never_ending(str(tiny_llama(target / "tiny-base")), target / "tiny")
    if name == "embedded":
        from grpo_runner.policy.models import EMBEDDED

        return never_ending(str(EMBEDDED), target / "embedded")
    if not (Path(name) / "config.json").is_file():
        raise SystemExit(f"--model {name}: a folder with config.json is needed.")
    return never_ending(name, target / "model")
