r"""Computer algebra for what no exact rule decides. The only module that imports sympy and math-verify.

Expressions are parsed by a LaTeX grammar (latex2sympy2_extended), with no `eval` and no `parse_expr`; sympy's reader of
strings sees runs of digits alone, which the grammar took for numbers. Equality is decided by value: both are evaluated
to 60 digits at fixed points, so constants that agree to 40 digits relative are equal, and small values never collapse
as under math-verify's 6-digit rounding. Where an expression has no value (integrals, undefined operators) only the same
tree is equal. Nothing here has a time limit. math-verify itself is asked under reward.equality=math_verify alone.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable
from typing import Any

import mpmath
import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, NormalizationConfig, latex2sympy
from sympy.core.function import AppliedUndef

DIGITS = 60
_AGREE = mpmath.mpf(10) ** -40
# points: between 0.3 and 2.3 in size, up to 9,400, and whole numbers
_COUNTS = {"near": 6, "far": 24, "integer": 12}
_ENOUGH = 3
_MOST_TERMS = 300
_FOLDS = (sympy.Abs, sympy.floor, sympy.ceiling, sympy.Max, sympy.Min, sympy.Mod, sympy.sign)
_STEPS = (sympy.floor, sympy.ceiling, sympy.Mod)
_NORMALIZE = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=False, boxed="none")
_CONVERT = ConversionConfig(lowercase_symbols=False)
_DECIMAL = re.compile(r"(?<![\d.])(\d*)\.(\d+)|(?<![\d.])(\d+)\.(?!\d)")
_DEGREE = re.compile(r"(\d+|\\frac\{\d+\}\{\d+\}|\([^()]*\)|[a-z])\s*\^\\circ")
# What the grammar reads otherwise than people do: 2(13) is a product and no mixed number, x(2) no function, 2\frac12 x
# a mixed number before a factor, and 1/2x a half of x
_CALL = re.compile(r"(?<![\w.^\\])((?:\d+(?:\.\d+)?)|[a-eh-zA-E]|\\pi)\s*\((?=\s*-?[\d.]+\s*\)|(?<=\d\())")
_FACTORS = re.compile(r"\)\s*\((?=\s*-?[\d.]+\s*\))")
_MIXED = re.compile(r"(?<![\w.^}{\\])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}")
_SLASHED = re.compile(r"(?<![\w.^}){/\\])(\d+)/(\d+)(?=\s*[a-zA-Z\\])")
_INVERSE = re.compile(r"\\(sin|cos|tan)\s*\^\s*\{?-1\}?")


class Unsupported(Exception):
    """The expression holds something that has no numeric value here."""


class _NoValue(Exception):
    """Undefined at this point (a pole, outside the domain), or too large."""


def parse(text: str) -> Any:
    """The sympy expression of a tidied LaTeX expression. Raises Exception of any kind when it does not parse."""
    text = _INVERSE.sub(r"\\arc\1 ", text)
    text = _DEGREE.sub(r"(\\frac{\\pi \\cdot \1}{180})", text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = _FACTORS.sub(r") \\cdot (", text)
    text = _CALL.sub(r"\1 \\cdot (", _MIXED.sub(_one_fraction, _SLASHED.sub(r"\\frac{\1}{\2}", text)))
    text = _DECIMAL.sub(_fraction, text)
    return latex2sympy(text, is_real=False, normalization_config=_NORMALIZE, conversion_config=_CONVERT)


def _one_fraction(found: re.Match[str]) -> str:
    whole, above, below = (int(part) for part in found.groups())
    return rf"\frac{{{whole * below + above}}}{{{below}}}" if above < below else found[0]


def _fraction(found: re.Match[str]) -> str:
    whole, decimals = found[1] or found[3] or "0", found[2] or ""
    if not decimals.strip("0"):
        return whole
    fraction = rf"\frac{{{int(whole + decimals)}}}{{{10 ** len(decimals)}}}"
    # the grammar reads a whole text in braces as a set, so only an exponent gets them
    return f"{{{fraction}}}" if found.string[: found.start()].endswith("^") else fraction


class Symbolic:
    """The Algebra that equivalence.same asks; see there for what each method means."""

    def equal(self, answer: str, gold: str, tolerance: float) -> bool:
        try:
            expressions = parse(answer), parse(gold)
        except (MemoryError, RecursionError):  # breaking down is no verdict
            raise
        except Exception:  # the grammar raises bare Exceptions; unreadable is not equal
            return False
        complex_allowed = any(re.search(r"(?<![a-zA-Z\\])i(?![a-zA-Z])|\\imath", text) for text in (answer, gold))
        agree = mpmath.mpf(tolerance) if tolerance else _AGREE
        try:
            return _agrees(*expressions, lambda a, g: _near(a, g, agree), complex_allowed)
        except Unsupported:
            return bool(expressions[0] == expressions[1])  # sympy's ==: the same tree, nothing is computed

    def plain(self, answer: str, gold: str) -> bool:
        import math_verify  # here alone: only reward.equality=math_verify asks it

        logging.getLogger("math_verify").setLevel(logging.CRITICAL)
        offered, wanted = (math_verify.parse(text, parsing_timeout=None) for text in (answer, gold))
        return bool(math_verify.verify(wanted, offered, timeout_seconds=None))

    def proportional(self, answer: tuple[str, str], gold: tuple[str, str], positive: bool) -> bool:
        try:
            left, right = (sympy.Add(parse(one), -parse(other), evaluate=False) for one, other in (answer, gold))
        except (MemoryError, RecursionError):  # breaking down is no verdict
            raise
        except Exception:
            return False
        ratios: list[Any] = []

        def constant(a: Any, g: Any) -> bool:
            if abs(g) < _AGREE or abs(a) < _AGREE:
                return bool(abs(g) < _AGREE and abs(a) < _AGREE)
            ratios.append(a / g)
            return _near(ratios[-1], ratios[0], _AGREE) and bool(not positive or (mpmath.re(ratios[-1]) > 0))

        try:
            return _agrees(left, right, constant, complex_allowed=True) and bool(ratios)
        except Unsupported:
            return False


def _near(answer: Any, gold: Any, tolerance: Any) -> bool:
    return bool(abs(answer - gold) <= tolerance * max(abs(answer), abs(gold)))


def _agrees(answer: Any, gold: Any, test: Callable[[Any, Any], bool], complex_allowed: bool) -> bool:
    """Does `test` hold at every point where both have a value? Raises Unsupported if that is nowhere."""
    seen = 0
    symbols = bool(answer.free_symbols or gold.free_symbols)
    folded = answer.has(*_FOLDS) or gold.has(*_FOLDS) or _has_roots(answer) or _has_roots(gold)
    whole = answer.has(*_STEPS) or gold.has(*_STEPS)
    real = symbols and not complex_allowed
    for kind, points in _POINTS.items():
        # an absolute value folds, and a root begins, far from the near points; steps are seen at integers
        wanted = {"near": True, "far": folded or seen < _ENOUGH, "integer": whole or seen < _ENOUGH}[kind]
        for point in points if wanted and (symbols or kind == "near") else ():
            values = _values(answer, gold, point, real)
            if values is None:
                continue
            if not complex_allowed and any(abs(mpmath.im(value)) > _AGREE * abs(value) for value in values):
                continue
            with mpmath.workdps(DIGITS):
                if not test(*values):
                    return False
            seen += values != (0, 0) or not symbols  # two zeros at one point say nothing about the others
    if seen < (2 if symbols else 1):
        if symbols:
            raise Unsupported("no common domain")
        return False
    return True


def _values(answer: Any, gold: Any, point: Callable[[str], Any], real: bool) -> tuple[Any, Any] | None:
    """Both values at a point, None where one has none. What is tiny is worked out again: rounding leaves 1e-60."""
    for digits in (DIGITS, 4 * DIGITS):
        with mpmath.workdps(digits):
            try:
                values = evaluate(answer, point, real), evaluate(gold, point, real)
            except (_NoValue, ZeroDivisionError, OverflowError, ValueError):
                return None
            if not all(mpmath.isfinite(value) for value in values):  # ln 0 has no value, and equals nothing
                return None
            if min(map(abs, values)) > mpmath.mpf(10) ** -(DIGITS // 3):
                return values
    zero = mpmath.mpf(10) ** -(3 * DIGITS)
    first, second = (mpmath.mpf(0) if abs(value) < zero else value for value in values)
    return first, second


def _has_roots(expression: Any) -> bool:
    return any(not power.exp.is_Integer for power in expression.atoms(sympy.Pow))


def _point(kind: str, index: int) -> Callable[[str], Any]:
    """A fixed point: from a symbol's name to its value there. Half of the points have negative coordinates."""

    def value(name: str) -> Any:
        draw = random.Random(f"grpo_runner point {kind} {index} {name}")
        if kind == "integer":  # one after another, so that even and odd ones come
            first = random.Random(f"grpo_runner integers {name}").randrange(4)
            return mpmath.mpf(first + index + 1 if index < 8 else 7 - first - index)
        size = mpmath.mpf(draw.randrange(3 * 10**11, 23 * 10**11)) / 10**12
        if kind == "far":
            size *= 4 ** (1 + index // 2 % 6)
        return -size if index % 2 and (kind == "far" or draw.random() < 0.7) else size

    return value


_POINTS = {kind: tuple(_point(kind, index) for index in range(count)) for kind, count in _COUNTS.items()}


def evaluate(expression: Any, point: Callable[[str], Any], real: bool = False) -> Any:
    """The value of a sympy expression as an mpmath number, symbols taken from `point`. Never asks sympy to evaluate.

    real: an even root of a negative number has no value.
    """
    if isinstance(expression, sympy.Symbol):
        constants = {"i": mpmath.mpc(0, 1), "e": mpmath.e}
        return constants.get(expression.name) or point(expression.name)
    if expression == sympy.EulerGamma:
        return point("gamma")  # \gamma in an answer is a variable
    if expression.is_Rational:
        return mpmath.mpf(int(expression.p)) / int(expression.q)
    if expression in _CONSTANTS:
        return _CONSTANTS[expression]()
    if isinstance(expression, sympy.Float):
        return mpmath.mpf(str(expression))
    if isinstance(expression, AppliedUndef):
        arguments = [mpmath.nstr(evaluate(argument, point, real), 20) for argument in expression.args]
        return point(f"{expression.func}({','.join(arguments)})")
    if isinstance(expression, sympy.Sum | sympy.Product):
        return _series(expression, point, real)
    arguments = [evaluate(argument, point, real) for argument in expression.args]
    if expression.is_Add:
        return mpmath.fsum(arguments)
    if expression.is_Mul:
        return mpmath.fprod(arguments)
    if expression.is_Pow:
        return _power(arguments[0], arguments[1], real)
    function = _FUNCTIONS.get(type(expression).__name__)
    if function is None:
        raise Unsupported(type(expression).__name__)
    if any(abs(argument) > 10**6 for argument in arguments):
        raise _NoValue
    return function(*arguments)


def _series(expression: Any, point: Callable[[str], Any], real: bool) -> Any:
    """A finite sum or product, which only a gold may leave undone, term by term."""
    if len(expression.limits) != 1 or len(expression.limits[0]) != 3:
        raise Unsupported("several limits")
    index, *ends = expression.limits[0]
    low, high = (evaluate(end, point, real) for end in ends)
    if not (mpmath.isint(low) and mpmath.isint(high)) or not -1 <= high - low <= _MOST_TERMS:
        raise _NoValue

    def term(at: int) -> Any:
        return evaluate(expression.function, lambda name: mpmath.mpf(at) if name == index.name else point(name), real)

    terms = [term(at) for at in range(int(low), int(high) + 1)]
    return mpmath.fsum(terms) if isinstance(expression, sympy.Sum) else mpmath.fprod(terms)


def _power(base: Any, exponent: Any, real: bool) -> Any:
    if base == 0:
        if mpmath.re(exponent) <= 0:
            raise _NoValue
        return mpmath.mpf(0)
    if abs(exponent) > 10**6 or abs(exponent * mpmath.log(abs(base))) > 10**6:
        raise _NoValue
    if mpmath.isint(exponent):
        return mpmath.power(base, int(exponent))
    if mpmath.im(base) == 0 and mpmath.im(exponent) == 0 and mpmath.re(base) < 0:
        for root in (3, 5, 7, 9):  # the odd root of a negative number is the real one
            raised = exponent * root
            if abs(raised - mpmath.nint(raised)) < _AGREE:
                sign = -1 if int(mpmath.nint(raised)) % 2 else 1
                return sign * mpmath.power(abs(base), exponent)
        if real:
            raise _NoValue
    return mpmath.power(base, exponent)


_CONSTANTS: dict[Any, Callable[[], Any]] = {
    sympy.pi: lambda: +mpmath.pi,
    sympy.E: lambda: +mpmath.e,
    sympy.I: lambda: mpmath.mpc(0, 1),
}
_SAME_NAME = (
    "sin cos tan cot sec csc asin acos atan acot asec acsc sinh cosh tanh coth asinh acosh atanh exp floor re im "
    "arg factorial binomial"
)
_FUNCTIONS: dict[str, Callable[..., Any]] = {name: getattr(mpmath, name) for name in _SAME_NAME.split()} | {
    "Abs": abs,
    "ceiling": mpmath.ceil,
    "conjugate": mpmath.conj,
    "log": lambda value, base=mpmath.e: mpmath.log(value) / mpmath.log(base),
    "Mod": lambda value, base: value - base * mpmath.floor(value / base),
    "Max": lambda *values: max(values),
    "Min": lambda *values: min(values),
}
