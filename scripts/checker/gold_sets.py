r"""Other forms of lists, sets, tuples, intervals, unions and matrices; a further part of gold_rewrites.RULES. Pure."""

from __future__ import annotations

import re

from gold_helpers import NUMBER, Rewrite, around, items, listed, sub, whole

_INTERVAL = r"(?:\\left\s*)?([(\[])([^,()\[\]]*),([^,()\[\]]*?)(?:\\right\s*)?([)\]])"


def _interval(found: re.Match[str]) -> str | None:
    low, high = found[2].strip(), found[3].strip()
    left = "" if low == "-\\infty" else f"{low} {'<' if found[1] == '(' else chr(92) + 'le'} "
    right = "" if high == "\\infty" else f" {'<' if found[4] == ')' else chr(92) + 'le'} {high}"
    return f"{left}x{right}" if left or right else None


def _opposites(gold: str) -> str | None:
    """\\pm a for a list of two opposite values, in either order; a \\pm b for two conjugates."""
    parts = items(gold)
    if parts is None or len(parts) != 2:
        return None
    one, other = parts
    if other == "-" + one or one == "-" + other:
        return "\\pm " + (one if other.startswith("-") else other)
    return re.sub(r"\s*\+\s*", r" \\pm ", one, count=1) if "+" in one and one.replace("+", "-", 1) == other else None


def _union_of_relations(gold: str) -> str | None:
    """x < a or x > b for a union of two rays."""
    found = re.fullmatch(rf"\s*{_INTERVAL}\s*\\cup\s*{_INTERVAL}\s*", gold)
    if not found or found[2].strip() != "-\\infty" or found[7].strip() != "\\infty":
        return None
    less, greater = ("<" if found[4] == ")" else "\\le"), (">" if found[5] == "(" else "\\ge")
    return f"x {less} {found[3].strip()} \\text{{ or }} x {greater} {found[6].strip()}"


def _punctured(style: str) -> Rewrite:
    """The line without a point, for (-oo, a) u (a, oo)."""

    def rewrite(gold: str) -> str | None:
        found = re.fullmatch(rf"\s*{_INTERVAL}\s*\\cup\s*{_INTERVAL}\s*", gold)
        if (
            not found
            or found[2].strip() != "-\\infty"
            or found[7].strip() != "\\infty"
            or found[3].strip() != found[6].strip()
        ):
            return None
        return style % found[3].strip() if (found[4], found[5]) == (")", "(") else None

    return rewrite


def _ray(style: str) -> Rewrite:
    def rewrite(gold: str) -> str | None:
        found = re.fullmatch(rf"\s*{_INTERVAL}\s*", gold)
        if not found or (found[2].strip() == "-\\infty") == (found[3].strip() == "\\infty"):
            return None
        if found[3].strip() == "\\infty":
            return style % (">" if found[1] == "(" else "\\ge", found[2].strip())
        return style % ("<" if found[4] == ")" else "\\le", found[3].strip())

    return rewrite


SETS: dict[str, Rewrite] = {
    "x in": around(r"x \in ", "", rf"^{_INTERVAL}(?:\s*\\cup.*)?\s*$"),
    # lists, tuples, intervals
    "list reversed": listed(lambda parts: ", ".join(reversed(parts))),
    "list turned": listed(lambda parts: ",".join([*parts[1:], parts[0]])),
    "list in braces": listed(lambda parts: "\\{" + ", ".join(parts) + "\\}"),
    "list with and": listed(lambda parts: ", ".join(parts[:-1]) + " \\text{ and } " + parts[-1]),
    "list with or": listed(lambda parts: " \\text{ or } ".join(parts)),
    "list with plain and": listed(lambda parts: ", ".join(parts[:-1]) + " and " + parts[-1]),
    "list with semicolons": listed(lambda parts: "; ".join(parts)),
    "list of x": lambda gold: (
        None if "x" in gold else listed(lambda parts: ", ".join(f"x = {part}" for part in parts))(gold)
    ),
    "list of x or": lambda gold: (
        None if "x" in gold else listed(lambda parts: " \\text{ or } ".join(f"x = {part}" for part in parts))(gold)
    ),
    "list of maths": listed(lambda parts: ", ".join(f"${part}$" for part in parts)),
    "plus sign of infinity": sub(r"(?<![-+])\\infty", r"+\\infty"),
    "interval as inequality": whole(
        _INTERVAL, lambda found: _interval(found) if re.search(r"\\infty|^\[.*\)$|^\(.*\]$", found[0]) else None
    ),
    "union turned": lambda gold: " \\cup ".join(reversed(gold.strip().split("\\cup"))) if "\\cup" in gold else None,
    # matrices
    "bmatrix": sub("pmatrix", "bmatrix"),
    "fractions in a matrix": sub(r"([0-9]+)/([0-9]+)", r"\\frac{\1}{\2}", r"^\s*\\begin"),
    "slashes in a matrix": sub(r"\\frac\{([0-9]+)\}\{([0-9]+)\}", r"\1/\2", r"^\s*\\begin"),
    "array": lambda gold: (
        gold.replace(
            "\\begin{pmatrix}", "\\left(\\begin{array}{" + "c" * (gold.split("\\\\")[0].count("&") + 1) + "}"
        ).replace("\\end{pmatrix}", "\\end{array}\\right)")
        if "pmatrix" in gold
        else None
    ),
    "matrix in lines": sub(r"\s*\\\\\s*", "\\\\\\\\\n", r"^\s*\\begin"),
    # lists and sets
    "opposites": _opposites,
    "x in braces": listed(lambda parts: "x \\in \\{" + ", ".join(parts) + "\\}"),
    "one x": lambda gold: None if "x" in gold else listed(lambda parts: "x = " + ", ".join(parts))(gold),
    "numbered x": lambda gold: (
        None
        if "x" in gold
        else listed(lambda parts: ", ".join(f"x_{n} = {part}" for n, part in enumerate(parts, 1)))(gold)
    ),
    "list with quad": listed(lambda parts: ",\\quad ".join(parts)),
    "list with backslash space": listed(lambda parts: ",\\ ".join(parts)),
    "or between quads": listed(lambda parts: " \\quad \\text{or} \\quad ".join(parts)),
    "left braces": listed(lambda parts: "\\left\\{" + ", ".join(parts) + "\\right\\}"),
    "list with mbox and": listed(lambda parts: ", ".join(parts[:-1]) + ", \\mbox{ and } " + parts[-1]),
    "set of one": around(r"\{", r"\}", rf"^(?:{NUMBER})$"),
    "set of one, named": around(r"x \in \{", r"\}", rf"^(?:{NUMBER})$"),
    "ray": _ray("x %s %s"),
    "set builder": _ray("\\{x : x %s %s\\}"),
    "set builder with bar": _ray("\\{ x \\mid x %s %s \\}"),
    "rays with or": _union_of_relations,
    "not equal": _punctured("x \\ne %s"),
    "line without a point": _punctured("\\mathbb{R} \\setminus \\{%s\\}"),
    "x in the line": _punctured("x \\in \\mathbb{R}, x \\neq %s"),
    # matrices
    "array in square brackets": lambda gold: (
        re.sub(
            r"\\begin\{pmatrix\}(.*)\\end\{pmatrix\}",
            lambda found: (
                "\\left[\\begin{array}{"
                + "c" * (found[1].split("\\\\")[0].count("&") + 1)
                + "}"
                + found[1]
                + "\\end{array}\\right]"
            ),
            gold,
        )
        if "pmatrix" in gold
        else None
    ),
    "matrix in brackets": lambda gold: (
        gold.replace("\\begin{pmatrix}", "\\left(\\begin{matrix}").replace("\\end{pmatrix}", "\\end{matrix}\\right)")
        if "pmatrix" in gold
        else None
    ),
    "matrix with a last line": sub(r"(?<!\\\\)\s*\\end\{pmatrix\}", r" \\\\ \\end{pmatrix}"),
    "named matrix": around(r"\mathbf{A} = ", "", r"^\s*\\begin\{pmatrix"),
}
