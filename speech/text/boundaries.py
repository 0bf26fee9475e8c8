"""Where a sentence ends, judged by what stands before and after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from speech.text.abbreviations import GENERAL, MAYBE_LAST, NEVER_LAST, NUMBERED, WORDS_TOO
from speech.text.reader import STARTERS

Split = Literal["sentence", "clause", "none"]
LOOKAHEAD = 48
"""Code points after a boundary that may be looked at."""
_CLOSERS = "\"'”’»)]}*_`」』）"
_WIDE = "。！？｡、，；："
_CLAUSES = ",;:—、，；："
_WORD = re.compile(r"[^\W\d_]{1,24}")
_BEFORE = re.compile(r"(?:^|[\s\"“”'‘’(\[*_])([^\s\"“”'‘’(\[*_]{1,24})$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.){1,8}[^\W\d_]?$|[^\W\d_]$")
_MARKER = re.compile(r"(?:[-*+•‣–] |\d{1,3}[.)] |#{1,6} |\||>|```|~~~)")
_MARKER_BEGUN = re.compile(r"(?:[-*+•‣–]|\d{1,3}[.)]?|#{1,6}|`{1,2}|~{1,2})$")
_ITEM = re.compile(r"[ \t]{0,40}(?:[-*+•‣–] |\d{1,3}[.)] |#{1,6} |\|)")
_ITEM_NUMBER = re.compile(r"[ \t]{0,40}\d{1,3}$")


@dataclass(frozen=True, slots=True)
class Boundary:
    """`kind` "wait": what follows must be seen first. `end`: where the segment ends, spaces after it included; for
    "no", up to where nothing more has to be looked at."""

    kind: Literal["no", "wait", "clause", "sentence"]
    end: int = 0
    NO: ClassVar[Boundary]
    WAIT: ClassVar[Boundary]


Boundary.NO = Boundary("no")
Boundary.WAIT = Boundary("wait")


def judge(text: str, start: int, at: int, view: int, closed: bool) -> Boundary:
    """The mark at `at` in a segment that begins at `start`. Only text before `view` is looked at; `closed`: no more
    will be seen."""
    mark, end = text[at], at + 1
    while end < view and text[end] in ".!?…。！？" and mark not in _CLAUSES:
        end += 1
    marks = text[at:end]
    while end < view and text[end] in _CLOSERS:
        end += 1
    if end >= view:
        return _at_end(text, start, at, view) if closed else Boundary.WAIT
    closers = end > at + len(marks)
    if not text[end].isspace():
        wide = mark in _WIDE
        return Boundary("clause" if mark in _CLAUSES else "sentence", end) if wide else Boundary("no", end)
    behind = end
    while behind < view and text[behind].isspace():
        behind += 1
    if behind >= view and not closed:
        return Boundary.WAIT
    if behind >= view:
        return _at_end(text, start, at, view)
    if mark in _CLAUSES:
        return Boundary("clause", behind)
    following = text[behind]
    if marks != ".":
        small = following.islower() and (closers or "." in marks or "…" in marks)
        return Boundary("no", end) if small else Boundary("sentence", behind)
    return _point(text, start, at, end, behind, view, closed)


def _at_end(text: str, start: int, at: int, view: int) -> Boundary:
    """Nothing more comes, or nothing within the cap."""
    return Boundary("clause" if text[at] in _CLAUSES else "sentence", view)


def _point(text: str, start: int, at: int, end: int, behind: int, view: int, closed: bool) -> Boundary:
    """A single point, which may belong to an abbreviation, an initial or a number of a list."""
    no, sentence = Boundary("no", end), Boundary("sentence", behind)
    line = max(text.rfind("\n", start, at) + 1, start)
    if at - line <= 44 and _ITEM_NUMBER.match(text[line:at]):
        return no
    following = text[behind]
    before = _BEFORE.search(text[max(start, at - 26) : at])
    written = before[1] if before else ""
    word = written.lower()
    if word in NEVER_LAST:
        return no
    if word in NUMBERED and following.isdecimal():
        return no
    if word in MAYBE_LAST or (_INITIALS.match(written) and written != "I"):
        if not following.isupper():
            return no if following.isalnum() else sentence
        found = _WORD.match(text, behind, view)
        assert found is not None
        if found.end() >= view and not closed:
            return Boundary.WAIT
        return sentence if found.group().lower() in STARTERS else no
    if following.islower():
        known = word in GENERAL and word not in WORDS_TOO
        return sentence if len(word) >= 4 and word.isalpha() and not known and word not in NUMBERED else no
    return sentence


def block_boundary(text: str, begin: int, at: int, view: int, closed: bool) -> Boundary:
    """The line that begins at `begin` ends at `at`: a boundary where a paragraph or an item of a list ends."""
    behind, breaks = at + 1, 1
    while behind < view and text[behind].isspace():
        breaks += text[behind] == "\n"
        behind += 1
    if behind >= view:
        return Boundary("sentence", view) if closed else Boundary.WAIT
    start = text.rfind("\n", at, behind) + 1
    ahead = text[behind : min(view, behind + 6)]
    if breaks == 1 and not _ITEM.match(text[begin:at][:60]) and not _MARKER.match(ahead):
        if _MARKER_BEGUN.match(ahead) and len(ahead) < 6 and not closed:
            return Boundary.WAIT
        return Boundary("no", at + 1)
    return Boundary("sentence", start if text[begin:at].strip() or breaks > 1 else behind)


def fallback(text: str, start: int, limit: int) -> int:
    """Where to cut what reached its cap: after a clause in its second half, else between words, else right there."""
    half = start + (limit - start) // 2
    for at in range(limit - 1, half, -1):
        if text[at].isspace() and text[at - 1] in _CLAUSES:
            return at + 1
    for at in range(limit - 1, start, -1):
        if text[at].isspace():
            return at + 1
    return limit


def clean_prefix(text: str) -> int:
    """How much of a stalled text can be spoken as it is: whole words, not an abbreviation or a number at its end."""
    size = len(text)
    stripped = text.rstrip()
    ended = stripped[-1:] in ("!", "?", "。", "！", "？") or (
        stripped.endswith(".") and _BEFORE.search(stripped[:-1][-26:]) is not None and _complete(stripped[:-1])
    )
    if not ended:
        while size and not text[size - 1].isspace():
            size -= 1
        while size and _open(text[:size].split()[-1:]):
            size = len(text[:size].rstrip())
            while size and not text[size - 1].isspace():
                size -= 1
    return size if text[:size].strip() else 0


def _complete(text: str) -> bool:
    found = _BEFORE.search(text[-26:])
    word = found[1].lower() if found else ""
    return word.isalpha() and len(word) > 1 and word not in NEVER_LAST | MAYBE_LAST and word not in NUMBERED


def _open(words: list[str]) -> bool:
    """Whether the last word of a text may belong to what comes."""
    if not words:
        return False
    word = words[0]
    bare = word.rstrip(".").lower()
    abbreviated = bare in NEVER_LAST | MAYBE_LAST or bare in NUMBERED or len(bare) == 1
    return word[-1].isdecimal() or word[-1] in "$€£#@&/(-" or (word.endswith(".") and abbreviated)
