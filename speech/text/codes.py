"""What is spelled: addresses of the web, e-mail, files, phones, versions, cards, hashtags."""

from __future__ import annotations

import re

from speech.text import numbers
from speech.text.foreign import FOREIGN, transliterated
from speech.text.letters import spelled
from speech.text.reader import Reader
from speech.text.wordlists import listed

_SP = "[ \u00a0]"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_SURE = "|".join(
    sorted(
        listed(
            "com org net edu gov mil int io ai dev app co uk de fr jp cn ru info biz tv eu us ca au es nl ch se "
            "pl cz gg xyz online tech cloud page blog shop site store club live news wiki ly fm "
        )
    )
)
_OTHER = "in|it|is|me|no|so|to|at|be|am|my|do|as|by"
"""Ends of domains that are words: believed only before a path."""
_STOP = r"[^\s<>\"“”\ue001-\ue00f]"
_URL = re.compile(rf"(?:(?:https?|ftp|wss?|file)://|www\.(?=\w)){_STOP}{{1,2048}}", re.IGNORECASE)
_DOMAIN = re.compile(
    rf"(?:{_LABEL}\.){{1,6}}(?:(?:{_SURE})(?:/{_STOP}{{0,2048}}|(?![\w@-]|\.\w))"
    rf"|(?:{_OTHER})/{_STOP}{{1,2048}}|(?:{_SURE}):\d{{1,5}}(?:/{_STOP}{{0,2048}})?)"
)
_EMAIL = re.compile(rf"(?:mailto:)?[A-Za-z0-9][A-Za-z0-9._%+-]{{0,63}}@(?:{_LABEL}\.){{1,6}}[A-Za-z]{{2,24}}(?!\w)")
_EXTENSIONS = "|".join(
    sorted(
        listed(
            "txt pdf doc docx xls xlsx ppt pptx csv json xml yaml yml toml md html htm css js ts py rs go rb java "
            "cpp sh bat exe dll zip tar gz rar png jpg jpeg gif svg webp mp3 mp4 wav flac ogg opus mov avi mkv "
            "log cfg ini sql db iso bin jar "
        )
    )
)
_FILE = re.compile(rf"[A-Za-z0-9_][\w-]{{0,80}}(?:\.[\w-]{{1,40}}){{0,4}}\.(?:{_EXTENSIONS})(?!\w|\.\w)")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.-]{1,80}(?:/[\w.-]{1,80}){1,20}/?|(?:~|\.{1,2})/[\w.-]{1,80}/?")
_WINDOWS = re.compile(r"[A-Za-z]:\\(?:[\w.-]{1,80}\\?){0,20}")
_HASHTAG = re.compile(r"#([^\W\d]\w{0,100})")
_HANDLE = re.compile(r"@([A-Za-z_]\w{0,50})")
_IP = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:(/|:)(\d{1,5}))?(?![\w]|\.\d)")
_VERSION = re.compile(
    r"[vV]?\d{1,6}(?:\.\d{1,6}){2,5}(?![\d])|v\d{1,6}(?:\.\d{1,6}){0,5}(?!\w)|V\d{1,6}(?:\.\d{1,6}){1,5}(?!\w)"
)
_TWO_PARTS = re.compile(r"\d{1,4}\.\d{1,4}(?![\w%]|\.\d)")
_VERSIONED = listed("version v release python ios android macos windows ubuntu java node php ruby django torch cuda")
_PHONES = re.compile(
    r"\+\d{1,3}(?:[ \u00a0.-]?\(?\d{1,4}\)?){2,6}(?![\w])"
    r"|(?:1[-. ])?\(\d{3}\)[- \u00a0]?\d{3}[-. \u00a0]\d{4}(?!\w)"
    r"|(?:1[-. ])?\d{3}([-.])\d{3}\1\d{4}(?![\w]|-\d)"
    r"|\d{3}-\d{4}(?![\w]|-\d)"
    r"|0\d{2,4} \d{3,4} \d{3,4}(?!\w)"
)
_SERIAL = re.compile(r"[A-WYZ\d]{5,64}(?![\w.-])")
_RUNS = re.compile(r"[A-Z]{1,40}|\d{1,40}")
_GROUPED = re.compile(r"\d{4}(?:[ -]\d{4}){2,4}(?![\w-])|\d{1,7}(?:-\d{1,7}){2,6}(?![\w-])|\d{5}-\d{4}(?![\w-]|[.,]\d)")
_VANITY = re.compile(r"(?:1-)?8\d\d-(?=[A-Z]{3,7}(?![\w-]))")
_CALLED = re.compile(r"\d{3}(?!\w|[.,]\d|-\d)")
_DIGITS = re.compile(r"\d{1,12}")
_PIECE = re.compile(r"[A-ZÀ-Þ]{2,64}(?![a-zß-ÿ])|[A-ZÀ-Þ]?[a-zß-ſ]{1,64}|[A-ZÀ-Þ]|\d{1,40}|.", re.DOTALL)
_SIGNS = {
    ".": "dot",
    "/": "slash",
    "\\": "backslash",
    "-": "dash",
    "_": "underscore",
    ":": "colon",
    "@": "at",
    "?": "question mark",
    "&": "and",
    "=": "equals",
    "#": "hash",
    "%": "percent",
    "+": "plus",
    "~": "tilde",
    ",": "comma",
    ";": "semicolon",
    "!": "exclamation mark",
    "*": "star",
    "$": "dollar",
    "|": "bar",
}
_READ = listed("json toml yaml java zip tar log doc bin bat jar flac opus")
"""Endings of files that are said as words."""
_TRAILING = ".,;:!?'*…”’"
_OPENING = {")": "(", "]": "["}


def web(reader: Reader, at: int) -> int:
    """Addresses of the web, e-mail addresses, names of files and paths."""
    text = reader.text
    if reader.char(at - 1).isalnum() or (reader.char(at - 1) in "@_" and at):
        return 0
    if found := _EMAIL.match(text, at):
        return _spell(reader, at + (7 if found.group().startswith("mailto:") else 0), found.end(), "email", start=at)
    if found := _URL.match(text, at):
        end = _trimmed(text, at, found.end())
        scheme = text.find("://", at, at + 8)
        return _spell(reader, scheme + 3 if scheme > 0 else at, end, "url", start=at)
    if found := _DOMAIN.match(text, at):
        return _spell(reader, at, _trimmed(text, at, found.end()), "url", start=at)
    if found := _FILE.match(text, at) or _WINDOWS.match(text, at):
        return _spell(reader, at, _trimmed(text, at, found.end()), "file", start=at)
    return 0


def path(reader: Reader, at: int) -> int:
    found = _PATH.match(reader.text, at)
    if found is None or reader.char(at - 1).isalnum():
        return 0
    return _spell(reader, at, _trimmed(reader.text, at, found.end()), "file", start=at)


def tag(reader: Reader, at: int) -> int:
    """ "#MachineLearning" and "@name"."""
    found = _HASHTAG.match(reader.text, at) or _HANDLE.match(reader.text, at)
    if found is None or reader.char(at - 1).isalnum():
        return 0
    name = "hashtag" if reader.text[at] == "#" else "handle"
    reader.say("hashtag" if name == "hashtag" else "at", at, at + 1, name)
    return _spell(reader, at + 1, found.end(), name, start=at + 1)


def _trimmed(text: str, at: int, end: int) -> int:
    """Without the punctuation of the sentence around it."""
    while end > at + 1:
        last = text[end - 1]
        if last not in _TRAILING and not (last in _OPENING and _OPENING[last] not in text[at:end]):
            break
        end -= 1
    return end


def _spell(reader: Reader, at: int, end: int, rule: str, *, start: int) -> int:
    """Piece by piece; what is not said of the beginning (a scheme) belongs to the first piece."""
    text = reader.text
    if at >= end:
        at = start
    stop = end - 1 if end - at > 1 and text[end - 1] == "/" else end
    for found in _PIECE.finditer(text, at, stop):
        piece, first, last = found.group(), found.start(), found.end()
        begin = start if first == at else first
        if last == stop:
            last = end
        if piece.isdecimal():
            reader.say(numbers.pairs(piece) if len(piece) <= 4 else numbers.digits(piece), begin, last, rule)
        elif piece[0].isalpha() and piece[0] <= "ſ":
            after = text[found.end() : found.end() + 1]
            final = first > at and text[first - 1] == "." and (found.end() == stop or after in "./:?#")
            if (final and _is_code(piece, rule)) or piece == "www" or spelled(piece):
                reader.say(" ".join(piece.upper()), begin, last, "letters")
            else:
                reader.say(piece, begin, last, rule)
        elif sign := _SIGNS.get(piece):
            reader.say(sign, begin, last, rule)
        elif FOREIGN.match(piece) or piece.isalnum():
            reader.say(transliterated(piece), begin, last, "transliteration")
    return end


def _is_code(piece: str, rule: str) -> bool:
    """Whether the end of a domain or of a file's name is spelled."""
    piece = piece.lower()
    return piece not in _READ if rule == "file" else len(piece) == 2 and piece != "co"


def version(reader: Reader, at: int) -> int:
    """Versions and IP addresses: "1.2.3", "v2.0", "192.168.0.1", and "3.11" after "Python"."""
    text = reader.text
    if reader.char(at - 1).isalnum():
        return 0
    if (found := _IP.match(text, at)) and all(int(part) < 256 for part in found.groups()[:4]):
        for group in range(1, 5):
            first, last = found.span(group)
            if group > 1:
                reader.say("dot", first - 1, first, "ip")
            reader.say(numbers.digits(text[first:last]), first, last, "ip")
        if found[5]:
            reader.say("slash" if found[5] == "/" else "port", found.start(5), found.end(5), "ip")
            reader.say(numbers.digits(found[6]) if found[5] == ":" else numbers.whole(found[6]), *found.span(6), "ip")
        return found.end()
    after_name = reader.last.rstrip(".") in _VERSIONED
    found = _VERSION.match(text, at) or (_TWO_PARTS.match(text, at) if after_name else None)
    if found is None or (text[at].isdecimal() and found.group().count(".") > 1 and numbers.parse(found.group())):
        return 0
    if found.group()[0] in "vV":
        reader.say("version", at, at + 1, "version")
        at += 1
    while (digits := _DIGITS.match(text, at)) and at < found.end():
        reader.say(numbers.whole(digits.group()), at, digits.end(), "version")
        at = digits.end()
        if at < found.end():
            reader.say("point", at, at + 1, "version")
            at += 1
    return found.end()


def serial(reader: Reader, at: int) -> int:
    """Digits, capitals and digits again: the number of a parcel, of a plane's seat or a plate."""
    found = _SERIAL.match(reader.text, at)
    if found is None or reader.char(at - 1).isalnum():
        return 0
    parts = _RUNS.findall(found.group())
    if len(parts) < 3 or (len(parts) == 3 and len(parts[2]) < 3):
        return 0
    for part in _RUNS.finditer(reader.text, at, found.end()):
        written = part.group()
        words = " ".join(written) if written.isalpha() else numbers.digits(written)
        reader.say(words, part.start(), part.end(), "letters" if written.isalpha() else "digits")
    return found.end()


def phone(reader: Reader, at: int) -> int:
    """Phone numbers digit by digit, a comma between their groups; "+" is "plus"."""
    text = reader.text
    if reader.char(at - 1).isalnum():
        return 0
    if found := _PHONES.match(text, at):
        count = sum(one.isdecimal() for one in found.group())
        if found.group()[0] != "+" or 8 <= count <= 15:
            return _groups(reader, at, found.end(), "telephone")
    if found := _VANITY.match(text, at):
        end = _groups(reader, at, found.end(), "telephone")
        reader.mark(",", end - 1, end)
        return end
    if found := _GROUPED.match(text, at):
        return _groups(reader, at, found.end(), "digits")
    if reader.last in ("call", "dial", "phone") and (found := _CALLED.match(text, at)):
        reader.say(numbers.digits(found.group()), at, found.end(), "telephone")
        return found.end()
    return 0


def _groups(reader: Reader, at: int, end: int, rule: str) -> int:
    start = at
    for found in _DIGITS.finditer(reader.text, at, end):
        if found.start() > at > start:
            reader.mark(",", at, found.start())
        begin = start if at == start else found.start()
        plus = "plus " if at == start and reader.text[start] == "+" else ""
        reader.say(plus + numbers.digits(found.group()), begin, found.end(), rule)
        at = found.end()
    return end
