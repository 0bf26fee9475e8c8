"""Pipecat's OpenAI services, unmodified, at a service: `pipecat_client.py HOST:PORT SOUND TEXT RECORDING...`.

Prints what they heard, one recording after the other, as JSON, and writes what they play of the text to SOUND (WAV).
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from pathlib import Path
from typing import Any

from documented import documented
from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSSpeakFrame,
    TTSStoppedFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

FRAME = 0.02
"""Seconds of a frame, as a transport hands them out."""
PACE = 1.0
"""Pipecat's voice activity keeps time by the clock."""
PAUSE = 1.0
"""Seconds of silence after each recording."""
RATE_OUT = 24_000


class Kept(FrameProcessor):
    """The end of a pipeline: keeps what comes out; `over` is set by the last of so many frames of a kind."""

    def __init__(self, kind: type[Frame], count: int) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self.over = asyncio.Event()
        self._kind, self._count = kind, count

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        self.frames.append(frame)
        if len(self.of(self._kind)) == self._count:
            self.over.set()
        await self.push_frame(frame, direction)

    def of(self, kind: type[Frame]) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]


async def through(
    processors: list[FrameProcessor], given: list[Frame], kept: Kept, *, rate: int = 16_000, pause: float = 0.0
) -> list[str]:
    """Run frames through a pipeline; what went wrong in it."""
    errors: list[str] = []
    worker = PipelineWorker(
        Pipeline([*processors, kept]),
        params=PipelineParams(audio_in_sample_rate=rate, audio_out_sample_rate=RATE_OUT),
        cancel_on_idle_timeout=False,
        enable_rtvi=False,
    )
    started = asyncio.Event()

    @worker.event_handler("on_pipeline_started")
    async def on_started(*_: Any) -> None:
        started.set()

    @worker.event_handler("on_pipeline_error")
    async def on_error(_: Any, frame: ErrorFrame) -> None:
        errors.append(frame.error)
        kept.over.set()

    async def feed() -> None:
        await asyncio.wait_for(started.wait(), 20)
        for frame in given:
            await worker.queue_frame(frame)
            await asyncio.sleep(pause)
        await asyncio.wait_for(kept.over.wait(), 20)
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), feed())
    return errors


async def heard(service: FrameProcessor, recordings: list[Path], *, own_vad: bool) -> dict[str, Any]:
    """What a service says of recordings that come at the pace of speech."""
    sound = b""
    for path in recordings:
        with wave.open(str(path)) as file:
            rate = file.getframerate()
            sound += file.readframes(file.getnframes()) + bytes(2 * int(PAUSE * rate))
    size = 2 * int(FRAME * rate)
    given: list[Frame] = [InputAudioRawFrame(sound[at : at + size], rate, 1) for at in range(0, len(sound), size)]
    before: list[FrameProcessor] = [VADProcessor(vad_analyzer=SileroVADAnalyzer())] if own_vad else []
    kept = Kept(TranscriptionFrame, len(recordings))
    errors = await through([*before, service], given, kept, rate=rate, pause=FRAME / PACE)
    return {
        "texts": [frame.text for frame in kept.of(TranscriptionFrame)],
        "interim": [frame.text for frame in kept.of(InterimTranscriptionFrame)],
        "kinds": sorted({type(frame).__name__ for frame in kept.frames}),
        "errors": errors,
    }


async def spoken(service: FrameProcessor, text: str, path: Path) -> dict[str, Any]:
    """What a transport would play."""
    kept = Kept(TTSStoppedFrame, 1)
    errors = await through([service], [TTSSpeakFrame(text)], kept)
    played = kept.of(TTSAudioRawFrame)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_OUT)
        file.writeframes(b"".join(frame.audio for frame in played))
    samples = sum(len(frame.audio) // 2 for frame in played)
    return {"samples": samples, "rate": RATE_OUT, "frames": len(played), "errors": errors}


async def main(address: str, sound: str, text: str, *recordings: str) -> None:
    """All of them at once."""
    made, paths = documented("Pipecat", address), [Path(recording) for recording in recordings]
    results = await asyncio.gather(
        heard(made["stt"], paths[:1], own_vad=True),
        heard(made["live_stt"], paths, own_vad=True),
        heard(made["turns_stt"], paths, own_vad=False),
        spoken(made["tts"], text, Path(sound)),
    )
    print(json.dumps(dict(zip(("stt", "live_stt", "turns_stt", "tts"), results, strict=True))))


if __name__ == "__main__":
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    asyncio.run(main(*sys.argv[1:]))
