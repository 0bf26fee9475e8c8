"""Numbers that name rather than count: verses, aircraft, and what a programmer writes in another base."""

from __future__ import annotations

import re

from speech.text import numbers
from speech.text.reader import Reader
from speech.text.wordlists import listed

_BOOKS = listed(
    "genesis exodus leviticus numbers deuteronomy joshua judges ruth samuel kings chronicles ezra nehemiah esther job "
    "psalm psalms proverbs ecclesiastes isaiah jeremiah lamentations ezekiel daniel hosea joel amos obadiah jonah "
    "micah nahum habakkuk zephaniah haggai zechariah malachi matthew mark luke john acts romans corinthians galatians "
    "ephesians philippians colossians thessalonians timothy titus philemon hebrews james peter jude revelation "
    "gen ex lev num deut josh sam chr chron neh ps prov eccl isa jer lam ezek dan hos zech mal matt mt mk lk jn rom "
    "cor gal eph phil col thess tim heb jas pet rev surah sura quran verse verses"
)
_VERSE = re.compile(r"(\d{1,3}):(\d{1,3})(?:([-–])(\d{1,3}))?(?![\d:]|\.\d|[ \u00a0]?[ap]\.?m\b)", re.IGNORECASE)
_BOOK = re.compile(r"([A-Za-z]{2,14})\.?[ \u00a0]$")
_COUNTING = listed("pages page pp p lines line numbers rooms room items between from of rows years")
_AIRCRAFT = re.compile(r"7[0-8]7-(?:[1-9]00|[89]|10)(?![\d.-])|7[0-8]7(?![\w.,:/-]\w)")
_BASE = re.compile(r"0(?:([xX])[0-9A-Fa-f]{1,32}|([bB])[01]{1,64}|(o)[0-7]{1,32})(?!\w)")
_RUNS = re.compile(r"\d{1,64}|[A-F]{1,32}", re.IGNORECASE)


def verse(reader: Reader, at: int) -> int:
    """ "Psalm 23:1-4": chapter and verse, after the name of a book."""
    found = _VERSE.match(reader.text, at)
    book = _BOOK.search(reader.text[max(0, at - 16) : at]) if found else None
    if found is None or book is None or book[1].lower() not in _BOOKS:
        return 0
    reader.say(numbers.cardinal(int(found[1])), at, found.end(1), "verse")
    reader.say(numbers.cardinal(int(found[2])), found.end(1), found.end(2), "verse")
    if found[3]:
        reader.say("to", *found.span(3), "range")
        reader.say(numbers.cardinal(int(found[4])), *found.span(4), "verse")
    return found.end()


def aircraft(reader: Reader, at: int) -> int:
    """ "747-400", which is no range; "747" alone after its maker."""
    found = _AIRCRAFT.match(reader.text, at)
    if found is None or reader.last in _COUNTING or reader.char(at - 1) in "-–.,/":
        return 0
    model, _, variant = found.group().partition("-")
    if not variant and reader.last != "boeing":
        return 0
    reader.say(numbers.pairs(model), at, at + 3, "model")
    if variant:
        reader.say(numbers.cardinal(int(variant)), at + 3, found.end(), "model")
    return found.end()


def other_base(reader: Reader, at: int) -> int:
    """ "0x1F" and "0b101", digit by digit."""
    found = _BASE.match(reader.text, at)
    if found is None or reader.char(at - 1).isalnum():
        return 0
    reader.say(f"zero {reader.text[at + 1].upper()}", at, at + 2, "letters")
    for run in _RUNS.finditer(reader.text, at + 2, found.end()):
        written = run.group()
        words = numbers.digits(written) if written.isdecimal() else " ".join(written.upper())
        reader.say(words, *run.span(), "digits" if written.isdecimal() else "letters")
    return found.end()
