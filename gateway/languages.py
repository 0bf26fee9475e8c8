"""Names of the languages that Whisper knows, by their codes: OpenAI's verbose answers use the full English name."""

from __future__ import annotations

_TABLE = """
af afrikaans|am amharic|ar arabic|as assamese|az azerbaijani|ba bashkir|be belarusian|bg bulgarian|bn bengali
bo tibetan|br breton|bs bosnian|ca catalan|cs czech|cy welsh|da danish|de german|el greek|en english|es spanish
et estonian|eu basque|fa persian|fi finnish|fo faroese|fr french|gl galician|gu gujarati|ha hausa|haw hawaiian
he hebrew|hi hindi|hr croatian|ht haitian creole|hu hungarian|hy armenian|id indonesian|is icelandic|it italian
ja japanese|jw javanese|ka georgian|kk kazakh|km khmer|kn kannada|ko korean|la latin|lb luxembourgish|ln lingala
lo lao|lt lithuanian|lv latvian|mg malagasy|mi maori|mk macedonian|ml malayalam|mn mongolian|mr marathi|ms malay
mt maltese|my myanmar|ne nepali|nl dutch|nn nynorsk|no norwegian|oc occitan|pa punjabi|pl polish|ps pashto
pt portuguese|ro romanian|ru russian|sa sanskrit|sd sindhi|si sinhala|sk slovak|sl slovenian|sn shona|so somali
sq albanian|sr serbian|su sundanese|sv swedish|sw swahili|ta tamil|te telugu|tg tajik|th thai|tk turkmen|tl tagalog
tr turkish|tt tatar|uk ukrainian|ur urdu|uz uzbek|vi vietnamese|yi yiddish|yo yoruba|zh chinese|yue cantonese
"""

NAMES: dict[str, str] = {
    entry.split(" ", 1)[0]: entry.split(" ", 1)[1] for entry in _TABLE.strip().replace("\n", "|").split("|")
}
CODES = {name: code for code, name in NAMES.items()}


def language_name(code: str) -> str:
    """The full English name, lower case ("en" gives "english"); an unknown code is given back."""
    return NAMES.get(code, code)


def language_code(given: str) -> str | None:
    """The code for what a client wrote: a code, a code with a region ("en-GB") or a name. None when unknown."""
    text = given.strip().lower().replace("_", "-")
    if text in CODES:
        return CODES[text]
    code = text.split("-", 1)[0]
    return code if code in NAMES else None
