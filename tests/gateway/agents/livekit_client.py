"""LiveKit Agents' OpenAI plugins, unmodified, at a service: `livekit_client.py HOST:PORT SOUND TEXT RECORDING...`.

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
from livekit import rtc
from livekit.agents import stt, tts
from livekit.agents.utils import http_context

FRAME = 0.02
"""Seconds of a frame, as a room hands them out."""
PACE = 2.0
"""Faster than speech."""
PAUSE = 1.0
"""Seconds of silence after each recording."""


def frames(paths: list[Path]) -> list[rtc.AudioFrame]:
    """Recordings as a room would give them."""
    sound = b""
    for path in paths:
        with wave.open(str(path)) as file:
            rate = file.getframerate()
            sound += file.readframes(file.getnframes()) + bytes(2 * int(PAUSE * rate))
    size = 2 * int(FRAME * rate)
    pieces = (sound[at : at + size] for at in range(0, len(sound), size))
    return [rtc.AudioFrame(piece, rate, 1, len(piece) // 2) for piece in pieces]


async def recognised(heard_by: stt.STT, sound: list[rtc.AudioFrame]) -> dict[str, Any]:
    """One request for the whole recording."""
    event = await heard_by.recognize(rtc.combine_audio_frames(sound))
    return {"text": event.alternatives[0].text, "language": event.alternatives[0].language}


async def streamed(heard_by: stt.STT, sound: list[rtc.AudioFrame], turns: int) -> dict[str, Any]:
    """A stream that is fed at the pace of a room, until so many turns are final."""
    events: list[stt.SpeechEvent] = []
    over = asyncio.Event()

    async def listen() -> None:
        async for event in stream:
            events.append(event)
            if sum(event.type == stt.SpeechEventType.FINAL_TRANSCRIPT for event in events) == turns:
                over.set()

    async with heard_by.stream() as stream:
        listening = asyncio.create_task(listen())
        for frame in sound:
            stream.push_frame(frame)
            await asyncio.sleep(FRAME / PACE)
        waiting = asyncio.create_task(over.wait())
        await asyncio.wait({listening, waiting}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if listening.done():
            await listening
        listening.cancel()
    await heard_by.aclose()
    finals = [event for event in events if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT]
    return {
        "texts": [event.alternatives[0].text for event in finals],
        "languages": [event.alternatives[0].language for event in finals],
        "kinds": [event.type.value for event in events],
        "interim": [e.alternatives[0].text for e in events if e.type == stt.SpeechEventType.INTERIM_TRANSCRIPT],
        "seconds": sum(event.recognition_usage.audio_duration for event in events if event.recognition_usage),
    }


async def spoken(voice: tts.TTS, text: str, path: Path) -> dict[str, Any]:
    """What a room would hear."""
    played = [event.frame async for event in voice.synthesize(text)]
    whole = rtc.combine_audio_frames(played)
    path.write_bytes(whole.to_wav_bytes())
    await voice.aclose()
    return {"samples": whole.samples_per_channel, "rate": whole.sample_rate, "frames": len(played)}


async def main(address: str, sound: str, text: str, *recordings: str) -> None:
    """All of them at once, as in an agent."""
    made, paths = documented("LiveKit Agents", address), [Path(recording) for recording in recordings]
    heard = frames(paths)
    async with http_context.open():
        results = await asyncio.gather(
            recognised(made["stt"], frames(paths[:1])),
            streamed(made["live_stt"], heard, len(paths)),
            streamed(made["committed_stt"], heard, len(paths)),
            spoken(made["tts"], text, Path(sound)),
        )
    print(json.dumps(dict(zip(("stt", "live_stt", "committed_stt", "tts"), results, strict=True))))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
