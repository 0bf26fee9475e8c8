"""What schemathesis has to know of this API, loaded by it: recordings that are recordings, a client for each request.

Random bytes are no recording, so that everything behind the decoder would never be reached: fields of the format
`binary` are short ones, sometimes cut or damaged.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import secrets
import struct
import wave
import zlib
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import requests
import schemathesis
from hypothesis import strategies
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.transport.serialization import Binary

RATE = 16_000
LINE = 1500
SPOKEN = 40
"""Characters of a text that are spoken."""


def recording(seconds: float, rate: int = RATE, channels: int = 1) -> bytes:
    """A WAV file of a hum, which costs a model next to nothing."""
    times = np.arange(int(seconds * rate)) / rate
    tone = (3000 * np.sin(2 * np.pi * 220 * times)).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(np.repeat(tone, channels).tobytes())
    return file.getvalue()


def picture() -> bytes:
    """A white PNG of 16 pixels by 16, without a word on it."""
    head = struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + b"\xff" * 16 for _ in range(16))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    )


PICTURE = picture()
WHOLE = [recording(0.3), recording(0.05, 48_000, 2), recording(0.2, 8_000)]
schemathesis.openapi.format("binary", strategies.sampled_from(WHOLE))


CHECKSUMS = [f"{name} {base64.b64encode(hashlib.new(name).digest()).decode()}" for name in ("sha1", "sha256", "md5")]
schemathesis.openapi.format("tus-checksum", strategies.sampled_from(CHECKSUMS))
METADATA = strategies.text(max_size=30).map(lambda text: f"filename {base64.b64encode(text.encode()).decode()}")
schemathesis.openapi.format("tus-metadata", METADATA)


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Lists may be longer than a request's first line."""
    return len(str(case.query)) < LINE


@schemathesis.serializer("application/octet-stream", "application/offset+octet-stream", "audio/*", "video/*")
def as_it_is(context: Any, value: Any) -> bytes:
    """The bytes of a body that is a file."""
    data = getattr(value, "data", value)  # schemathesis wraps what is no text
    return data if isinstance(data, bytes) else str(data).encode()


TEXT = re.compile("ncorrect type|violates `(type|format)`")
MENDED: set[str] = set()
"""Cases that were."""


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """What a schema cannot say of a request that is to be right, and what would take minutes."""
    body, positive = case.body, case.meta is not None and case.meta.generation.mode.is_positive
    query = case.query or {}
    if positive and str(query.get("encoding")).startswith("linear"):
        query |= {"encoding": "linear16", "sample_rate": 16_000}  # four bytes of a WAV file need not be a number
    if positive and query.get("channels"):
        query["channels"] = min(int(query["channels"]), 8)  # so many are heard apart
    if not isinstance(body, dict):
        return
    before = dict(body)
    for name in ("input", "text"):
        text = body.get(name)
        if isinstance(text, str) and len(text) > SPOKEN:
            body[name] = text[:SPOKEN] + " " * (len(text) - SPOKEN)  # as long, but soon spoken
    shortest, longest = body.get("subtitle_shortest"), body.get("subtitle_longest") or 7
    if isinstance(shortest, int | float) and isinstance(longest, int | float):
        body["subtitle_shortest"] = min(shortest, longest)
    if not positive:
        return
    _mend(case, body)
    if before != body:
        MENDED.add(case.id)


def _mend(case: Any, body: dict[str, Any]) -> None:
    if body.get("lexicon"):
        body["lexicon"] = {"Kate": "kay t", "Lahn": "/lɑːn/"}
    if case.path.startswith(("/v1/chat/", "/v1/images/", "/v1/videos")):
        _mend_vision(case.path, body)
    if case.path.startswith("/v1/documents"):
        body |= {"file": Binary(PICTURE), "pages": "1"}
    for name in ("input", "documents", "query"):
        if case.path.endswith(("/embeddings", "/rerank", "/search")) and body.get(name):
            body[name] = _known(body[name])
    if case.path.endswith("/delete"):
        body |= {"filter": None} | ({} if body.get("source") else {"documents": ["emma"]})
    if case.path.endswith("search"):
        body |= {"filter": None} | ({"mode": "vector"} if body.get("vector") is not None else {})


def _mend_vision(path: str, body: dict[str, Any]) -> None:
    """What the small models can be asked, in a few steps; which options are proven depends on the machine."""
    body["options"] = {}
    if path.startswith("/v1/chat/"):
        url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
        shown = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "what is top left"}]
        body |= {"messages": [{"role": "user", "content": shown}], "max_tokens": 4}
        body.pop("max_completion_tokens", None)
        return
    body |= {"prompt": "a red circle top left", "size": "auto", "steps": 2, "interval": [0, 1]}
    if path.startswith("/v1/videos"):
        body.pop("seconds", None)
        body.pop("fps", None)
        body["frames"] = None


def _known(given: Any) -> Any:
    """Texts and token ids that a model knows, in lists and objects as they are."""
    if isinstance(given, str):
        return f"one {given}"
    if isinstance(given, dict):
        return {**given, "text": _known(given["text"])} if "text" in given else given
    if given and all(isinstance(one, int | float) for one in given):
        return [101, *(int(one) % 20_000 + 2_000 for one in given), 102]
    return [_known(one) for one in given]


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """What was taken though it should not have been, but for good reasons."""
    if not isinstance(failure, AcceptedNegativeData):
        return True
    query, form = case.query or {}, case.media_type == "multipart/form-data"
    empty = form and isinstance(case.body, dict) and any(value in ("", None) for value in case.body.values())
    return not (
        case.id in MENDED  # a file that was put in its place is taken for a mistake
        or (form and TEXT.search(failure.message))  # in a form all is text, and a file any bytes
        or empty  # and a field without text is none
        or ("`language`" in failure.message and query.get("detect_language"))  # it is not looked at then
        or "parameter `model_id` in query" in failure.message  # the body's is the one that counts
    )


def _from_somewhere(adapter: requests.adapters.HTTPAdapter, request: requests.PreparedRequest, **more: Any) -> None:
    # Keys that are tried on purpose would bar the address that they come from, and with it the whole run.
    request.headers["X-Forwarded-For"] = str(IPv4Address(secrets.randbits(32)))


requests.adapters.HTTPAdapter.add_headers = _from_somewhere  # type: ignore[method-assign,assignment]
