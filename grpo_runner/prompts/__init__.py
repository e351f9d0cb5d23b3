"""From a question to the token ids that a model is given, and what can be said about a prompt and its tokenizer."""

from .mismatch import mismatches
from .prompter import LONG, Prompter, check, fit, shortened
from .texts import Lengths, lengths, token_texts

__all__ = ["LONG", "Lengths", "Prompter", "check", "fit", "lengths", "mismatches", "shortened", "token_texts"]
