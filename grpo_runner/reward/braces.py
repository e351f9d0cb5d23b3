r"""Groups in braces: whether they close, which argument a command takes, and font commands around one. Pure."""

from __future__ import annotations

import re

_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_FONT_COMMAND = re.compile(r"\\(?:math(?:rm|bf|it|sf|tt|normal|bfit)|boldsymbol|bm|pmb|ensuremath)\s*(?=\{)")
_FUNCTIONS = "sin cos tan cot sec csc log ln exp arcsin arccos arctan sinh cosh tanh gcd lcm min max det"
# Behind a number, upright letters are a unit: 18\,\mathrm{m}, 5\,\mathrm{m/s}, 9\,\mathrm{min}; 2\mathrm{i} is none
_NUMBER_BEFORE = re.compile(r"[\d})]\s*$")
_FACTOR = r"[a-zA-Z]{1,4}(?:\^\{?-?\d\}?)?"
_UNIT_LETTERS = re.compile(
    rf"(?:[mgshlLNJWVAKCF]|[mgshlL]\^\{{?-?\d\}}?|min|{_FACTOR}(?:\s*(?:/|\s|\\cdot)\s*{_FACTOR})+)"
)
_PURE_WORDS = re.compile(r"[a-zA-Z][a-zA-Z .,'/^{}\d-]*")
MOST_NESTED = 40  # commands within each other's arguments; deeper ones stay as they are


def peel(text: str) -> str:
    """Remove every pair of braces that encloses the whole text, in one pass."""
    partner: dict[int, int] = {}
    stack: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            stack.append(brace.start())
        elif brace[0] == "}":
            if not stack:
                return text
            partner[stack.pop()] = brace.start()
    left, right = 0, len(text) - 1
    while left < right and text[left] == "{" and partner.get(left) == right:
        left, right = left + 1, right - 1
    return text[left : right + 1]


def balanced(text: str) -> bool:
    """Do the braces of `text` close?"""
    depth = 0
    for brace in _BRACE.finditer(text):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if depth < 0:
            return False
    return depth == 0


def braced_arguments(text: str, depth: int = 0) -> str:
    r"""Give \frac, \binom and \sqrt their braces: \frac12, \frac{3}4, \frac 35, \sqrt2, \sqrt\pi."""
    pieces: list[str] = []
    position = 0
    for found in re.finditer(r"\\(frac|binom|sqrt)(?![a-zA-Z])", text):
        if found.start() < position:
            continue
        pieces.append(text[position : found.start()] + found[0])
        position = found.end()
        if found[1] == "sqrt" and (option := re.match(r"\s*\[[^\[\]]*\]", text[position:])):
            pieces.append(option[0].strip())
            position += option.end()
        for _ in range(1 if found[1] == "sqrt" else 2):
            argument, position = argument_at(text, position)
            if depth < MOST_NESTED and "\\" in argument:
                argument = braced_arguments(argument, depth + 1)
            pieces.append("{" + argument.strip() + "}")
    return "".join(pieces) + text[position:]


def argument_at(text: str, position: int, nested: int = 0) -> tuple[str, int]:
    """The argument that begins at `position` as TeX reads it, and where it ends. \\sqrt(x) takes its bracket along."""
    while position < len(text) and text[position].isspace():
        position += 1
    if position >= len(text):
        return "", position
    if text[position] in "{(":
        opening, closing = ("{", "}") if text[position] == "{" else ("(", ")")
        depth = 0
        for index in range(position, len(text)):
            depth += (text[index] == opening) - (text[index] == closing)
            if depth == 0:
                return text[position + 1 : index], index + 1
        return text[position + 1 :], len(text)
    if command := re.match(r"\\[a-zA-Z]+", text[position:]):
        end = position + command.end()
        takes = {"\\frac": 2, "\\binom": 2, "\\sqrt": 1}.get(command[0], 0) if nested < MOST_NESTED else 0
        for _ in range(takes):
            _, end = argument_at(text, end, nested + 1)
        return text[position:end], end
    return text[position], position + 1


def without_fonts(text: str, depth: int = 0) -> str:
    """Without font commands: \\mathrm{e} is e, \\mathbf{2340} a number, but \\mathrm{cm} is text."""
    pieces: list[str] = []
    position = 0
    for found in _FONT_COMMAND.finditer(text):
        if found.start() < position:
            continue
        content, end = argument_at(text, found.end())
        content = without_fonts(content, depth + 1) if depth < 4 else content
        bare = content.strip()
        if _NUMBER_BEFORE.search(text[max(0, found.start() - 8) : found.start()]) and _UNIT_LETTERS.fullmatch(bare):
            content = "\\text{" + re.sub(r"[{}]|\\cdot", " ", bare).replace("^ ", "^") + "}"
        elif bare in _FUNCTIONS.split():
            content = "\\" + bare + " "
        elif len(bare) > 1 and _PURE_WORDS.fullmatch(bare) and not found[0].startswith(("\\boldsymbol", "\\bm")):
            content = "\\text{" + content + "}"
        else:
            content = bare
        pieces += [text[position : found.start()], content]
        position = end
    return "".join(pieces) + text[position:]
