"""From windows and their speech probabilities to utterances: a pure state machine on the stream's sample clock.

Positions are sample counts from the stream's first sample; every decision falls on a window of 512 samples, or on the
sample where the client committed, so the outcome knows nothing of how the client cut its frames.

An utterance's audio is one or more *pieces*, each at most the model's window long. In automatic mode an utterance is
one piece, cut off by silence or, at the longest, at its quietest point. In manual mode the client says when it ends;
what is kept until then is the speech with padding at both ends, so minutes of silence cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speech.asr import SAMPLE_RATE, Samples
from speech.config import StreamConfig, checked
from speech.pieces import Closed, Idle, PartialDue, Paused, Piece, Sealed, Signal, Started, Stopped, quietest
from speech.vad import WINDOW
from workers.errors import InputInvalid

FIRST_PARTIAL = 0.6
"""Seconds of speech before the first partial is worth its cost."""
_BEGINNING = 2.4
"""Seconds that must be heard before a word is called stable: with less behind them Whisper mistakes the first words of
an utterance, and mistakes them twice alike (3.9 % of the stable words differed from the final without it, 1.2 % with).
"""
_PAUSE = 0.2
"""Seconds of silence after which a partial waits for the voice to come back."""
_TRAIL = 0.25
"""Seconds kept after speech: a last consonant is quiet, and words lose their ends when cut closer."""
_LOOK_BACK = 6.0
_CARRIED = (
    "heard",
    "taken",
    "floor",
    "boundary",
    "onset",
    "speaking",
    "voice_end",
    "due",
    "paused",
    "idle_since",
    "begun",
)


class Segmenter:
    """One stream's segmentation. Not thread-safe, does no I/O, holds at most one piece and the padding before it."""

    def __init__(self, config: StreamConfig) -> None:
        self.config = checked(config)
        self.utterance = 0
        self._next: StreamConfig | None = None
        self._heard = 0
        """Samples that came in whole windows; `_taken` also counts what a commit took before its window was full."""
        self._taken = 0
        self._floor = 0
        """No later piece may hold a sample before this one."""
        self._boundary = 0
        """Where the last utterance ended or the buffer was cleared."""
        self._recent: deque[tuple[int, Samples]] = deque()
        self._onset: int | None = None
        self._speaking = False
        self._piece: Piece | None = None
        self._voice_end = 0
        self._due = 0
        self._paused = False
        self._idle_since: int | None = 0
        self._begun: int | None = None
        """Where the first piece of the open utterance starts."""

    @property
    def speaking(self) -> bool:
        """An utterance is open, in automatic mode: frames that stop coming now would leave it hanging."""
        return self._speaking and self.config.automatic

    def push(self, samples: Samples, probabilities: NDArray[np.float32]) -> list[Signal]:
        """Whole windows (512 samples each) with their speech probabilities."""
        if len(samples) != WINDOW * len(probabilities):
            raise ValueError(f"{len(probabilities)} probabilities need {WINDOW} samples each")
        signals: list[Signal] = []
        for i, probability in enumerate(probabilities):
            start = self._heard
            fresh = samples[i * WINDOW + self._taken - start : (i + 1) * WINDOW]
            self._heard = start + WINDOW
            at, self._taken = self._taken, self._heard
            if self._speaking:
                signals += self._listen(at, fresh, float(probability))
            else:
                signals += self._wait(start, at, fresh, float(probability))
        return signals

    def reconfigure(self, config: StreamConfig) -> list[Signal]:
        """Take effect from the next utterance. Turning automatic on opens an utterance of the speech kept so far."""
        self._next = checked(config)
        if self._begun is None:
            self._adopt()
        elif config.automatic and not self.config.automatic:
            self._adopt()
            self._speaking = True
            return [Started(self.utterance, self._begun)]
        return []

    def commit(self, tail: Samples, reason: str = "client") -> list[Signal]:
        """Close here; `tail` are the samples received since the last whole window (under 512, no probability yet).

        Raises InputInvalid when no sample came since the last boundary. Without speech the Closed comes alone.
        """
        end = self._take(tail)
        if end == self._boundary:
            error = InputInvalid("the audio buffer is empty: append audio before you commit it", param="audio")
            error.code = "input_audio_buffer_commit_empty"
            raise error
        return self._close(end, reason)

    def finish(self, tail: Samples) -> list[Signal]:
        """End of the stream: close what holds speech, if anything does."""
        end = self._take(tail)
        holds_speech = self._begun is not None or self._onset is not None
        return self._close(end, "end") if holds_speech else []

    def stall(self, tail: Samples) -> list[Signal]:
        """No frames come any more: in mid-speech of automatic mode, close what is there."""
        return self._close(self._take(tail), "idle") if self.speaking else []

    def clear(self, tail: Samples) -> None:
        """Forget all audio since the last boundary."""
        end = self._take(tail)
        self.utterance += self._begun is not None
        self._reset(end)

    # Going on in another process

    def holds(self, piece: Piece | None) -> bool:
        """Whether this is the piece that still grows."""
        return piece is not None and piece is self._piece

    def state(self) -> dict[str, Any]:
        """All that decides what comes next; of samples, only where they are on the stream's clock."""
        piece = self._piece
        return {
            **{name: getattr(self, f"_{name}") for name in _CARRIED},
            "config": self.config,
            "next": self._next,
            "utterance": self.utterance,
            "recent": [(at, len(samples)) for at, samples in self._recent],
            "piece": piece and {"config": piece.config, "runs": piece.runs(), "speech": list(piece.speech)},
        }

    @classmethod
    def restored(cls, state: dict[str, Any], audio: Callable[[int, int], Samples]) -> Segmenter:
        """One that goes on from a `state`. `audio` gives the samples from one position to another."""
        made = cls(state["config"])
        made._next, made.utterance = state["next"], state["utterance"]
        for name in _CARRIED:
            setattr(made, f"_{name}", state[name])
        made._recent.extend((at, audio(at, at + length)) for at, length in state["recent"])
        if (kept := state["piece"]) is not None:
            made._piece = Piece(made.utterance, kept["config"])
            for at, length in kept["runs"]:
                made._piece.append(audio(at, at + length), at)
            made._piece.speech = [(start, end) for start, end in kept["speech"]]
        return made

    # One window

    def _wait(self, start: int, at: int, fresh: Samples, probability: float) -> list[Signal]:
        """Outside speech: remember a little for the padding, and look for `min_speech` of voice in a row."""
        vad = self.config.vad
        self._recent.append((at, fresh))
        horizon = self._heard - _samples(vad.prefix + vad.min_speech) - 2 * WINDOW
        while len(self._recent) > 1 and self._recent[1][0] <= horizon:
            self._recent.popleft()
        if probability < (vad.onset if self._onset is None else vad.release):
            self._onset = None
            return self._idle()
        if self._onset is None:
            self._onset = max(start, self._floor)
        if self._heard - self._onset < _samples(vad.min_speech) - WINDOW // 2:
            return []
        return self._open()

    def _open(self) -> list[Signal]:
        """The voice at `_onset` is speech: a new utterance, or in manual mode more of the one that is kept."""
        assert self._onset is not None
        signals: list[Signal] = []
        start = max(self._onset - _samples(self.config.vad.prefix), self._floor)
        if self._piece is not None and self._piece.length > self._longest() * 7 // 10:
            signals.append(_sealed(self._piece, last=False))
            self._piece = None
        if self._piece is None:
            self._piece = Piece(self.utterance, self.config)
            if self._begun is None:
                self._begun = start
                signals += [Started(self.utterance, start)] if self.config.automatic else []
            self._due = self._onset - start + _samples(FIRST_PARTIAL)
        for position, samples in self._recent:
            skip = max(start - position, 0)
            self._piece.append(samples[skip:], position + skip)
        self._recent.clear()
        self._piece.voice(self._onset, self._taken)
        self._voice_end = self._taken
        self._speaking, self._onset, self._idle_since = True, None, None
        return signals

    def _listen(self, at: int, fresh: Samples, probability: float) -> list[Signal]:
        """In speech: keep the window; then close on silence, cut at the longest, or ask for a partial."""
        piece, vad = self._piece, self.config.vad
        if piece is None:
            piece = self._piece = Piece(self.utterance, self.config)
        piece.append(fresh, at)
        if probability >= vad.release:
            piece.voice(at, self._taken)
            self._voice_end = self._taken
            self._paused = False
        silence = self._taken - self._voice_end
        if self.config.automatic and silence >= _samples(vad.silence):
            return self._close(self._taken, "vad")
        if not self.config.automatic and silence >= _samples(_TRAIL):
            self._speaking, self._floor, self._idle_since = False, self._taken, self._voice_end
            return []
        if piece.length >= self._longest():
            return self._cut(piece)
        if not self._paused and silence >= _samples(_TRAIL):
            self._paused = True
            return [Paused(piece, _sealed(piece, last=True).samples)]
        if self.config.partials and piece.length >= self._due and silence <= _samples(_PAUSE):
            interval = _samples(self.config.partial_interval)
            self._due += interval * (1 + (piece.length - self._due) // interval)
            return [PartialDue(piece, piece.length, self._taken, self._settled(piece.length))]
        return []

    def _idle(self) -> list[Signal]:
        timeout = self.config.idle_timeout
        if timeout is None or self._idle_since is None or self._taken - self._idle_since < _samples(timeout):
            return []
        since, self._idle_since = self._idle_since, None
        return [Idle(since, self._taken)]

    # Ends

    def _cut(self, piece: Piece) -> list[Signal]:
        """At the longest: end at the quietest point of the last seconds, and go on with what lies behind it."""
        offset = quietest(piece.audio.samples, self._safe())
        at = piece.position(offset)
        goes_on = self._voice_end > at
        samples, voice_end = piece.audio.samples[:offset], self._voice_end
        signals: list[Signal] = [Sealed(piece, samples, last=self.config.automatic)]
        if self.config.automatic:
            assert self._begun is not None
            signals += [Stopped(self.utterance, at), Closed(self.utterance, self._begun, at, "length")]
            self.utterance += 1
            self._reset(at)
        tail = piece.split(offset, self.utterance, self.config)
        self._speaking, self._due = goes_on, _samples(FIRST_PARTIAL)
        self._piece = tail if goes_on else None
        if goes_on and self._begun is None:
            self._begun, self._voice_end, self._idle_since = at, voice_end, None
            signals += [Started(self.utterance, at)] if self.config.automatic else []
        elif not goes_on:
            self._recent.append((at, tail.audio.samples))
            self._floor = at
        return signals

    def _close(self, end: int, reason: str) -> list[Signal]:
        signals: list[Signal] = []
        if self._onset is not None and not self._speaking:
            signals += self._open()
        start = self._boundary
        if self._begun is not None and self.config.automatic:
            start = self._begun
        if self._piece is not None:
            signals.append(_sealed(self._piece, last=True))
        if self.config.automatic and self._speaking:
            signals.append(Stopped(self.utterance, end))
        signals.append(Closed(self.utterance, start, end, reason))
        self.utterance += 1
        self._reset(end)
        return signals

    def _reset(self, at: int) -> None:
        self._piece, self._begun, self._onset, self._speaking = None, None, None, False
        self._floor = self._boundary = self._idle_since = self._voice_end = at
        self._recent.clear()
        self._adopt()

    def _adopt(self) -> None:
        if self._next is not None:
            self.config, self._next = self._next, None

    def _take(self, tail: Samples) -> int:
        """Count the samples beyond the last whole window as received, once; they belong to what is open."""
        at, self._taken = self._taken, self._heard + len(tail)
        fresh = tail[at - self._heard :]
        if self._speaking and self._piece is not None:
            self._piece.append(fresh, at)
            if self._voice_end == at:
                self._piece.voice(at, self._taken)
                self._voice_end = self._taken
        elif len(fresh):
            self._recent.append((at, fresh))
        return self._taken

    def _longest(self) -> int:
        return _samples(self.config.max_utterance)

    def _settled(self, length: int) -> bool:
        return min(_samples(_BEGINNING), self._safe() // 2) <= length <= self._safe()

    def _safe(self) -> int:
        """Up to this length no cut will fall: the last third, at most six seconds, is where one may."""
        return self._longest() - min(self._longest() // 3, _samples(_LOOK_BACK))


def _samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)


def _sealed(piece: Piece, *, last: bool) -> Sealed:
    """The final hears the speech and a little after it, not all the silence that was waited for."""
    voice_end = max((end for _, end in piece.speech), default=0)
    keep = min(piece.length, piece.offset(voice_end) + _samples(_TRAIL))
    return Sealed(piece, piece.audio.samples[:keep], last)
