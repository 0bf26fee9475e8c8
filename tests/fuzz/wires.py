"""A client of each protocol for a fuzzer: it says what it is given, keeps what it hears, and goes as it likes."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from tests.fuzz import messages
from tests.fuzz.mutations import changed
from tests.fuzz.sounds import files
from tests.gateway.hearing.conftest import pcm

PATIENCE = 30.0
TALK = pcm("austen-0880.wav")
FAILED, SILENT = 1011, "NET-0001"
"""The close code that says that the service is at fault."""


@dataclass(frozen=True, repr=False)
class Protocol:
    """`asks` are its messages, `sound` one that carries sound, `alive` one that is always answered by one of `answers`.

    `strict`: nothing that is said in it ends the connection.
    """

    name: str
    path: str
    asks: list[bytes]
    alive: bytes
    answers: tuple[str, ...]
    sound: Callable[[bytes], bytes | str] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    strict: bool = False

    def __repr__(self) -> str:
        return self.name


def appended(sound: bytes) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(sound).decode()})


def chunk(sound: bytes) -> bytes:
    return messages.framed(({"type": "audio-chunk"}, {"rate": 16000, "width": 2, "channels": 1}, sound[: 1 << 20]))


CLEAR = b'{"type": "input_audio_buffer.clear"}'
CLEARED = ('"input_audio_buffer.cleared"',)
REALTIME, TALKING = messages.lines(messages.REALTIME), messages.lines(messages.CONVERSATION + messages.REALTIME[5:])
RAW = "encoding=linear16&sample_rate=16000"
TTS = "/v1/text-to-speech/heart"
SPEAK, DEEPGRAM = messages.lines(messages.SPEAK), messages.lines(messages.DEEPGRAM)
VOSK, ELEVEN = messages.lines(messages.VOSK), messages.lines(messages.ELEVEN)
WYOMING = [messages.framed(event) for event in messages.WYOMING]
NOBODY = b'{"context_id": "nobody", "close_context": true}'
CONFIGURE, CONFIGURED = b'{"type": "Configure"}', ('"ConfigureSuccess"',)
LIVE = "/v1/realtime?intent=transcription"
LISTEN = f"/v1/listen?{RAW}&interim_results=true&multichannel=true&channels=2&utterance_end_ms=1000"
PROTOCOLS = (
    Protocol("realtime", LIVE, REALTIME, CLEAR, CLEARED, appended, strict=True),
    Protocol("beta", LIVE, REALTIME, CLEAR, CLEARED, appended, {"OpenAI-Beta": "realtime=v1"}, strict=True),
    Protocol("resumable", f"{LIVE}&resume=1", REALTIME, CLEAR, CLEARED, appended, strict=True),
    Protocol("conversation", "/v1/realtime?intent=conversation", TALKING, CLEAR, CLEARED, appended, strict=True),
    Protocol("speak", "/v1/speak", SPEAK, b'{"type": "flush", "context": "nobody"}', ('"nobody"',), strict=True),
    Protocol("deepgram", LISTEN, DEEPGRAM, CONFIGURE, CONFIGURED, bytes),
    Protocol("deepgram-file", "/v1/listen", DEEPGRAM, CONFIGURE, CONFIGURED, bytes),
    Protocol("vosk", "/vosk", VOSK, b'{"reset": 1}', ('"text"',), bytes),
    Protocol("elevenlabs", f"{TTS}/stream-input?output_format=pcm_24000", ELEVEN, b"{}", ('"error"',)),
    Protocol(
        "elevenlabs-several", f"{TTS}/multi-stream-input?output_format=mp3_22050_32", ELEVEN, NOBODY, ('"nobody"',)
    ),
    Protocol("wyoming", "", WYOMING, WYOMING[1], ('"pong"',), chunk),
)


class Wire:
    """One connection."""

    def __init__(self, protocol: Protocol, address: str, wyoming: int) -> None:
        self.protocol = protocol
        self.closed = False
        """By somebody; by the service when `code` is not None."""
        self.code: int | None = None
        self.reason = ""
        self.heard: list[str] = []
        self._held = ExitStack()
        self._socket: ClientConnection | None = None
        self._stream: socket.socket | None = None
        if protocol.path:
            url = f"ws://{address}{protocol.path}"
            try:
                how: Any = {
                    "proxy": None,
                    "compression": None,
                    "max_size": None,
                    "max_queue": None,
                    "ping_interval": None,
                }
                opening = connect(url, additional_headers=protocol.headers, open_timeout=PATIENCE, **how)
                self._socket = self._held.enter_context(opening)
            except InvalidHandshake as error:
                raise AssertionError(f"{protocol.name} was refused: {error}") from error
        else:
            self._stream = self._held.enter_context(socket.create_connection(("127.0.0.1", wyoming), PATIENCE))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def say(self, data: bytes | str) -> None:
        """Send a message; text that is no UTF-8 goes as bytes."""
        try:
            if self._stream is not None:
                self._stream.sendall(data if isinstance(data, bytes) else data.encode())
            elif self._socket is not None:
                self._socket.send(data)
        except (ConnectionClosed, OSError):
            self.closed = True

    def ask(self, random: Random, times: int) -> None:
        """Something that its protocol knows, so many times changed."""
        data = random.choice(self.protocol.asks)
        kind = "json" if self.protocol.path else "framed"
        if times:
            data = changed(random, data, kind, messages.fields_of(self.protocol.name), times)
        binary = not self.protocol.path or random.random() < 0.05
        self.say(data if binary else data.decode("utf-8", "replace"))

    def speak(self, random: Random, times: int) -> None:
        """Sound of a kind that its protocol takes, or something like it."""
        if self.protocol.sound is None:
            return
        if self.protocol.name == "deepgram-file":
            data = changed(random, random.choice(files()), "bytes", (), times) if times else random.choice(files())
            for first in range(0, len(data), 1500):
                self.say(data[first : first + 1500])
            return
        start = random.randrange(len(TALK) // 2)
        data = TALK[2 * start :][: random.choice([0, 1, 2, 640, 6400, 32_001])]
        self.say(self.protocol.sound(changed(random, data, "bytes", (), times) if times else data))

    def is_alive(self) -> None:
        """It is answered as ever, or the service has ended the connection, where the protocol lets it."""
        before = len(self.heard)
        self.say(self.protocol.alive if self._stream is not None else self.protocol.alive.decode())
        deadline = time.monotonic() + PATIENCE
        while not self.closed and not any(
            answer in text for text in self.heard[before:] for answer in self.protocol.answers
        ):
            assert time.monotonic() < deadline, (self.protocol.name, [text[:200] for text in self.heard[before:]])
            time.sleep(0.005)
        assert not (self.closed and self.protocol.strict), (self.protocol.name, self.code, self.reason)

    def _answered(self, before: int) -> bool:
        return any(answer in text for text in self.heard[before:] for answer in self.protocol.answers)

    def cut(self) -> None:
        """Be gone without a word."""
        self.closed = True
        end = self._stream or (self._socket.socket if self._socket is not None else None)
        assert end is not None
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        """Go as one should."""
        if self._socket is not None:
            self._socket.close()
        elif self._stream is not None:
            self._stream.close()
        self.closed = True

    def end(self) -> None:
        """Free everything, and look at how the service has ended it."""
        if not self.closed:
            self.leave()
        self._reader.join(PATIENCE)
        self._held.close()
        # Deepgram's code for a client from which nothing came is the same.
        assert self.code != FAILED or SILENT in self.reason, (self.protocol.name, self.reason, self.heard[-1:])

    def _read(self) -> None:
        with suppress(OSError, ConnectionClosed):
            while True:
                said: Any
                if self._socket is not None:
                    said = self._socket.recv()
                else:
                    assert self._stream is not None
                    said = self._stream.recv(65_536)
                    if not said:
                        break
                self.heard.append(said if isinstance(said, str) else said[:4096].decode("utf-8", "replace"))
        if self._socket is not None and self._socket.protocol.close_rcvd is not None:
            frame = self._socket.protocol.close_rcvd
            self.code, self.reason = frame.code, frame.reason
        self.closed = True
