r"""Hostile answers by family, always the same ones: what a model may write that could hang, crash or cheat a grader.

`strings()` gives (family/number, text); `dressed(text)` puts a text into a box, behind a marker, and bare at the end.
Families: numbers that explode, operators with huge limits, deep nesting, long lists, algebra that explodes, bait for
each regular expression of the checker (many repeats of what it repeats, then no match), characters, sizes, code.
"""

from __future__ import annotations

from collections.abc import Iterator

GOLDS = (
    "5",
    "x+1",
    r"\sqrt2",
    "(1,2)",
    r"\frac{1}{3}",
    r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
    r"(-\infty,2]\cup(3,\infty)",
    r"x^2+y^2=1",
    r"1,\sqrt2,3",
    "A",
    r"\text{Monday}",
    "0.125",
    r"5\text{ cm}",
    r"\frac{\sin x}{x!}",
)
HONEST = (  # (response, gold, right): after each hostile row the checker must still know these
    (r"So it is $\boxed{\sqrt{8}}$.", r"2\sqrt2", True),
    (r"So it is $\boxed{x^2+2x+1}$.", "(x+1)^2", True),
    (r"So it is $\boxed{\frac{\sqrt{6}}{2}}$.", r"\sqrt{\frac32}", True),
    (r"So it is $\boxed{x+1}$.", "x+2", False),
    (r"So it is $\boxed{12}$.", "12", True),
)


def strings() -> Iterator[tuple[str, str]]:
    for family, texts in FAMILIES.items():
        for number, text in enumerate(texts):
            yield f"{family}/{number}", text
    for name, (unit, tails) in _REPEATED.items():
        for number, text in enumerate(_long(unit, tails)):
            yield f"bait {name}/{number}", text


def dressed(text: str) -> dict[str, str]:
    return {
        "box": f"Some thoughts. So it is $\\boxed{{{text}}}$.",
        "marker": f"Some thoughts. The final answer is {text}",
        "bare": f"Some thoughts. So we get {text}",
    }


def _nest(start: str, count: int, middle: str, end: str) -> str:
    return start * count + middle + end * count


# just inside the limit on what is parsed, just inside the limit on what is tidied, and far past both
_LENGTHS = (1_400, 29_000, 400_000)


def _long(unit: str, tails: tuple[str, ...]) -> Iterator[str]:
    """The unit again and again up to each length, with every tail."""
    for length in _LENGTHS:
        for tail in tails:
            yield unit * (length // len(unit)) + tail


_E = "1e99999"  # as large as a written exponent is read
_SENTENCE = "We add the two numbers, so that x = 3 and the sum is 12 (see above). "

NUMBERS: dict[str, list[str]] = {
    "tower": [
        "9^{9^{9^9}}", "9^9^9^9", "9**9**9**9", "10^{10^{10}}", "{10^{10}}^{10}", "((9^9)^9)^9", "(((2^{99})^{99})^{99})^{99}",
        "2^{10^9}", "2^{1000000000}", "2^{-1000000000}", "2^{2^{2^{2^{2^{2}}}}}", r"9^{\frac{9^{9}}{1}}", r"(9^{9^9})^{x}",
        "x^{9^{9^9}}", "x^{99999}", "(x+1)^{10^{6}}", "99^{19999}", "999999999^{19999}", "2^{19999}3^{19999}5^{19999}7^{19999}",
        r"\sqrt{9^{9^{9}}}", r"e^{e^{e^{e^{e}}}}", r"\pi^{\pi^{\pi^{\pi}}}", r"e^{10^{10}}", r"\exp(\exp(\exp(\exp(10))))",
        r"10^{\sqrt{10^{10}}}", r"2^{\pi\cdot 10^{9}}", "^".join(["2"] * 300), "^{".join(["2"] * 300) + "}" * 299,
        "{^}" * 300, "2^{^{^{3}}}", "²³⁴" * 200, "2⁹⁹⁹⁹⁹⁹⁹⁹⁹⁹", r"(1+10^{-9})^{10^{9}}", r"\left(9^{9}\right)^{\left(9^{9}\right)}",
        r"9^{\left(9^{\left(9^{9}\right)}\right)}", r"9 ^ { 9 ^ { 9 ^ 9 } }", r"9^\frac{9^9}{9^{-9}}", r"2\uparrow\uparrow 9", r"9^{9\cdot 9\cdot 9\cdot 9\cdot 99999}",
    ],
    "factorial": [
        "1000000!", "((9!)!)!", "((3!)!)!", "10^9!", "(10^9)!", "(10^{9})!", "300!", "300!!!!!", "300!300!300!300!", "(300!)^{300}", "300!^{300!}",
        "1" + "!" * 1000, r"\Gamma(10^9)", r"\left(10^{9}\right)!", r"{1000000}!", r"\frac{1000000!}{999999!}", r"(99999+1)!",
        r"(10\cdot 10\cdot 10\cdot 10\cdot 10\cdot 10)!", r"(300 \cdot 300)!", r"(2^{30})!", r"\sqrt{10^{20}}!", "n!" * 200, "(n!)!", "((n!)!)!", r"(\frac{10^9}{1})!", "0.5!", "(-1)!",
        r"\Gamma(\Gamma(\Gamma(9)))", "x!^{x!^{x!}}", r"(200+200)!", r"(300^2)!",
    ],
    "binomial": [
        r"\binom{1000000000}{500000000}", r"\binom{300}{150}^{300}", r"{1000000000 \choose 500000000}", r"\dbinom{10^9}{10^8}", r"C(10^9,10^8)",
        r"\binom{2^{30}}{2^{29}}", r"\binom{\binom{300}{150}}{\binom{300}{149}}", r"\binom{x}{10000000}", r"\binom{1+10^{9}}{5}", r"_{1000000000}C_{500000000}",
        r"\binom{ 1000000000}{500000000}", r"\binom {1000000000} {500000000}", r"\binom{(1000000000)}{(500000000)}", r"\tbinom{-1000000000}{500000000}",
    ],
    "digits": [
        "9" * 401, "9" * 1000, "9" * 1400, "9" * 5_000, "9" * 100_000, "0." + "3" * 1000, "0." + "3" * 100_000, "9" * 700 + "." + "9" * 700,
        "-" + "1" * 5_000, "1," + "000," * 5_000 + "000", "1 " + "000 " * 5_000 + "000", "9" * 1000 + "^{" + "9" * 4 + "}", "9" * 1000 + "/" + "7" * 1000,
        r"\frac{" + "9" * 700 + "}{" + "7" * 700 + "}", "*".join(["9" * 90] * 15), "+".join(["9" * 90] * 15), "0" * 100_000 + "5", "5." + "0" * 100_000,
        r"\sqrt{" + "9" * 1000 + "}", r"\sqrt[1000]{" + "9" * 900 + "}", r"\sqrt[" + "9" * 900 + "]{2}", "x^{" + "1" * 900 + "}", r"\log_{2}(" + "9" * 999 + ")",
        r"\ln(" + "9" * 900 + ".5)", r"\sin(" + "9" * 900 + ")", r"\gcd(" + "9" * 600 + "," + "6" * 600 + ")", "9" * 600 + r"\mod" + "7" * 600,
        "9" * 1000 + r"\sqrt{2}", "1" + "/3" * 500, "7^{" + "-" * 500 + "3}",
    ],
    "scientific": [
        "1e999999999", "1e99999", "-1e-99999", "1.5E+99999", "9e19999", r"1\times 10^{999999999}", r"1\times10^{19999}", r"10^{-19999}", r"1.0\cdot 10^{20000}",
        "1e99999+1", "1e99999^2", "(1e9999)^{9999}", r"1e99999\%", r"x\cdot 1e99999", r"\sqrt{1e99999}", r"3e99999\pi", "1e9999/1e-9999", " ".join(["1e99999"] * 100), "*".join(["1e99999"] * 100), "+".join(["1e-99999"] * 100),
        "+".join(f"1e{n}" for n in range(19_000, 19_150)), "(" * 20 + "1e99999" + ")" * 20, r"\frac{1e99999}{1e-99999}", "/".join(["1e99999"] * 100), "1e99999,1e99999,1e99998",
    ],
    "repeating": [
        r"0.\overline{" + "3" * 900 + "}", r"0.\overline{" + "123456789" * 100 + "}", r"0." + "1" * 400 + r"\overline{" + "3" * 400 + "}", r"0.\overline{\overline{\overline{3}}}",
        r"0.\dot{3}" * 100, "+".join([r"0.\overline{" + "142857" * 3 + "}"] * 40), "*".join([r"0.\overline{" + "142857" * 3 + "}"] * 40), r"0.\overline{3}^{9999}", "0." + "142857" * 1_000 + "...", r"0.3333\ldots" * 100,
        "+".join(rf"\frac{{1}}{{{n}}}" for n in range(10**9, 10**9 + 70)), "*".join(rf"\frac{{1}}{{{n}}}" for n in range(10**9, 10**9 + 70)),
    ],
}  # fmt: skip

OPERATORS: dict[str, list[str]] = {
    "sum": [
        r"\sum_{k=1}^{10^9}k", r"\sum_{k=1}^{1000000}\frac{1}{k}", r"\sum_{k=1}^{\infty}\frac{1}{k^2}", r"\sum_{i=1}^{999}\sum_{j=1}^{999}\sum_{k=1}^{999}ijk",
        r"\sum_{k=1}^{10^{10^{10}}}k", r"\sum" * 300, r"\sum_{k=0}^{n}\binom{n}{k}", r"\sum_{k=1}^{999}k^{999}", r"\sum_{n=1}^{\infty}\frac{\sin n}{n}",
        r"\sum\limits_{k=1}^{10^9} \frac{1}{k!}",
    ],
    "product": [
        r"\prod_{k=1}^{10^6}k", r"\prod_{k=1}^{\infty}(1+\frac{1}{k^2})", r"\prod_{i=1}^{999}\prod_{j=1}^{999}(i+j)", r"\prod_{k=1}^{10^{9}}(x-k)", r"\prod" * 300,
    ],
    "integral": [
        r"\int_0^1 e^{x^2}dx", r"\int_0^{10^9}\frac{\sin x}{x}dx", r"\int\int\int\int e^{xyzw}dxdydzdw", r"\int_0^\infty \frac{x^{99}}{e^x-1}dx", r"\iiint_V x^{y^z}",
        r"\oint e^{\frac{1}{z}}dz", r"\int" * 300, r"\int \sqrt{\tan x}\,dx", r"\int_{-\infty}^{\infty}\frac{\cos(x^2)}{x^4+x^2+1}dx",
    ],
    "limit": [
        r"\lim_{n\to\infty}(1+\frac1n)^n", r"\lim_{x\to 0}\frac{\sin(\tan x)-\tan(\sin x)}{x^7}", r"\lim_{n\to\infty}\sum_{k=1}^{n}\frac{1}{k!}", r"\lim" * 300,
        r"\frac{d}{dx}x^{x^{x^{x}}}", r"\frac{d^{99}}{dx^{99}}\sin(x)^{99}", r"\nabla\times\nabla\times F",
    ],
    "trigonometry": [
        r"\tan(\tan(\tan(x)))=1", r"\sin(x)+\sin(2x)+\sin(3x)+\sin(4x)=0", r"\arcsin(\arccos(\arctan(x)))=1", r"\cos^{99}(x)+\sin^{99}(x)", "\\sin(" * 38 + "x" + ")" * 38,
        r"\sin(10^{9})", r"\tan(10^{19999})", r"\sin(9^{9^{9}})", r"\arctan(1)+\arctan(2)+\arctan(3)=\pi", r"\sin^{-1}(\sin(x))=x", r"\cos\frac{\pi}{65537}", r"\sin(\frac{1}{10^{999}})",
        "+".join(rf"\sin({n}x)" for n in range(1, 120)), r"\prod_{k=1}^{99}\cos(kx)", r"\cosh(\cosh(\cosh(\cosh(9))))", r"\log(\log(\log(\log(x))))=1", r"x\cdot" + r"\sin x\cdot\cos x\cdot" * 40 + "1",
        r"\sec(\csc(\cot(\sec(\csc(\cot(x))))))", r"e^{i\pi e^{i\pi e^{i\pi}}}", r"\cot(10^{-300})", r"\ln(\ln(\ln(1)))", r"\arccos(2)^{\arccos(3)^{\arccos(4)}}",
    ],
    "polynomial": [
        "(x+1)^{1000}", "(x+1)^{19999}", "(a+b+c+d+e)^{60}", "(a+b+c+d+e+f+g+h)^{99}=1", "((((x+1)^{9}+1)^{9}+1)^{9}+1)^{9}", r"\frac{x^{1000}-1}{x-1}", r"\frac{(x+1)^{500}}{(x-1)^{500}}+\frac{(x+2)^{500}}{(x-2)^{500}}",
        "".join(f"(x+{n})" for n in range(1, 150)), "+".join(f"x^{{{n}}}" for n in range(1, 150)), "+".join("abcdefghijklmnopqrstuvwxyz"), "*".join("abcdefghijklmnopqrstuvwxyz") + "=1",
        "(x+y+z)^{200}=(x-y-z)^{200}", r"x^{1000}+y^{1000}=1", r"\sqrt{x+" * 35 + "1" + "}" * 35, r"\frac{1}{x+" * 35 + "1" + "}" * 35, "(x+1)^{x+1}^{x+1}", "(x+" * 38 + "1" + ")^2" * 38, "(x+1)^{0.5}" * 60,
        "|" * 1000 + "x" + "|" * 1000, "||||x|-1|-1|-1|", "|x" * 100, r"\lfloor" * 30 + "x" + r"\rfloor" * 30, "x_{1}x_{2}" * 100, "x_{1}+" * 200 + "1", "(x^2+y^2+z^2+w^2)^{1234}-(x+y)^{2345}", "(x-1)^{1999}(x+1)^{1999}=(x^2-1)^{1999}",
    ],
}  # fmt: skip

NESTING: dict[str, list[str]] = {
    name: [_nest(start, count, "7", end) for count in (30, 300, 10_000)] + [start * 10_000, start * 500 + "7", "7" + end * 500]
    for name, (start, end) in {
        "braces": ("{", "}"),
        "brackets": ("(", ")"),
        "squares": ("[", "]"),
        "sets": (r"\{", r"\}"),
        "left": (r"\left(", r"\right)"),
        "sqrt": (r"\sqrt{", "}"),
        "frac": (r"\frac{1}{1+", "}"),
        "text": (r"\text{", "}"),
        "boxes": (r"\boxed{", "}"),
        "power": ("x^{", "}"),
        "matrix": (r"\begin{pmatrix}", r"\end{pmatrix}"),
        "mixed": (r"\frac{(\{[\sqrt{", "}]\\})}{2}"),
    }.items()
} | {
    "bare arguments": [r"\sqrt" * 500 + "2", r"\frac" * 400 + "12", r"\frac1" * 200 + "2", r"\binom" * 300, r"\sqrt" * 10_000, r"\frac" * 6_000 + "1" * 6_000, r"\sqrt[3]" * 2_000 + "2"],
}  # fmt: skip

LISTS: dict[str, list[str]] = {
    "list": [
        ",".join(map(str, range(100_000))), ",".join(["x+1"] * 350), ",".join(["x"] * 700), ";".join(["1"] * 700), ",".join([r"\sqrt2"] * 200), ",".join([r"\sqrt{2}+x"] * 100),
        r"\text{ and }".join(["x"] * 200), " or ".join(["x"] * 300), ", and ".join(["1"] * 100_000), r"\{" + ",".join(map(str, range(100_000))) + r"\}", "(" + ",".join(["1"] * 100_000) + ")",
        ",".join(f"x={n}" for n in range(200)), ",".join(["1,000"] * 200), "1,2;3,4;" * 150, ",".join([r"\frac{1}{3}"] * 100), ",".join(f"({n},{n})" for n in range(150)), ",".join([r"\sin^2x+\cos^2x"] * 70), r"\{" + r",".join([r"\{1\}"] * 150) + r"\}",
        "{" + ",".join(["a"] * 700) + "}", "," * 100_000, ";," * 700, "1," * 700, ",".join([r"x\pm1"] * 150), ",".join(f"x^{n}" for n in range(60)), ",".join(rf"\sqrt{{{n}}}" for n in range(60)),
    ],
    "union": [
        r"\cup".join(["(1,2)"] * 10_000), r"\cup" * 10_000, r"\cup".join(f"({n},{n + 1})" for n in range(100)), r"\cup".join([r"\{1\}"] * 100), r"\cup".join([r"(-\infty,\sqrt2)"] * 50), r"(1,2)\cap" * 100 + "(3,4)",
        r"\mathbb{R}\setminus\{" + ",".join(map(str, range(300))) + r"\}", r"\mathbb{R}" * 150, r"\{x|" * 200, r"\{x:x\in\{y:y\in\{z:z>1\}\}\}", r"(1,2)\cup(" * 200, "(-1e99999,1e99999)", "(1,2e99999]" + r"\cup(1,2e99999]" * 60,
    ],
    "matrix": [
        r"\begin{pmatrix}" + r"\\".join(["&".join(["1"] * 300)] * 300) + r"\end{pmatrix}", r"\begin{pmatrix}" + "&" * 100_000 + r"\end{pmatrix}", r"\begin{pmatrix}" + r"\\" * 700 + r"\end{pmatrix}",
        r"\begin{pmatrix}" + r"\\".join(["&".join(["x"] * 20)] * 20) + r"\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}^{1000}", r"\begin{vmatrix}" + r"\\".join(["&".join("abcdefghi")] * 9) + r"\end{vmatrix}",
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}" * 30, r"\begin{array}{" + "c" * 1000 + r"}1\end{array}", r"\begin{cases}" + r"x&y\\" * 150 + r"\end{cases}", r"\begin{pmatrix}x+1&\sqrt2\\x!&9^{9^{9}}\end{pmatrix}", r"\begin{" * 500, r"\end{pmatrix}" * 100,
        r"\begin{matrix}" + r"\hline" * 200 + r"\end{matrix}", r"\begin{pmatrix}1\\[" * 100 + r"\end{pmatrix}",
    ],
    "plus minus": [r"\pm" * 12 + "1", r"\pm" * 400, r"1\pm2" * 12, r"1\pm2" * 200, r"\pm x" * 20_000, r"x=\pm" * 100, r"\pm\mp" * 100, r"\pm1,\pm2,\pm3,\pm4,\pm5,\pm6", r"\pm(\pm(\pm(\pm(\pm(\pm1)))))", "±" * 300, r"(\pm1,\pm1,\pm1,\pm1)", r"\pm\sqrt{1\pm\sqrt{1\pm\sqrt{2}}}"],
    "chain": [
        "x=" * 5_000 + "5", "1<" * 500 + "x", "x<y<" * 250 + "z", r"a\le " * 250 + "b", "=" * 100_000, "<" * 1_400, r"x\in " * 250 + r"\mathbb{R}", r"\ne".join("xyzw" * 50), "x=1=2=3=x", "f(x)=" * 200 + "x", "x=y,y=z," * 150 + "z=x", r"\approx" * 200, r"1\equiv" * 100 + r"1\pmod{5}", ":".join(["1"] * 700), "1:" * 700 + "x", "1:" * 100_000, ">=<=" * 300,
        "(x,y)=" * 200 + "(1,2)", "x^2+y^2=1" * 50,
    ],
}  # fmt: skip

# One entry for each thing that some expression of the checker repeats, with tails on which it fails late.
_REPEATED: dict[str, tuple[str, tuple[str, ...]]] = {
    "spaces": (" ", ("5 ", "x")),
    "newlines": ("\n", ("5", "x")),
    "tabs and spaces": (" \t", ("}", "5")),
    "letters": ("a", ("", "1", "{")),
    "digits": ("1", ("", "a", ".")),
    "digits and commas": ("1,", ("", "x")),
    "thousands": ("000,", ("000", "00")),
    "spaced digits": ("1 ", ("", "x")),
    "words": ("word ", ("", "5")),
    "dots": (".", ("5",)),
    "point and digit": (".5", ("",)),
    "and": (" and ", ("5",)),
    "or": (" or", (" 5",)),
    "not": (" not", (" 5",)),
    "joining text": (r" , \text{ and } , ", ("",)),
    "comma and space": (", ", ("x",)),
    "open text": (r"\text{", ("",)),
    "text with spaces": (r"\text {  ", ("a",)),
    "texts": (r"\text{ a }", ("", "^")),
    "unclosed text": (r"\text{a" + "a" * 50, ("",)),
    "dollars": ("$", ("5", "5$")),
    "escaped dollars": (r"\$", ("5",)),
    "dollar signs and spaces": ("$ ", ("5",)),
    "comments": ("<!--", ("-->",)),
    "comment ends": ("<!-- -->", ("5",)),
    "thinking": ("<think>", ("</think>5", "")),
    "thought": ("</think>", ("5",)),
    "answer tags": ("<answer>", ("5</answer>", "")),
    "answer pairs": ("<answer>5</answer>", ("",)),
    "open boxes": (r"\boxed{", ("",)),
    "boxes of boxes": (r"\boxed{\boxed{5}}", ("",)),
    "boxes with space": (r"\boxed   ", ("{5}",)),
    "box pairs": (r"\boxed{5}", ("",)),
    "hedged boxes": (r"\boxed{5} or ", ("",)),
    "assigned boxes": (r"x=\boxed{5}, x=", ("",)),
    "box words": ("boxed", ("{5}",)),
    "hashes": ("#", ("5",)),
    "hash numbers": ("#### 5,", ("",)),
    "answer is": ("the answer is ", ("", "5")),
    "answer to": ("answer to a", ("",)),
    "answers of": ("answers of the question ", (": 5",)),
    "answer and stars": ("answer*", (" is 5",)),
    "answer stars": ("*", ("answer: 5",)),
    "final answer": ("final answer ", ("\n5",)),
    "final stars": ("final answer" + "*#" * 20, ("",)),
    "leads": ("therefore, ", ("5",)),
    "lead colons": (": ", ("5",)),
    "lead stars": ("**", ("5", "__5")),
    "so": (" so ", ("5",)),
    "commas and so": (",  so", ("5",)),
    "because": (" because", ("",)),
    "remarks": (" (a-b ", (")", "")),
    "display": ("$$", ("5", "")),
    "bracket display": (r"\[", ("5", r"\]")),
    "colors": (r"\color{red}", ("5",)),
    "open colors": (r"\textcolor{" + "a" * 30, ("",)),
    "phantoms": (r"\phantom{x}", ("5",)),
    "phantom spaces": (r"\phantom    ", ("",)),
    "fonts": (r"\mathrm{a}", ("",)),
    "nested fonts": (r"\mathrm{", ("",)),
    "operator names": (r"\operatorname*  ", ("",)),
    "backslashes": ("\\", ("", "5")),
    "spacing": (r"\,\;\:\ \!", ("5",)),
    "tildes": ("~", ("5",)),
    "commands": (r"\alpha", ("", "x")),
    "unknown commands": (r"\undefinedmacro", ("{5}",)),
    "degrees": (r"^\circ", ("",)),
    "degree braces": (r"^{ \circ }", ("5",)),
    "degree spaces": ("^   {   ", ("o}",)),
    "percent": (r"\%", ("", "5")),
    "percent words": ("5 percent", ("",)),
    "overs": (r"{1\over2}", ("",)),
    "open overs": (r"{1\over", ("",)),
    "over bare": (r"1\over ", ("2",)),
    "times ten": ("1 x 10^", ("3",)),
    "plus infinity": (r"+ \infty", ("",)),
    "subscripts": ("x_", ("1", "{1}")),
    "bases": ("101_", ("2",)),
    "signs": ("+", ("5", "x")),
    "minuses": ("-", ("5", "")),
    "exclamation": ("!", ("5",)),
    "factorials": ("5)}!", ("",)),
    "factorial gaps": ("! ) ", ("x",)),
    "carets": ("^", ("5",)),
    "caret brackets": ("^(", ("",)),
    "exponents": ("x^2", ("",)),
    "powers": ("2^3 ", ("",)),
    "double stars": ("2**", ("2",)),
    "sqrt options": (r"\sqrt[", ("3]{2}",)),
    "option spaces": (r"\sqrt    [3]", ("2",)),
    "angles": (r"\angle ", ("A",)),
    "labels": ("A(x,", ("y)",)),
    "label commas": ("(x,y,z,", ("w)=1",)),
    "primes": ("f'", ("(x)",)),
    "units": ("5 cm ", ("",)),
    "unit slashes": ("cm/", ("s",)),
    "unit texts": (r"5\text{ cm}^2/\text{s}^2", ("",)),
    "cdot texts": (r"\cdot  \text{m}", ("",)),
    "unit words": (" aaa", ("", "^2")),
    "ordinals": ("1st ", ("",)),
    "question marks": ("?", ("5",)),
    "pipes": ("|", ("x",)),
    "builders": ("x|", ("",)),
    "quotes": ('"', ("5",)),
    "backticks": ("`", ("5",)),
    "overline": (r"\overline{", ("3}",)),
    "repeats": (r"0.\overline{3}", ("",)),
    "choices": ("(A) ", ("",)),
    "choice words": ("option ", ("A",)),
    "clock": ("1:00 ", ("pm", "")),
    "ellipsis": (r"\ldots", ("",)),
    "squares": (r"\square", ("",)),
    "setminus": (r"\mathbb{R}\setminus\{1", (r"\}",)),
    "square roots": ("√", ("2",)),
    "superscripts": ("²", ("",)),
    "full-width": ("５", ("",)),
    "mathematical": ("𝟓", ("", "x")),
    "arguments": (r"\frac12", ("",)),
    "inverse": (r"\sin^{-1}", ("x",)),
    "row breaks": (r"\\", ("5",)),
    "row options": (r"\\[", ("]",)),
    "text numbers": (r"\text{1,", ("}",)),
    "pi": ("pi ", ("",)),
    "infinity": ("infinity", ("",)),
    "colons": (": ", ("5", "")),
    "equals": ("= ", ("5", "")),
    "dots and spaces": (" .", ("", "5")),
    "empty texts": (r"\text{}", ("5",)),
    "empty text spaces": (r"\text{ } ", ("5",)),
    "approximately": (r"\approx ", ("5",)),
    "braced dollars": ("{$", ("5",)),
    "answer prefix": ("answer: ", ("5",)),
    "answer text": (r"\text{answer: ", ("5",)),
    "ends": (r"\end{pmatrix}", ("",)),
    "begins": (r"\begin{pmatrix}", ("", r"\end{pmatrix}")),
    "environments": (r"\begin{pmatrix}1\end{pmatrix}", ("", "x")),
    "bar digits": (r"1\overline{", ("",)),
    "decimals": ("0.5", ("",)),
    "number words": ("one ", ("",)),
    "inner set": (r"\in\{1,", ("",)),
    "signed sums": ("1+1", ("", "x")),
    "fraction sums": (r"\frac{1}{7}+", ("1",)),
    "mixed numbers": (r"1\frac{1}{2}", ("",)),
    "sentences": ("Yes. ", ("5",)),
}
FLOODS: dict[str, list[str]] = {  # many boxes, which stand as they are in every dressing
    "box flood": [
        "".join(rf"\boxed{{{n}}}" for n in range(50_000)), " or ".join(rf"\boxed{{x+{n}}}" for n in range(2_000)), " or ".join(rf"\boxed{{\sqrt{{{n}}}}}" for n in range(40)), r"\boxed{}" * 50_000,
        r"\boxed{" + "".join(rf"\boxed{{{n}}}" for n in range(10_000)) + "}", ", ".join(rf"x=\boxed{{{n}}}" for n in range(20_000)), r"\fbox{5}\boxed{6}" * 20_000, "".join(f"<answer>{n}</answer>" for n in range(20_000)),
    ],
}  # fmt: skip

CHARACTERS: dict[str, list[str]] = {
    "control": ["5\x00", "\x00" * 1_000, "".join(map(chr, range(32))), "\x1b[31m5\x1b[0m", "5\x08\x08", "\x7f" * 500, "5\r\n", "\r\n" * 5_000 + "5", "\x0b5\x0c", "\x85" * 300, "\u2028" * 300 + "5"],
    "surrogates": ["\ud800", "5\udfff", "\udc00\ud800" * 500, r"\sqrt{" + "\ud83d" + "}", r"\text{" + "\udcff" + "}", "x+\ud800", "5,\ud800", r"\begin{pmatrix}" + "\ud800" + r"\end{pmatrix}"],
    "direction": ["\u202e5\u202c", "\u200f" * 1_000 + "5", "\u2066x\u2069+1", "\u202e)1+x(", "٥", "५", "५५५+१", "๕", "٣٫٥", "५" * 1_000, "²" * 1_000, "⁵/₆", "①②③", "一百", "௫" * 300, "𝟧" * 1_000, "ⅴ", "٥" * 100_000, "1٬000", "٥!", "x^{५}", r"\binom{٩٩٩٩٩٩٩}{٣}", "(٩٩٩٩٩٩٩)!", "2^{٩٩٩٩٩٩٩٩٩}"],
    "combining": ["5" + "\u0301" * 1_000, "a\u0336" * 1_000, "e\u0301" * 100_000, "\u0301" * 300, "5\ufe0f\u20e3"],
    "emoji": ["😀" * 1_000, "👨‍👩‍👧‍👦" * 300, "5️⃣", "🇫🇷" * 300, r"\text{🎲} = 5", "😀" * 200_000],
    "full-width letters": ["ｘ＋１", "＼ｓｑｒｔ{2}", "ﷺ" * 1_000, "ﬁ" * 1_000, "㍿" * 300],
}  # fmt: skip

SIZES: dict[str, list[str]] = {
    "prose": [
        _SENTENCE * 14_000, _SENTENCE * 14_000 + r"The answer is 5", _SENTENCE * 14_000 + r"\boxed{x+1}", _SENTENCE * 14_000 + "}\n\nFinal answer:\n\n5", r"\boxed{5}. " + _SENTENCE * 14_000,
        "\r\n".join([_SENTENCE] * 14_000), (_SENTENCE + r"\boxed{5}. ") * 12_000, (_SENTENCE + r"The answer is 5. ") * 11_000, _SENTENCE * 14_000 + r"\boxed{5", _SENTENCE * 14 + r"\boxed{" + _SENTENCE * 14_000,
        "The answer is " + _SENTENCE * 14_000, _SENTENCE * 70_000, "answer: " + "word " * 280,
    ],
    "one word": ["a" * 1_000_000, "1" * 1_000_000, "x+" * 500_000, "a" * 5_000_000, "a" * 1_400, "ab1" * 470, "-" * 1_000_000, "\\" * 1_000_000, "{" * 1_000_000, "}" * 1_000_000, "{}" * 500_000, "^" * 1_000_000, "$" * 1_000_000, "0" * 1_000_000, "é" * 1_000_000, " " * 1_000_000 + "5"],
}  # fmt: skip

CODE: dict[str, list[str]] = {
    "macros": [
        r"\def\a{\a\a}\a", r"\def\a{aaaaaaaaaa}\def\b{\a\a\a\a\a\a\a\a\a\a}\def\c{\b\b\b\b\b\b\b\b\b\b}\c", r"\newcommand{\x}{\x\x}\x", r"\let\a=\b\let\b=\a\a", r"\loop\iftrue\repeat", r"\input{/dev/zero}", r"\input{/etc/passwd}",
        r"\write18{touch CANARY_FILE}", r"\immediate\write18{touch CANARY_FILE}", r"\openout1=CANARY_FILE\write1{x}\closeout1", r"\include{/dev/random}", r"\catcode`\{=12", r"\csname boxed\endcsname{5}", r"\usepackage{x}", r"\verb|5|", r"\foo\bar\baz", r"\expandafter\a" * 100, r"\lstinputlisting{/etc/passwd}", r"\directlua{os.execute('touch CANARY_FILE')}",
    ],
    "python": [
        "__import__('os').system('touch CANARY_FILE')", "[5 for _ in [__import__('os').system('touch CANARY_FILE')]][0]", "[[open('CANARY_FILE','w')]]", "{open('CANARY_FILE','w'),1}", "eval('5')", "exec('while 1: pass')", "lambda: 5", "Integer(5)", "Symbol('x')+1", "(lambda f: f(f))(lambda f: f(f))",
        "x.__class__.__mro__[-1].__subclasses__()", "().__class__.__bases__[0]", "print(5)", "while True: pass", "5; import os", "f'{open(\"CANARY_FILE\",\"w\")}'", "sympify('5')", "[0]*10**10", "'a'*10**10", "range(10**10)", "10**10**10", "int('9'*10**9)", "%s" * 300, "{0}{1}{2}" * 100, "{}".join(["{0.__class__}"] * 50), "${7*7}", "$(touch CANARY_FILE)", "`touch CANARY_FILE`", "5 | touch CANARY_FILE", "; touch CANARY_FILE",
        "Matrix([[open('CANARY_FILE','w')]])", r"\begin{pmatrix}open('CANARY_FILE','w')\end{pmatrix}", "cls.__init__.__globals__", "S('x').subs(x,5)", "NaN", "inf", "-inf", "None", "True", "1_000_000", "0x10", "1j", "5L", "0b101", "5 if True else 6",
    ],
}  # fmt: skip

FAMILIES: dict[str, list[str]] = NUMBERS | OPERATORS | NESTING | LISTS | FLOODS | CHARACTERS | SIZES | CODE
