"""Timed words as subtitle cues that can be read: where to cut, how to break lines, how long to show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, TypeVar

from speech.events import Word
from speech.subtitles import Cue

PAUSE_SECONDS = 1.0
"""A silence between two words that ends a cue."""
_TITLES = frozenset(("Mr.", "Mrs.", "Ms.", "Dr.", "St.", "Prof.", "Mme.", "Jr.", "Sr."))
"""Their point ends no sentence."""


@dataclass(frozen=True, slots=True)
class SubtitleRules:
    """How cues are made. Lengths in characters, times in seconds, `reading_speed` in characters a second."""

    line: int = 42
    lines: int = 2
    reading_speed: float = 21.0
    shortest: float = 0.8
    longest: float = 7.0
    gap: float = 0.0
    """Seconds kept free between two cues."""


DEFAULT = SubtitleRules()


class Timed(Protocol):
    """What a segment of any transcript has; times in seconds."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def text(self) -> str: ...
    @property
    def words(self) -> Sequence[Word]: ...


T = TypeVar("T", bound=Timed)


@dataclass(slots=True)
class _Block:
    """A cue in the making: milliseconds, and its lines for each speaker in it."""

    start: int
    end: int
    label: str
    words: Sequence[Word]
    lines: list[str]


def cues(
    segments: Iterable[T],
    rules: SubtitleRules = DEFAULT,
    *,
    label: Callable[[T], str] | None = None,
    until: float = math.inf,
) -> list[Cue]:
    """Cues (start, end, text; seconds, whole milliseconds) in order, never two at once, none after `until`.

    No line is longer and no cue has more lines than `rules` say. Within the silence around it a cue is shown as long as
    its text takes to read and at least the shortest; what follows at once in the same voice is joined to a cue that
    would be shorter. Where people talk faster than that, or at once, times give way, never words. `label` names a
    segment's speaker and stands before each of his cues.
    """
    blocks: list[_Block] = []
    for segment in segments:
        name = label(segment) if label else ""
        for words in _groups(_breakable(_timed(segment), rules, name), rules, name):
            start = max(0, round(words[0].start * 1000))
            blocks.append(_Block(start, round(words[-1].end * 1000), name, words, _lines(words, name, rules.line)))
    blocks.sort(key=lambda block: (block.start, block.end))
    last = round(until * 1000) if math.isfinite(until) else None
    return [
        (block.start / 1000, block.end / 1000, "\n".join(block.lines))
        for block in _shown(_apart(blocks, rules), rules, last)
    ]


def _timed(segment: Timed) -> list[Word]:
    """The segment's words that have text; without any, its text cut at spaces, each part its share of the time."""
    if words := [word for word in segment.words if word.text.strip()]:
        return words
    text = segment.text.strip()
    return list(_shares(Word(text, segment.start, segment.end, 1.0), [f" {part}" for part in text.split()]))


def _shares(word: Word, parts: Sequence[str]) -> Iterator[Word]:
    """`word` in parts, its time shared among them by length."""
    size, done = sum(map(len, parts)), 0
    for part in parts:
        first, done = done, done + len(part)
        length = word.end - word.start
        yield replace(word, text=part, start=word.start + length * first / size, end=word.start + length * done / size)


def _breakable(words: Sequence[Word], rules: SubtitleRules, label: str) -> list[Word]:
    """The words, those too long for a line in parts: a loop without spaces, or a language that writes none."""
    most = max(1, rules.line - len(label) - 1 if label else rules.line)
    out: list[Word] = []
    for word in words:
        text = word.text.strip()
        if len(text) > most:
            parts = [text[first : first + most] for first in range(0, len(text), most)]
            out += _shares(word, [(" " if word.text[0].isspace() else "") + parts[0], *parts[1:]])
        else:
            out.append(word)
    return out


def _groups(words: Sequence[Word], rules: SubtitleRules, label: str) -> Iterator[Sequence[Word]]:
    """The words as they are when they fit one cue, else cut where it hurts least, and each part again."""
    waiting = [words] if words else []
    while waiting:
        group = waiting.pop()
        if len(group) < 2 or _fits(group, rules, label):
            yield group
        else:
            cut = max(range(1, len(group)), key=lambda index: _merit(group, index))
            waiting += [group[cut:], group[:cut]]


def _fits(words: Sequence[Word], rules: SubtitleRules, label: str) -> bool:
    return (
        words[-1].end - words[0].start <= rules.longest
        and all(after.start - before.end <= PAUSE_SECONDS for before, after in pairwise(words))
        and len(_filled(words, label, rules.line)) <= rules.lines
    )


def _merit(words: Sequence[Word], index: int) -> float:
    """How good a cut before the word is: a pause (seconds) counts, a full stop and a comma too, and so does balance."""
    before = words[index - 1]
    ending = before.text.strip()[-1:]
    if before.text.strip() in _TITLES:
        ending = ""
    stop = 1.0 if ending in tuple(".?!。？！") else 0.5 if ending in tuple(",;:，、；：") else 0.0
    return max(0.0, words[index].start - before.end) + stop - abs(index / len(words) - 0.5)


def _lines(words: Sequence[Word], label: str, line: int) -> list[str]:
    """As few lines as do, of about equal length."""
    lines = _filled(words, label, line)
    for width in range(-(-sum(map(len, lines)) // len(lines)), line):
        narrower = _filled(words, label, width)
        if len(narrower) == len(lines) and max(map(len, narrower)) <= width:
            return narrower
    return lines


def _filled(words: Sequence[Word], label: str, line: int) -> list[str]:
    """Lines filled one after the other; a word brings the space before it along, where its language has one."""
    lines = [f"{label} {words[0].text.strip()}" if label else words[0].text.strip()]
    for word in words[1:]:
        if len(lines[-1]) + len(word.text.rstrip()) <= line:
            lines[-1] += word.text.rstrip()
        else:
            lines.append(word.text.strip())
    return lines


def _apart(blocks: Sequence[_Block], rules: SubtitleRules) -> list[_Block]:
    """The blocks one after the other: too short a one takes in the next, overlaps are shared out."""
    gap, longest = round(1000 * rules.gap), round(1000 * rules.longest)
    shortest = max(1, round(1000 * rules.shortest))
    out: list[_Block] = []
    for block in blocks:
        block.end = max(block.end, block.start + 1)
        block.end = min(block.end, block.start + longest)
        if out:
            before = out[-1]
            if block.start - gap < before.start + shortest:
                if (joined := _joined(before, block, rules)) is not None:
                    out[-1] = joined
                    continue
                # Nobody could read the one before: it stays a little, at the cost of half of this one at most.
                middle = (block.start + block.end) // 2
                block.start = max(block.start, min(before.start + shortest + gap, middle), before.start + 1)
                block.end = max(block.end, block.start + 1)
            before.end = max(before.start + 1, min(before.end, block.start - gap))
        out.append(block)
    return out


def _joined(first: _Block, second: _Block, rules: SubtitleRules) -> _Block | None:
    """Both in one cue, when it can be read: the words of one voice run on, another voice gets a line of its own."""
    end = max(first.end, second.end)
    if end - first.start > 1000 * rules.longest:
        return None
    words: Sequence[Word]
    if first.label == second.label and len(first.words) and len(second.words):
        words = [*first.words, *second.words]
        lines = _lines(words, first.label, rules.line)
    else:
        # Two voices: words of this cue can no longer run on.
        words, lines = (), first.lines + second.lines
    return _Block(first.start, end, first.label, words, lines) if len(lines) <= rules.lines else None


def _shown(blocks: Sequence[_Block], rules: SubtitleRules, until: int | None) -> Sequence[_Block]:
    """Each block for as long as it takes to read, as far as the next one lets it."""
    gap, longest = round(1000 * rules.gap), round(1000 * rules.longest)
    for number, block in enumerate(blocks):
        reading = sum(map(len, block.lines)) / rules.reading_speed
        end = block.start + min(round(1000 * max(reading, rules.shortest)), longest)
        if number + 1 < len(blocks):
            end = min(end, blocks[number + 1].start - gap)
        if until is not None:
            end = min(end, until)
        block.end = max(block.end, end)
    return blocks
