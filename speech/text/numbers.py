"""Numbers as words: "3,497" is "three thousand four hundred ninety seven"."""

from __future__ import annotations

from functools import lru_cache

from num2words import num2words

LONGEST = 33
"""Digits of a number that is still said as one; a longer one is said digit by digit."""
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_FRACTIONS = {2: ("half", "halves"), 4: ("quarter", "quarters")}


def _plain(words: str) -> str:
    """As an American reads it, without signs: no "and" inside a number."""
    return words.replace(",", "").replace("-", " ").replace(" and ", " ")


@lru_cache(maxsize=8192)
def cardinal(number: int) -> str:
    return _plain(num2words(number))


@lru_cache(maxsize=2048)
def ordinal(number: int) -> str:
    words = _plain(num2words(number, to="ordinal"))
    return words.removeprefix("one ") if number == 100 else words


@lru_cache(maxsize=4096)
def year(number: int) -> str:
    """1984 is "nineteen eighty four", 1905 "nineteen oh five", 2005 "two thousand five"."""
    return _plain(num2words(number, to="year"))


def digits(text: str) -> str:
    """One by one, whatever else is between them."""
    return " ".join(DIGITS[int(one)] for one in text if one.isdecimal())


def pairs(text: str) -> str:
    """As numbers of houses and models are read: 380 is "three eighty", 4090 "forty ninety", 505 "five oh five"."""
    if len(text) < 3 or len(text) > 4 or text[0] == "0":
        return whole(text)
    head, tail = text[:-2], text[-2:]
    if tail == "00":
        return whole(text) if len(text) == 3 or head[-1] == "0" else f"{cardinal(int(head))} hundred"
    return f"{cardinal(int(head))} {f'oh {DIGITS[int(tail[1])]}' if tail[0] == '0' else cardinal(int(tail))}"


def whole(text: str) -> str:
    """Digits as a number; with leading zeros or too long for a number, one by one."""
    if len(text) > LONGEST or (len(text) > 1 and text[0] == "0"):
        return digits(text)
    return cardinal(int(text))


def decimal(integer: str, fraction: str) -> str:
    """`fraction` is the digits after the point, '' for none."""
    words = whole(integer) if integer else "zero"
    return f"{words} point {digits(fraction)}" if fraction else words


def fraction(numerator: int, denominator: int) -> str:
    """3/4 is "three quarters", 1/3 "one third"."""
    one, many = _FRACTIONS.get(denominator) or (ordinal(denominator), f"{ordinal(denominator)}s")
    return f"{cardinal(numerator)} {one if numerator == 1 else many}"


def plural(words: str) -> str:
    """Number words with an s: "eighty" becomes "eighties", "six" "sixes"."""
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return f"{words}es" if words.endswith(("x", "s")) else f"{words}s"


def parse(text: str, *, comma_is_point: bool = False, european: bool = False) -> tuple[str, str] | None:
    """The digits before and after the point of a written number; None when it is not one number ("1.2.3", "1,2").

    Thousands are set off by comma, point, apostrophe or a space that does not break. `comma_is_point`: a lone comma
    that cannot set off thousands is a point ("10,50"). `european`: "1.000" has thousands, too.
    """
    text = text.replace("\u00a0", "'").replace(" ", "'")
    marks = {one for one in text if not one.isdecimal()}
    if not marks:
        return text, ""
    if "'" in marks:
        head, *groups = text.split("'")
        last, point, rest = groups[-1].partition("." if "." in groups[-1] else ",")
        thousands = 0 < len(head) <= 3 and head.isdecimal() and all(len(one) == 3 for one in (*groups[:-1], last))
        return (head + "".join((*groups[:-1], last)), rest) if thousands and (not point or rest.isdecimal()) else None
    if len(marks) == 2:
        point = "." if text.rindex(".") > text.rindex(",") else ","
        integer, fraction_ = text.rsplit(point, 1)
        return (joined, fraction_) if point not in integer and (joined := _thousands(integer)) else None
    mark = marks.pop()
    if mark == "." and text.count(".") == 1 and not (european and _thousands(text)):
        integer, fraction_ = text.split(".")
        return integer, fraction_
    if joined := _thousands(text):
        return joined, ""
    if mark == "," and comma_is_point and text.count(",") == 1:
        integer, fraction_ = text.split(",")
        return integer, fraction_
    return None


def _thousands(text: str) -> str:
    """The digits of "1,234,567" or "1.234.567", '' when its groups are not of three."""
    head, *groups = text.replace(",", ".").split(".")
    fits = 0 < len(head) <= 3 and head[0] != "0" and bool(groups) and all(len(one) == 3 for one in groups)
    return head + "".join(groups) if fits else ""
