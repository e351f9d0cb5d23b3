r"""One spelling for one answer: `tidy` rewrites LaTeX, Unicode and prose habits to a small canonical LaTeX. Pure.

After `tidy` a text has \frac{a}{b}, \sqrt{a}, \le \ge \ne, % for percent, \text{...} for every text command, no sizing
or spacing commands, no math delimiters and no redundant outer braces. Meaning is kept: units, brackets and order stay.
"""

from __future__ import annotations

import re
import unicodedata

_UNICODE = {
    "−": "-", "–": "-", "‐": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "∕": "/", "⁄": "/",
    "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ",
    "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "°": r"^\circ ", "º": r"^\circ ",
    "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "λ": r"\lambda ", "μ": r"\mu ",
    "φ": r"\phi ", "ω": r"\omega ", "σ": r"\sigma ", "≈": r"\approx ", "≡": r"\equiv ", "→": r"\to ", "…": r"\ldots ",
    "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}",
    "“": '"', "”": '"', "’": "'", "‘": "'", "′": "'", "，": ",", "；": ";", "：": ":", "（": "(", "）": ")", "％": "%",
    "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2007": " ", "\u3000": " ",
    "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "", "\u200e": "", "\u200f": "",
}  # fmt: skip
_TRANSLATE = str.maketrans(_UNICODE)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")

_COMMANDS = {
    "dfrac": r"\frac", "tfrac": r"\frac", "cfrac": r"\frac", "leq": r"\le", "leqslant": r"\le", "geq": r"\ge",
    "geqslant": r"\ge", "neq": r"\ne", "lt": "<", "gt": ">",
    "lbrace": r"\{", "rbrace": r"\}", "lbrack": "[", "rbrack": "]",
    "varnothing": r"\emptyset", "infin": r"\infty", "degree": r"^\circ", "dbinom": r"\binom", "tbinom": r"\binom",
    "lvert": "|", "rvert": "|", "vert": "|", "mid": "|", "colon": ":", "langle": "(", "rangle": ")",
    "dots": r"\ldots", "cdots": r"\ldots",
    "textpercent": "%", "percent": "%", "textdegree": r"^\circ", "land": r"\text{ and }", "lor": r"\text{ or }",
    "R": r"\mathbb{R}", "reals": r"\mathbb{R}", "arcsin": r"\arcsin", "bmod": r"\mod", "varepsilon": r"\epsilon",
    "ast": "*", "star": "*", "sim": r"\approx", "thickapprox": r"\approx", "implies": r"\implies",
    "textdollar": r"\$", "pounds": "£", "euro": "€", "ltimes": r"\times",
}  # fmt: skip
_DROPPED = (
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle displaystyle textstyle "
    "scriptstyle limits nolimits mathstrut strut hfill bf rm it sf noindent centering boldmath large Large"
)
_SPACES = "quad qquad enspace thinspace medspace thickspace space nobreakspace"
for _name in _DROPPED.split():
    _COMMANDS[_name] = ""
for _name in _SPACES.split():
    _COMMANDS[_name] = " "
_COMMAND = re.compile(r"\\([a-zA-Z]+)")
_SPACE_COMMAND = re.compile(r"(?<!\\)\\[,;:> ]|(?<!\\)~")
_TEXT_COMMAND = re.compile(
    r"\\(?:text(?:bf|it|rm|normal|sf|tt|up|sc)|mbox|hbox|emph|textnormal|operatorname\*?)\s*(?=\{)"
)
_FONT_COMMAND = re.compile(r"\\(?:math(?:rm|bf|it|sf|tt|normal|bfit)|boldsymbol|bm|pmb|ensuremath)\s*(?=\{)")
_UNBRACED = re.compile(r"\\(math(?:bb|rm|bf|it|cal|sf)|text(?:bf|rm|it)?|boldsymbol|bm)\s+([a-zA-Z0-9])(?![a-zA-Z0-9])")
_FUNCTIONS = "sin cos tan cot sec csc log ln exp arcsin arccos arctan sinh cosh tanh gcd lcm min max det"
_SIGN_GROUP = re.compile(r"(?<![a-zA-Z}\]])\{\s*([-+,=])\s*\}")  # TeX's way to a sign without space around it
_TEXT_SIGN = re.compile(r"\\text\s*\{\s*(\\\$|€|£)\s*([\d,.]*)\s*\}")
_TEXT_NUMBER = re.compile(r"\\text\s*\{\s*\$?([-+]?\d[\d,]*(?:\.\d+)?)\$?\s*\}")
_PERCENT = re.compile(
    r"\\%|\\text\s*\{\s*(?:\\?%|per\s?cent|percentage|pct)\s*\.?\}|(?<=[\d}])\s*\b(?:percent|per cent|pct)\b"
)
_PLAIN = {"sqrt": r"\sqrt", "pi": r"\pi ", "infinity": r"\infty "}
_PLAIN_WORDS = re.compile(r"(?<![\\a-zA-Z])(?:sqrt(?=\s*\()|pi|infinity)(?![a-zA-Z])")
_DECORATION = re.compile(
    r"\\(?:text)?color\s*\{\w+\}|\\underline(?=\s*\{)|\\[hv]space\*?\s*\{[^{}]*\}"
    r"|\\[hv]?phantom\s*(?:\{[^{}]*\}|\\[a-zA-Z]+|[^\s{}])|\\\\$"
)
_DEGREES = re.compile(r"\^\s*\{?\s*(?:\\circ(?![a-zA-Z])|\\degree|o(?=\}))\s*\}?")
_ANSWER_PREFIX = re.compile(
    r"^\s*(?:\\text\s*\{\s*)?(?:the\s+)?(?:final\s+|correct\s+)?(?:answer|ans)\s*(?:is|:|=)\s*:?\s*(\}?)", re.IGNORECASE
)
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("`", "`"), ('"', '"'))
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def to_ascii(text: str) -> str:
    """Map typographic signs and the digits that are digits (full-width, mathematical) to ASCII LaTeX; leave the rest.

    Look-alikes stay what they are: Roman numeral signs, other scripts' digits and letters are not read as ASCII.
    """
    if text.isascii():
        return text
    text = re.sub("([⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda found: "^{" + found[1].translate(_SUPERSCRIPTS) + "}", text)
    text = re.sub(
        r"√\s*(\d+|[a-zA-Z]|(?=[({]))", lambda found: r"\sqrt{" + found[1] + "}" if found[1] else r"\sqrt", text
    )
    text = text.translate(_TRANSLATE)
    return "".join(_plain(character) for character in text)


def _plain(character: str) -> str:
    if character.isascii():
        return character
    name = unicodedata.name(character, "")
    if name.startswith(("FULLWIDTH DIGIT", "MATHEMATICAL", "FULLWIDTH LATIN")):
        return unicodedata.normalize("NFKC", character)
    return character


def tidy(text: str) -> str:
    """The canonical spelling of an answer; see the module's docstring. Idempotent for the texts that graders meet."""
    text = to_ascii(text).strip()
    if text.isascii() and text.isdigit():
        return text
    if "\\" in text or "~" in text:
        text = _DECORATION.sub("", text)
        text = _COMMAND.sub(_command, text)
        text = text.replace("\\!", "")
        text = _SPACE_COMMAND.sub(" ", text)
        text = _TEXT_COMMAND.sub(r"\\text", text)
        text = _fonts(_UNBRACED.sub(r"\\\1{\2}", text))
        text = _TEXT_NUMBER.sub(r"\1", _TEXT_SIGN.sub(r"\1\2", text))
    text = _PLAIN_WORDS.sub(lambda found: _PLAIN[found[0]], _SIGN_GROUP.sub(r"\1", text))
    text = re.sub(r"(?<=[0-9])\s*[xX]\s*(?=10\s*\^)", r"\\times ", text)
    text = re.sub(r"(?<![\w})])\+\s*(?=\\infty)", "", text)
    text = _PERCENT.sub("%", text)
    text = _DEGREES.sub(r"^\\circ ", text)
    text = _undress(text)
    shortened = _ANSWER_PREFIX.sub(lambda found: "" if found[1] or "{" not in found[0] else "\\text{", text)
    if shortened != text and shortened.strip(" }"):
        text = _undress(shortened)
    if "\\over" in text:
        text = re.sub(r"\{([^{}]*)\\over(?![a-zA-Z])([^{}]*)\}", r"\\frac{\1}{\2}", text)
        text = re.sub(r"^([^{}]*)\\over(?![a-zA-Z])([^{}]*)$", r"\\frac{\1}{\2}", text)
    if "\\frac" in text or "\\sqrt" in text or "\\binom" in text:
        text = braced_arguments(text)
    if "**" in text:
        text = re.sub(r"(?<=[\w)}])\s*\*\*\s*(?=[\w({-])", "^", text)
    text = re.sub(r"([\^_])\s*\{\s*(\w)\s*\}", r"\1\2", text)
    return re.sub(r"\s+", " ", text).strip()


def squeeze(text: str) -> str:
    """The spelling without what never matters: spaces outside words, and the case of words."""
    if "\\text" in text:
        text = re.sub(r"\\text\s*\{\s*([^{}]*?)\s*\}", lambda found: "\\text{" + found[1].lower() + "}", text)
    return re.sub(r"(?<![a-zA-Z0-9]) | (?![a-zA-Z0-9])|(?<=[\^_]\w) (?=[a-zA-Z])", "", text)


def _command(found: re.Match[str]) -> str:
    name = found[1]
    if name not in _COMMANDS:
        return found[0]
    new = _COMMANDS[name]
    follows = found.string[found.end() : found.end() + 1]
    return new + " " if new[-1:].isalpha() and follows.isalpha() else new


def _fonts(text: str, depth: int = 0) -> str:
    """Without font commands: \\mathrm{e} is e, \\mathbf{2340} a number, but \\mathrm{cm} is text."""
    pieces: list[str] = []
    position = 0
    for found in _FONT_COMMAND.finditer(text):
        if found.start() < position:
            continue
        content, end = _argument(text, found.end())
        content = _fonts(content, depth + 1) if depth < 4 else content
        bare = content.strip()
        if bare in _FUNCTIONS.split():
            content = "\\" + bare + " "
        elif len(bare) > 1 and re.search(r"[a-zA-Z]{2}", re.sub(r"\\[a-zA-Z]+", "", bare)):
            content = "\\text{" + content + "}"
        else:
            content = bare
        pieces += [text[position : found.start()], content]
        position = end
    return "".join(pieces) + text[position:]


def _undress(text: str) -> str:
    """Take off math delimiters, bold marks, redundant braces and outer punctuation, again and again."""
    while True:
        before = text
        text = text.strip().rstrip(".,;:").strip() if not text.endswith("\\") else text.strip()
        text = re.sub(r"^(?:=(?!=)|:|\\approx(?![a-zA-Z])|\\text\s*\{\s*\})\s*", "", text)
        for start, end in _DELIMITERS:
            inner = text[len(start) : -len(end)]
            # a dollar sign that ends in \\$ or stands inside again is not a pair of delimiters
            paired = not inner.endswith("\\") and not re.search(r"(?<!\\)" + re.escape(start), inner)
            if paired and len(text) > len(start) + len(end) and text.startswith(start) and text.endswith(end):
                text = inner
        if text.startswith("{"):
            text = _peel(text)
        if text == before:
            return text


def _peel(text: str) -> str:
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
            argument, position = _argument(text, position)
            if depth < 40 and "\\" in argument:
                argument = braced_arguments(argument, depth + 1)
            pieces.append("{" + argument.strip() + "}")
    return "".join(pieces) + text[position:]


def _argument(text: str, position: int) -> tuple[str, int]:
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
        for _ in range({"\\frac": 2, "\\binom": 2, "\\sqrt": 1}.get(command[0], 0)):
            _, end = _argument(text, end)
        return text[position:end], end
    return text[position], position + 1
