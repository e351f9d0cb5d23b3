"""What Hydra refused, as an InputError of one to five lines that names the key and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

import yaml
from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf.errors import InterpolationKeyError, MissingMandatoryValue, OmegaConfBaseException
from yaml.reader import ReaderError

from ..errors import InputError, nearest
from ..validate import NUMERIC_GROUPS, PARTS, SET, keys, lists, mappings, shown, shown_key, suggest, takes
from .names import PRESETS

# Choices are listed in a message up to so many characters; longer lists are for --help
LONGEST_LIST = 220
# Choices of Hydra's groups that are there once the extra `sweep` is installed
OF_EXTRA = {"hydra/launcher": ("joblib", "ray", "submitit_local", "submitit_slurm"), "hydra/sweeper": ("optuna",)}
OWN_SWEEPER = "resuming"  # chosen by the runner itself (jobs.py), never typed


def explain(error: Exception, override: str | None = None, typed: Sequence[str] = ()) -> InputError:
    """What Hydra refused, as an InputError of one to five lines.

    override: the text that was being read; typed: all overrides, to tell what was typed from what stands in a file.
    """
    if isinstance(error, InputError):
        return error
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, InputError):  # of a resolver of ours
            return inner
        inner = inner.__cause__ or inner.__context__
    if isinstance(error, OverrideParseException) or override is not None:
        override = override or getattr(error, "override", None) or ""
        reason = _unreadable(override) if "LexerNoViableAlt" in str(error) else first_lines(error, 1)
        return InputError(
            f"{override}: not readable as key=value ({reason}).\n"
            "Allowed: key=value, key=[a,b] for a list, key='\"text\"' (both quotes) for text with = , or brackets."
        )
    said = _of_a_file(error) or _of_a_choice(error, typed) or _of_a_key(error) or _of_a_value(error)
    return InputError(said or first_lines(error))


def no_choice(group: str, value: object, options: Sequence[str]) -> str:
    """The sentence about a group's value that is none of its files."""
    if not options:
        groups = [*PRESETS, *(key for key in keys() if takes(key).startswith(" It takes the keys"))]
        return f'There is no group "{group}" to take {group}={shown(value)} from.{nearest(group, groups)}'
    more = [name for name in OF_EXTRA.get(group, ()) if name not in options]
    if value in more:
        return f"{group}={value} needs an extra that is not installed: pip install 'grpo-runner[sweep]'"
    options = sorted({*options, *more} - {OWN_SWEEPER}) if group in OF_EXTRA else options
    number = ", or a number" if group in NUMERIC_GROUPS else ""
    listed = f"It takes one of {', '.join(options)}{number}."
    close = nearest(value, options) if isinstance(value, str) else ""
    if len(listed) <= LONGEST_LIST:
        return f"{group}={shown(value)} is not allowed. {listed}{close}"
    held = [option for option in options if value in option] if isinstance(value, str) and value and not close else []
    close = close or (f' With "{value}" in the name: {", ".join(held[:4])}{", …" if held[4:] else "."}' if held else "")
    return (
        f"{group}={shown(value)} is not allowed: none of its {len(options)} choices has this name.{close}\n"
        f"All of them: python -m grpo_runner --help {group}"
    )


def first_lines(error: BaseException, most: int = 4) -> str:
    """The telling lines of a library's message and of its cause."""
    lines = [*str(error).splitlines(), *(str(error.__cause__).splitlines() if error.__cause__ else [])]
    joblib = "Detailed tracebacks of the workers"  # that were killed, and have none
    noise = ("See http", "Error parsing override", "object_type", "reference_type", joblib)
    telling = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(noise)]
    telling = [re.sub("^full_key: (.*)", r"at \1", line) for line in telling]
    return "\n".join(telling[:most]) or type(error).__name__


def _of_a_file(error: Exception) -> str | None:
    """A YAML file that cannot be read, or whose content has another shape than conf/ has."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark):
        begun = error.context_mark
        since = f", {error.context} from line {begun.line + 1}" if begun and begun.line != mark.line else ""
        return f"{mark.name}, line {mark.line + 1}: not readable as YAML ({error.problem}{since}).\n{_YAML}"
    if isinstance(error, ReaderError):
        return f"{error.name}: not readable as YAML ({str(error).splitlines()[0]}).\n{_YAML}"
    if isinstance(error, UnicodeDecodeError):
        before, after = error.object[: error.start].split(b"\n")[-1], error.object[error.start :].split(b"\n")[0]
        line = (before + after).decode(errors="backslashreplace").strip()[:80]
        return f'A file of the configuration is no UTF-8 text, in its line "{line}".\n{_YAML}'
    if shape := re.search(r"In '([^']+)': ConfigTypeError raised while composing", str(error)):
        which = ", ".join(lists())
        return f"{shape[1]}.yaml: names stand where a list belongs, or the other way round.\nThe lists are {which}."
    return None


def _of_a_choice(error: Exception, typed: Sequence[str]) -> str | None:
    """A group's file, chosen where it cannot be or in a way that Hydra does not take."""
    text = str(error)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and "/" in error.missing_cfg_file:
        group, _, value = error.missing_cfg_file.rpartition("/")
        return no_choice(group, value, error.options or ())
    if twice := re.search(r"Multiple values for (\S+)\. To override a value use 'override \S+: (.*)'", text):
        if override := next((word for word in typed if re.match(rf"\s*\+{re.escape(twice[1])}\s*=", word)), None):
            return _without_plus(override)
        return f"{twice[1]}: a file chooses it a second time. In its defaults write - override /{twice[1]}: {twice[2]}"
    if forced := re.search(r"force-add of config groups is not supported: '(.*)'", text):
        return _without_plus(forced[1])
    if gone := re.search(r"Could not delete '([^']*)'\. No match", text):
        group = gone[1].partition("=")[0]
        instead = f"Write ~{group}." if group in PRESETS else f"For another choice write {group}=NAME; names: --help"
        return f"~{gone[1]}: there is no {gone[1]} to leave out. {instead}"
    if placed := re.search(r"Override (\S+) looks like a config group override, but config group '([^']*)'", text):
        known = f" Write {placed[2]}=… without the @." if placed[2] in keys() else suggest(placed[2])
        return f'{placed[1]}: there is no group "{placed[2]}".{known}'
    if below := re.search(r"In '((\w+)/[^']+)': Could not override '\2/([^'@/]+)", text):  # the / before it is missing
        near = "" if below[3] in keys() else suggest(below[3])
        return (
            f"{below[1]}.yaml overrides {below[2]}/{below[3]}: no such group. Write - override /{below[3]}: NAME{near}"
        )
    if placed := re.search(r"Could not override '([^'@]+)@([^']*)'", text):
        return f"{placed[1]}@{placed[2]}: {placed[1]} has one place in a run. Write {placed[1]}=… without the @."
    return None


def _of_a_key(error: Exception) -> str | None:
    """A key that is not there, or is there already."""
    text = str(error)
    if present := re.search(r"An item is already at '([^']+)'", text):
        key = shown_key(present[1])
        return f"+{key}: the key is there already. Write {key}=… without the +."
    if other := re.search(r"Could not delete from config\. The value of '([^']+)' is (.*) and not (.*)\.", text):
        instead = f" A key cannot be left out.{takes(other[1])}" if other[1] in keys() else f" Write ~{other[1]}."
        return f"~{other[1]}={other[3]}: the value is {other[2]}.{instead}"
    if not (unknown := re.search(r"Could not (override|delete from config\.) '([^']+)'", text)):
        return None
    key = getattr(error.__cause__, "full_key", None) or unknown[2]  # of a mapping, the name in it
    parent, _, name = key.rpartition(".")
    if unknown[1] != "override" and (parent in mappings() or key in keys()):
        return f"~{key}: {parent} has no {name!r}." if parent in mappings() else f"~{key}: it is null.{takes(key)}"
    if parent == "evaluation.sets":
        return f"evaluation.sets has no {name!r}. For one more set write +{key}.path=FILE or +{key}.hub_id=OWNER/NAME"
    if parent.startswith("evaluation.sets."):
        return f"{parent} has no {name!r}.{nearest(name, SET)} A set has {', '.join(SET)}."
    if parent in mappings():
        if name not in PARTS:
            return f'{parent}: there is no part "{name}".{nearest(name, PARTS)} Allowed: {", ".join(PARTS)}.'
        return f'"{key}" is not there yet. Add it with a +: +{key}=…'
    if key.split("@")[0] in keys():
        return None
    tail = "" if key.startswith("hydra.") else suggest(key) + "\nAll keys: python -m grpo_runner --cfg job"
    return f'Unknown key "{key}".{tail}'


def _of_a_value(error: Exception) -> str | None:
    """A value that has another shape than the key's, or that refers to nothing."""
    if merged := re.search(r"Error merging override [+~\s]*([^\s=]+)\s*=?(.*)", str(error)):
        key, value = merged[1], merged[2].strip()
        if said := no_item(key, {key.rpartition(".")[2]}):
            return said
        why = takes(key) or f" {str(error.__cause__).splitlines()[0]}"  # of Hydra's own keys, Hydra's own words
        return f"{shown_key(key)}={value} is not allowed.{why}"
    key = getattr(error, "full_key", None) or ""
    if isinstance(error, MissingMandatoryValue) and key in keys():
        return f"{shown_key(key)}=??? stands for a value that is still to be given.{takes(key)}"
    if isinstance(error, InterpolationKeyError) and (name := re.search(r"Interpolation key '([^']+)'", str(error))):
        return f'{shown_key(key)} refers to ${{{name[1]}}}: there is no key "{name[1]}".{suggest(name[1])}'
    if isinstance(error, OmegaConfBaseException) and key in keys():
        return f"{shown_key(key)}: {first_lines(error, 1)}.{takes(key)}"
    return None


def no_item(key: str, wrong: Container[str] = ()) -> str | None:
    """The sentence about a key below a list that is none of its places, nor one of those that are `wrong`."""
    for name in lists():
        if key.startswith(f"{name}.") and (not (place := key[len(name) + 1 :]).isdecimal() or place in wrong):
            return f"{key} is no key: {name} is a list. Write it whole, {name}=[a,b]."
    return None


def _without_plus(override: str) -> str:
    plain = override.strip().lstrip("+")
    return f"{override.strip()}: {plain.partition('=')[0]} is chosen without a +. Write {plain}"


_YAML = "Allowed: UTF-8 text, lines of key: value, each level indented alike, without tabs."


def _unreadable(override: str) -> str:
    """Which characters of an override Hydra's grammar does not know."""
    value = re.sub(r"'[^']*'|\"[^\"]*\"", "", override.partition("=")[2])
    if strange := dict.fromkeys(re.findall(r"[^\w \t/\\+.$%*@?|:=,()\[\]{}'\"-]", value, re.ASCII)):
        return f"only in quotes: {' '.join(strange)}"
    return "a quote without its other half" if re.search("['\"]", value) else "no key is written like this"
