"""Live transcription by a Speechlane service, for programs in asyncio. Needs nothing but websockets.

    async with connect("ws://127.0.0.1:8700") as session:
        async for event in session.transcribe(wav_file("talk.wav")):
            if isinstance(event, Final):
                print(event.text)

A connection that breaks is taken up again: nothing that was said is lost or heard twice. What could not be kept, after
a break that was too long, is told as a `Gap`.
"""

from speechlane.client.errors import ClientError, Refused, SourceError, Unreachable
from speechlane.client.events import Event, Failed, Final, Gap, Partial, Started, Word
from speechlane.client.session import Session, connect
from speechlane.client.sources import Source, microphone, wav_file

__all__ = [
    "ClientError",
    "Event",
    "Failed",
    "Final",
    "Gap",
    "Partial",
    "Refused",
    "Session",
    "Source",
    "SourceError",
    "Started",
    "Unreachable",
    "Word",
    "connect",
    "microphone",
    "wav_file",
]
