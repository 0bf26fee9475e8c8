"""What stands in a data: URL."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_to_bytes

from workers.errors import InputInvalid, InputTooLarge

SCHEME = "data:"
_PIECE = 1 << 18
_HEAD = 1000
"""Characters before the comma, at most."""


def data_url(url: str, most_bytes: int, name: str) -> bytes:
    """The bytes in a data: URL (RFC 2397), base64 or percent-encoded; what it says of their type is not believed.

    Raises InputInvalid, and InputTooLarge before anything is decoded, both naming the field `name`.
    """
    comma = url.find(",", len(SCHEME), len(SCHEME) + _HEAD)
    if comma < 0:
        raise InputInvalid(f"{name} is a data URL without a comma; write data:image/png;base64,DATA.", param=name)
    packed = url[len(SCHEME) : comma].rsplit(";", 1)[-1].strip().lower() == "base64"
    length = len(url) - comma - 1
    if length // 4 * 3 > most_bytes if packed else length > 3 * most_bytes:
        raise too_large(most_bytes, name)
    try:
        data = _unpacked(url, comma + 1) if packed else unquote_to_bytes(url[comma + 1 :])
    except (ValueError, binascii.Error) as error:  # also a character that is not ASCII
        raise InputInvalid(f"{name} is not base64: {error}.", param=name) from None
    if not data:
        raise InputInvalid(f"{name} is a data URL with nothing in it.", param=name)
    if len(data) > most_bytes:
        raise too_large(most_bytes, name)
    return data


def _unpacked(text: str, start: int) -> bytes:
    """In pieces, between which others get the interpreter, and without copying the whole."""
    if any(sign in text for sign in "\n\r%"):
        # Some clients break lines or escape.
        text = text[start:].replace("\n", "").replace("\r", "")
        text, start = text.replace("%2B", "+").replace("%2F", "/").replace("%3D", "="), 0
    pieces = []
    for at in range(start, len(text), _PIECE):
        piece = text[at : at + _PIECE]
        if len(piece) < _PIECE:
            piece += "=" * (-len(piece) % 4)  # and some leave out the padding
        pieces.append(base64.b64decode(piece, validate=True))
    return b"".join(pieces)


def too_large(most_bytes: int, name: str) -> InputTooLarge:
    """The refusal of a file over the limit."""
    return InputTooLarge(f"{name} is larger than {most_bytes} bytes; send a smaller one.", param=name)
