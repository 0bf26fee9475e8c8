"""Roman numerals, where they are numerals."""

from __future__ import annotations

import re

from speech.text.wordlists import listed

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_NUMERAL = re.compile(r"(?=[MDCLXVI])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})$")
_CENTURY = re.compile(r"(?:(?: (?:and|or|to) |[-–])(?:the )?[IVX]{1,5})?[ \u00a0-]centur(?:y|ies)(?![a-z])")
COUNTED = listed(
    "chapter part book volume act scene section article appendix phase stage type class level round grade title vol "
    "ch table figure canto psalm bowl war plan schedule annex mark mk item unit no day game season episode century"
)
_RULERS = listed(
    "louis henry edward george william charles james richard philip elizabeth mary catherine peter paul john pius leo "
    "benedict gregory clement innocent urban alexander nicholas frederick ferdinand francis napoleon otto rudolf "
    "leopold albert victor umberto juan alfonso carlos felipe christian gustav haakon olaf harald ramses ramesses "
    "ptolemy thutmose amenhotep seti xerxes darius artaxerxes cyrus mehmed murad selim suleiman ivan boris "
    "constantine theodosius valentinian justinian justin basil leonidas robert malcolm kenneth alexios andronikos "
    "manuel wilhelm franz joseph ludwig maximilian friedrich heinrich karl sigismund wenceslaus casimir boniface "
    "sixtus celestine adrian hadrian eugene honorius stephen sylvester abdul mohammed hassan rama bela matthias pedro "
    "afonso"
)
_NOT_NAMES = listed(
    "the a an my his her its our your their this that these those in on at of and or but with from to by for as is "
    "was are were be been has have had do does did not no if when then so who what where why how i we you he she they "
    "it mr mrs ms dr prof"
)


def value(numeral: str) -> int:
    """Its number, 0 when it is none."""
    if not numeral or not _NUMERAL.match(numeral):
        return 0
    numbers = [_VALUES[one] for one in numeral]
    return sum(-one if behind > one else one for one, behind in zip(numbers, [*numbers[1:], 0], strict=True))


def century(numeral: str, text: str, end: int) -> int:
    """Its number, when what comes after it in `text` makes it that of a century; else 0."""
    return value(numeral) if _CENTURY.match(text, end) else 0


def reading(numeral: str, before: str, *, capital: bool) -> str:
    """ "ordinal" after a ruler's name, "cardinal" after what is numbered or another name, "" for a word.

    `before` is the word before it in small letters, `capital` whether that is written with one. "I" is the pronoun,
    whatever stands before it, but in "World War I".
    """
    number = value(numeral)
    before = before.rstrip(".")
    if not number or (numeral == "I" and before != "world war"):
        return ""
    if before in COUNTED or before == "world war":
        return "cardinal"
    if len(numeral) == 1 and numeral not in "VX":
        return ""
    if (before, numeral) == ("malcolm", "X"):
        return ""
    if before in _RULERS and capital:
        return "ordinal"
    likely = len(numeral) > 1 and set(numeral) <= set("IVX") and number < 40
    return "cardinal" if likely and capital and before.isalpha() and before not in _NOT_NAMES else ""
