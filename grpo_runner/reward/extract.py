r"""Which part of a completion is the answer. Pure string work, linear in the text's length.

Only the completion is read, never the prompt, and only what follows the last `</think>`. The answer is the last
complete `\boxed{}` (or `\fbox{}`); without a box, what follows the last explicit marker ("answer is", "Answer:",
"####", `<answer>`). A number that merely stands in the text is never an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Offer:
    """What a completion offers as its answer.

    answers: the last answer alone, or every box when several are offered as alternatives ("\\boxed{3} or \\boxed{4}");
    empty when there is no answer. in_form: the answer stood in the required form (box, or answer tags).
    """

    answers: tuple[str, ...] = ()
    in_form: bool = False


_NOTHING = Offer()
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
# TeX takes a lone token for the argument: \boxed 7
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)(?:\s*(?=\d)|\s+)(-?\d[\d.,/]*(?<![.,/])|[a-zA-Z])(?![\w{\\^])")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# verl's strict rule for GSM8K (verl/utils/reward_score/gsm8k.py): within the last characters, commas dropped
_HASH, _HASH_WITHIN = re.compile(r"#### (-?[0-9.,]+)"), 300
# What may stand between two boxes that are alternatives: only connecting words, or one short clause with a hedge.
_CONNECTING = (
    "or and also either else but maybe perhaps possibly alternatively if not then it is could may might be the answer"
)
_CONNECTORS = frozenset(_CONNECTING.split())
_HEDGE = re.compile(
    r"\b(?:or|maybe|perhaps|possibly|possible|alternatively|alternative|otherwise|another|option|possibility|candidate"
    r"|backup|fallback|failing that|in case|plan b|guess|second choice|(?:could|might|may)\s+(?:\w+\s+)?be)\b"
)
# A condition between two boxes leads to another answer ("if that is wrong", "unless the book means"), unless something
# is derived from the first
_CONDITION = re.compile(r"\b(?:unless|if(?! we\b)|in case|depending|should (?:this|that|it)\b)")
_DERIVED = re.compile(r"\b(?:so|thus|hence|therefore|then (?:the|we|it)|gives?|giving|yields?|we get)\b")
_SECOND = re.compile(
    r"^[\s,]*(?:as |is |would be |being )?my (?:second|other|next|alternative|backup) (?:choice|guess|answer|option)"
)
_CORRECTION = re.compile(
    r"\b(?:wait|actually|correct\w*|should|instead|mistake|wrong|sorry|no|hmm|recheck\w*|checking|so|thus|therefore|hence)\b"
)
_DENIED = re.compile(r"(?<!\bif )(?<!\bwhy )\bnot\s*[$\\(\[*]{0,3}\s*$", re.IGNORECASE)
_ANOTHER_BEHIND = re.compile(r"[\s$\\)\]]*(?:or|or maybe|or perhaps|or possibly)\s+[$\\(]*-?\d", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?<![a-zA-Z\\])([a-zA-Z]\w?)\s*=\s*\$?$")
_HEDGE_LENGTH = 80
_MOST_OFFERED, _MOST_NESTED = 16, 8  # boxes that are alternatives, and boxes within boxes; beyond these it is no answer

_MARKER = re.compile(
    r"####|<answer>"
    r"|\banswers?\b(?:\s+(?:to|of|for)\b[^.\n:=]{0,80}?)?\**\s*(?:(?:is|are|(?:would|must|will)\s+be)\b(?!\s+not\b)\s*:?|:|=)"
    r"|\bfinal\s+answer\b[\s*#]*\n|^#+\s*answer\s*\n",
    re.IGNORECASE | re.MULTILINE,
)
# An afterthought that names a second value, or says that the first is none
_TAKEN_BACK = re.compile(
    r",?\s+(?:which|but) (?:(?:that|this|it) )?(?:is|was|may be|could be|might be) (?:wrong|incorrect|mistaken)\b"
    r"|(?=.*\d),?\s+(?:but|which|where|when|while|as|and|so)\b"
    r".*\b(?:could|may|might|possibl[ey]|also|well as|or|so is)\b",
    re.IGNORECASE | re.DOTALL,
)
_ANOTHER = re.compile(r"\s*(?:alternatively|otherwise|or)\b[^.\n]*\d", re.IGNORECASE)
_SAID = re.compile(r"(?:the|it|there|this|so|thus)\b[^.?!]*\b(?:is|are|equals)\s+(\S.*)", re.IGNORECASE)
_UNSURE = re.compile(
    r"\b(?:not|never|no|less|more|least|most|or|if|either|maybe|may|might|could|between|than|possibl[ey]|probably)\b|n't|\d.*\bis\b",
    re.IGNORECASE,
)
_CLOSING_TAG = re.compile(r"</answer>", re.IGNORECASE)
_LEAD = re.compile(
    r"(?:\s|\*\*|__|:|`)*(?:(?:therefore|thus|hence|then|either|simply|just|clearly|indeed|exactly|equal to"
    r"|given by|approximately|roughly|about|option|choice)\b[\s,:]*)*",
    re.IGNORECASE,
)
# A sentence ends at a full stop that is not a decimal point; a reason or a denial after the answer is no part of it.
# Neither does it end at "…", nor within a formula.
_SENTENCE_END = re.compile(r"(?<!\.)\.(?=\s|\*|$)|(?<!\\)[!?](?=\s|$)|\n")
_FORMULA = re.compile(
    r"\$(?!\s)[^$]*[^\s\\$]\$(?!\d)|\\\(.+?\\\)|\\begin\{(\w+)\}.*?\\end\{\1\}|\{[^{}\n]*\}", re.DOTALL
)
_NEW_SENTENCE = re.compile(r"[.?!]\s+[A-Z]|\n\s*\n")
_REASON = re.compile(r"\s+\((?:(?!or\b|if\b|maybe\b)[a-zA-Z -]{3,}|(?:since|because|as|from|by|using|see)\b[^()]*)\)$")
_AFTERTHOUGHT = re.compile(
    r",?\s+(?:not|rather than|instead of|because|since|as|which|so|but|where|when|while"
    r"|and (?:we|so|that|this|thus|hence|it))\b.*",
    re.IGNORECASE | re.DOTALL,
)


def after_thinking(text: str) -> str:
    """The text that counts: after the last `</think>`, and before a `<think>` that is never closed."""
    text = text[text.rfind("</think>") + len("</think>") :] if "</think>" in text else text
    return text[: text.find("<think>")] if "<think>" in text else text


def offer(response: str, mode: str = "box_or_marker", which: str = "unhedged") -> Offer:
    """The answer that a completion offers. mode, which: Policy.extract and Policy.boxes.

    "box_or_marker" is the policy above; "box" takes boxes only; "answer_tag" is Oat's strict rule for the R1 template
    (understand_r1_zero/math_grader.py): the literal `</think> <answer>` … `</answer>`, and inside it a box if any;
    "hash" is verl's strict rule for GSM8K; "whole" takes the whole completion, and any part of its thinking too.

    Of several boxes, "unhedged" takes the last, and all of them where they are offered as alternatives; "last" and
    "first" take that one whatever stands around it; "only" takes all that differ, so that one alone is an answer.
    """
    if mode == "whole":
        return Offer((response.strip(),), in_form=True) if response.strip() else _NOTHING
    if mode == "hash":
        found = _HASH.findall(response[-_HASH_WITHIN:])
        answer = found[-1].replace(",", "") if found else ""
        return Offer((answer,), in_form=True) if answer else _NOTHING
    if mode == "answer_tag":
        return _tagged(response, which)
    text = after_thinking(response)
    if _BARE_BOX.search(text):
        text = _BARE_BOX.sub(r"\\boxed{\1}", text)
    if "<!--" in text:
        text = _COMMENT.sub(" ", text)
    boxes, unclosed, end = _boxes(text)
    if boxes:
        return _from_boxes(text, boxes, which)
    if mode == "box" or unclosed:
        return _NOTHING
    return _marked(text, end)


def _tagged(response: str, which: str) -> Offer:
    if "</think> <answer>" not in response:
        return _NOTHING
    content, closed, _ = response[response.rfind("<answer>") + len("<answer>") :].partition("</answer>")
    if not closed or not content.strip():
        return _NOTHING
    if "\\boxed" in content or "\\fbox" in content:
        boxes, _, _ = _boxes(content)
        return _from_boxes(content, boxes, which) if boxes else _NOTHING
    return Offer((content.strip(),), in_form=True)


def _boxes(text: str) -> tuple[list[tuple[int, int, str]], bool, int]:
    """(start, end, content) of each complete outermost box; whether a later one never closes; where the last ended.

    Empty boxes before any full one echo the instruction and are left out; an empty box after a full one stays.
    """
    boxes: list[tuple[int, int, str]] = []
    position, end, unclosed = 0, 0, False
    while (found := _BOX.search(text, position)) is not None:
        close = _closing(text, found.end())
        if close < 0:
            unclosed = True
            break
        content = text[found.end() : close].strip()
        if content or boxes:
            boxes.append((found.start(), close + 1, content))
        position = end = close + 1
    return boxes, unclosed, end


def _closing(text: str, start: int) -> int:
    """Index of the brace that closes the group whose content begins at `start`; -1 if it never closes."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
            if depth == 0:
                return brace.start()
    return -1


def _from_boxes(text: str, boxes: list[tuple[int, int, str]], which: str) -> Offer:
    chosen = {"first": boxes[:1], "only": boxes}.get(which, boxes[-1:])
    if which == "unhedged":
        offered = [box for box in boxes if not _DENIED.search(text[max(0, box[0] - _HEDGE_LENGTH) : box[0]])]
        if not offered or _ANOTHER_BEHIND.match(text[offered[-1][1] :][:_HEDGE_LENGTH]):
            return _NOTHING
        boxes, chosen, differing = offered, offered[-1:], 0
        for earlier in reversed(boxes[:-1]):
            start, end, _ = earlier
            before, after = text[max(0, start - _HEDGE_LENGTH) : start], text[chosen[-1][1] :][:_HEDGE_LENGTH]
            if not (_alternative(before, text[end : chosen[-1][0]]) or _SECOND.search(after)):
                break
            if earlier[2] != chosen[-1][2]:  # a box that is said again is one offer
                differing += 1
            if differing == _MOST_OFFERED:
                return _NOTHING
            chosen.append(earlier)
        chosen.reverse()
    answers: list[str] = []
    for _, _, content in chosen:
        if (contents := _unnested(content)) is None:
            return _NOTHING
        answers += contents
    unique = tuple(dict.fromkeys(answers))
    return Offer(unique, in_form=True) if all(unique) and len(unique) <= _MOST_OFFERED else _NOTHING


def _unnested(content: str) -> list[str] | None:
    """What a box holds: itself, or the boxes within it (\\boxed{\\boxed{7}}) without the text around them."""
    for _ in range(_MOST_NESTED):
        inner, unclosed, _ = _boxes(content)
        if unclosed:
            return None
        if not (len(inner) == 1 and inner[0][:2] == (0, len(content))):
            return [box[2] for box in inner] or [content]
        content = inner[0][2]
    return None


def _alternative(before: str, between: str) -> bool:
    """Are two boxes with this text between them alternatives, rather than a step and its result, or a correction?"""
    if len(between) > 4 * _HEDGE_LENGTH or _DENIED.search(before):
        return False
    # x = [3] or x = [4]: both boxes are values of one unknown
    if (named := _ASSIGNED.search(between)) and (first := _ASSIGNED.search(before)) and named[1] == first[1]:
        between = between[: named.start()]
    plain = re.sub(r"\\(?:text|mbox)\b|\\[a-zA-Z]+|[^\w\s.!?=<>+]", " ", between).lower()
    words = re.findall(r"[^\W_]+", plain)
    if len(plain) <= _HEDGE_LENGTH and _CONDITION.search(plain) and not _DERIVED.search(plain):
        return True
    if re.search(r"[=<>+]", plain):
        return False
    if all(word in _CONNECTORS for word in words):
        return True
    sentences = re.split(r"[.!?](?=\s)", plain)
    if len(plain) > _HEDGE_LENGTH:
        return False
    return bool(_HEDGE.search(sentences[-1]) and not _CORRECTION.search(plain))


def _marked(text: str, start: int) -> Offer:
    markers = list(_MARKER.finditer(text, start))
    if not markers:
        return _NOTHING
    tag = next((found for found in reversed(markers) if found[0].lower() == "<answer>"), None)
    if tag is not None and (closing := _CLOSING_TAG.search(text, tag.end())) is not None:
        if closing.start() > markers[-1].start():  # a marker within the tag is the tag's own
            content = text[tag.end() : closing.start()].strip()
            within = [found for found in markers if found.start() >= tag.end()]
            answer = _first_sentence(text[within[-1].end() : closing.start()]) if within else content
            return Offer((answer,), in_form=True) if answer else _NOTHING
    elif tag is markers[-1]:
        return _NOTHING
    answer = _first_sentence(text[markers[-1].end() :][:2000])
    return Offer((answer,)) if answer else _NOTHING


def _first_sentence(rest: str) -> str:
    """The answer after a marker: one display formula, or the first sentence without bold marks and afterthoughts."""
    rest = rest[_LEAD.match(rest).end() :] if _LEAD.match(rest) else rest  # type: ignore[union-attr]
    display = re.match(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]", rest, re.DOTALL)
    if display:
        return (display[1] or display[2]).strip()
    end = _SENTENCE_END.search(_FORMULA.sub(_hidden, rest))
    sentence = rest[: end.start()] if end else rest
    if end and end[0] == "?" and re.match(r"[^\n]*(?:\d|\bor\b)", rest[end.end() :]):
        return ""  # "22? 23?" asks
    if end and _ANOTHER.match(rest[end.end() :]):
        return ""  # "5. Alternatively, 6."
    sentence = _REASON.sub("", sentence)
    tail = _AFTERTHOUGHT.search(sentence)
    if tail and not _TAKEN_BACK.match(tail[0]):
        sentence = sentence[: tail.start()]
    sentence = sentence.replace("**", "").replace("__", "").strip(" \t*`_")
    said = _SAID.fullmatch(sentence)  # "the volume of ABC is 120"
    return said[1] if said and not _UNSURE.search(sentence) else sentence


def _hidden(formula: re.Match[str]) -> str:
    """A formula as letters of the same length; two amounts of money with a sentence between them stay."""
    return formula[0] if _NEW_SENTENCE.search(formula[0]) else "x" * len(formula[0])
