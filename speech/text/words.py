"""Words: as they are, or what an abbreviation, an initial, a numeral or a row of capitals stands for."""

from __future__ import annotations

import re

from speech.text import abbreviations as known
from speech.text import numbers, roman
from speech.text.calendar_rules import named_date
from speech.text.foreign import FOREIGN, transliterated
from speech.text.letters import SPECIAL, is_formula, letters, said_as_word, spelled
from speech.text.quantity_words import UNITS
from speech.text.reader import Reader
from speech.text.source import BREAK
from speech.text.wordlists import listed

_LETTER = "A-Za-zÀ-ÖØ-öø-ſ"
_WORD = re.compile(rf"[{_LETTER}]{{1,64}}(?:'[{_LETTER}]{{1,24}}){{0,3}}")
_SMALL = re.compile(rf"[{_LETTER}][a-zß-öø-ÿ]{{1,48}}(?![\w.'/+#&@–-]|://)")
_HYPHENATED = re.compile(rf"(?:-[{_LETTER}]{{1,48}}(?:'[a-z]{{1,3}})?){{1,6}}(?![\w])")
_POINTED = re.compile(rf"([{_LETTER}]{{1,8}})\.")
_DOTTED = re.compile(r"(?:[A-Za-z]\.){2,8}(?:[A-Za-z](?![\w']))?")
_MIXED_DOTTED = re.compile(r"Ph\.D\.?|B\.Sc\.?|M\.Sc\.?|et al\.")
_SLASHED = re.compile(r"(?:and/or|w/o|w/|c/o|b/c|n/a|km/h|m/s)(?![\w/])", re.IGNORECASE)
_CODE = re.compile(r"[A-Za-z0-9]{1,64}")
_PARTS = re.compile(rf"[A-Z]{{2,64}}(?![a-z])|[{_LETTER}][a-zß-ſ]{{0,64}}|\d{{1,64}}")
_DAYS = re.compile(r"(Mon|Tues?|Wed|Thu|Thurs?|Fri|Sat|Sun)[-–](Mon|Tues?|Wed|Thu|Thurs?|Fri|Sat|Sun)(?!\w)")
_CLASP = re.compile(r"-\w")
_TAIL = re.compile(r"'?s(?!\w)")
_VERSUS = re.compile(r"v\.(?= [A-Z])")
_SHARP = re.compile(r"([A-Z])(#|\+\+)(?!\w)")
_AMPERSAND = re.compile(r"([A-Z]{1,3})&([A-Z]{1,3})(?!\w)")
_CAPITALS_BEFORE = re.compile(r"(?:^|\W)([A-Z]{2,24}(?:'[A-Z]{1,2})?)[^\w.!?]{1,3}$")
_NAME_BEFORE = re.compile(r"(?:^|\W)([A-Z]{2,24})(\.|(?: [A-Z]\.){1,3}) $")
_CAPITALS_AFTER = re.compile(r"[^\w.!?]{1,3}([A-Z]{2,24}(?:'[A-Z]{1,2})?|[AI])(?!\w)")
_POLITE = ("Mr", "Mrs", "Ms", "Messrs")
_LISTED = listed("plan vitamin grade type class group section option hepatitis exhibit letter level team unit")


def plain_word(reader: Reader, at: int) -> int:
    """What most words are: small letters, and nothing attached that could make more of them."""
    plain = _SMALL.match(reader.text, at)
    if plain is None:
        return 0
    found = plain.group()
    if found in UNITS and reader.char(at - 1) == "-" and reader.char(at - 2).isdecimal():
        return 0
    if found in known.WHOLE or (found[0].isupper() and _may_be_special(found)):
        return 0
    reader.say(found, at, plain.end(), "word")
    return plain.end()


def word(reader: Reader, at: int) -> int:
    """What begins with a letter."""
    text = reader.text
    if end := _by(reader, at) or _days(reader, at):
        return end
    for read in (named_date, _abbreviation, _code):
        if end := read(reader, at):
            return end
    found_word = _WORD.match(text, at)
    if found_word is None:
        return foreign(reader, at)
    end, written = found_word.end(), found_word.group()
    if (joined := _HYPHENATED.match(text, end)) and _simple(written + joined.group()):
        reader.say(written + joined.group(), at, joined.end(), "word")
        return joined.end()
    words, rule = _said(reader, at, end, written)
    reader.say(words, at, end, rule)
    return end


def _may_be_special(written: str) -> bool:
    return written in known.BARE_TITLES or written[:3].lower() in _MONTH_STARTS


_MONTH_STARTS = listed("jan feb mar apr may jun jul aug sep oct nov dec")


def _by(reader: Reader, at: int) -> int:
    """The x of "1920x1080" and "25 mm x 40 mm"."""
    if not (reader.text[at] in "xX" and reader.last_rule in ("cardinal", "year", "unit", "decimal", "digits")):
        return 0
    touching = reader.char(at - 1).isdecimal() and reader.char(at + 1).isdecimal()
    apart = reader.char(at - 1) == " " and reader.char(at + 1) == " " and reader.char(at + 2).isdecimal()
    if touching or apart:
        reader.say("by", at, at + 1, "math")
        return at + 1
    return 0


def _days(reader: Reader, at: int) -> int:
    """ "Mon-Fri" is "Monday to Friday"."""
    found = _DAYS.match(reader.text, at)
    if found is None:
        return 0
    reader.say(known.GENERAL[found[1].lower()], at, found.end(1), "date")
    reader.say("to", found.end(1), found.start(2), "range")
    reader.say(known.GENERAL[found[2].lower()], found.start(2), found.end(), "date")
    return found.end()


def _simple(written: str) -> bool:
    """Ordinary words joined by hyphens, which are said as one."""
    return all(part[1:] == part[1:].lower() and len(part) > 1 for part in written.split("-"))


def _said(reader: Reader, at: int, end: int, written: str) -> tuple[str, str]:
    """The words and the rule for a word without a point."""
    text = reader.text
    stem, mark, tail = written.partition("'")
    if (
        reader.char(at - 1) == "-"
        and reader.char(at - 2).isdecimal()
        and stem in UNITS
        and len(stem) > 1
        and not _CLASP.match(text, end)
    ):
        return UNITS[stem][0], "unit"
    if (special := SPECIAL.get(stem)) or (special := known.WHOLE.get(stem)):
        return special + mark + tail, "abbreviation" if stem not in SPECIAL else "letters"
    if text[end : end + 1] == "." and len(stem) > 1 and (at == 0 or reader.char(at - 1) in f"\n{BREAK}"):
        number = roman.value(stem) if set(stem) <= set("IVX") else 0
        if number:
            return numbers.cardinal(number), "roman"
    if (century := roman.century(stem, text, end)) and (stem != "I" or reader.last == "the"):
        return numbers.ordinal(century) + mark + tail, "roman"
    if reader.last.isalpha() or reader.last.endswith("."):
        before = reader.text[max(0, at - 24) : at]
        capital = reader.tokens[-1].text[:1].isupper() if reader.tokens else False
        last = "world war" if before.endswith("World War ") else reader.last
        if kind := roman.reading(stem, last, capital=capital):
            number = roman.value(stem)
            said = f"the {numbers.ordinal(number)}" if kind == "ordinal" else numbers.cardinal(number)
            return said + mark + tail, "roman"
    if stem in known.BARE_TITLES and _before_name(reader, end) and text[end : end + 1] in " \u00a0":
        return known.TITLES[stem] + mark + tail, "abbreviation"
    if stem[-1:] == "s" and len(stem) > 2 and spelled(stem[:-1]) and not tail:
        return f"{letters(stem[:-1])}'s", "letters"
    if len(stem) == 1 and not tail:
        if stem in "aIo" or (stem == "A" and not _names_a(reader, end)):
            return stem, "word"
        return stem.upper(), "letters"
    if stem.isupper() and len(stem) > 1:
        shouting = _shouting(text, at, end)
        named = stem == "WHO" and reader.last == "the" and not shouting
        if named or (spelled(stem, shouting=shouting) and not (tail == "T" and stem[-1] == "N")):
            return letters(stem) + mark + tail.lower(), "letters"
        said = said_as_word(stem)
        return said + mark + tail.lower(), "acronym" if said == stem else "word"
    if stem == "I" and tail.isupper():
        return f"I'{tail.lower()}", "word"
    return written, "word"


def _names_a(reader: Reader, end: int) -> bool:
    """Whether "A" is a letter: at the end of a clause, or after what has letters."""
    behind = reader.char(end)
    return (not behind.isspace() and behind not in "\"'“(") or end >= len(reader.text) or reader.last in _LISTED


def _shouting(text: str, at: int, end: int) -> bool:
    """Whether the word beside it is in capitals, too, and ordinary, or "GEN." or "ROBERT E." makes it a name."""
    before = _CAPITALS_BEFORE.search(text[max(0, at - 24) : at])
    after = _CAPITALS_AFTER.match(text, end)
    name = _NAME_BEFORE.search(text[max(0, at - 40) : at])
    if name and name[2] == ".":
        if name[1].capitalize() in known.TITLES:
            return True
        name = None
    beside = [found[1] for found in (before, name, after) if found]
    return any(len(one) == 1 or not spelled(one) for one in beside)


def _abbreviation(reader: Reader, at: int) -> int:
    """Abbreviations with their point, initials, and what is written with points or a slash."""
    text = reader.text
    if found := _SLASHED.match(text, at):
        reader.say(known.SLASHED[found.group().lower()], at, found.end(), "abbreviation")
        return found.end()
    if found := _VERSUS.match(text, at):
        reader.say("versus", at, found.end(), "abbreviation")
        return found.end()
    if found := _MIXED_DOTTED.match(text, at):
        words = "et al" if text[at] == "e" else " ".join(found.group().replace(".", "").upper())
        return _pointed(reader, at, found.end(), words, "letters" if text[at] != "e" else "abbreviation")
    if (found := _DOTTED.match(text, at)) and not reader.char(at - 1).isalnum():
        written = found.group().lower()
        if stands := known.DOTTED.get(written):
            reader.say(stands, at, found.end(), "abbreviation")
            return found.end()
        return _pointed(reader, at, found.end(), letters(found.group().replace(".", "").upper()), "letters")
    found = _POINTED.match(text, at)
    if found is None:
        return 0
    name, end = found[1], found.end()
    key = name.lower()
    if name.isupper() and len(name) > 1 and name.capitalize() in known.TITLES:
        name = name.capitalize()
    if len(name) == 1 and name.isupper():
        return _initial(reader, at, end)
    numbered = known.NUMBERED.get(key, "")
    if numbered and re.match(r"[ \u00a0]?[#]?\d", text[end : end + 3]):
        reader.say(numbered, at, end, "abbreviation")
        return end
    if name in known.ROADS and reader.tokens and reader.tokens[-1].text[:1].isupper() and reader.last not in _OWNERS:
        after = reader.next_word(end)
        if (
            name not in known.TITLES
            or after in _COMPASS
            or not (after[:1].isupper() and after.lower() not in _STARTERS)
        ):
            return _pointed(reader, at, end, known.ROADS[name], "abbreviation")
    last = name not in known.ROADS and not text[end : end + 64].strip()
    if name in known.TITLES and (
        name in _POLITE
        or _before_name(reader, end)
        or last
        or (reader.last in _OWNERS and name not in known.ROADS.keys() - {"Dr"})
    ):
        reader.say(known.TITLES[name], at, end, "abbreviation")
        return end
    words = known.GENERAL.get(key, "")
    if not words or (key in known.CAPITAL and not name[0].isupper()):
        return 0
    if key in known.WORDS_TOO and reader.ends_sentence(end, sure=True) and key not in ("co",):
        return 0
    return _pointed(reader, at, end, words, "abbreviation")


_COMPASS = listed("N S E W NE NW SE SW")
_OWNERS = listed("the a an my his her your our their this that") | {""}
_STARTERS = listed("the it he she they we this that then there but and in on at")


def _initial(reader: Reader, at: int, end: int) -> int:
    """ "J." before a name or another initial; "I." and "Plan B." end a sentence."""
    after = re.match(r"[ \u00a0]?([A-Z])([\w.]?)", reader.text[end : end + 4])
    if after is None or reader.char(at - 1).isalnum():
        return 0
    following = reader.next_word(end)
    if after[2] != "." and (following.lower() in _STARTERS or reader.text[at] == "I" or reader.last in _LISTED):
        return 0
    reader.say(reader.text[at], at, end, "letters")
    return end


def _pointed(reader: Reader, at: int, end: int, words: str, rule: str) -> int:
    """Says an abbreviation; its point is a full stop as well where the sentence ends."""
    if rule == "letters" and (tail := _TAIL.match(reader.text, end)):
        reader.say(f"{words}'s", at, tail.end(), rule)
        return tail.end()
    closing = reader.text[end - 1] == "." and reader.ends_sentence(end)
    reader.say(words, at, end - closing, rule)
    return end - closing


def _before_name(reader: Reader, at: int) -> bool:
    return reader.next_word(at)[:1].isupper() and reader.char(at) != "\n"


def _code(reader: Reader, at: int) -> int:
    """Letters and digits together, and signs that belong to letters: "COVID-19", "H2O", "C#", "R&D"."""
    text = reader.text
    if reader.char(at - 1).isalnum():
        return 0
    if found := _SHARP.match(text, at):
        reader.say(found[1], at, at + 1, "letters")
        reader.say("sharp" if found[2] == "#" else "plus plus", at + 1, found.end(), "symbol")
        return found.end()
    if found := _AMPERSAND.match(text, at):
        reader.say(letters(found[1]), at, found.end(1), "letters")
        reader.say("and", found.end(1), found.start(2), "symbol")
        reader.say(letters(found[2]), found.start(2), found.end(2), "letters")
        return found.end()
    found = _CODE.match(text, at)
    if found is None or found.group().isdecimal() or (found.group().isalpha() and not is_formula(found.group())):
        return 0
    return mixed(reader, at, found.end())


def mixed(reader: Reader, at: int, end: int) -> int:
    """Letters and digits together: numbers in words, letters one by one; everything one by one in a long jumble."""
    parts = list(_PARTS.finditer(reader.text, at, end))
    formula = is_formula(reader.text[at:end])
    jumble = len(parts) > 4 and not formula
    for part in parts:
        start, stop, written = part.start(), part.end(), part.group()
        if written.isdecimal():
            words = numbers.digits(written) if jumble or len(written) > 4 else numbers.pairs(written)
            reader.say(words, start, stop, "cardinal")
        elif jumble or formula or len(written) <= (3 if written.islower() else 2) or spelled(written):
            reader.say(letters(written.upper()), start, stop, "letters")
        else:
            reader.say(SPECIAL.get(written, written), start, stop, "word")
    return end


def foreign(reader: Reader, at: int) -> int:
    """A word in another script."""
    found = FOREIGN.match(reader.text, at)
    if found is None:
        return 0
    reader.say(transliterated(found.group()), at, found.end(), "transliteration")
    return found.end()
