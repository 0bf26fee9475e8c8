"""What another gateway needs to go on with a session's stream: a point of it, all audio and orders from there on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from gateway.shared.image import Image
from speech.asr import SAMPLE_RATE, Samples

if TYPE_CHECKING:
    from speech.continuing import Asked, Point

KEPT_SECONDS = 150.0
"""Of audio. What is being said, what waits for its words and what has not been heard yet are less, unless a client says
when utterances end and does not say it for minutes."""
MOST_POINTS = 64
MOST_ASKED = 1024
FIELD = "audio:"


class Track:
    """Audio is kept in the `image`, as 16-bit samples by its position on the stream's clock (samples)."""

    def __init__(self, image: Image, point: Point, asked: Iterable[Asked] = (), received: int | None = None) -> None:
        """`received`: samples of the stream that are in the image already, for one that goes on."""
        self.point: Point | None = point
        """Where one can go on; None: nowhere, because too much came since."""
        self.asked = deque(asked)
        """Since the point."""
        self.received = point.position if received is None else received
        self._image = image
        self._again = len(self.asked)
        self._orders = point.orders + len(self.asked)
        self._first = point.first
        self._pending: list[Samples] = []
        self._unsaved = 0
        self._chunks = deque(sorted(_place(name, image) for name in image.names() if name.startswith(FIELD)))
        self._points: deque[Point] = deque()

    def heard(self, samples: Samples) -> None:
        """More audio has been given to the stream."""
        self._pending.append(samples)
        self._unsaved += len(samples)
        self.received += len(samples)
        if self.received - self._first > KEPT_SECONDS * SAMPLE_RATE:
            self.forget()

    def ordered(self, asked: list[Asked]) -> None:
        """These were carried out, in this order. Of a stream that goes on, those come first that were known before."""
        new = asked[self._again :]
        self._again = max(0, self._again - len(asked))
        self.asked.extend(new)
        self._orders += len(new)
        asked.clear()
        if len(self.asked) > MOST_ASKED:
            self.forget()

    def forget(self) -> None:
        """Nobody can go on before the next point that needs nothing from before now."""
        while self._chunks:
            self._image.drop(f"{FIELD}{self._chunks.popleft()[0]}")
        self._pending.clear()
        self._points.clear()
        self.asked.clear()
        self.point, self._first, self._unsaved = None, self.received, 0

    def offer(self, point: Point | None) -> None:
        """The stream is at this point now."""
        if point is None or point.first < self._first or point.position > self.received or point.orders > self._orders:
            return
        if self._points and self._points[-1].utterance == point.utterance:
            self._points[-1] = point
        elif len(self._points) < MOST_POINTS:
            self._points.append(point)

    def advance(self, signals: int, open_since: int | None) -> None:
        """So many signals of the stream were told, and the first utterance that waits for its words has this number:
        go on from the newest point that leaves none of it out."""
        ripe = None
        while self._points and self._points[0].signals <= signals:
            if open_since is not None and self._points[0].utterance > open_since:
                break
            ripe = self._points.popleft()
        if ripe is None:
            return
        for _ in range(len(self.asked) - (self._orders - ripe.orders)):
            self.asked.popleft()
        self.point, self._first = ripe, ripe.first
        while self._chunks and sum(self._chunks[0]) <= ripe.first:
            self._image.drop(f"{FIELD}{self._chunks.popleft()[0]}")

    def save(self) -> None:
        """Put the newest audio into the image."""
        if self._unsaved:
            samples = np.concatenate(self._pending)
            at = self.received - len(samples)
            self._image.put(f"{FIELD}{at}", packed(samples))
            self._chunks.append((at, len(samples)))
            self._pending.clear()
            self._unsaved = 0

    def audio(self, first: int, last: int) -> Samples:
        """The samples from one position to another, as far as they are in the image."""
        parts = [
            unpacked(self._image.get(f"{FIELD}{at}") or b"")[max(0, first - at) : max(0, last - at)]
            for at, length in self._chunks
            if at < last and at + length > first
        ]
        found = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        if len(found) != last - first:
            raise ValueError(f"of samples {first} to {last} only {len(found)} are kept")
        return found

    def fields(self) -> dict[str, Any]:
        """Without the audio, fit for JSON."""
        assert self.point is not None
        return {
            # Not asdict(), which copies all that is in it.
            "point": {field.name: getattr(self.point, field.name) for field in fields(self.point)},
            "asked": [asdict(one) for one in self.asked],
            "received": self.received,
        }


def packed(samples: Samples) -> bytes:
    """16-bit samples, little-endian: those of PCM16 at 16 kHz exactly, others rounded."""
    data: bytes = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()
    return data


def unpacked(data: bytes) -> Samples:
    """The samples again."""
    return np.frombuffer(data, "<i2").astype(np.float32) * np.float32(1 / 32768)


def _place(name: str, image: Image) -> tuple[int, int]:
    data = image.get(name)
    assert data is not None
    return int(name[len(FIELD) :]), len(data) // 2
