"""Which questions to evaluate on are also trained on: the same text, or much of its wording. Pure.

Same: equal but for runs of white space, $, double quotes, case, marks at the end and typographic spellings (`plain`).

8-grams: eight words in a row; words are what white space divides, in lower case, without punctuation at their ends.
The length, and words by white space in lower case, are those of open-r1 (scripts/decontaminate.py at 0c68e8c), which
drops a training question that shares any 8-gram with an evaluation set. One in common is often a phrase ("how much
money did she make in total"), so that is told apart here: a question is `close` when at least half of its own 8-grams
stand in one training question, and shares `some` when fewer do, but at least one. A question of fewer than eight words
has none: for it, only the same text counts. An 8-gram of more than 20 different evaluation questions is an instruction
that many of them carry, and is left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..types import Question

WORDS = 8
HALF = 0.5
INSTRUCTION = 20
_SPELLED = str.maketrans("’‘“”−", "''\"\"-")
_DROPPED = re.compile(r'[$"]')
_ENDS = ".,;:!?\"'()$"


@dataclass(frozen=True)
class Match:
    """A question to evaluate on, and the training question that holds most of its 8-grams (share: 1 for the same)."""

    question: Question
    trained: Question
    share: float


@dataclass(frozen=True)
class Overlap:
    """One evaluation set against the training set. Each of its questions is in one of the three at most."""

    name: str
    questions: int
    same: tuple[Match, ...]
    close: tuple[Match, ...]
    some: tuple[Match, ...]


def plain(text: str) -> str:
    """What two texts must have in common to be the same question."""
    return " ".join(_DROPPED.sub("", _spelled(text)).split()).rstrip(" .?!:")


def grams(text: str) -> set[int]:
    """The distinct 8-grams of a text as numbers, which are equal for equal words within one process."""
    words = [word for word in (piece.strip(_ENDS) for piece in _spelled(text).split()) if word]
    return {hash(gram) for gram in zip(*(words[start:] for start in range(WORDS)), strict=False)}


def overlaps(train: Iterable[Question], sets: Mapping[str, Sequence[Question]]) -> tuple[Overlap, ...]:
    """An Overlap for each evaluation set, in order. One pass over `train`; memory grows with the sets alone."""
    numbers, texts = _numbered(sets)
    owners: defaultdict[int, list[int]] = defaultdict(list)
    for number, text in enumerate(texts.values()):
        for gram in grams(text):
            owners[gram].append(number)
    index = {gram: found for gram, found in owners.items() if len(found) <= INSTRUCTION}
    sizes = Counter(number for found in index.values() for number in found)
    place = {text: number for number, text in enumerate(texts)}
    same: dict[int, Question] = {}
    best: dict[int, tuple[float, Question]] = {}
    for question in train:
        if (known := place.get(plain(question.text))) is not None:
            same.setdefault(known, question)
        shared = Counter(number for gram in grams(question.text) for number in index.get(gram, ()))
        for number, count in shared.items():
            share = count / sizes[number]
            if number not in best or share > best[number][0]:
                best[number] = share, question
    return tuple(_overlap(name, questions, numbers[name], same, best) for name, questions in sets.items())


def warnings(found: Iterable[Overlap]) -> tuple[str, ...]:
    """A sentence for each set with questions that are trained on, or close to one that is."""
    said = []
    for one in found:
        of = f"of the {one.questions:,} questions of {one.name}"
        if one.same:
            close = f", and {len(one.close):,} more are close to one" if one.close else ""
            said.append(f"Warning: {len(one.same):,} {of} are also trained on, so they are not held out{close}.")
        elif one.close:
            half = "half of their 8-grams or more"
            said.append(f"Warning: {len(one.close):,} {of} are close to one that is trained on ({half}).")
    more = "The verb `data contamination` shows them."
    return (*said[:-1], f"{said[-1]} {more}") if said else ()


def _numbered(sets: Mapping[str, Sequence[Question]]) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Each different question once: its number for each question of each set, and plain text -> text by number."""
    texts: dict[str, str] = {}
    place: dict[str, int] = {}
    numbers: dict[str, list[int]] = {name: [] for name in sets}
    for name, questions in sets.items():
        for question in questions:
            text = plain(question.text)
            texts.setdefault(text, question.text)
            numbers[name].append(place.setdefault(text, len(place)))
    return numbers, texts


def _overlap(
    name: str,
    questions: Sequence[Question],
    numbers: Sequence[int],
    same: Mapping[int, Question],
    best: Mapping[int, tuple[float, Question]],
) -> Overlap:
    kinds: dict[str, list[Match]] = {"same": [], "close": [], "some": []}
    for question, number in zip(questions, numbers, strict=True):
        if number in same:
            kinds["same"].append(Match(question, same[number], 1.0))
        elif number in best:
            share, trained = best[number]
            kinds["close" if share >= HALF else "some"].append(Match(question, trained, share))
    return Overlap(name, len(questions), tuple(kinds["same"]), tuple(kinds["close"]), tuple(kinds["some"]))


def _spelled(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_SPELLED).lower()
