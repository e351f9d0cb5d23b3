"""What Hydra refused, as an InputError of one to five lines that names the key and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hydra.errors import MissingConfigException, OverrideParseException

from ..errors import InputError, nearest
from ..validate import NUMERIC_GROUPS, keys, mappings, shown, shown_key, suggest


def explain(error: Exception, override: str | None = None) -> InputError:
    """What Hydra refused, as an InputError of one to five lines. `override`: the text that was being read."""
    text = str(error)
    if isinstance(error, InputError):
        return error
    if isinstance(error, OverrideParseException) or override is not None:
        override = override or getattr(error, "override", None) or ""
        reason = _unreadable(override) if "LexerNoViableAlt" in text else first_lines(error, 1)
        return InputError(
            f"{override}: not readable as key=value ({reason}).\n"
            "Allowed: key=value, key=[a,b] for a list, key='\"text\"' (both quotes) for text with = , or brackets."
        )
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and "/" in error.missing_cfg_file:
        group, _, value = error.missing_cfg_file.rpartition("/")
        return InputError(no_choice(group, value, error.options or ()))
    if unknown := re.search(r"Could not (?:override|delete from config\.) '([^']+)'", text):
        key = unknown[1]
        if key.rpartition(".")[0] in mappings():
            return InputError(f'"{key}" is not there yet. Add it with a +: +{key}=…')
        if key.split("@")[0] not in keys():
            tail = "" if key.startswith("hydra.") else suggest(key) + "\nAll keys: python -m grpo_runner --cfg job"
            return InputError(f'Unknown key "{key}".{tail}')
    if present := re.search(r"An item is already at '([^']+)'", text):
        key = shown_key(present[1])
        return InputError(f"+{key}: the key is there already. Write {key}=… without the +.")
    return InputError(first_lines(error))


def no_choice(group: str, value: object, options: Sequence[str]) -> str:
    """The sentence about a group's value that is none of its files."""
    number = ", or a number" if group in NUMERIC_GROUPS else ""
    text = f"{group}={shown(value)} is not allowed. It takes one of {', '.join(options)}{number}."
    return text + (nearest(value, options) if isinstance(value, str) else "")


def first_lines(error: BaseException, most: int = 4) -> str:
    """The telling lines of a library's message and of its cause."""
    lines = [*str(error).splitlines(), *(str(error.__cause__).splitlines() if error.__cause__ else [])]
    noise = ("See http", "Error parsing override", "object_type", "reference_type")
    telling = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(noise)]
    telling = [re.sub("^full_key: (.*)", r"at \1", line) for line in telling]
    return "\n".join(telling[:most]) or type(error).__name__


def _unreadable(override: str) -> str:
    """Which characters of an override Hydra's grammar does not know."""
    value = re.sub(r"'[^']*'|\"[^\"]*\"", "", override.partition("=")[2])
    if strange := dict.fromkeys(re.findall(r"[^\w \t/\\+.$%*@?|:=,()\[\]{}'\"-]", value, re.ASCII)):
        return f"only in quotes: {' '.join(strange)}"
    return "a quote without its other half" if re.search("['\"]", value) else "no key is written like this"
