"""Dates and times of day."""

from __future__ import annotations

import re

from speech.text import numbers
from speech.text.reader import Reader

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH = {name[:3].lower(): name for name in MONTHS}
_NAME = "|".join((*MONTHS, *(rf"{name[:3]}\.?" for name in MONTHS if name != "May"), r"Sept\.?"))
_SP = "[ \u00a0]"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_NOT_MORE = r"(?![\d:%/]|[.,]\d|[ \u00a0]?(?:[$€£¥%°]|[ap]\.?m\b))"
_MONTH_DAY = re.compile(
    rf"({_NAME}){_SP}(?:the{_SP})?{_DAY}{_NOT_MORE}(?:[-–](\d{{1,2}})(?:st|nd|rd|th)?{_NOT_MORE})?"
    rf"(?:(,?){_SP}(\d{{4}})(?![\d:,]\d|\w))?(?!\w)"
)
_DAY_MONTH = re.compile(
    rf"{_DAY}(?:[-–](\d{{1,2}})(?:st|nd|rd|th)?)?{_SP}(?:of{_SP})?({_NAME})(?!\w)(?:,?{_SP}(\d{{4}})(?!\w|[.,:]\d))?"
)
_ISO = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d|[-/.]\d)")
_ISO_TIME = re.compile(r"[T ](?=\d{2}:\d{2})")
_SLASHED = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?!\w|[/.-]\d)")
_SHORT = re.compile(r"(\d{1,2})/(\d{1,2})(?![\w/%]|[.,]\d|[ \u00a0](?:of|cup|inch|mile)s?\b)")
_TIME = re.compile(
    rf"(\d{{1,2}})(?::|\.(?=\d\d{_SP}?[ap]\.?m))(\d{{2}})(?::(\d{{2}})(?:\.\d{{1,9}})?)?(?:(?P<half>{_SP}?([ap])\.?{_SP}?m(?:\.|(?!\w)))|(?![\d:]|\.\d))",
    re.IGNORECASE,
)
_HOUR = re.compile(rf"(\d{{1,2}})(?P<half>{_SP}?([ap])(?:\.{_SP}?m\.|m\.?)(?!\w))", re.IGNORECASE)
_GOES_ON = re.compile(
    rf"[ \u00a0]\(?(?:(?:{_NAME})(?!\w)|(?:Mon|Tues?|Wednes|Thurs?|Fri|Satur|Sun)(?:day)?s?(?!\w)"
    r"|(?:UTC|GMT|CES?T|BST|[ECMP][SD]?T)(?!\w)"
    r"|Eastern|Central|Mountain|Pacific)"
)
_DURATION = re.compile(r"(?:(\d{1,3})h ?(?=\d)(?:(\d{1,2})m(?!\w))?|(\d{1,3})m ?(?=\d{1,2}s))(?: ?(\d{1,2})s)?(?!\w)")
_ZONE = re.compile(r"Z(?!\w)|(?P<offset>[+-]\d{2}:?\d{2})(?!\w)")
_QUARTER = re.compile(r"'(\d{2})(s?)(?![\w'])")


def date(reader: Reader, at: int) -> int:
    """Dates that begin with a digit."""
    text = reader.text
    if found := _ISO.match(text, at):
        year, month, day = int(found[1]), int(found[3]), int(found[4])
        if 1 <= month <= 12 and 1 <= day <= 31:
            return _iso(reader, at, found, year, month, day)
    if found := _SLASHED.match(text, at):
        return _slashed(reader, at, found)
    if (found := _SHORT.match(text, at)) and _is_day(reader.last, int(found[1]), int(found[2])):
        reader.say(f"{MONTHS[int(found[1]) - 1]} {numbers.ordinal(int(found[2]))}", at, found.end(), "date")
        return found.end()
    if found := _DAY_MONTH.match(text, at):
        day = int(found[1])
        if 1 <= day <= 31 and not (found[2] and not 1 <= int(found[2]) <= 31):
            return _day_month(reader, at, found)
    return 0


def _is_day(before: str, month: int, day: int) -> bool:
    """Whether "3/14" is a day: by the word before it, and after "by" if it is no fraction that is usual."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return False
    usual = month < day and day in (2, 3, 4, 5, 8, 10, 16, 32)
    return before in ("on", "since", "until", "dated") or (before in ("by", "before", "after", "of") and not usual)


def _iso(reader: Reader, at: int, found: re.Match[str], year: int, month: int, day: int) -> int:
    """The year stands first and is said last, so the whole is one token."""
    words = f"{MONTHS[month - 1]} {numbers.ordinal(day)} {numbers.year(year)}"
    reader.say(words, at, found.end(), "date")
    if joined := _ISO_TIME.match(reader.text, found.end()):
        if joined.group() == "T":
            reader.mark(",", found.end(), joined.end())
        stop = time(reader, joined.end())
        zone = _ZONE.match(reader.text, stop) if stop else None
        if zone and zone["offset"]:
            sign = "plus" if zone["offset"][0] == "+" else "minus"
            reader.say(f"{sign} {numbers.cardinal(int(zone['offset'][1:3]))}", stop, zone.end(), "time")
        elif zone:
            reader.say("U T C", stop, zone.end(), "letters")
        return zone.end() if zone else stop or found.end()
    return found.end()


def _slashed(reader: Reader, at: int, found: re.Match[str]) -> int:
    """Month first, as Americans write, unless only the second can be a month; with points the day is first."""
    first, second, written = int(found[1]), int(found[3]), found[4]
    day_first = found[2] == "." or first > 12
    day, month = (first, second) if day_first else (second, first)
    if not (1 <= month <= 12 and 1 <= day <= 31) or (found[2] != "/" and len(written) == 2):
        return 0
    year = int(written) if len(written) == 4 else int(written) + (2000 if int(written) <= 50 else 1900)
    reader.say(f"{MONTHS[month - 1]} {numbers.ordinal(day)}", at, found.end(3), "date")
    reader.mark(",", found.end(3), found.start(4))
    reader.say(numbers.year(year), found.start(4), found.end(4), "year")
    return found.end()


def _day_month(reader: Reader, at: int, found: re.Match[str]) -> int:
    article = "" if reader.last == "the" else "the "
    words = f"{article}{numbers.ordinal(int(found[1]))}"
    if found[2]:
        words += f" to {'the ' if article else ''}{numbers.ordinal(int(found[2]))}"
    reader.say(f"{words} of", at, found.start(3), "date")
    end = found.end(3)
    closing = found[3].endswith(".") and not found[4] and reader.ends_sentence(end)
    reader.say(_MONTH[found[3][:3].lower()], found.start(3), end - closing, "date")
    if found[4]:
        if reader.text[end] == ",":
            reader.mark(",", end, found.start(4))
        reader.say(numbers.year(int(found[4])), found.start(4), found.end(4), "year")
        return found.end()
    return end - closing


def named_date(reader: Reader, at: int) -> int:
    """Dates that begin with the name of a month: "Mar. 5th, 2024", "March 5-7"."""
    found = _MONTH_DAY.match(reader.text, at)
    if found is None or not 1 <= int(found[2]) <= 31 or (found[3] and not 1 <= int(found[3]) <= 31):
        return 0
    reader.say(_MONTH[found[1][:3].lower()], at, found.end(1), "date")
    reader.say(
        numbers.ordinal(int(found[2])), found.start(2), found.start(3) if found[3] else _day_end(found, 2), "date"
    )
    if found[3]:
        reader.say(f"to {numbers.ordinal(int(found[3]))}", found.start(3), _day_end(found, 3), "date")
    if found[5]:
        reader.mark(",", found.start(4), found.start(5))
        reader.say(numbers.year(int(found[5])), found.start(5), found.end(5), "year")
    return found.end()


def _day_end(found: re.Match[str], group: int) -> int:
    end = found.end(group)
    return end + 2 if found.string[end : end + 2] in ("st", "nd", "rd", "th") else end


def time(reader: Reader, at: int) -> int:
    """ "9:30am", "14:05", "9:05:30", "9 p.m."."""
    found = _TIME.match(reader.text, at)
    if found is None:
        hour = _HOUR.match(reader.text, at)
        if hour is None or not 1 <= int(hour[1]) <= 12:
            return 0
        reader.say(numbers.cardinal(int(hour[1])), at, hour.end(1), "time")
        return _half(reader, hour)
    hours, minutes, seconds = int(found[1]), int(found[2]), found[3]
    if hours > 24 or minutes > 59 or (seconds and int(seconds) > 59):
        return 0
    words = numbers.cardinal(hours)
    if minutes:
        words += f" {'oh ' if minutes < 10 else ''}{numbers.cardinal(minutes)}"
    elif seconds:
        words += " zero zero"
    elif not found["half"]:
        words += " o'clock" if 1 <= hours <= 12 else " hundred"
    if seconds and int(seconds):
        words += f" and {numbers.cardinal(int(seconds))} second{'' if int(seconds) == 1 else 's'}"
    reader.say(words, at, found.start("half") if found["half"] else found.end(), "time")
    return _half(reader, found) if found["half"] else found.end()


def _half(reader: Reader, found: re.Match[str]) -> int:
    """ "a.m." and "p.m.", whose point may end the sentence as well."""
    start, end = found.span("half")
    while reader.text[start].isspace():
        start += 1
    closing = reader.text[end - 1] == "." and half_ends(reader, end)
    reader.say(f"{reader.text[start].upper()} M", start, end - closing, "letters")
    return end - closing


def half_ends(reader: Reader, end: int) -> bool:
    """Whether the point of "p.m." ends the sentence as well; "5 p.m. Tuesday" and "9 a.m. EST" go on."""
    return reader.ends_sentence(end, sure=True) and not _GOES_ON.match(reader.text, end)


def duration(reader: Reader, at: int) -> int:
    """ "2h30m", "1m 30s", "1h 5m 10s"."""
    found = _DURATION.match(reader.text, at)
    if found is None or reader.char(at - 1).isalnum():
        return 0
    for number, name in ((1, "hour"), (2, "minute"), (3, "minute"), (4, "second")):
        if found[number]:
            start, end = found.span(number)
            count = int(found[number])
            reader.say(f"{numbers.cardinal(count)} {name}{'' if count == 1 else 's'}", start, end + 1, "unit")
    return found.end()


def short_year(reader: Reader, at: int) -> int:
    """ "'84" and "'90s"."""
    found = _QUARTER.match(reader.text, at)
    if found is None or reader.char(at - 1).isalnum():
        return 0
    words = numbers.pairs(found[1]) if found[1][0] != "0" else f"oh {numbers.DIGITS[int(found[1][1])]}"
    reader.say(numbers.plural(words) if found[2] else words, at, found.end(), "decade" if found[2] else "year")
    return found.end()
