"""Subtitles from timed text: SubRip (srt) and WebVTT. A cue is (start, end, text), times in seconds.

Cues come out in order of their start, on whole milliseconds, at least one of them long and never two at once: an
earlier one ends where the next begins. Cues without text are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Cue = tuple[float, float, str]
_ARROW = re.compile(r"-{2,}>")


def srt(cues: Iterable[Cue]) -> str:
    """SubRip text, '' without cues. The format cannot escape its arrow, so '-->' in a text becomes '->'."""
    blocks = (
        f"{number}\n{_stamp(start, ',')} --> {_stamp(end, ',')}\n{_ARROW.sub('->', text)}\n"
        for number, (start, end, text) in enumerate(_in_order(cues), 1)
    )
    return "\n".join(blocks)


def vtt(cues: Iterable[Cue]) -> str:
    """WebVTT text; '&', '<' and '>' in the texts are escaped."""
    blocks = (f"{_stamp(start, '.')} --> {_stamp(end, '.')}\n{_escape(text)}\n" for start, end, text in _in_order(cues))
    return "\n".join(("WEBVTT\n", *blocks))


def _in_order(cues: Iterable[Cue]) -> list[tuple[int, int, str]]:
    """The cues that have text, sorted, in milliseconds, without overlap."""
    ordered: list[tuple[int, int, str]] = []
    for start, end, text in sorted(cues, key=lambda cue: cue[:2]):
        # A blank line would end the cue.
        lines = "\n".join(line.strip() for line in text.splitlines() if line.strip())
        if not lines:
            continue
        begin, finish = max(0, round(start * 1000)), round(end * 1000)
        if ordered:
            last_begin, last_finish, last_text = ordered[-1]
            begin = max(begin, last_begin + 1)
            ordered[-1] = last_begin, min(last_finish, begin), last_text
        ordered.append((begin, max(finish, begin + 1), lines))
    return ordered


def _stamp(milliseconds: int, point: str) -> str:
    """HH:MM:SS and thousandths; the hours grow past two digits when they must."""
    seconds, thousandths = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{point}{thousandths:03d}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
