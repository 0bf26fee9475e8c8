"""The service's protocol: where it is spoken, how a session is asked for, and what its events mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

from speechlane.client.errors import ClientError, Unreachable, refusal
from speechlane.client.events import Event, Failed, Final, Partial, Started, Word

PATH = "/v1/realtime"
TRANSCRIPTION = "conversation.item.input_audio_transcription."
LAST = "speechlane_last"
"""The event id of the commit that closes the audio. It may have nothing to commit, which is no error here."""
DEAD_SECONDS = 10.0
"""A peer that does not answer a ping for so long, asked as often, is gone."""


def endpoint(url: str, path: str = PATH, query: str = "") -> str:
    """The endpoint `path` (/v1/...) of a service given by its address, ws:// or http://, with or without a path.

    Raises ValueError for one that is malformed.
    """
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    if not parts.hostname or parts.port == 0:
        raise ValueError("a host and perhaps a port are needed")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    given, name = parts.path.rstrip("/"), path.removeprefix("/v1")
    whole = given if given.endswith(name) else given + name if given.endswith("/v1") else given + path
    return urlunsplit((scheme, parts.netloc, whole, "&".join(filter(None, (parts.query, query))), ""))


async def connected(url: str, key: str | None, path: str = PATH, **query: str | int) -> ClientConnection:
    """A socket to the endpoint `path` of the service at `url`.

    Raises `Refused` when the service says no, `Unreachable` when nobody answers, `ClientError` for a wrong address.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        target = endpoint(url, path, urlencode(query))
    except ValueError as error:
        raise ClientError(f"{url} is no address of a service ({error}); it looks like ws://127.0.0.1:8700") from error
    local = (urlsplit(target).hostname or "").startswith(("127.", "localhost", "::1"))
    try:
        return await open_socket(
            target,
            additional_headers=headers,
            proxy=None if local else True,
            ping_interval=DEAD_SECONDS,
            ping_timeout=DEAD_SECONDS,
            close_timeout=1.0,
        )
    except InvalidStatus as error:
        response = error.response
        raise refusal(response.status_code, response.body or b"", url, response.headers.get("Retry-After")) from error
    except InvalidURI as error:
        raise ClientError(f"{url} is no address of a service ({error}); it looks like ws://127.0.0.1:8700") from error
    except (OSError, EOFError, InvalidHandshake, TimeoutError) as error:
        raise Unreachable(f"no service answers at {url} ({error}); start one with: speechlane serve") from error


def session_update(rate: int, model: str | None, language: str | None) -> dict[str, Any]:
    """The request for a session that hears PCM16 of `rate` Hz."""
    asked = {"model": model, "language": language}
    session = {
        "type": "transcription",
        "include": ["x.words", "x.unstable"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": rate},
                "transcription": {name: value for name, value in asked.items() if value is not None},
                "turn_detection": {"type": "server_vad"},
            }
        },
    }
    return {"type": "session.update", "session": session}


@dataclass(slots=True)
class _Open:
    """An utterance without a final."""

    start: float | None
    """None when no voice was heard in it."""
    end: float
    stable: str = ""


class Heard:
    """Utterances put together from the service's events. Its times begin at `offset` seconds of ours."""

    def __init__(self, offset: float) -> None:
        self.offset = offset
        self.cleared = False
        """All audio before the request to clear has been dealt with."""
        self.settled = offset
        """All that was said until here has its final."""
        self._open: dict[str, _Open] = {}

    @property
    def complete(self) -> bool:
        """That, and no utterance is open."""
        return self.cleared and not self._open

    def take(self, event: dict[str, Any]) -> Event | None:
        """What an event of the service means, if it is one for the reader; raises `ClientError` for a refusal."""
        kind, item = event["type"], event.get("item_id", "")
        if kind == "error":
            if event["error"].get("event_id") != LAST:
                raise ClientError(f"the service refused: {event['error']['message']}")
        elif kind == "input_audio_buffer.cleared":
            self.cleared = True
        elif kind == "input_audio_buffer.speech_started":
            start = self._seconds(event["audio_start_ms"])
            self._open[item] = _Open(start, start)
            return Started(item, start)
        elif kind == "input_audio_buffer.committed":
            self._open.setdefault(item, _Open(None, self.settled))
        elif item in self._open:
            return self._change(kind, event, item, self._open[item])
        return None

    def _change(self, kind: str, event: dict[str, Any], item: str, known: _Open) -> Event | None:
        start = known.end if known.start is None else known.start
        if kind == "input_audio_buffer.speech_stopped":
            known.end = self._seconds(event["audio_end_ms"])
        elif kind == f"{TRANSCRIPTION}delta":
            known.stable += event["delta"]  # the tail that belongs to it follows at once
        elif kind == "x.transcription.unstable":
            return Partial(item, start, known.stable, event["text"])
        elif kind == f"{TRANSCRIPTION}completed":
            words = tuple(
                Word(word["word"], self.offset + word["start"], self.offset + word["end"], word["confidence"])
                for word in event.get("words") or ()
            )
            start, end = (words[0].start, words[-1].end) if words else (start, known.end)
            self._settle(item, max(known.end, end))
            if words or known.start is not None:
                return Final(item, event["transcript"].strip(), start, end, words)
        elif kind == f"{TRANSCRIPTION}failed":
            self._settle(item, known.end)
            return Failed(item, start, known.end, event["error"]["message"])
        return None

    def _settle(self, item: str, end: float) -> None:
        del self._open[item]
        self.settled = max(self.settled, end)

    def _seconds(self, milliseconds: int) -> float:
        return self.offset + milliseconds / 1000
