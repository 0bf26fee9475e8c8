"""Names of what is counted: money, units, magnitudes."""

from __future__ import annotations

from speech.text.wordlists import listed

Currency = tuple[str, str, str, str]
"""One, many, and of the hundredth part one and many ('' where nobody counts it)."""

_DOLLAR = ("dollar", "dollars", "cent", "cents")
_YEN = ("yen", "yen", "", "")


def _dollar(whose: str) -> Currency:
    return f"{whose} dollar", f"{whose} dollars", "cent", "cents"


CURRENCIES: dict[str, Currency] = {
    "$": _DOLLAR,
    "US$": _dollar("U S"),
    "A$": _dollar("Australian"),
    "AU$": _dollar("Australian"),
    "C$": _dollar("Canadian"),
    "CA$": _dollar("Canadian"),
    "NZ$": _dollar("New Zealand"),
    "HK$": _dollar("Hong Kong"),
    "S$": _dollar("Singapore"),
    "R$": ("real", "reais", "centavo", "centavos"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": _YEN,
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₺": ("lira", "lira", "kurus", "kurus"),
    "₪": ("shekel", "shekels", "agora", "agorot"),
    "₫": ("dong", "dong", "", ""),
    "฿": ("baht", "baht", "satang", "satang"),
    "₿": ("bitcoin", "bitcoin", "", ""),
    "₴": ("hryvnia", "hryvnias", "kopiyka", "kopiykas"),
    "₦": ("naira", "naira", "kobo", "kobo"),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "¢": ("cent", "cents", "", ""),
}
CODES: dict[str, Currency] = {
    "USD": _dollar("U S"),
    "EUR": CURRENCIES["€"],
    "GBP": CURRENCIES["£"],
    "JPY": _YEN,
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
    "CAD": _dollar("Canadian"),
    "AUD": _dollar("Australian"),
    "NZD": _dollar("New Zealand"),
    "CNY": ("yuan", "yuan", "fen", "fen"),
    "RMB": ("yuan", "yuan", "fen", "fen"),
    "INR": CURRENCIES["₹"],
    "KRW": CURRENCIES["₩"],
    "RUB": CURRENCIES["₽"],
    "SEK": ("Swedish krona", "Swedish kronor", "ore", "ore"),
    "NOK": ("Norwegian krone", "Norwegian kroner", "ore", "ore"),
    "DKK": ("Danish krone", "Danish kroner", "ore", "ore"),
    "PLN": ("zloty", "zlotys", "grosz", "groszy"),
    "BTC": ("bitcoin", "bitcoin", "", ""),
    "Rs": CURRENCIES["₹"],
    "Rs.": CURRENCIES["₹"],
}
MAGNITUDES = {
    **{name: name for name in ("hundred", "thousand", "million", "billion", "trillion", "quadrillion")},
    "mn": "million",
    "mln": "million",
    "mil": "million",
    "bn": "billion",
    "bln": "billion",
    "tn": "trillion",
}
LETTER_MAGNITUDES = {
    "k": "thousand",
    "K": "thousand",
    "m": "million",
    "M": "million",
    "b": "billion",
    "B": "billion",
    "t": "trillion",
    "T": "trillion",
}


def _metric(sign: str, name: str, prefixes: str = "") -> dict[str, tuple[str, str]]:
    names = {"": "", "k": "kilo", "c": "centi", "m": "milli", "μ": "micro", "u": "micro", "n": "nano", "d": "deci"}
    names |= {"M": "mega", "G": "giga", "T": "tera", "h": "hecto", "p": "pico", "P": "peta"}
    return {f"{one}{sign}": (f"{names[one]}{name}", f"{names[one]}{name}s") for one in ("", *prefixes)}


def _same(*words: str) -> tuple[str, str]:
    return words[0], words[-1]


_LENGTHS = _metric("m", "meter", "kcmμund")
UNITS: dict[str, tuple[str, str]] = {
    **_LENGTHS,
    **{f"{sign}²": (f"square {one}", f"square {many}") for sign, (one, many) in _LENGTHS.items()},
    **{f"{sign}2": (f"square {one}", f"square {many}") for sign, (one, many) in _LENGTHS.items()},
    **{f"{sign}³": (f"cubic {one}", f"cubic {many}") for sign, (one, many) in _LENGTHS.items()},
    **{f"{sign}3": (f"cubic {one}", f"cubic {many}") for sign, (one, many) in _LENGTHS.items()},
    **_metric("g", "gram", "kmμun"),
    **_metric("l", "liter", "cmdh"),
    **_metric("L", "liter", "cmd"),
    **_metric("Hz", "hertz", "kMGT"),
    **_metric("W", "watt", "kmMGT"),
    **_metric("Wh", "watt hour", "kMGT"),
    **_metric("V", "volt", "kmM"),
    **_metric("A", "amp", "mk"),
    **_metric("Ah", "amp hour", "m"),
    **_metric("J", "joule", "kMG"),
    **_metric("N", "newton", "k"),
    **_metric("Pa", "pascal", "khM"),
    **_metric("Ω", "ohm", "kM"),
    **_metric("s", "second", "mμunp"),
    **_metric("B", "byte", "kMGTP"),
    **_metric("bit", "bit", "kMG"),
    **_metric("cal", "calorie", "k"),
    "Hz": _same("hertz"),
    "kHz": _same("kilohertz"),
    "MHz": _same("megahertz"),
    "GHz": _same("gigahertz"),
    "THz": _same("terahertz"),
    "KB": _same("kilobyte", "kilobytes"),
    "KiB": _same("kibibyte", "kibibytes"),
    "MiB": _same("mebibyte", "mebibytes"),
    "GiB": _same("gibibyte", "gibibytes"),
    "TiB": _same("tebibyte", "tebibytes"),
    "kbps": _same("kilobit per second", "kilobits per second"),
    "Mbps": _same("megabit per second", "megabits per second"),
    "Gbps": _same("gigabit per second", "gigabits per second"),
    "Mb": _same("megabit", "megabits"),
    "Gb": _same("gigabit", "gigabits"),
    "sec": _same("second", "seconds"),
    "secs": _same("second", "seconds"),
    "min": _same("minute", "minutes"),
    "mins": _same("minute", "minutes"),
    "h": _same("hour", "hours"),
    "hr": _same("hour", "hours"),
    "hrs": _same("hour", "hours"),
    "yr": _same("year", "years"),
    "yrs": _same("year", "years"),
    "wk": _same("week", "weeks"),
    "wks": _same("week", "weeks"),
    "mi": _same("mile", "miles"),
    "ft": _same("foot", "feet"),
    "in": _same("inch", "inches"),
    "yd": _same("yard", "yards"),
    "yds": _same("yard", "yards"),
    "lb": _same("pound", "pounds"),
    "lbs": _same("pound", "pounds"),
    "oz": _same("ounce", "ounces"),
    "gal": _same("gallon", "gallons"),
    "fl oz": _same("fluid ounce", "fluid ounces"),
    "pt": _same("point", "points"),
    "pts": _same("point", "points"),
    "px": _same("pixel", "pixels"),
    "t": _same("ton", "tons"),
    "ha": _same("hectare", "hectares"),
    "sq ft": _same("square foot", "square feet"),
    "sq m": _same("square meter", "square meters"),
    "ft²": _same("square foot", "square feet"),
    "cc": _same("cc"),
    "mph": _same("mile per hour", "miles per hour"),
    "kph": _same("kilometer per hour", "kilometers per hour"),
    "km/h": _same("kilometer per hour", "kilometers per hour"),
    "kmh": _same("kilometer per hour", "kilometers per hour"),
    "m/s": _same("meter per second", "meters per second"),
    "s²": _same("second squared", "seconds squared"),
    "m/s²": _same("meter per second squared", "meters per second squared"),
    "m/s2": _same("meter per second squared", "meters per second squared"),
    "m/s^2": _same("meter per second squared", "meters per second squared"),
    "rpm": _same("revolution per minute", "revolutions per minute"),
    "bpm": _same("beat per minute", "beats per minute"),
    "fps": _same("frame per second", "frames per second"),
    "dpi": _same("dot per inch", "dots per inch"),
    "hp": _same("horsepower"),
    "dB": _same("decibel", "decibels"),
    "dBm": _same("decibel milliwatt", "decibel milliwatts"),
    "psi": _same("pound per square inch", "pounds per square inch"),
    "bar": _same("bar", "bars"),
    "K": _same("kelvin"),
    "eV": _same("electron volt", "electron volts"),
    "mol": _same("mole", "moles"),
    "tbsp": _same("tablespoon", "tablespoons"),
    "tsp": _same("teaspoon", "teaspoons"),
}
SPACED = frozenset("mgshVWLl")
"""Units of one letter that are believed after a space as well ("5 m", but not "5 A")."""

COUNTED = listed(
    "people men women children students employees users items pages pieces calories copies votes points times words "
    "dollars euros pounds cents miles meters kilometers feet inches yards days weeks months years hours minutes "
    "seconds percent degrees tons grams watts volts characters tokens rows files lines steps samples requests units "
    "seats participants members bytes bits"
)
"""After these a number that could be a year is a count."""
SPOKEN_DIGITS = listed("call dial pin otp code zip zipcode passcode extension ext id account tracking flight")
"""After these a number is said digit by digit."""
