"""What stands in a data: URL."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_to_bytes

from workers.errors import InputInvalid, InputTooLarge

SCHEME = "data:"
_PIECE = 1 << 18


def data_url(url: str, most_bytes: int, name: str) -> bytes:
    """The bytes in a data: URL (RFC 2397), base64 or percent-encoded; what it says of their type is not believed.

    Raises InputInvalid, and InputTooLarge before anything is decoded, both naming the field `name`.
    """
    head, comma, body = url[len(SCHEME) :].partition(",")
    if not comma:
        raise InputInvalid(f"{name} is a data URL without a comma; write data:image/png;base64,DATA.", param=name)
    packed = head.rsplit(";", 1)[-1].strip().lower() == "base64"
    if len(body) // 4 * 3 > most_bytes if packed else len(body) > 3 * most_bytes:
        raise too_large(most_bytes, name)
    try:
        if packed:
            # Some clients break lines or leave out the padding; an alphabet of another kind is a mistake.
            text = body.replace("\n", "").replace("\r", "").replace("%2B", "+").replace("%2F", "/").replace("%3D", "=")
            text += "=" * (-len(text) % 4)
            # In pieces, between which others get the interpreter.
            data = b"".join(
                base64.b64decode(text[at : at + _PIECE], validate=True) for at in range(0, len(text), _PIECE)
            )
        else:
            data = unquote_to_bytes(body)
    except (ValueError, binascii.Error) as error:  # also a character that is not ASCII
        raise InputInvalid(f"{name} is not base64: {error}.", param=name) from None
    if not data:
        raise InputInvalid(f"{name} is a data URL with nothing in it.", param=name)
    if len(data) > most_bytes:
        raise too_large(most_bytes, name)
    return data


def too_large(most_bytes: int, name: str) -> InputTooLarge:
    """The refusal of a file over the limit."""
    return InputTooLarge(f"{name} is larger than {most_bytes} bytes; send a smaller one.", param=name)
