"""Punctuation and signs."""

from __future__ import annotations

import re
import unicodedata

from speech.text import emojis, numbers
from speech.text.foreign import named
from speech.text.reader import Reader
from speech.text.source import BREAK, CELL, CODE
from speech.text.wordlists import listed

_ENDINGS = (("?", "?⁉"), ("!", "!‼"), ("…", ("…", "...")))
_RUN = re.compile(r"[.!?…‼⁉]{1,64}")
_QUOTES = {'"': '"', "“": "“", "”": "”", "″": '"'}
_MARKS = {",": ",", ";": ";", ":": ":", "(": "(", ")": ")", "[": "(", "]": ")", "{": "(", "}": ")", "—": "—", "|": ","}
_NAMES = {
    "&": "and",
    "@": "at",
    "+": "plus",
    "=": "equals",
    "%": "percent",
    "#": "hash",
    "*": "asterisk",
    "~": "tilde",
    "^": "caret",
    "<": "less than",
    ">": "greater than",
    "/": "slash",
    "\\": "backslash",
    "_": "underscore",
    "`": "backtick",
    "$": "dollar",
    "€": "euro",
    "£": "pound",
    "¥": "yen",
    "¢": "cent",
    "§": "section",
    "¶": "paragraph",
    "©": "copyright",
    "®": "registered",
    "™": "trademark",
    "℠": "service mark",
    "№": "number",
    "°": "degrees",
    "×": "times",
    "÷": "divided by",
    "±": "plus or minus",
    "≠": "is not equal to",
    "≈": "approximately",
    "≤": "less than or equal to",
    "≥": "greater than or equal to",
    "√": "square root of",
    "∞": "infinity",
    "→": "to",
    "⇒": "implies",
    "←": "from",
    "↔": "to and from",
    "★": "star",
    "☆": "star",
    "✓": "check",
    "✔": "check",
    "∑": "sum",
    "∏": "product",
    "∫": "integral",
    "∂": "partial",
    "∆": "delta",
    "∇": "nabla",
    "¬": "not",
    "∈": "in",
    "∩": "intersection",
    "∪": "union",
    "∅": "empty set",
    "∀": "for all",
    "∃": "there exists",
    "∧": "and",
    "∨": "or",
    "∴": "therefore",
    "∵": "because",
    "ℹ": "information",
    "‰": "per mille",
    "µ": "micro",
}
_COMPARED = {"==": "equals", "!=": "is not equal to", "<=": "less than or equal to", ">=": "greater than or equal to"}
_ARROWS = {"->": "to", "=>": "to", "<-": "from", "&&": "and", "||": "or", "...": "…"}
_PAIRS = re.compile(r"==|!=|<=|>=|->|=>|<-|&&|\|\|")
_ROW_END = re.compile(rf"\|[ ]{{0,64}}(?:[\n{BREAK}]|$)")
_DASHES = re.compile(r"[-–]{1,64}")
_CHARGE = re.compile(r"([⁰¹²³⁴-⁹]{0,2})([⁺⁻])(?![⁰¹²³⁴-⁹])")
_SUPERSCRIPT = re.compile(r"[⁺⁻]?[⁰¹²³⁴-⁹]{1,20}|ⁿ")
_POWER = re.compile(r"\^(?:\{?(-?)(\d{1,6})\}?|([A-Za-z])(?!\w))")
_SUPER_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_BLANK = re.compile(r"_{1,64}")
_BARS = re.compile(r"[\u2500-\u259f\u25a0-\u25ff\u2022\u2023\u2043\u00b7\u2027\u00a6]{1,64}")
_NUMERIC = listed(
    "time date year cardinal decimal money percent unit letters ordinal range digits multiple decade plural"
)
_SUMMED = _NUMERIC - {"date", "time", "year", "letters", "decade", "plural"}
_CODE_BEFORE = re.compile(r"[^\W\d_]-?\d{1,12}$")
_COUNTS = re.compile(r"# of\b")
_HAVE_NUMBERS = listed("phone order account invoice ticket tracking room serial case policy confirmation reference")
_PER = re.compile(r"/[ \u00a0]?(?=[A-Za-z])")


def power(reader: Reader, at: int) -> int:
    """Superscripts and "^3"."""
    if reader.char(at - 1).isalnum() and (charge := _CHARGE.match(reader.text, at)):
        number = f"{numbers.whole(charge[1].translate(_SUPER_DIGITS))} " if charge[1] else ""
        reader.say(f"{number}{'plus' if charge[2] == '⁺' else 'minus'}", at, charge.end(), "math")
        return charge.end()
    found = _SUPERSCRIPT.match(reader.text, at) or _POWER.match(reader.text, at)
    return _power(reader, at, found) if found else 0


def sign(reader: Reader, at: int) -> int:
    """Whatever begins with neither a letter nor a digit. Always takes something."""
    text = reader.text
    one = text[at]
    if one in (BREAK, CELL):
        reader.pause("." if one == BREAK else ",", at, at + 1)
        return at + 1
    if one == CODE:
        reader.say("code block", at, at + 1, "code")
        reader.mark(".", at, at + 1)
        return at + 1
    if found := emojis.EMOTICON.match(text, at):
        return _emoticon(reader, at, found.end())
    if found := _PAIRS.match(text, at):
        reader.say(_COMPARED.get(found.group()) or _ARROWS[found.group()], at, found.end(), "symbol")
        return found.end()
    if found := _RUN.match(text, at):
        return _ending(reader, at, found)
    if mark := _MARKS.get(one) or _QUOTES.get(one):
        return _mark(reader, at, mark)
    if one in "-–":
        return _dash(reader, at)
    if one == "'":
        reader.drop(at, at + 1, "punctuation")
        return at + 1
    if found := emojis.EMOJI.match(text, at):
        word = " emoji" if reader.options.emoji == "name" else ""
        reader.say(emojis.name(found.group()) + word, at, found.end(), "emoji")
        return found.end()
    if end := power(reader, at):
        return end
    if one == "_":
        return _underscores(reader, at)
    if found := _BARS.match(text, at):
        reader.drop(at, found.end(), "decoration")
        return found.end()
    return _named(reader, at)


def _ending(reader: Reader, at: int, found: re.Match[str]) -> int:
    """The end of a sentence: a question before an exclamation before an ellipsis before a point."""
    run = found.group()
    mark = next((mark for mark, signs in _ENDINGS if any(one in run for one in signs)), ".")
    behind = reader.char(found.end())
    if run == "." and behind.isalnum() and not (behind.isupper() and reader.char(at - 1).isalnum()):
        reader.say("dot", at, found.end(), "symbol")
        return found.end()
    reader.mark(mark, at, found.end())
    return found.end()


def _mark(reader: Reader, at: int, mark: str) -> int:
    text = reader.text
    ratio = mark == ":" and reader.char(at - 1).isdecimal() and reader.char(at + 1).isdecimal()
    if ratio and not _CODE_BEFORE.search(text[max(0, at - 16) : at]):
        reader.say("to", at, at + 1, "ratio")
    elif mark == "," and text[at] == "|":
        if not _ROW_END.match(text, at):
            reader.pause(mark, at, at + 1)
    elif mark == '"' and text[at] == "″" and reader.char(at - 1).isdecimal():
        reader.say("inches", at, at + 1, "unit")
    else:
        reader.mark(mark, at, at + 1)
    return at + 1


def _dash(reader: Reader, at: int) -> int:
    """A minus, a range, a pause, or a hyphen that is not heard."""
    text = reader.text
    found = _DASHES.match(text, at)
    assert found is not None
    end = found.end()
    before, behind = reader.char(at - 1), reader.char(end)
    apart = before.isspace() and behind.isspace()
    if end - at > 1:
        if behind.isalpha() and before.isspace() and text[at : at + 2] == "--":
            reader.say("dash dash", at, end, "symbol")
        else:
            reader.mark("—", at, end)
    elif (
        apart
        and text[at] == "-"
        and (
            (reader.last_rule in _SUMMED and reader.char(end + 1).isdecimal())
            or (reader.last_rule == "math" and len(reader.next_word(end).rstrip("²³")) == 1)
        )
    ):
        reader.say("minus", at, end, "math")
    elif apart:
        reader.mark("—", at, end)
    elif behind.isdecimal() or (behind in "$€£¥." and reader.char(end + 1).isdecimal()):
        if (not before.isalnum() and before not in ").%") or reader.last in ("utc", "gmt"):
            reader.say("minus", at, end, "math")
        elif _CODE_BEFORE.search(text[max(0, at - 16) : at]):
            return end
        elif (
            reader.last_rule in _NUMERIC and (not before.isalpha() or before in "mM" or reader.last_rule == "decade")
        ) or reader.last in ("noon", "midnight"):
            reader.say("to", at, end, "range")
    elif behind == "∞" or (behind.isalpha() and len(reader.next_word(end)) == 1 and before in "(=,"):
        reader.say("minus", at, end, "math")
    elif text[at] == "–":
        if before.isalnum() and behind.isalnum():
            if reader.last_rule in _NUMERIC:
                reader.say("to", at, end, "range")
        else:
            reader.mark("—", at, end)
    return end


def _emoticon(reader: Reader, at: int, end: int) -> int:
    if reader.options.emoji == "strip":
        reader.drop(at, end, "emoji")
    else:
        word = " emoji" if reader.options.emoji == "name" else ""
        reader.say(emojis.name(reader.text[at:end]) + word, at, end, "emoji")
    return end


def _power(reader: Reader, at: int, found: re.Match[str]) -> int:
    written = found.group()
    minus = "minus " if written[0] == "⁻" or (written[0] == "^" and found[1]) else ""
    digits = found[2] if written[0] == "^" else written.lstrip("⁺⁻").translate(_SUPER_DIGITS)
    if written == "ⁿ" or (written[0] == "^" and found[3]):
        words = f"to the {'n' if written == 'ⁿ' else found[3]}"
    elif not minus and digits in ("2", "3") and reader.tokens:
        words = "squared" if digits == "2" else "cubed"
    elif reader.last and reader.char(at - 1).isalnum() and (reader.char(at - 1).isdecimal() or len(reader.last) == 1):
        words = f"to the power of {minus}{numbers.whole(digits)}"
    else:
        words = minus + numbers.whole(digits)
    reader.say(words, at, found.end(), "math")
    return found.end()


def _underscores(reader: Reader, at: int) -> int:
    found = _BLANK.match(reader.text, at)
    assert found is not None
    end = found.end()
    if reader.char(at - 1).isalnum() and reader.char(end).isalnum():
        reader.say("underscore", at, end, "symbol")
    elif end - at > 2:
        reader.say("blank", at, end, "symbol")
    else:
        reader.drop(at, end, "decoration")
    return end


def _named(reader: Reader, at: int) -> int:
    one = reader.text[at]
    behind = reader.char(at + 1)
    if one == "/":
        if reader.char(at - 1).isupper() and behind.isupper():
            return at + 1
        if reader.last_rule == "decimal" and behind.isdecimal():
            reader.say("out of", at, at + 1, "fraction")
            return at + 1
        if reader.last_rule in ("unit", "money") and (found := _PER.match(reader.text, at)):
            reader.say("per", at, at + 1, "unit")
            return found.end()
    if one == "*" and (reader.last_rule in _NUMERIC or (reader.char(at - 1).isspace() and behind.isspace())):
        words = "times"
    elif one == "#" and (behind.isdecimal() or _COUNTS.match(reader.text, at) or reader.last in _HAVE_NUMBERS):
        words = "number"
    elif one in "~≈" and (behind.isdecimal() or behind in "$€£"):
        words = "about"
    elif one in "¿¡":
        return at + 1
    elif known := _NAMES.get(one):
        words = known
    elif unicodedata.category(one)[0] in "PZMC":
        reader.drop(at, at + 1, "punctuation")
        return at + 1
    else:
        words = named(one)
    reader.say(words, at, at + 1, "symbol")
    return at + 1
