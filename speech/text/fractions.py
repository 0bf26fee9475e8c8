"""Fractions, feet and inches, and products of numbers."""

from __future__ import annotations

import re

from speech.text import numbers
from speech.text.quantity_words import UNITS
from speech.text.reader import Reader

_FRACTION = re.compile(r"(?:(\d{1,4})[ -])?(\d{1,4})/(\d{1,4})(?![\w/]|\.\d)")
_SCIENTIFIC = re.compile(r"(\d{1,12})(?:\.(\d{1,12}))?[eE]([+-]?)(\d{1,3})(?!\w)")
_MEASURED = re.compile(r"[ \u00a0]?(fl oz|oz|lbs?|tsp|tbsp|mi|gal|hrs?)(?![\w'])(\.?)")
_FEET = re.compile(r"(\d{1,2})['′][ \u00a0]?(?:(\d{1,2})(?:\"|″|''))?")
_WELL_KNOWN = {"24/7": "twenty four seven", "9/11": "nine eleven", "50/50": "fifty fifty", "7/11": "seven eleven"}


def fraction(reader: Reader, at: int) -> int:
    """ "1/2", "1 1/2", "8/10" (out of ten), "120/80" (over)."""
    found = _FRACTION.match(reader.text, at)
    if found is None or reader.char(at - 1).isalnum():
        return 0
    whole, above, below = found[1], int(found[2]), int(found[3])
    if words := _WELL_KNOWN.get(found.group()):
        reader.say(words, at, found.end(), "fraction")
        return found.end()
    if whole and not 0 < above < below:
        return 0
    if len(found[2]) == 4 and 1900 <= above <= 2098 and len(found[3]) == 2 and (above + 1) % 100 == below:
        reader.say(f"{numbers.year(above)} {numbers.pairs(found[3])}", at, found.end(), "year")
        return found.end()
    if 0 < above < below and ((below <= 20 and below != 10) or whole):
        part = numbers.fraction(above, below)
        words = f"{numbers.whole(whole)} and {'a half' if part == 'one half' else part}" if whole else part
    elif below in (5, 10, 100) and above <= below:
        words = f"{numbers.cardinal(above)} out of {numbers.cardinal(below)}"
    else:
        words = f"{numbers.whole(found[2])} over {numbers.whole(found[3])}"
    end = found.end()
    if unit := _MEASURED.match(reader.text, end):
        words, end = f"{words} {UNITS[unit[1]][bool(whole)]}", unit.end()
        if unit[2] and reader.ends_sentence(end, sure=True):
            end -= 1
    reader.say(words, at, end, "fraction")
    return end


def scientific(reader: Reader, at: int) -> int:
    """ "6.02e23" and "1e-5"."""
    found = _SCIENTIFIC.match(reader.text, at)
    if found is None or reader.char(at - 1).isalnum():
        return 0
    minus = "minus " if found[3] == "-" else ""
    words = f"{numbers.decimal(found[1], found[2] or '')} times ten to the power of {minus}{numbers.whole(found[4])}"
    reader.say(words, at, found.end(), "math")
    return found.end()


def feet_and_inches(reader: Reader, at: int) -> int:
    """5'10" """
    found = _FEET.match(reader.text, at)
    if found is None or (found[2] is None and "′" not in found.group()):
        return 0
    if reader.char(at - 1) in "°'′":
        return 0
    feet = int(found[1])
    words = f"{numbers.cardinal(feet)} {'foot' if feet == 1 else 'feet'}"
    if found[2]:
        words += f" {numbers.cardinal(int(found[2]))} inch{'' if int(found[2]) == 1 else 'es'}"
    reader.say(words, at, found.end(), "unit")
    return found.end()
