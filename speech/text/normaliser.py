"""Text as it is written becomes words as they are said, each with the characters it came from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from speech.text import codes, markup
from speech.text.calendar_rules import date, duration, short_year, time
from speech.text.designations import aircraft, other_base, verse
from speech.text.foreign import named
from speech.text.fractions import feet_and_inches, fraction, scientific
from speech.text.lexicon import Lexicon
from speech.text.options import TextOptions
from speech.text.quantities import quantity
from speech.text.reader import Reader, Rule
from speech.text.source import Removed
from speech.text.spoken import Spoken
from speech.text.symbols import power, sign
from speech.text.words import foreign, plain_word, word

_SPACES = re.compile(r"[ \n\u00a0]{1,256}")
_MONEY = frozenset("$€£¥₹₩₽₺₪₫฿₿₴₦₱")
_CODED_MONEY = re.compile(
    r"(?:(?:US|AU|NZ|HK|CA|[ACSR])\$|(?:USD|EUR|GBP|JPY|CHF|CAD|AUD|INR|CNY|Rs\.?)[ \u00a0]?)\.?\d"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """`tokens` in the order of the text; `removed` what is not spoken, in the order of the text."""

    tokens: list[Spoken]
    removed: list[Removed]


def normalise(
    text: str, options: TextOptions | None = None, lexicon: Lexicon | None = None, *, code: bool = False
) -> list[Spoken]:
    """What is said for `text`. Total: any str gives tokens (none when nothing can be said), in linear time.

    Ranges of tokens are code points of `text`, in order. Nothing readable is dropped but by a policy of `options`;
    letters of other alphabets are transliterated or named. `code`: the text begins inside a fenced block of code.
    """
    return read(text, options, lexicon, code=code).tokens


def read(
    text: str, options: TextOptions | None = None, lexicon: Lexicon | None = None, *, code: bool = False
) -> Reading:
    """As `normalise`, and with what was left out and why."""
    options = options or TextOptions()
    source = markup.read(text, options, code=code)
    reader = Reader(source, options, lexicon or _NO_LEXICON)
    at, size = 0, len(reader.text)
    while at < size:
        spaces = _SPACES.match(reader.text, at)
        at = spaces.end() if spaces else _next(reader, at)
    return Reading(reader.tokens, sorted(source.removed, key=lambda one: (one.start, one.end)))


def _next(reader: Reader, at: int) -> int:
    if found := reader.lexicon.find(reader.text, at):
        end, words, phonemes = found
        reader.say(words or reader.text[at:end], at, end, "lexicon", phonemes)
        return end
    one = reader.text[at]
    for rule in _rules(reader, one, at):
        if end := rule(reader, at):
            return end
    if one.isalnum():
        reader.say(named(one), at, at + 1, "name")
        return at + 1
    return sign(reader, at)


def _rules(reader: Reader, one: str, at: int) -> tuple[Rule, ...]:
    """Which rules may know what begins with this character."""
    if one.isascii():
        if one.isalpha():
            if reader.char(at - 1).isalnum():
                return _LETTERS_ONLY
            return _MONEY_WORDS if _CODED_MONEY.match(reader.text, at) else _LETTERS
        if one.isdecimal():
            return _DIGITS
        return _SIGNS.get(one, ())
    return _MONEY_SIGN if one in _MONEY else _LETTERS_ONLY if one.isalpha() and one != "ⁿ" else _OTHERS


def _money_sign(reader: Reader, at: int) -> int:
    return quantity(reader, at)


def _decimal_point(reader: Reader, at: int) -> int:
    """ ".5" is a number only where it does not go on from something."""
    if reader.char(at - 1).isalnum() or not reader.char(at + 1).isdecimal():
        return 0
    return quantity(reader, at)


_NO_LEXICON = Lexicon()
_LETTERS: tuple[Rule, ...] = (plain_word, codes.web, codes.version, word)
_LETTERS_ONLY: tuple[Rule, ...] = (word, foreign)
_MONEY_WORDS: tuple[Rule, ...] = (quantity, word)
_MONEY_SIGN: tuple[Rule, ...] = (_money_sign,)
_OTHERS: tuple[Rule, ...] = (power, foreign)
_DIGITS: tuple[Rule, ...] = (
    codes.web,
    other_base,
    verse,
    aircraft,
    date,
    codes.phone,
    codes.version,
    duration,
    time,
    feet_and_inches,
    fraction,
    scientific,
    codes.serial,
    quantity,
)
_SIGNS: dict[str, tuple[Rule, ...]] = {
    "+": (codes.phone,),
    "(": (codes.phone,),
    "#": (codes.tag,),
    "@": (codes.tag,),
    "~": (codes.path,),
    "/": (codes.path,),
    ".": (codes.path, _decimal_point),
    "'": (short_year,),
    "$": (_money_sign,),
}
