"""What another gateway makes of a session: the same samples, the same utterances, whatever was asked in between."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import numpy as np
import pytest

from gateway.realtime.event_log import HIDDEN, EventLog
from gateway.realtime.told import Told, beyond
from gateway.realtime.track import Track, packed, unpacked
from gateway.shared.image import Image
from speech.asr import SAMPLE_RATE, Samples
from speech.audio import AudioDecoder, AudioFormat
from speech.config import StreamConfig, VadConfig
from speech.continued_audio import ContinuedDecoder
from speech.continuing import Asked, Continuable, Point, config_fields, config_of
from speech.engine import Engine
from speech.events import Committed, Event, Failed, Final, Partial
from tests.gateway.realtime.client import recording
from tests.gateway.shared import words_service
from tests.load import fixed_service
from workers.errors import BackendFailed, InputInvalid

SPEECH = unpacked(recording("austen-0880.wav"))
CONFIG = StreamConfig("fixed", vad=VadConfig(silence=0.3))
MANUAL = StreamConfig("fixed", automatic=False)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("encoding", ["pcm16", "mulaw"])
def test_decoding_goes_on_to_the_sample(rate: int, encoding: Any) -> None:
    chance = random.Random(rate)
    format = AudioFormat(encoding, rate)
    size, seconds = format.frame_bytes, 4
    time = np.arange(seconds * rate) / rate
    wave = 0.4 * np.sin(2 * np.pi * 440 * time) + 0.2 * np.sin(2 * np.pi * 1333 * time)
    data = packed(wave.astype(np.float32)) if encoding == "pcm16" else bytes(chance.randbytes(seconds * rate))
    whole = AudioDecoder(format)
    expected = np.concatenate([whole.feed(data), whole.flush()])
    decoder, parts, at = ContinuedDecoder(format), [], 0
    while at < len(data):
        step = size * chance.randrange(1, rate // 4)
        parts.append(decoder.feed(data[at : at + step]))
        at += step
        if chance.random() < 0.3:
            tail, given = decoder.where
            assert len(tail) <= 1.2 * rate * size
            decoder = ContinuedDecoder(format, tail, given)
    got = np.concatenate([*parts, decoder.flush()])
    assert len(got) == len(expected)
    assert np.abs(got - expected).max() < (2e-3 if encoding == "pcm16" else 0.05)


def test_what_was_told_is_not_told_again() -> None:
    told = Told({3: "The cat sat"})
    assert told.hear(Partial(3, "The cat", " sa", 1.0)) is None
    assert told.hear(Partial(3, " sat", " on", 2.0)) == Partial(3, "", " on", 2.0)
    assert told.hear(Partial(3, " on the", " mat", 3.0)) == Partial(3, " on the", " mat", 3.0)
    assert told.texts == {3: "The cat sat on the"}
    assert told.hear(Partial(4, "New", "", 4.0)) == Partial(4, "New", "", 4.0)
    told.hear(Failed(3, BackendFailed("x")))
    assert told.texts == {4: "New"}
    assert beyond("The cat", "A cat sat down") == " sat down"  # another word: as many count as told


def test_events_are_kept_without_the_token_and_told_once_they_are_kept() -> None:
    image, waits = Image(), []
    log = EventLog(image=image)
    log.hide("secret-token")
    log.gated, log.on_wait = True, lambda: waits.append(1)
    log.send({"type": "session.created", "token": "secret-token"})
    assert waits == [1] and log.told == 0
    assert b"secret-token" not in (image.get("event:1") or b"") and HIDDEN in (image.get("event:1") or b"")
    log.tell(1)
    again = EventLog.of(image, log.newest, log.gone)
    again.hide("secret-token")
    assert json.loads(again._kept[1][1])["token"] == "secret-token"
    assert again.holds(0) and not again.holds(2)


@pytest.fixture(scope="module")
def engine() -> Any:
    kept = fixed_service._partial, fixed_service._final
    fixed_service._partial, fixed_service._final = words_service.partial, words_service.final  # type: ignore[assignment]
    made = fixed_service.engine(0.005, "silero")
    yield made
    fixed_service._partial, fixed_service._final = kept
    asyncio.run(made.close())


class Stream:
    """A stream with its track, as a session has them; it can be gone on with as if the process had died."""

    def __init__(self, engine: Engine, config: StreamConfig) -> None:
        self.engine, self.config = engine, config
        self.image = Image()
        self.told: list[Any] = []
        self.signal = self.handled = self.ended = 0
        self.open: set[int] = set()
        self._start(engine.open_stream(config, Continuable), None)

    def _start(self, stream: Any, track: Track | None) -> None:
        self.stream: Continuable = stream
        point = stream.point()
        assert point is not None
        self.track = track if track is not None else Track(self.image, point)
        self.signal = stream.signals
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.stream.events():
            self._hear(event)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Partial):
            return
        if isinstance(event, Final | Failed):
            if event.utterance < self.ended:
                return
            self.ended = event.utterance + 1
            self.open.discard(event.utterance)
            assert isinstance(event, Final)
            self.told.append(("final", event.utterance, event.text, event.start, event.end))
            return
        self.signal += 1
        if self.signal <= self.handled:
            return
        self.handled = self.signal
        if isinstance(event, Committed):
            self.open.add(event.utterance)
        self.told.append(
            (
                type(event).__name__,
                *(getattr(event, name) for name in ("utterance", "at", "start", "end") if hasattr(event, name)),
            )
        )

    def keep(self) -> None:
        self.track.ordered(self.stream.asked)
        self.track.offer(self.stream.point())
        self.track.advance(self.handled, min(self.open, default=None))
        self.track.save()

    async def append(self, samples: Samples) -> None:
        await self.stream.append(samples)
        self.track.heard(samples)

    async def go_on(self) -> None:
        self.keep()
        state = json.loads(json.dumps(self.track.fields()))
        self.reading.cancel()
        await self.stream.close()
        asked = [Asked(o["what"], o["position"], o["config"] and config_of(o["config"])) for o in state["asked"]]
        track = Track(self.image, Point(**state["point"]), asked, state["received"])
        point = track.point
        assert point is not None
        from functools import partial

        make = partial(Continuable, begun=point, audio=track.audio)
        self._start(self.engine.open_stream(self.config, make), track)
        await self.stream.replay(track.audio(point.position, track.received), list(track.asked))

    async def end(self) -> list[Any]:
        await self.stream.finish()
        await self.reading
        await self.stream.close()
        return sorted(self.told, key=lambda one: (one[0] == "final", one[1:2]))


async def acted(engine: Engine, config: StreamConfig, seed: int, breaks: float) -> list[Any]:
    """A random client: audio in pieces, commits, clears, other settings. It does the same whatever breaks."""
    chance, fate = random.Random(seed), random.Random(seed + 1)
    stream = Stream(engine, config)
    sound = np.concatenate([SPEECH, np.zeros(SAMPLE_RATE, np.float32)] * 2)
    at = 0
    while at < len(sound):
        step = chance.randrange(1, SAMPLE_RATE // 2)
        await stream.append(sound[at : at + step])
        at += step
        what = chance.random()
        try:
            if what < 0.1:
                await stream.stream.commit()
            elif what < 0.14:
                await stream.stream.clear()
            elif what < 0.2:
                await stream.stream.reconfigure(CONFIG if chance.random() < 0.5 else MANUAL)
        except InputInvalid:
            pass  # nothing to commit
        if fate.random() < 0.5:
            await asyncio.sleep(fate.choice((0.0, 0.001, 0.02)))
            stream.keep()
        if fate.random() < breaks:
            await stream.go_on()
    return await stream.end()


@pytest.mark.parametrize("config", [CONFIG, MANUAL], ids=["automatic", "manual"])
@pytest.mark.parametrize("seed", range(8))
async def test_a_stream_goes_on_as_if_nothing_had_happened(engine: Engine, config: StreamConfig, seed: int) -> None:
    whole = await acted(engine, config, seed, breaks=0.0)
    assert len([one for one in whole if one[0] == "final"]) >= 2
    assert await acted(engine, config, seed, breaks=0.15) == whole


def test_a_configuration_survives_json() -> None:
    config = StreamConfig("m", vad=VadConfig(prefix=1.5), partials=False, idle_timeout=3.0)
    assert config_of(json.loads(json.dumps(config_fields(config)))) == config
