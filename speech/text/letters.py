"""Words in capitals: spelled (IBM), said as a word (NASA), or an ordinary word in capitals (STOP)."""

from __future__ import annotations

import re

from speech.text.wordlists import listed

_SPELLED = listed(
    "US UK EU UN USA UAE UAV AI API ATM BBC CEO CFO CTO COO CNN CPU GPU TPU NPU CSS CSV CV DIY DNA RNA DVD DJ DVR EDF "
    "ESPN ETA FAQ FBI CIA NSA GDP GPS GUI HIV HR HTML HTTP HTTPS HQ IBM ID IDE IEC IMF IOS IP IPO IQ ISBN ISO ISP IT "
    "JS KPI LCD LED LLM MBA MIT ML MP MRI MVP NBA NBC NFL NGO NHL NYC OS PC PDF PHP PIN PM PR QA RGB RPM RSS SAT SDK "
    "SEO SMS SOS SQL SSD SSH SSL SSN SUV TCP TLS TV UCLA UDP UFO UI UPS URI URL USB USSR UTC UX VIP VPN VR AR WWW XML "
    "YMCA ASAP AKA FYI BTW DOB ABS AC DC AD BC CE BCE AM ICU IRS IRA IVF LA LSD MLB OCD OCR PHD PTSD RSVP TBA TBD "
    "ACLU AFL CIO NAACP NCAA AAA EST PST CST GMT BST CET EEG ECG EKG ADHD AIM IOU ISS EUR USD GBP ASR TTS VAD AWS AOL "
    "AOK UHF EV ER OK IPA IPV DOI EUV UV IR AV AB AA BA MA MS PA RA QR TA VA"
) - {"PIN", "OK", "AIM", "SAT"}
_WORDS = listed(
    "NASA NATO UNESCO UNICEF OPEC LASER RADAR SONAR SCUBA AIDS FEMA OSHA PIN SIM RAM ROM GIF NAFTA ASEAN SWAT COVID "
    "SARS MERS LAN WAN CAPTCHA ASCII FIFA UEFA NASDAQ BIOS CERN DARPA EBITDA POTUS SCOTUS YOLO FOMO LIDAR ANSI ECMA "
    "NIST SAAS DOS GAN BERT CUDA JSON YAML TOML AJAX REST CRUD SOAP IKEA LEGO HIPAA ERISA MOMA NOAA SPAM SAT AWOL ZIP "
    "VAT"
)
_SHOUTED = listed(
    "NO NOT AND THE YES BUT FOR YOU ARE WAS HIS HER HIM ALL ANY CAN NOW NEW OLD ONE TWO SIX TEN OUT OUR OWN OFF SEE "
    "SAY GET GOT HAD HAS HOW LET MAY MEN PUT RUN SET SHE TOO TOP USE WAY WHY WIN WON ACT ADD AGE AGO AIR ART ASK BAD "
    "BAG BAR BED BIG BIT BOX BOY BUY CAR CAT CUP CUT DAD DAY DID DIE DOG DRY EAR EAT END EYE FAR FEW FIT FLY FUN GUN "
    "GUY HIT HOT ICE JOB JOY KEY KID LAW LAY LEG LET LIE LOT LOW MAN MAP MIX MOM NET NOR ODD OIL PAY PEN PET PLAY RED "
    "ROW SAD SEA SIT SKY SON SUM SUN TAX TEA TIE TRY VAN WAR WET YET OH AH HA HI HEY WOW AM AN AS AT BE BY DO GO HE "
    "IF IN IS ME MY OF ON OR SO TO UP WE IT US WHO LA TIP TOY ZOO NOTE ONLY STOP HELP LOVE THIS THAT WITH FROM HAVE "
    "THEY WILL JUST LIKE EVER INTO INFO ALSO AUTO AREA IDEA UNTO ONTO ECHO EURO OHIO IOWA ASIA EMMA"
)
"""Everyday words, for text that shouts."""
_SOUNDS = re.compile(
    r"[^AEIOUY]{0,2}[AEIOUY]{1,2}[^AEIOUY]{0,2}(?:E|Y|[AEIOU][^AEIOUY]{1,2})?$|[^AEIOUY][AEIOU][^AEIOUY][AIOU]$"
)
_CLASH = re.compile(
    r"[^AEIOUY]{7}|^(?!SCHN|SCHM|SCHW|SPHR)[^AEIOUY]{4}"
    r"|^(?!STR|SCR|SPR|SPL|SPH|SCL|THR|THW|SHR|SCH|CHR|CHL|PHR|PHL)[^AEIOUY]{3}"
    r"|(?<![^AEIOUY])(?!(?:GHT|NGTH|RLD|RST|LFTH|XTH|MPT|[RNLPD]TH|[TNRL]CH|R[SL]H?|R[NMPTKL])S?$)[^AEIOUY]{4,6}$"
)
"""Rows of consonants that no English word has, at its beginning and its end fewer than inside."""
_ELEMENT = "(?:Na|Cl|Ca|Fe|Mg|Al|Si|Cu|Zn|Ag|Br|Li|Ti|Mn|Pb|Ba|[HCNOSPFIK])"
_FORMULA = re.compile(
    rf"(?!NaN)(?=[A-Za-z0-9]{{0,40}}(?:[A-Z][a-z]|\d[A-Z][A-Za-z]{{0,3}}\d))(?:{_ELEMENT}\d{{0,3}}){{2,12}}"
)
SPECIAL = {
    "IEEE": "I triple E",
    "AAA": "triple A",
    "JPEG": "jay peg",
    "MPEG": "em peg",
    "WYSIWYG": "wizzy wig",
    "OK": "okay",
    "NAACP": "N double A C P",
    "NCAA": "N C double A",
    "IOS": "I O S",
}


def spelled(word: str, *, shouting: bool = False) -> bool:
    """Whether a word of capitals is said letter by letter. `shouting`: the words beside it are in capitals as well."""
    if not word.isupper() or not word.isalpha() or word == "I" or len(word) > 20:
        return False
    if len(word) == 1:
        return True
    if not word.isascii():
        return False
    if word in _WORDS or (shouting and word in _SHOUTED):
        return False
    if word in _SPELLED:
        return True
    if word in _SHOUTED:
        return False
    if not re.search("[AEIOUY]", word):
        return True
    if len(word) <= 3:
        return not shouting
    if len(word) == 4:
        return not _SOUNDS.match(word)
    return bool(_CLASH.search(word))


def is_formula(word: str) -> bool:
    """Whether it is a formula of chemistry that is not all capitals, or has several numbers: "NaCl", "C6H12O6"."""
    return _FORMULA.fullmatch(word) is not None


def said_as_word(word: str) -> str:
    """A word of capitals as it is written for a voice, which would spell what it does not know in capitals."""
    if word in _WORDS:
        return word
    return word.lower() if word in _SHOUTED else word.capitalize()


def letters(word: str) -> str:
    """ "I B M" for "IBM"."""
    return " ".join(word)
