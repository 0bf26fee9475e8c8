"""The engine speaks: settings, names, many at once, status, and the way down."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speech.engine import Engine, EngineSettings
from speech.models import ModelNotFound
from speech.speaking.config import SpeakConfig
from speech.speaking.events import SpeechDone
from tests.speech.speaking.stage import Listener
from workers.clock import monotonic
from workers.errors import Draining, InputInvalid

TEXT = "It is nine o'clock, and all is well. Good night to you all."


async def listen(engine: Engine, text: str, config: SpeakConfig) -> Listener:
    speaker = engine.open_speech(config)
    await speaker.say(text)
    await speaker.end()
    listener = await Listener(speaker, monotonic).listen()
    await speaker.close()
    return listener


async def test_an_engine_that_speaks(tmp_path: Path) -> None:
    engine = await Engine.start(EngineSettings(models=(), voices=("heart",), threads=1, profiles=tmp_path))
    try:
        assert [info.name for info in engine.voices()] == ["heart"]
        assert engine.resolve_voice("alloy", "gpt-4o-mini-tts").name == "heart"
        assert engine.voice("heart").info.model == "hibari"
        with pytest.raises(InputInvalid, match="heart") as refused:
            engine.open_speech(SpeakConfig(voice="fenrir"))
        assert refused.value.param == "voice"
        with pytest.raises(InputInvalid):
            engine.resolve(None)
        before = engine.status()
        assert before.ready and before.speech.free >= 1 and before.speech.speaking == 0

        file = SpeakConfig(lead=None, seed=3)
        whole, again = await asyncio.gather(listen(engine, TEXT, file), listen(engine, TEXT, file))
        assert np.array_equal(whole.sound, again.sound)
        assert whole.end == SpeechDone(len(whole.sound) / 24_000)
        assert [word.text for word in whole.words][:4] == ["It", "is", "nine", "o'clock"]
        assert engine.status().speech.wasted == 0.0

        live = engine.open_speech(replace(file, lead=1.0))
        assert engine.status().devices[0].streams == 1
        await live.say(TEXT)
        listener = Listener(live, monotonic)
        listening = asyncio.create_task(listener.listen())
        while not listener.arrivals:
            await asyncio.sleep(0.005)
        progress = await live.cancel()
        await listening
        assert progress.unspoken
        status = engine.status()
        assert (status.speech.speaking, status.devices[0].streams) == (0, 0)
        assert 0 < status.speech.wasted < 2.0

        given_up = engine.open_speech(replace(file, lead=1.0))
        await given_up.say(TEXT)
        closing = asyncio.create_task(given_up.close())
        await asyncio.sleep(0)  # it waits for the speaker's own tasks now
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert (engine.status().speech.speaking, engine.status().devices[0].streams) == (0, 0)

        last = asyncio.create_task(listen(engine, TEXT, replace(file, lead=1.0)))
        await asyncio.sleep(0.05)
        assert engine.status().speech.speaking == 1
        await engine.drain(20.0)
        assert np.array_equal((await last).sound, whole.sound), "who speaks comes to the end"
        with pytest.raises(Draining):
            engine.open_speech(file)
    finally:
        await engine.close()


async def test_a_voice_that_there_is_not_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="fenrir"):
        await Engine.start(EngineSettings(models=(), voices=("fenrir",), profiles=tmp_path))
