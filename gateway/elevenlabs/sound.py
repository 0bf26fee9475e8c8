"""A speaker's sound as pieces in the form that was asked for, each with the characters that are heard in it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gateway.elevenlabs.alignment import Aligner, TimedCharacter
from gateway.speak.account import Account
from gateway.speak.sounding import Sounding
from speech.encode import OutputFormat
from speech.speaking.events import SoundMade, SpeechFailed, WordsTimed

if TYPE_CHECKING:
    from speech.speaking.speaker import Speaker


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of the sound from `start` to `end` (seconds), and its characters. The last one may be of no length."""

    data: bytes = field(repr=False)
    characters: list[TimedCharacter]
    start: float
    end: float


class SpokenText:
    """Text in, pieces out, for one reader. A text without any sound becomes `silence` seconds of none."""

    def __init__(self, speaker: Speaker, form: OutputFormat, account: Account, silence: float = 0.0) -> None:
        self._speaker, self._account = speaker, account
        self._sounding = Sounding(form, speaker.rate)
        self._silence = silence
        self._aligner = Aligner()

    async def say(self, text: str) -> None:
        """More text. Raises what the speaker raises."""
        if text:
            self._aligner.text(text)
            self._account.text(text)
            await self._speaker.say(text)

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """All of the sound. Raises the ServingError that ended it."""
        rate, start, characters = self._speaker.rate, 0.0, list[TimedCharacter]()
        async for event in self._account.events(self._speaker):
            if isinstance(event, WordsTimed):
                self._account.word(event.words[0].start_char)
                self._aligner.words(event.words)
            elif isinstance(event, SpeechFailed):
                self._account.end("failed")
                raise event.error
            elif isinstance(event, SoundMade):
                until = event.start
                for samples in self._sounding.pieces(event.samples):
                    begin, until = until / rate, until + len(samples)
                    characters += self._aligner.take(begin, until / rate)
                    # What a codec still keeps to itself goes out with the next piece, and so do its characters.
                    if data := await self._sounding.feed(samples):
                        yield Piece(data, characters, start, until / rate)
                        start, characters = until / rate, []
                    self._account.sound(until / rate)
                    self._speaker.sent(until / rate)
        data, end = b"", self._speaker.progress().made
        if not end and self._silence:
            end = self._silence
            data = await self._sounding.feed(np.zeros(round(end * rate), np.float32))
        if end:
            data += await self._sounding.flush()
        if data:
            yield Piece(data, characters, start, end)
        self._account.end("done")
