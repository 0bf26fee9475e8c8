"""A stretch in another language than the rest, or in a script that its language is not written in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

from batch_jobs.inspect import thresholds as limits
from batch_jobs.transcript import Segment

_SCRIPTS: dict[str, tuple[str, ...]] = {
    "ar": ("ARABIC",), "fa": ("ARABIC",), "ur": ("ARABIC",), "ps": ("ARABIC",), "sd": ("ARABIC",),
    "he": ("HEBREW",), "yi": ("HEBREW",), "el": ("GREEK",), "hy": ("ARMENIAN",), "ka": ("GEORGIAN",),
    "ru": ("CYRILLIC",), "uk": ("CYRILLIC",), "be": ("CYRILLIC",), "bg": ("CYRILLIC",), "mk": ("CYRILLIC",),
    "kk": ("CYRILLIC",), "mn": ("CYRILLIC",), "tg": ("CYRILLIC",), "tt": ("CYRILLIC",), "ba": ("CYRILLIC",),
    "sr": ("CYRILLIC", "LATIN"), "hi": ("DEVANAGARI",), "mr": ("DEVANAGARI",), "ne": ("DEVANAGARI",),
    "sa": ("DEVANAGARI",), "bn": ("BENGALI",), "as": ("BENGALI",), "ta": ("TAMIL",), "te": ("TELUGU",),
    "kn": ("KANNADA",), "ml": ("MALAYALAM",), "gu": ("GUJARATI",), "pa": ("GURMUKHI", "ARABIC"), "si": ("SINHALA",),
    "th": ("THAI",), "lo": ("LAO",), "my": ("MYANMAR",), "km": ("KHMER",), "bo": ("TIBETAN",), "am": ("ETHIOPIC",),
    "ja": ("HIRAGANA", "KATAKANA", "CJK"), "zh": ("CJK",), "yue": ("CJK",), "ko": ("HANGUL", "CJK"),
}  # fmt: skip
"""Scripts of the languages that are not written in Latin letters alone."""
_LATIN = ("LATIN",)
_MIXED = ("uz", "az", "tk", "bs", "sh", "ms", "su", "ha")
"""Written in several scripts, depending on where."""


def flips(segments: Sequence[Segment]) -> list[tuple[Segment, str]]:
    """(segment, why) of those in another language than the speech around; one channel's, in order."""
    spoken: Counter[str] = Counter()
    for segment in segments:
        spoken[segment.language] += max(segment.end - segment.start, 0.01)  # type: ignore[assignment]
    out = []
    main, most = spoken.most_common(1)[0] if spoken else ("", 0)
    clear = main and most / max(sum(spoken.values()), 1e-6) >= limits.MAJORITY
    for segment in segments:
        if clear and segment.language and segment.language != main:
            short = spoken[segment.language] < limits.FLIP_SECONDS
            if short or segment.avg_logprob < limits.FLIP_LOGPROB:
                out.append((segment, f"{segment.language} among {main}"))
                continue
        if (share := foreign(segment.text, segment.language)) > limits.FOREIGN_SCRIPT:
            out.append((segment, f"{share:.0%} of the letters are not of {segment.language}"))
    return out


def foreign(text: str, language: str) -> float:
    """Share of the letters in a script that the language is not written in; 0 where that is not known."""
    if not language or language in _MIXED:
        return 0.0
    scripts = _SCRIPTS.get(language, _LATIN)
    letters = [unicodedata.name(c, "").split(" ")[0] for c in text if c.isalpha()]
    if len(letters) < 4:
        return 0.0
    # Names and brands are written in Latin letters everywhere, as long as they are few.
    return sum(name not in scripts for name in letters) / len(letters)
