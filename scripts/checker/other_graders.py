r"""Other graders of math answers, for comparison: math-verify called in two ways, and four in the style of others.

A grader takes a response and one gold, both text, and says whether it accepts. The `style` ones are written anew: they
follow the originals' steps, and share none of their code. None of them evaluates text: what the originals give to
sympy's `parse_expr` or to its LaTeX parser goes through latex2sympy2_extended here. They have no deadline of their own,
and hostile rows can hang them: killable.py runs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Grade = Callable[[str, str], bool]

# --- math-verify itself -----------------------------------------------------------------------------------------------


def math_verify_default(response: str, gold: str) -> bool:
    """`verify(parse(gold), parse(response))` with its defaults. The gold goes in as a formula; bare, it is misread."""
    from math_verify import parse, verify

    return bool(verify(parse(f"${gold}$"), parse(response)))


def math_verify_trl(response: str, gold: str) -> bool:
    """As TRL's accuracy_reward calls it: LaTeX only, the box first, nothing without an anchor, the first match."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    latex = LatexExtractionConfig(
        normalization_config=NormalizationConfig(units=True), boxed_match_priority=0, try_extract_without_anchor=False
    )
    gold_parsed = parse(f"${gold}$", parsing_timeout=10)
    answer = parse(response, extraction_config=[latex], extraction_mode="first_match", parsing_timeout=10)
    return bool(gold_parsed) and bool(verify(gold_parsed, answer))


# --- what the others share --------------------------------------------------------------------------------------------


def last_box(text: str) -> str | None:
    r"""Content of the last \boxed{}, or \fbox{} where there is none; None if it never closes."""
    start = max(text.rfind("\\boxed{") + len("\\boxed{"), 0) if "\\boxed{" in text else 0
    if not start and "\\fbox{" in text:
        start = text.rfind("\\fbox{") + len("\\fbox{")
    if not start:
        return None
    depth = 1
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[start:index]
    return None


def difference_is_zero(one: str, other: str) -> bool:
    """Does sympy simplify the difference of two LaTeX texts to 0? What cannot be parsed or subtracted is not equal."""
    import sympy
    from latex2sympy2_extended import latex2sympy

    try:
        difference: Any = latex2sympy(one) - latex2sympy(other)
        return bool(sympy.simplify(difference) == 0)
    except (Exception, RecursionError):  # the parser's own errors are of no narrower class
        return False


# --- exact text -------------------------------------------------------------------------------------------------------


def strict(response: str, gold: str) -> bool:
    """The last box is the gold, character for character."""
    return last_box(response) == gold


# --- Hendrycks' is_equiv ----------------------------------------------------------------------------------------------


def hendrycks_style(response: str, gold: str) -> bool:
    """Last box; both sides through the MATH data set's normalisation of spelling; equal as text."""
    answer = last_box(response)
    return answer is not None and hendrycks_text(answer) == hendrycks_text(gold)


def hendrycks_text(text: str) -> str:
    """One spelling of fractions and roots; without sizes, spaces, degrees, percent signs, dollars and a last unit."""
    parts = text.split("\\text{ ")
    if len(parts) > 2:  # more than one unit: the original gives up and compares what was written
        return text
    plain = parts[0].replace("\n", "").replace("\\!", "").replace("\\\\", "\\")
    plain = re.sub(r"[td]frac", "frac", plain)
    plain = re.sub(r"\\left|\\right|\^\{?\\circ\}?|\\\$|\\?%", "", plain)
    plain = re.sub(r"(^|[ {])\.", r"\g<1>0.", plain)
    name, equals, value = plain.partition("=")
    if equals and "=" not in value and len(name) <= 2:
        plain = value
    plain = re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", plain).replace(" ", "")
    plain = re.sub(
        r"\\frac([^{])(\{|.)", lambda m: f"\\frac{{{m[1]}}}" + (m[2] if m[2] == "{" else f"{{{m[2]}}}"), plain
    )
    if plain == "0.5":
        return "\\frac{1}{2}"
    return re.sub(r"^(-?\d+)/(-?\d+)$", r"\\frac{\1}{\2}", plain)


# --- prm800k ----------------------------------------------------------------------------------------------------------

_UNITS = r"(?:degree|cm|centimeter|meter|mile|second|minute|hour|day|week|month|year|foot|feet|inch|yard)(?:es)?s?"
_POWERS = {"trillion": "*10^12", "billion": "*10^9", "million": "*10^6"}


def prm800k_style(response: str, gold: str) -> bool:
    """Last box; equal as Hendrycks' text, or as text without units, or element by element by sympy.

    Fractions that differ as text are different (an unreduced one is wrong); so are an integer and what is none.
    """
    answer = last_box(response)
    if answer is None:
        return False
    if hendrycks_text(_bare(answer)) == hendrycks_text(_bare(gold)):
        return True
    given, wanted = prm800k_text(answer), prm800k_text(gold)
    if given == wanted:
        return True
    if not given or not wanted:
        return False
    ours, theirs = _elements(given), _elements(wanted)
    if len(ours) != len(theirs) or (len(theirs) > 1 and (given[0], given[-1]) != (wanted[0], wanted[-1])):
        return False
    return all(_prm800k_equal(one, other) for one, other in zip(ours, theirs, strict=True))


def _bare(text: str) -> str:
    inner = re.fullmatch(r"\\text\{(.+?)\}", text.strip())
    return inner[1] if inner else text


def prm800k_text(text: str) -> str:
    """Lower-case text without units, percent signs, dollars, spaces and braces; simple LaTeX as a/b and sqrt(a)."""
    text = re.sub(r"\\?[$%]", "", _bare(text))
    text = re.sub(r" (?:or|and) ", " , ", text)
    for word, power in _POWERS.items():
        text = text.replace(word, power)
    text = re.sub(rf"{_UNITS} *(?:\^[0-9]+)?", "", text)
    text = re.sub(r"\^ *\\circ", "", text)
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = re.sub(r",\\! *", "", text)
    text = _flattened(text) if "\\" in text else text
    text = re.sub(r"- *", "-", text)
    text = re.sub(r"(\d) +(\d)", r"\1+\2", text)  # 7 3/4 is 7+3/4
    text = re.sub(r"[ {}]", "", text).lower()
    return str(whole) if (whole := _whole(text)) is not None else text


def _flattened(text: str) -> str:
    r"""LaTeX as a line of text. As in the original's converter a fraction has no brackets: \frac{1+x}{2} is 1+x/2."""
    text = re.sub(r"\\[td]frac", r"\\frac", text).replace("\\frac", " \\frac")
    text = re.sub(r"\\frac\s*([^{\s\\])", r"\\frac{\1}", text)
    text = re.sub(r"(\\frac\{[^{}]*\})\s*([^{\s\\])", r"\1{\2}", text)
    text = re.sub(r"\\sqrt\s*([^{\[\s\\])", r"\\sqrt{\1}", text)
    for _ in range(text.count("\\frac") + text.count("\\sqrt")):  # from the inside out
        text = re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", text)
        text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2", text)
    for command, plain in (("pi", "pi"), ("infty", "inf"), ("cup", "U"), ("cdot", "*"), ("times", "*")):
        text = re.sub(rf"\\{command}(?![a-zA-Z])", plain, text)
    text = re.sub(r"\\(?:text|mathrm|mathbf|mbox)\{([^{}]*)\}", r"\1", text)
    return re.sub(r"\\(?:left|right)|\\[,;:! ]", "", text).strip()


def _whole(text: str) -> int | None:
    if not re.fullmatch(r"[-+]?\d[\d,]*(?:\.\d*)?", text) or len(text) > 300:
        return None
    number = float(_without_separators(text)) if "," not in _without_separators(text) else 0.5
    return round(number) if abs(number - round(number)) <= 1e-7 else None


def _without_separators(text: str) -> str:
    while (shorter := re.sub(r"(\d),(\d\d\d)($|\D)", r"\1\2\3", text)) != text:
        text = shorter
    return text


def _elements(text: str) -> list[str]:
    text = _without_separators(text)
    if len(text) > 2 and text[0] in "([" and text[-1] in ")]" and not re.search(r"[()\[\]]", text[1:-1]):
        return text[1:-1].split(",")
    return [text]


def _prm800k_equal(given: str, wanted: str) -> bool:
    fraction = r"-?[0-9]+.?/0*[1-9][0-9]*.?"
    if re.fullmatch(fraction, given) and re.fullmatch(fraction, wanted):
        return given == wanted
    if (_whole(given) is None) != (_whole(wanted) is None):
        return False
    both = f"({wanted})-({given})"
    letters = {letter for letter in both.replace("sqrt", "").replace("frac", "") if letter.isalpha()}
    if len(letters) > 2 or re.search(r"\^[{(]|\^[0-9]+\^|\^[0-9][0-9]+", both):
        return False
    return difference_is_zero(_latex(wanted), _latex(given))


def _latex(text: str) -> str:
    text = re.sub(r"sqrt\(([^()]*)\)", r"\\sqrt{\1}", text).replace("**", "^")
    return re.sub(r"(?<![a-z\\])pi(?![a-z])", r"\\pi ", text).replace("*", r" \cdot ")


# --- Minerva (lm-eval's minerva_math) ---------------------------------------------------------------------------------

# Appendix D of Lewkowycz et al. (2022): what is replaced, and what is left out, in this order
_REPLACED = (
    *(("an ", ""), ("a ", ""), (".$", "$"), ("\\$", ""), ("\\ ", ""), (" ", ""), ("mbox", "text")),
    *((",\\text{and}", ","), ("\\text{and}", ","), ("\\text{m}", "\\text{}")),
)
_LEFT_OUT_WORDS = """square ways integers dollars mph inches ft hours km units \\ldots sue points feet minutes digits
    cents degrees cm gm pounds meters meals edges students childrentickets multiples"""
_LEFT_OUT = (
    *_LEFT_OUT_WORDS.split(),
    *("\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}", "\\text{}"),
    *("\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", '"', "\\dots"),
)


def minerva_style(response: str, gold: str) -> bool:
    """After "Final Answer: The final answer is", else the last box; equal as normalised text, or by sympy."""
    marked = re.search(r"Final Answer: The final answer is(.*?)\. I hope it is correct\.", response)
    answer = marked[1].strip() if marked else last_box(response)
    if answer is None:
        return False
    given, wanted = minerva_text(answer), minerva_text(gold)
    return given == wanted or difference_is_zero(given, wanted)


def minerva_text(text: str) -> str:
    """What stands after the last equals sign, without units, spaces, words and text commands."""
    text = text.split("=")[-1]
    for before, after in _REPLACED:
        text = text.replace(before, after)
    for left_out in _LEFT_OUT:  # one after the other: what is inside \\text{} goes before \\text{}^2 does
        text = text.replace(left_out, "")
    if formula := re.search(r"\$(.*?)\$", text):
        text = formula[1]
    text = re.sub(r"\\(?:text|textbf|overline)\{(.*?)\}", r"\1", text)
    text = re.sub(r"\\boxed\{(.*)\}", r"\1", text)
    text = re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", text)
    text = re.sub(r"sqrt([^{])", r"sqrt{\1}", text).replace("$", "")
    return text.replace(",", "") if text.replace(",", "").isdigit() else text


# --- this package -----------------------------------------------------------------------------------------------------


def this_checker(response: str, gold: str) -> bool:
    """grpo_runner.reward.check under its default policy. Raises RuntimeError where its status is error."""
    from grpo_runner.reward import check

    verdict = check(response, gold)
    if verdict.status == "error":
        raise RuntimeError(verdict.rule)
    return verdict.correct


GRADERS: dict[str, Grade] = {
    "grpo_runner": this_checker,
    "math-verify": math_verify_default,
    "math-verify, as in TRL": math_verify_trl,
    "prm800k style": prm800k_style,
    "Minerva style": minerva_style,
    "Hendrycks style": hendrycks_style,
    "strict": strict,
}
