"""Emoji: where they are and what they are called."""

from __future__ import annotations

import re
from functools import lru_cache

import emoji

_SYMBOLS = frozenset("©®™‼⁉↔ℹ")
"""In the emoji list, but a sign of plain text unless a variation selector says otherwise."""
_TONE = "\U0001f3fb-\U0001f3ff"
_BASES = "".join(
    re.escape(one)
    for one in sorted(emoji.EMOJI_DATA)
    if len(one) == 1 and not one.isascii() and one not in _SYMBOLS and not "\U0001f3fb" <= one <= "\U0001f3ff"
)
_ONE = rf"[{_BASES}]\ufe0f?[{_TONE}]?"
EMOJI = re.compile(
    r"[\U0001f1e6-\U0001f1ff]{2}"
    r"|[0-9#*]\ufe0f?\u20e3"
    rf"|[{''.join(sorted(_SYMBOLS))}]\ufe0f"
    rf"|{_ONE}(?:[\U000e0020-\U000e007f]{{1,8}})?(?:\u200d{_ONE}){{0,6}}"
    rf"|[{_TONE}\U0001f1e6-\U0001f1ff]"
)
"""One emoji with all that belongs to it: skin tones, joined figures, flags, keycaps."""

EMOTICON = re.compile(r"(?<!\S)(?:[:;=]['-]?[)(DPpOo\]\[|*]{1,3}|<3|:-?/|[xX]D|\^_?\^)(?=[\s.,!?]|$)")
_EMOTICONS = {")": "smiley", "]": "smiley", "(": "sad face", "[": "sad face", "D": "laughing face", "3": "heart"}


@lru_cache(maxsize=4096)
def name(text: str) -> str:
    """The English short name of an emoji or emoticon, as words: "red heart"."""
    bare = re.sub(rf"[\ufe0f{_TONE}]", "", text)
    for form in (bare, bare + "\ufe0f", bare.replace("\u200d", "\ufe0f\u200d", 1), text):
        if found := emoji.EMOJI_DATA.get(form):
            words = re.sub(r"[^\w’']+", " ", str(found["en"])).replace("_", " ").replace("’", "'").strip()
            return "keycap" if text.endswith("\u20e3") and not words else words
    if text[0] == "<" or not text[-1].isascii():
        parts = [emoji.EMOJI_DATA.get(one, {}).get("en", "") for one in bare if one.isprintable()]
        words = " ".join(part.strip(":").replace("_", " ") for part in parts if part)
        return words or ("heart" if text == "<3" else "emoji")
    return _EMOTICONS.get(text[-1], "face")
