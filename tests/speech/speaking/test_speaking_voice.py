"""Speakers with the real voice on a real device."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from speech.speaking.config import SpeakConfig
from speech.speaking.events import SpeechDone
from speech.speaking.house import House
from speech.speaking.rehearsal import rehearse
from speech.speaking.speaker import Speaker
from speech.tts import Sound
from speech.voices.hibari.voice import HibariVoice
from tests.speech.speaking.stage import Listener
from workers.capacity import Capacity
from workers.clock import monotonic
from workers.device import Device
from workers.pool import Pool

TEXT = "Dr. Smith paid $5 for 23 apples, didn't she? It's true."
FILE = SpeakConfig(lead=None, seed=5)


class Real:
    """The voice on a device with a thread of its own."""

    def __init__(self) -> None:
        self.voice = HibariVoice()
        self.device = Device("cpu")
        self.device.add(self.voice.backend())
        self.device.start()
        self.pool = Pool(self.voice.info.model, [self.device])

    def speaker(self, config: SpeakConfig) -> Speaker:
        return Speaker(config, voice=self.voice, pool=self.pool)

    async def listen(self, text: str, config: SpeakConfig = FILE) -> Listener:
        speaker = self.speaker(config)
        await speaker.say(text)
        await speaker.end()
        return await Listener(speaker, monotonic).listen()


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    made = Real()
    yield made
    made.device.close()


async def test_words_of_the_original_text_with_their_times(real: Real) -> None:
    listener = await real.listen(TEXT)
    assert [word.text for word in listener.words] == ["Dr.", "Smith", "paid", "$5", "for", "23", "apples", "didn't",
                                                      "she", "It's", "true"]  # fmt: skip
    for word in listener.words:
        assert word.text == TEXT[word.start_char : word.end_char]
        assert 0.05 < word.end - word.start < 1.5
    times = [time for word in listener.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert listener.words[0].start < 0.15, "the silence before the first word is trimmed"
    seconds = len(listener.sound) / real.voice.info.rate
    assert times[-1] < seconds < 8.0
    assert listener.end == SpeechDone(pytest.approx(seconds))
    loud = np.abs(listener.sound)
    assert 0.05 < loud.max() <= 1.0
    assert len(listener.arrivals) >= seconds / 0.6, "it came in windows"


async def test_alone_or_among_sixty_four_the_samples_are_the_same(real: Real) -> None:
    alone = await real.listen("Yes, I do.")

    async def one(number: int) -> Sound:
        await asyncio.sleep(0.002 * number)
        if number == 30:
            return (await real.listen("Yes, I do.")).sound
        config = replace(FILE, seed=number, speed=1.0 + number / 100, lead=None if number % 2 else 30.0)
        return (await real.listen("No." if number % 3 else "Oh, yes.", config)).sound

    sounds = await asyncio.gather(*(one(number) for number in range(64)))
    assert np.array_equal(sounds[30], alone.sound)
    assert all(len(sound) for sound in sounds)


async def test_a_cancel_in_mid_sentence_and_another_stream_goes_on(real: Real) -> None:
    speaker = real.speaker(SpeakConfig())
    await speaker.say(TEXT)
    listener = Listener(speaker, monotonic)
    listening = asyncio.create_task(listener.listen())
    while not listener.arrivals:
        await asyncio.sleep(0.005)
    await asyncio.sleep(1.0)
    progress = await speaker.cancel()
    before = real.device.stats().steps
    await listening
    other = await real.listen("Go on.")
    assert other.end == SpeechDone(pytest.approx(len(other.sound) / real.voice.info.rate))
    assert before
    assert progress.spoken + progress.unspoken == TEXT
    assert progress.spoken and progress.unspoken


async def test_its_cost_is_measured_and_lets_many_in(real: Real) -> None:
    cost = rehearse(real.voice, real.pool, real.device)
    house = House([real.device], Capacity([real.device]))
    house.add(real.voice, cost)
    assert 0 < cost.row * cost.rows < 1.0, "faster than real time"
    assert house.status().free >= 1
    speaker = house.open(SpeakConfig(voice="nova"))
    await speaker.close()
