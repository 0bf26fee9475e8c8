"""How real inputs are changed into strange ones: JSON by its structure, text by its characters, bytes as they are.

One `random.Random` decides everything, so the same code serves hypothesis, which shrinks, and atheris, which does not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from random import Random
from typing import Any

DEEP = 480
"""Levels of nesting, which Python's parser takes and a careless function that calls itself does not."""
LONG = 70_000

TEXTS = (
    "", " ", "0", "-1", "true", "null", "inf", "nan", "1e999", "\x00", "\n", "\r\n", "\ud800", "\udfff", "\udc80\ud83d",
    "😀", "é", "ß" * 9, "İ", "\u2028", "\u202e", "\ufeff", "a" * 300, "../../etc/passwd", "%00", "%n%s", "{}", "[]",
    "audio/pcm", "tiny.en", "whisper-1", "heart", "en", "de-CH", "x" * LONG, "1" * 5000, "٣", "²", "1_0", "<b>", "-->",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 7, 255, 4096, 8000, 16_000, 24_000, 48_000, 48_001, 2**31, 2**53 + 1, 2**63, 2**64, 10**400,
    -(10**400), 10**4299, 0.0, -0.0, 0.5, 1e-320, 1e308, math.inf, -math.inf, math.nan,
)  # fmt: skip


def deep(random: Random) -> Any:
    """Something within something, hundreds of times."""
    value: Any = random.choice(["\ud800", 0, None])
    for _ in range(random.choice([20, 190, 210, DEEP])):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def odd_value(random: Random) -> Any:
    """A value that nobody means."""
    match random.randrange(9):
        case 0 | 1:
            return random.choice(TEXTS)
        case 2 | 3:
            return random.choice(NUMBERS)
        case 4:
            return random.choice([None, True, False, [], {}, [[]], {"": {}}, [None], {"id": "heart"}, {"type": None}])
        case 5:
            return deep(random)
        case 6:
            return [odd_value(random) for _ in range(random.randrange(4))]
        case 7:
            return {random.choice(TEXTS): odd_value(random) for _ in range(random.randrange(4))}
        case _:
            return [random.choice(["x.words", "", "a", 1])] * random.choice([1, 65, 300, 1100])


def changed_json(random: Random, value: Any, names: Sequence[str] = ()) -> Any:
    """One change somewhere in a value: another value there, a field gone, added, renamed, twice, or a text changed."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        name = random.choice(list(value))
        match random.randrange(12):
            case 0:
                return {key: each for key, each in value.items() if key != name}
            case 1:
                return {**value, random.choice([*names, *TEXTS]): odd_value(random)}
            case 2 if names:
                return {**value, random.choice(names): value[name]}
            case 3:
                return {(random.choice([*names, *TEXTS]) if key == name else key): each for key, each in value.items()}
            case _:
                return {**value, name: changed_json(random, value[name], names)}
    if isinstance(value, list) and value and random.random() < 0.85:
        place = random.randrange(len(value))
        match random.randrange(6):
            case 0:
                return value[:place] + value[place + 1 :]
            case 1:
                return value + [value[place]] * random.choice([1, 65, 300])
            case _:
                return [*value[:place], changed_json(random, value[place], names), *value[place + 1 :]]
    if isinstance(value, str) and random.random() < 0.3:
        return changed_text(random, value)
    return odd_value(random)


def changed_text(random: Random, text: str, words: Sequence[str] = ()) -> str:
    """One change in a text: a piece gone, repeated, moved or put in."""
    first, last = sorted((random.randint(0, len(text)), random.randint(0, len(text))))
    match random.randrange(6):
        case 0:
            return text[:first] + text[last:]
        case 1:
            return text[:last] + (text[first:last] * random.choice([1, 2, 40]))[: 1 << 16] + text[last:]
        case 2:
            return text[:first]
        case 3:
            return text[:first] + random.choice('\0\t\n",:\\\x7f\u0300\u2028\ufffd') + text[first:]
        case _:
            return text[:first] + random.choice([*words, *TEXTS]) + text[last:]


def changed_bytes(random: Random, data: bytes, words: Sequence[bytes] = ()) -> bytes:
    """One change in bytes: a bit, a byte, a number, a piece gone, doubled, moved or put in, or the end cut off."""
    if not data:
        return bytes(random.randrange(256) for _ in range(random.randrange(1, 9)))
    first, last = sorted((random.randrange(len(data)), random.randrange(len(data) + 1)))
    match random.randrange(9):
        case 0:
            return data[:first] + bytes([data[first] ^ 1 << random.randrange(8)]) + data[first + 1 :]
        case 1:
            return data[:first] + bytes([random.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF])]) + data[first + 1 :]
        case 2:
            size = random.choice([2, 4, 8])
            number = random.choice([0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), 2 ** (8 * size - 1) - 1])
            return data[:first] + number.to_bytes(size, random.choice(["big", "little"])) + data[first + size :]
        case 3:
            return data[:first] + data[last:]
        case 4:
            return data[:last] + data[first:last] + data[last:]
        case 5:
            return data[:first]
        case 6:
            return data[last:] + data[:first]
        case 7 if words:
            return data[:first] + random.choice(words) + data[first:]
        case _:
            noise = bytes(random.randrange(256) for _ in range(random.randrange(1, 16)))
            return data[:first] + noise + data[first + len(noise) :]


def changed_frame(random: Random, data: bytes, words: Sequence[str] = ()) -> bytes:
    """A line of JSON with what it announces: one of them is changed, and the lengths are made to fit, or are not."""
    line, _, rest = data.partition(b"\n")
    try:
        header = json.loads(line)
        size = int(header.get("data_length", 0))
        more = json.loads(rest[:size] or b"{}")
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return changed_bytes(random, data)
    payload = rest[size:]
    match random.randrange(4):
        case 0:
            header = changed_json(random, header, words)
        case 1 | 2:
            more = changed_json(random, more, words)
        case _:
            return changed_bytes(random, data)
    try:
        tail = json.dumps(more).encode()
        if isinstance(header, dict) and header.get("data_length") == size:
            header = {**header, "data_length": len(tail)}
        return json.dumps(header).encode() + b"\n" + tail + payload
    except (RecursionError, ValueError):
        return data


def changed(random: Random, data: bytes, kind: str, words: Sequence[str] = (), times: int = 1) -> bytes:
    """An input of a kind ("json", "framed", "text", "bytes"), changed so many times."""
    if kind == "framed":
        for _ in range(times):
            data = changed_frame(random, data, words)
        return data
    if kind == "json":
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            kind = "text"
        else:
            for _ in range(times):
                value = changed_json(random, value, words)
            try:
                return json.dumps(value, ensure_ascii=random.random() < 0.9).encode("utf-8", "surrogatepass")
            except (RecursionError, ValueError):
                return data
    if kind == "text":
        text = data.decode("utf-8", "replace")
        for _ in range(times):
            text = changed_text(random, text, words)
        return text.encode("utf-8", "surrogatepass")
    for _ in range(times):
        data = changed_bytes(random, data, [word.encode("utf-8", "surrogatepass") for word in words])
    return data
