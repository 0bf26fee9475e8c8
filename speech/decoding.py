"""One piece of audio under decode: partials while it grows, one final when it is sealed."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from speech.agreement import LocalAgreement
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Hypothesis, PartialRequest, Samples, Transcript
from speech.events import Lagging, Partial
from speech.finals import Spoken, final
from speech.language import LanguageLock
from speech.outlet import Outlet
from speech.pieces import PartialDue, Piece
from workers.capacity import Lease
from workers.clock import Clock
from workers.errors import BackendFailed, Cancelled, Overloaded, ServingError
from workers.handle import Handle
from workers.labels import label
from workers.pool import Pool
from workers.task import Lane, Work

log = logging.getLogger(__name__)

FINAL_DEADLINE = 0.5
"""Seconds from the end of speech in which a final should be there."""
_UNKNOWN_LANGUAGE = 1.5
"""Seconds of audio before a partial may guess the language of a stream that has none yet."""
_TOGETHER = 0.1
"""Seconds between the arrivals of two samples that came in one burst: nobody is waiting in real time."""


_MOST_WORKS = 64
"""Tasks of a piece that are remembered; a partial a second for half a minute are not as many."""

Works = deque[Work]
Ask = Callable[[FinalRequest, Works], Awaitable[tuple[Transcript, float]]]


@dataclass
class Line:
    """What the decodes of one stream share."""

    stream: Hashable
    asr: Pool
    outlet: Outlet
    clock: Clock
    max_lag: float
    lease: Lease | None
    lock: LanguageLock | None
    """None when the language is given or the model knows only one: then pieces need not wait for each other."""
    lagging: bool = False
    hearing: float = 0.0
    """Seconds that voice activity's device was stepping for the newest audio."""
    said: set[int] = field(default_factory=set)
    """Utterances with stable text, whose next needs no stripping."""

    async def ask(self, request: PartialRequest | FinalRequest, works: Works, **how: Any) -> tuple[Any, float]:
        """(answer, seconds that the device was stepping meanwhile). Cancelling the wait cancels the task.

        Raises ServingError.
        """
        handle = self.asr.submit(request, lease=self.lease, **how)
        return await answered(handle, "partial" if isinstance(request, PartialRequest) else "final", works)

    async def decode(self, request: FinalRequest, works: Works) -> tuple[Transcript, float]:
        """A final is never refused for a full queue: it waits at the door."""
        while True:
            try:
                deadline = self.clock() + FINAL_DEADLINE
                answer: tuple[Transcript, float] = await self.ask(request, works, lane=Lane.FINAL, deadline=deadline)
            except Overloaded as full:
                log.warning("a final waits for room: %s", full.message)
                await asyncio.sleep(min(full.retry_after, 1.0))
            else:
                return answer


async def answered(handle: Handle, kind: str, works: Works) -> tuple[Any, float]:
    """(answer, seconds that the device was stepping meanwhile), with an entry in `works`. Raises ServingError."""
    try:
        answer = await handle.result()
    except ServingError as error:
        if not isinstance(error, Cancelled):
            works.append(Work(kind, handle.timing))
        raise
    works.append(Work(kind, handle.timing))
    return answer, handle.timing.device_seconds


class Guess:
    """A final begun before the silence was long enough: among the partials, mostly before them by its deadline, until
    it is claimed. Its words are wanted in a quarter of a second; partials are what may be late."""

    def __init__(self, line: Line, length: int) -> None:
        self.length = length
        self.task: asyncio.Task[Spoken | ServingError] | None = None
        self.works: Works = deque()
        """What was done for it."""
        self._line = line
        self._lane = Lane.PARTIAL
        self._handle: Handle | None = None

    async def decode(self, request: FinalRequest, works: Works) -> tuple[Transcript, float]:
        """Raises ServingError; then the final is made like any other."""
        line, deadline = self._line, self._line.clock() + FINAL_DEADLINE
        handle = self._handle = line.asr.submit(request, lane=self._lane, deadline=deadline, lease=line.lease)
        return await answered(handle, "final", works)

    def claim(self) -> None:
        """It is the final: from now on it comes before everything but other finals."""
        self._lane = Lane.FINAL
        if self._handle is not None:
            self._handle.move(self._line.clock() + FINAL_DEADLINE, Lane.FINAL)


class Decoding:
    """Runs from the first partial that is due, or from the seal, to the end of the final; `spoken` tells its end."""

    def __init__(self, piece: Piece, line: Line, before: Decoding | None) -> None:
        self.piece: Piece | None = piece
        """Until the final is there."""
        self.utterance = piece.utterance
        self.seconds = 0.0
        """Of sealed audio that waits for its final."""
        self.model_seconds = 0.0
        """Step time of the devices between the end of the audio and its final."""
        self.works: Works = deque(maxlen=_MOST_WORKS)
        """What was done for it."""
        self.spoken: asyncio.Future[Spoken] = asyncio.get_running_loop().create_future()
        self._line = line
        self._turn = line.outlet.reserve()
        self._agreement = LocalAgreement()
        self._due: deque[tuple[PartialDue, float, float]] = deque()
        self._pending: float | None = None
        self._samples: Samples | None = None
        self._guess: Guess | None = None
        self._sealed_at = self._claimed_at = 0.0
        self._goes_on = False
        self._changed = asyncio.Event()
        self._sealed = asyncio.Event()
        self._task = asyncio.create_task(self._run(piece, before.spoken if before is not None else None))

    @property
    def done(self) -> bool:
        return self._task.done()

    def due(self, due: PartialDue, arrived: float) -> None:
        """A partial is due over audio that arrived at `arrived` (the stream's wall clock)."""
        self._drop_guess()
        self._due.append((due, arrived, self._line.hearing))
        self._changed.set()

    def pause(self, samples: Samples) -> None:
        """The speaker may have finished: make the final of `samples` ahead, while the silence is waited for.

        Not where the stream's language is open, since hearing a final changes what is thought of it.
        """
        self._drop_guess()
        if self.piece is not None and (self._line.lock is None or self.piece.config.options.language is not None):
            self._guess = Guess(self._line, len(samples))
            making = self._final(self.piece, samples, self._guess.decode, self._guess.works)
            self._guess.task = asyncio.create_task(making)

    def seal(self, samples: Samples, arrived: float, *, goes_on: bool) -> None:
        """The audio is complete. `goes_on`: the utterance has more pieces, so the rest of this text becomes stable."""
        self._samples, self._sealed_at, self._goes_on = samples, arrived, goes_on
        self.seconds = len(samples) / SAMPLE_RATE
        self.model_seconds, self._claimed_at = self._line.hearing, self._line.clock()
        self._changed.set()
        self._sealed.set()

    async def cancel(self) -> None:
        """Stop at once; nothing comes out any more. Idempotent."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self.spoken.done():
            self.spoken.set_exception(Cancelled("the audio was cleared"))
        self.spoken.exception()
        self._line.outlet.end(self._turn)

    async def _run(self, piece: Piece, before: asyncio.Future[Spoken] | None) -> None:
        label(utterance=str(self.utterance))
        partials: asyncio.Task[None] | None = None
        try:
            if before is not None and piece.config.options.language is None and self._line.lock is not None:
                await asyncio.wait({before})
            partials = asyncio.create_task(self._partials(piece))
            await self._sealed.wait()
            assert self._samples is not None
            spoken = await self._foreseen(self._samples)
            if not isinstance(spoken, Spoken):
                spoken = await self._final(piece, self._samples, self._line.decode, self.works)
            await self._settle(partials)
            if not partials.cancelled() and (broken := partials.exception()) is not None:
                log.error("the partials of utterance %d broke", self.utterance, exc_info=broken)
            if isinstance(spoken, ServingError):
                self.spoken.set_exception(spoken)
            else:
                if self._goes_on:
                    self._put(piece, self._agreement.rest(spoken.text), "", piece.length, 0.0)
                self.spoken.set_result(spoken)
        finally:
            self._drop_guess()
            if partials is not None:
                partials.cancel()
                await asyncio.wait({partials})
            # What was cancelled lives on in tracebacks and tasks for a while; tens of megabytes must not.
            piece.audio.release()
            self.piece = self._samples = None
            self.seconds = 0.0
            self._line.outlet.end(self._turn)

    async def _foreseen(self, samples: Samples) -> Spoken | ServingError | None:
        """The final that was begun ahead, if it was over just this audio."""
        guess = self._guess
        if guess is None or guess.task is None or guess.length != len(samples):
            return None
        guess.claim()
        spoken = await guess.task
        self.works += guess.works
        return spoken

    def _drop_guess(self) -> None:
        if self._guess is not None and self._guess.task is not None:
            self._guess.task.cancel()
        self._guess = None

    async def _final(self, piece: Piece, samples: Samples, ask: Ask, works: Works) -> Spoken | ServingError:
        async def decode(request: FinalRequest) -> Transcript:
            transcript, seconds = await ask(request, works)
            if self._sealed.is_set():
                self.model_seconds += min(seconds, self._line.clock() - self._claimed_at)
            return transcript

        try:
            lock = self._line.lock if piece.config.options.language is None else None
            return await final(piece, samples, decode, lock, self._agreement.tokens + self._agreement.tail)
        except ServingError as error:
            return error
        except Exception as error:
            log.exception("the final of utterance %d failed", self.utterance)
            failed = BackendFailed(f"the transcript could not be made: {type(error).__name__}")
            failed.__cause__ = error
            return failed

    # Partials

    async def _partials(self, piece: Piece) -> None:
        while await self._next():
            due, arrived, hearing = self._due.popleft()
            line, options = self._line, self._options(piece, due)
            if options is None:
                continue
            if self._late(arrived):
                continue
            self._pending = arrived
            try:
                answer: tuple[Hypothesis, float] = await line.ask(
                    PartialRequest(piece.audio, due.end, self._agreement.tokens, options),
                    self.works,
                    lane=Lane.PARTIAL,
                    deadline=line.clock() + piece.config.partial_interval,
                    stream=(line.stream, self._turn),
                    coalesce="partial",
                )
            except Cancelled:
                continue
            except ServingError as error:
                log.warning("a partial of utterance %d failed: %s", self.utterance, error.message)
                continue
            finally:
                self._pending = None
            hypothesis, seconds = answer
            stable, unstable = self._agreement.update(hypothesis, due.end / SAMPLE_RATE, settled=due.settled)
            self._put(piece, stable, unstable, due.end, line.clock() - arrived, due.at, hearing + seconds)

    async def _next(self) -> bool:
        """Wait for the next due partial; False when there is none and the audio is complete."""
        while not self._due:
            if self._samples is not None:
                return False
            self._changed.clear()
            await self._changed.wait()
        return True

    def _options(self, piece: Piece, due: PartialDue) -> DecodeOptions | None:
        """None: the language is not known and this is too little to guess it from."""
        options = piece.config.options
        if options.language is None and self._line.lock is not None:
            if self._line.lock.current is None and due.end < _UNKNOWN_LANGUAGE * SAMPLE_RATE:
                return None
            options = replace(options, language=self._line.lock.current)
        return options

    def _late(self, arrived: float) -> bool:
        """The stream runs behind: this partial is skipped, and the client told once per episode."""
        lag = self._line.clock() - arrived
        late = lag > self._line.max_lag
        if late and not self._line.lagging:
            self._line.outlet.put(Lagging(lag))
        self._line.lagging = late
        return late

    async def _settle(self, partials: asyncio.Task[None]) -> None:
        """The final is there. Partials of audio that came in one burst with its end still come before it, so that the
        outcome is that of any other framing; in real time nobody waits for them.
        """
        while not partials.done():
            arrived = self._pending if self._pending is not None else self._due[0][1] if self._due else None
            patience = None
            if arrived is not None and self._line.max_lag < math.inf:
                together = self._sealed_at - arrived < _TOGETHER
                patience = self._line.max_lag - (self._line.clock() - arrived) if together else 0.0
            if patience is not None and patience <= 0:
                partials.cancel()
                patience = None
            await asyncio.wait({partials}, timeout=patience)

    def _put(
        self,
        piece: Piece,
        stable: str,
        unstable: str,
        end: int,
        lag: float,
        at: int | None = None,
        model_seconds: float = 0.0,
    ) -> None:
        said = self._line.said
        if self.utterance not in said:
            stable = stable.lstrip()
            unstable = unstable if stable else unstable.lstrip()
        if stable:
            said.add(self.utterance)
        if stable or unstable:
            heard = (piece.position(end) if at is None else at) / SAMPLE_RATE
            lag = max(lag, 0.0)
            partial = Partial(self.utterance, stable, unstable, heard, lag, model_seconds=model_seconds)
            self._line.outlet.put(partial, self._turn)
