"""Small real tokenizers, made in the test."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

BOS, EOS = 256, 257
# as Qwen2.5-Instruct's: a system message of its own where none is given
CHATML = (
    "{% if messages[0]['role'] != 'system' %}"
    "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(front="", behind="", chat=None, bos="<s>", markers=()):
    """A real byte-level tokenizer (ids 0..255 are bytes) that puts tokens in front of and behind a text.

    There is no pad token, as with many base models. markers: further special tokens, from id 258 on.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([bos or "<s>", "</s>", *markers])
    special = [(token, inner.token_to_id(token)) for token in (bos or "<s>", "</s>")]
    inner.post_processor = processors.TemplateProcessing(
        single=f"{front} $A {behind}".strip(), pair="$A $B", special_tokens=special
    )
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=bos, eos_token="</s>")
    made.chat_template = chat
    assert made.pad_token is None
    return made
