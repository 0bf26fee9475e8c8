"""Amounts: numbers with what is counted in front of them or behind them."""

from __future__ import annotations

import re

from speech.text import numbers
from speech.text.calendar_rules import half_ends
from speech.text.quantity_words import (
    CODES,
    COUNTED,
    CURRENCIES,
    LETTER_MAGNITUDES,
    MAGNITUDES,
    SPACED,
    SPOKEN_DIGITS,
    UNITS,
    Currency,
)
from speech.text.reader import Reader
from speech.text.wordlists import listed

_SP = "[ \u00a0]"


def _any(words: object) -> str:
    return "|".join(re.escape(one) for one in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


_NUMBER = r"\d{1,3}(?: 000){1,6}(?!\d)|\d(?:\d|[.,'\u00a0](?=\d)){0,80}"
_AMOUNT = re.compile(rf"{_NUMBER}|\.\d{{1,40}}")
_SIMPLE = re.compile(r"\d{1,80}(?:\.\d{1,80}(?!\.?\d))?")
_BEFORE = re.compile(rf"({_any(CURRENCIES)}|(?:{_any(CODES)}){_SP}?){_SP}?(?=[\d.])")
_AFTER = re.compile(rf"{_SP}?({_any(CURRENCIES)})(?![\d\w.]\d)|{_SP}?({_any(CODES)})(?!\w)")
_MAGNITUDE = re.compile(rf"{_SP}?({_any(MAGNITUDES)})(?!\w)|([kKmMbBtT])(?!\w)")
_MAGNITUDE_JOINED = re.compile(rf"-({_any(MAGNITUDES)})(?!\w)")
_PERCENT = re.compile(rf"{_SP}?([%‰])")
_DEGREES = re.compile(rf"{_SP}?°(?:{_SP}?([CFKNSEW])(?!\w))?")
_UNIT = re.compile(rf"({_SP}?)({_any(UNITS)})(?![\w²³^'])")
_PER = re.compile(rf"{_SP}?/{_SP}?([^\W\d_]{{1,12}}[²³]?)(?!\w)")
_RANGE = re.compile(rf"(?:-|{_SP}?[–—]{_SP}?)(?=[$€£¥₹]?\d)")
_ORDINAL = re.compile(r"(?:st|nd|rd|th|ST|ND|RD|TH)(?!\w)|[ºª](?!\w)")
_DECADE = re.compile(r"'?s(?!\w)")
_TIMES = re.compile(r"[xX×](?!\w| ?[-+=*^²³]| ?/ ?\d)")
_INCHES = re.compile(
    r'"(?: ?(?=[x×] ?\d)|(?= (?:wide|tall|long|deep|thick|high)\b)'
    r"|(?P<one>(?=-| (?:screens?|displays?|monitors?|tvs?|pipes?|wheels?|tires?)\b)))",
    re.IGNORECASE,
)
_LINES = re.compile(r"([pi])(?!\w)")
_CLOCK = re.compile(rf"{_SP}?([ap])\.?m(?:\.|(?!\w))", re.IGNORECASE)
_NEXT = re.compile(rf"{_SP}([a-z]{{2,30}})")
_PLURAL = re.compile(r"(?!was$|is$|has$|as$|this$|his$|its$|us$|thus$|plus$|les$)[a-z]{2,30}s$")


def quantity(reader: Reader, at: int) -> int:
    """A number with its sign of money, its unit, its range: "$5-10", "10,50 €", "98.6°F", "1984", "2x", "90s"."""
    text = reader.text
    currency, start = None, at
    if before := _BEFORE.match(text, at):
        currency = CURRENCIES.get(before[1]) or CODES[before[1].strip(" \u00a0")]
        at = before.end()
    amount = _read(text, at, money=currency is not None)
    if amount is None:
        return 0
    integer, fraction, end = amount
    magnitude, end = _magnitude(text, end, money=currency is not None)
    second, second_magnitude = None, ""
    code = reader.char(at - 1) == "-" and reader.char(at - 2).isalpha()
    if not code and (link := _RANGE.match(text, end)) and (magnitude or not text[end - 1].isalpha()):
        behind = _BEFORE.match(text, link.end())
        second = _read(text, behind.end() if behind else link.end(), money=currency is not None)
        if second and (second[2] >= len(text) or not _more_dashes(text, second[2])):
            second_magnitude, end = _magnitude(text, second[2], money=currency is not None)
        else:
            second = None
    if currency is None and (after := _AFTER.match(text, end)):
        currency = CURRENCIES[after[1]] if after[1] else CODES[after[2]]
        if again := numbers.parse(text[at : amount[2]], comma_is_point=True, european=True):
            integer, fraction = again
        end = after.end()
    if currency is not None:
        words = _money(integer, fraction, currency, magnitude, _adjective(reader, text, end))
        if second:
            words = f"{_number(integer, fraction, magnitude)} to {_money(*second[:2], currency, second_magnitude)}"
        words, end = _per(text, words, end)
        reader.say(words, start, end, "money")
        return end
    if second:
        first = _range_start(integer, fraction, magnitude, second[0])
        last = _range_start(*second[:2], second_magnitude, integer)
        words, single = f"{first} to {last}", False
    else:
        single = integer == "1" and not fraction and not magnitude
        words = _number(integer, fraction, magnitude)
    return _counted(reader, start, end, words, single, amount if second is None and not magnitude else None)


def _counted(
    reader: Reader, start: int, end: int, words: str, single: bool, amount: tuple[str, str, int] | None
) -> int:
    """What comes after the number."""
    text = reader.text
    integer, fraction = amount[:2] if amount else ("", "")
    if found := _PERCENT.match(text, end):
        words, end, rule = f"{words} {'percent' if found[1] == '%' else 'per mille'}", found.end(), "percent"
    elif found := _DEGREES.match(text, end):
        scale = _SCALES.get(found[1] or "", "")
        words, end, rule = f"{words} degree{'' if single else 's'}{scale}", found.end(), "unit"
    elif (found := _CLOCK.match(text, end)) and (amount is None or not fraction):
        reader.say(words, start, end, "time")
        stop = found.end()
        closing = text[stop - 1] == "." and half_ends(reader, stop)
        reader.say(f"{found[1].upper()} M", end, stop - closing, "letters")
        return stop - closing
    elif amount and not fraction and (found := _ORDINAL.match(text, end)):
        words, end, rule = numbers.ordinal(int(integer[:30])), found.end(), "ordinal"
    elif amount and not fraction and (found := _DECADE.match(text, end)):
        year = len(integer) == 4 and integer[-1] == "0"
        base = numbers.year(int(integer)) if year else numbers.pairs(integer)
        words, end, rule = numbers.plural(base), found.end(), "decade" if integer[-1] == "0" else "plural"
    elif amount and integer in _SCREENS and (found := _LINES.match(text, end)):
        reader.say(numbers.pairs(integer), start, end, "cardinal")
        reader.say(found[1].upper(), end, found.end(), "letters")
        return found.end()
    elif amount and (found := _TIMES.match(text, end)) and not reader.char(found.end()).isdecimal():
        words, end = _per(text, f"{words} times", found.end())
        rule = "multiple"
    elif (found := _UNIT.match(text, end)) and (not found[1] or found[2] in SPACED or len(found[2]) > 1):
        point = text.startswith(".", found.end()) and not text.startswith("..", found.end())
        if found[2] == "A" and reader.last in _NUMBERED_PLACES:
            return _bare(reader, start, end, words, amount)
        if found[2] == "in" and point and not reader.ends_sentence(found.end() + 1, sure=True):
            pass
        elif found[2] == "in" if found[1] else found[2] in ("K", "B"):
            return _bare(reader, start, end, words, amount)
        minutes = found[2] == "m" and reader.last.endswith(("h", "hr", "hrs"))
        one, many = UNITS["min" if minutes else found[2]]
        words, end = _per(text, f"{words} {one if single else many}", found.end())
        rule = "unit"
        if point and end == found.end() and _only_shortens(reader, found[2], end + 1):
            end += 1
    elif amount and text.startswith('"', end) and reader.last in ("x", "×"):
        words, end, rule = f"{words} inch{'' if single else 'es'}", end + 1, "unit"
    elif amount and (found := _INCHES.match(text, end)):
        single = single or found["one"] is not None
        words, end, rule = f"{words} inch{'' if single else 'es'}", end + 1, "unit"
    else:
        return _bare(reader, start, end, words, amount)
    reader.say(words, start, end, rule)
    return end


def _only_shortens(reader: Reader, unit: str, end: int) -> bool:
    """Whether the point before `end` belongs to the unit alone: "2 tsp. salt", "5 ft. 3 in. tall"."""
    if reader.ends_sentence(end, sure=True):
        return False
    return unit in _POINTED or not _NUMBER_NEXT.match(reader.text, end)


_NUMBERED_PLACES = listed(
    "gate seat row exit flat room apartment unit platform suite block section page line no. number"
)
_POINTED = listed("ft in yd yds mi lb lbs oz gal pt pts tsp tbsp hr hrs min mins sec secs")
_NUMBER_NEXT = re.compile(rf"{_SP}?[$€£¥₹]?\d")
_SCALES = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin"}
_SCALES |= {"N": " north", "S": " south", "E": " east", "W": " west"}
_SCREENS = ("240", "360", "480", "720", "1080", "1440", "2160")


def _bare(reader: Reader, start: int, end: int, words: str, amount: tuple[str, str, int] | None) -> int:
    """A number with nothing behind it: a year, a code that is said digit by digit, or just the number."""
    text, rule = reader.text, "cardinal"
    if amount is None:
        reader.say(words, start, end, "range" if " to " in words else rule)
        return end
    integer, fraction, _ = amount
    written = text[start:end]
    if fraction or "." in written:
        rule = "decimal"
    elif _is_code(reader, integer, start) if written == integer else integer[0] == "0" and len(integer) > 1:
        words, rule = numbers.digits(integer), "digits"
    elif written == integer and len(integer) == 4 and _is_year(reader, int(integer), end):
        words, rule = numbers.year(int(integer)), "year"
    if rule == "digits" and len(integer) > 40:
        for first in range(0, len(integer), 40):
            stop = min(first + 40, len(integer))
            reader.say(numbers.digits(integer[first:stop]), start + first, start + stop, rule)
        return end
    reader.say(words, start, end, rule)
    return end


_TOLD = re.compile(r"\b(?:pass)?(?:code|pin|otp|zip)(?: number)? is:? $", re.IGNORECASE)
_STATE = re.compile(r"(?:\b[A-Z]{2}|\b(?!U\.)[A-Z]\.[A-Z]\.) $")


def _is_code(reader: Reader, integer: str, start: int) -> bool:
    """Whether a number is said digit by digit: with leading zeros, too long, or a PIN, a zip code and the like."""
    if len(integer) > 12 or (len(integer) > 1 and integer[0] == "0"):
        return True
    state = len(integer) == 5 and _STATE.search(reader.text[max(0, start - 6) : start])
    told = len(integer) > 3 and reader.last in ("is", "is:") and _TOLD.search(reader.text[max(0, start - 24) : start])
    return bool(state or told) or (len(integer) > 2 and reader.last in SPOKEN_DIGITS)


def _is_year(reader: Reader, number: int, end: int) -> bool:
    """1100 to 2099, unless something is counted: "1984" but "1500 people"."""
    if not 1000 <= number <= 2099:
        return False
    if number < 1100:
        return reader.last in ("in", "since", "of", "year", "by", "from", "until", "circa")
    following = _NEXT.match(reader.text, end)
    if following is None:
        return True
    return following[1] not in COUNTED and not (number < 1900 and _PLURAL.match(following[1]))


def _read(text: str, at: int, *, money: bool) -> tuple[str, str, int] | None:
    """The digits before and after the point of the number at `at`, and where it ends."""
    found = _AMOUNT.match(text, at)
    if found is None:
        return None
    if found.group()[0] == ".":
        return "0", found.group()[1:], found.end()
    if parsed := numbers.parse(found.group(), comma_is_point=money or _AFTER.match(text, found.end()) is not None):
        return *parsed, found.end()
    if _PERCENT.match(text, found.end()) and (parsed := numbers.parse(found.group(), comma_is_point=True)):
        return *parsed, found.end()
    simple = _SIMPLE.match(text, at)
    assert simple is not None
    integer, _, fraction = simple.group().partition(".")
    return integer, fraction, simple.end()


def _more_dashes(text: str, at: int) -> bool:
    return text[at] in "-–/" and at + 1 < len(text) and text[at + 1].isdecimal()


def _magnitude(text: str, at: int, *, money: bool) -> tuple[str, int]:
    """ "million" for " million", "M" and "mn"."""
    found = _MAGNITUDE.match(text, at) or (_MAGNITUDE_JOINED.match(text, at) if money else None)
    if found is None:
        return "", at
    if found.group()[0] == "-" or found[1]:
        return MAGNITUDES[found[1]], found.end()
    if found[2] == "B" and not money and not _NEXT.match(text, found.end()):
        return "", at
    known = LETTER_MAGNITUDES if money else {"k": "thousand", "K": "thousand", "M": "million", "B": "billion"}
    if found[2] not in known or (not money and found[2] == "K" and text[at - 1] in "2458" and _alone(text, at - 1)):
        return "", at
    return known[found[2]], found.end()


def _alone(text: str, at: int) -> bool:
    return at == 0 or not (text[at - 1].isdecimal() or text[at - 1] in ".,")


def _number(integer: str, fraction: str, magnitude: str) -> str:
    words = numbers.decimal(integer, fraction)
    return f"{words} {magnitude}" if magnitude else words


def _range_start(integer: str, fraction: str, magnitude: str, other: str) -> str:
    if not (fraction or magnitude) and len(integer) == 4 and 1100 <= int(integer) <= 2099 and len(other) in (2, 4):
        return numbers.year(int(integer))
    return _number(integer, fraction, magnitude)


def _money(integer: str, fraction: str, currency: Currency, magnitude: str, adjective: bool = False) -> str:
    one, many, cent, cents = currency
    if magnitude or len(fraction) > 2 or (fraction and not cents):
        return f"{_number(integer, fraction, magnitude)} {one if adjective else many}"
    whole = int(integer[: numbers.LONGEST] or "0")
    part = int(fraction.ljust(2, "0")) if fraction else 0
    said = f"{numbers.whole(integer.lstrip('0') or '0')} {one if whole == 1 or (adjective and not part) else many}"
    change = f"{numbers.cardinal(part)} {cent if part == 1 else cents}"
    if not part:
        return said
    return f"{said} and {change}" if whole else change


def _adjective(reader: Reader, text: str, end: int) -> bool:
    """Money that describes a thing: "a $5 bill"."""
    following = _NEXT.match(text, end)
    return reader.last in ("a", "the", "an", "this") and bool(following) and following[1] in _PAID  # type: ignore[index]


_PAID = listed("bill note coin fee fine ticket deal house home deposit bonus gift prize check tip plan loan")


def _per(text: str, words: str, end: int) -> tuple[str, int]:
    """ "per month" for "/month"."""
    found = _PER.match(text, end)
    if found is None:
        return words, end
    return f"{words} per {UNITS[found[1]][0] if found[1] in UNITS else _PERIODS.get(found[1], found[1])}", found.end()


_PERIODS = {"mo": "month", "yr": "year", "y": "year", "wk": "week", "d": "day", "hr": "hour", "h": "hour"}
