"""A client of conversations over /v1/realtime: says a recording at the speed of speech and hears the answer.

Moments are seconds on this process's monotonic clock.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from load.client import append, dial
from load.playing import Utterance
from load.script import Script

RATE = 16_000
FRAME = 0.02
OUT_RATE = 24_000
PARTS = ("vad", "final", "language_model", "speech", "total")
PATIENCE = 20.0
"""Seconds in which an answer must come."""
MOMENT = 0.1
_HEARD = "conversation.item.input_audio_transcription."


def settings(silence: int) -> str:
    """The session: our own turn detection (`silence` in ms), and the parts of each answer's time."""
    spoken = {
        "format": {"type": "audio/pcm", "rate": RATE},
        "transcription": {"language": "en"},
        "turn_detection": {"type": "server_vad", "silence_duration_ms": silence},
    }
    heard = {"format": {"type": "audio/pcm", "rate": OUT_RATE}}
    session = {"type": "realtime", "include": ["x.timing"], "audio": {"input": spoken, "output": heard}}
    return json.dumps({"type": "session.update", "session": session})


@dataclass(slots=True)
class Answer:
    """What came of one recording. `voice_end`: when its last voice was due to be sent; `committed`: when the service
    told that the turn had ended. `sound`: of the answer, `reply` its text; `heard`: what the service understood.
    `interrupted`: answers that the rest of the recording ended.
    """

    voice_end: float
    sound: Utterance
    committed: float | None = None
    parts: dict[str, float] | None = None
    heard: str = ""
    reply: str = ""
    interrupted: int = 0
    problems: list[str] = field(default_factory=list)


class Talk:
    """One session, in which one recording is said after another."""

    def __init__(self, socket: ClientConnection, patience: float) -> None:
        self._socket, self._patience = socket, patience
        self._open: set[str] = set()
        """Items that were committed and have no transcript."""
        self._over: set[str] = set()
        """Those that have one."""
        self._answers: dict[str, str] = {}
        """How each answer ended; "" while it is being made."""
        self._before, self._commits = 0, 0
        """Answers before this recording, and turns in it."""
        self._now: Answer

    @classmethod
    async def open(cls, url: str, key: str | None, silence: int = 500, patience: float = PATIENCE) -> Talk:
        """A new session, in which an answer must come within `patience` seconds. Raises `Refused`, OSError."""
        socket = await dial(url, key, intent="conversation", max_queue=None)
        await socket.send(settings(silence))
        return cls(socket, patience)

    async def close(self) -> None:
        await self._socket.close()

    async def say(self, script: Script, *, whole: bool = True) -> Answer:
        """Say a recording, then silence until its answer has been played, or, without `whole`, has begun.

        What goes wrong is in `problems` of the answer; behind "closed" nothing more can be said.
        """
        begun = time.monotonic()
        frames = math.ceil(round(script.lines[-1].voice_end / FRAME, 6))
        self._before, self._commits = len(self._answers), 0
        self._now = out = Answer(begun + (frames - 1) * FRAME, Utterance(0.0, OUT_RATE))
        saying = asyncio.create_task(self._say(script, begun))
        try:
            async with asyncio.timeout(script.seconds + self._patience):
                while not (self._answered() if whole else self._began()) and not out.problems:
                    self._take(json.loads(await self._socket.recv()))
            if whole:
                await self._listen_on(out.sound.bare.dry_at)
        except TimeoutError:
            out.problems.append(f"no answer within {self._patience:g} s")
        except ConnectionClosed as closed:
            out.problems.append(f"closed: {closed}")
        finally:
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)
        if whole:
            out.problems += [f"no transcript of {item}" for item in sorted(self._open)]
            self._open.clear()
        return out

    async def _say(self, script: Script, begun: float) -> None:
        """The recording, then silence for as long as it takes."""
        size = round(FRAME * RATE)
        data = script.samples.astype("<i2").tobytes()
        number, silent = 0, append(bytes(2 * size))
        while True:
            pcm = data[2 * size * number : 2 * size * (number + 1)]
            message = append(pcm) if pcm else silent
            if (wait := begun + number * FRAME - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            number += 1
            await self._socket.send(message)

    async def _listen_on(self, until: float) -> None:
        """While the answer is being played, and a moment at least: nothing of it may come twice."""
        until = max(until, time.monotonic() + MOMENT)
        while (rest := until - time.monotonic()) > 0:
            try:
                self._take(json.loads(await asyncio.wait_for(self._socket.recv(), rest)))
            except TimeoutError:
                return

    def _began(self) -> bool:
        return self._now.sound.arrived is not None and self._now.parts is not None

    def _answered(self) -> bool:
        """Everything said has ended, and so has an answer to all of it."""
        answers = list(self._answers.values())[self._before :]
        complete = len(answers) >= max(1, self._commits) and all(answers) and answers[-1] == "completed"
        return complete and not self._open and time.monotonic() >= self._now.voice_end

    def _take(self, event: dict[str, Any]) -> None:
        out, now, kind = self._now, time.monotonic(), event["type"]
        if kind == "response.output_audio.delta":
            if self._answers.get(event["response_id"]) != "":
                out.problems.append("sound of an answer that has ended")
            out.sound.receive(now, base64.b64decode(event["delta"]))
        elif kind == "response.output_audio_transcript.delta":
            out.reply += event["delta"]
        elif kind == "response.created":
            self._answers[event["response"]["id"]] = ""
            out.sound, out.reply = Utterance(out.voice_end, OUT_RATE), ""
        elif kind == "response.done":
            self._done(event["response"])
        elif kind == "input_audio_buffer.committed":
            self._open.add(event["item_id"])
            self._commits += 1
            out.committed = now
        elif kind == f"{_HEARD}completed":
            self._ended(event["item_id"])
            out.heard = f"{out.heard} {event['transcript']}".strip()
        elif kind == f"{_HEARD}failed":
            self._ended(event["item_id"])
            out.problems.append(f"not understood: {event['error']['message']}")
        elif kind == "x.response.timing":
            out.parts = {part: event[part] for part in PARTS}
        elif kind == "error":
            out.problems.append(event["error"]["message"])

    def _ended(self, item: str) -> None:
        if item in self._over:
            self._now.problems.append(f"{item} was transcribed twice")
        self._over.add(item)
        self._open.discard(item)

    def _done(self, response: dict[str, Any]) -> None:
        out, status = self._now, response["status"]
        if self._answers.get(response["id"]):
            out.problems.append("an answer ended twice")
        self._answers[response["id"]] = status
        if status == "cancelled":
            out.interrupted += 1
        elif status != "completed":
            out.problems.append(f"the answer is {status}: {json.dumps(response.get('status_details'))}")
