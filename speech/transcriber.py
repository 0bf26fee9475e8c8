"""One live stream: samples in, domain events out.

    append -> voice activity -> segmenter -> partials and finals on the ASR pool -> events in order

One coroutine takes what came in (audio, commits, clears, settings) in the order it came, so a commit means exactly
the samples appended before it. Audio that arrives while voice activity is busy waits and is taken together. All
decisions are made on the sample clock; wall time only decides whether a partial is still worth making, and when a
client has fallen silent in mid-word.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator

import numpy as np

from speech.asr import SAMPLE_RATE, Samples
from speech.config import StreamConfig, checked
from speech.decoding import Decoding, Line
from speech.events import Cleared, Committed, Event, IdleTimeout, SpeechStarted, SpeechStopped
from speech.finals import ending
from speech.hearing import Hearing
from speech.inbox import Arrivals, Order, Waiting
from speech.language import LanguageLock
from speech.outlet import Outlet
from speech.pieces import Closed, Idle, PartialDue, Paused, Piece, Sealed, Signal, Started, Stopped
from speech.segmenter import Segmenter
from workers.capacity import Lease
from workers.clock import Clock, monotonic
from workers.errors import BackendFailed, InputInvalid, ServingError
from workers.pool import Pool
from workers.task import Lane, Work

log = logging.getLogger(__name__)

_TOGETHER = 5 * SAMPLE_RATE
"""Samples taken in one go; more would hold the event loop and the other streams' voice activity up."""
_UNFINISHED = 90.0
"""Seconds of audio sealed and not yet transcribed at which no more is taken in."""
_VAD_DEADLINE = 0.05
_numbers = itertools.count()


class Transcriber:
    """A live stream on a running event loop. One reader of `events`; calls are answered in the order they are made.

    `asr` answers PartialRequest and FinalRequest, `vad` answers VadRequest. `lease`, the stream's reservation on the
    ASR's device, is released when the stream ends. `multilingual`: the model tells languages apart. Partials over
    audio that came more than `max_lag` seconds ago are skipped; `append` waits while `max_backlog` seconds of audio
    wait to be heard. Raises InputInvalid when `config` has a value out of range.
    """

    def __init__(
        self,
        config: StreamConfig,
        *,
        asr: Pool,
        vad: Pool,
        lease: Lease | None = None,
        multilingual: bool = True,
        max_lag: float = 1.0,
        max_backlog: float = 30.0,
        clock: Clock = monotonic,
    ) -> None:
        self._segmenter = Segmenter(config)
        self._lease, self._clock = lease, clock
        self._outlet = Outlet()
        lock = LanguageLock() if multilingual else None
        self._line = Line(next(_numbers), asr, self._outlet, clock, max_lag, lease, lock)
        self._max_backlog = round(max_backlog * SAMPLE_RATE)
        self._inbox: deque[Waiting | Order] = deque()
        self._orders: set[asyncio.Future[None]] = set()
        self._backlog = 0
        self._received = 0
        self._door = asyncio.Lock()
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._ended = self._closing = self._freed = False
        self._error: ServingError | None = None
        # What hearing needs.
        self._hearing = Hearing(vad, clock, Lane.FINAL, _VAD_DEADLINE)
        self._arrivals = Arrivals(clock())
        # What is being said.
        self._newest: Decoding | None = None
        self._open: list[Decoding] = []
        self._unfinished: set[Decoding] = set()
        self._conclusions: set[asyncio.Task[None]] = set()
        self._run_task = asyncio.create_task(self._run())

    @property
    def position(self) -> float:
        """Seconds of audio received: the stream's clock."""
        return self._received / SAMPLE_RATE

    async def append(self, samples: Samples) -> None:
        """Add mono float32 samples at 16 kHz, any number; waits while the backlog is full.

        Raises InputInvalid for samples that are not finite or after the end, and whatever ended the stream.
        """
        samples = np.asarray(samples, np.float32)
        if samples.ndim != 1 or not np.isfinite(samples).all():
            raise InputInvalid("audio must be finite samples of one channel", param="audio")
        async with self._door:
            arrived = self._clock()
            for first in range(0, len(samples), _TOGETHER):
                part = samples[first : first + _TOGETHER]
                while self._backlog and self._backlog + len(part) > self._max_backlog and not self._ended:
                    self._taken.clear()
                    await self._taken.wait()
                    arrived = self._clock()
                self._alive()
                self._backlog += len(part)
                self._received += len(part)
                last = self._inbox[-1] if self._inbox else None
                together = isinstance(last, Waiting) and last.take(part, arrived)
                self._arrivals.add(self._received, arrived, together=together)
                if not together:
                    self._enter(Waiting(part, arrived))

    async def commit(self) -> None:
        """Close the utterance here. Raises InputInvalid (input_audio_buffer_commit_empty) when there is no audio."""
        await self._ask("commit")

    async def clear(self) -> None:
        """Throw away the audio since the last commit, with everything under way for it."""
        await self._ask("clear")

    async def reconfigure(self, config: StreamConfig) -> None:
        """Change settings from the next utterance on. Raises InputInvalid for a value out of range."""
        await self._ask("reconfigure", checked(config))

    async def finish(self) -> None:
        """End of audio: close the open utterance and wait for all finals. Then `events` ends."""
        if not self._ended:
            await self._ask("finish")
        await asyncio.wait({self._run_task})

    async def close(self) -> None:
        """Abort: nothing more is decoded, everything is freed. Idempotent."""
        if not self._closing:
            self._ended = self._closing = True
            self._run_task.cancel()
        try:
            await asyncio.wait({self._run_task})
        finally:
            await self._free(None)  # a task that was cancelled before its first step has run nothing, not even its end

    def events(self) -> AsyncIterator[Event]:
        """Events as they come, for one reader; raises the ServingError that ended the stream, if one did."""
        return self._outlet.events()

    # In order of arrival

    def _alive(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ended:
            raise InputInvalid("the stream has ended; open another one")

    def _enter(self, item: Waiting | Order) -> None:
        self._inbox.append(item)
        self._changed.set()

    async def _ask(self, what: str, config: StreamConfig | None = None) -> None:
        async with self._door:
            self._alive()
            self._ended = what == "finish"
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._orders.add(done)
            done.add_done_callback(self._orders.discard)
            self._enter(Order(what, done, config))
        await done

    async def _run(self) -> None:
        error: ServingError | None = None
        try:
            while True:
                await self._outlet.room()
                await self._finals_catch_up()
                if not await self._something():
                    self._act(self._segmenter.stall(self._hearing.tail))
                    continue
                if isinstance(self._inbox[0], Waiting):
                    await self._hear()
                    continue
                order = self._inbox.popleft()
                assert isinstance(order, Order)
                if await self._do(order):
                    break
        except ServingError as failure:
            error = failure
        except Exception as failure:
            log.exception("stream %s broke", self._line.stream)
            error = BackendFailed(f"the stream broke: {type(failure).__name__}")
            error.__cause__ = failure
        finally:
            await self._free(error)

    async def _something(self) -> bool:
        """Wait for the inbox; False when, in mid-speech, no frame has come for the stall timeout."""
        while not self._inbox:
            left = None
            if self._segmenter.speaking:
                left = self._segmenter.config.stall_timeout - (self._clock() - self._arrivals.last)
                if left <= 0:
                    return False
            self._changed.clear()
            try:
                async with asyncio.timeout(left):  # wait_for of Python 3.11 may swallow a cancel
                    await self._changed.wait()
            except TimeoutError:
                continue
        return True

    async def _do(self, order: Order) -> bool:
        """Commit, clear, reconfigure or finish. True when that was the end."""
        try:
            if order.what == "commit":
                self._act(self._segmenter.commit(self._hearing.tail))
            elif order.what == "clear":
                self._segmenter.clear(self._hearing.tail)
                await self._forget()
                self._outlet.put(Cleared())
            elif order.what == "reconfigure":
                assert order.config is not None
                self._act(self._segmenter.reconfigure(order.config))
            else:
                self._act(self._segmenter.finish(self._hearing.tail))
                while self._conclusions:
                    await asyncio.wait(self._conclusions)
        except InputInvalid as error:
            if not order.done.done():
                order.done.set_exception(error)
        else:
            if not order.done.done():
                order.done.set_result(None)
        return order.what == "finish"

    async def _hear(self) -> None:
        """Take the audio that waits, up to the next order, through voice activity and the segmenter."""
        parts, length = [], 0
        while self._inbox and length < _TOGETHER:
            item = self._inbox[0]
            if not isinstance(item, Waiting):
                break
            self._inbox.popleft()
            parts.append(item.samples)
            length += len(item.samples)
        audio, probabilities = await self._hearing.hear(np.concatenate(parts) if len(parts) > 1 else parts[0])
        self._line.hearing = self._hearing.device_seconds
        self._backlog -= length
        self._taken.set()
        self._act(self._segmenter.push(audio, probabilities))
        self._arrivals.forget(self._received - self._backlog)

    async def _finals_catch_up(self) -> None:
        while sum(decoding.seconds for decoding in self._unfinished) > _UNFINISHED:
            waiting = [decoding.spoken for decoding in self._unfinished if decoding.seconds]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            self._unfinished = {decoding for decoding in self._unfinished if not decoding.done}

    # What the segmenter says

    def _act(self, signals: list[Signal]) -> None:
        for signal in signals:
            match signal:
                case Started(utterance, at):
                    self._outlet.put(SpeechStarted(utterance, at / SAMPLE_RATE))
                case PartialDue(piece, _, at):
                    self._decoding(piece).due(signal, self._arrivals.of(at))
                case Paused(piece, samples):
                    self._decoding(piece).pause(samples)
                case Sealed(piece, samples, last):
                    arrived = self._arrivals.of(piece.position(piece.length))
                    self._decoding(piece).seal(samples, arrived, goes_on=not last)
                case Stopped(utterance, at):
                    self._outlet.put(SpeechStopped(utterance, at / SAMPLE_RATE))
                case Closed(utterance, start, end, reason):
                    closed = Committed(utterance, start / SAMPLE_RATE, end / SAMPLE_RATE, reason)
                    self._outlet.put(closed)
                    self._conclude(closed, self._arrivals.of(end))
                case Idle(start, end):
                    self._outlet.put(IdleTimeout(start / SAMPLE_RATE, end / SAMPLE_RATE))

    def _decoding(self, piece: Piece) -> Decoding:
        if self._newest is None or self._newest.piece is not piece:
            self._newest = Decoding(piece, self._line, self._newest)
            self._open.append(self._newest)
            self._unfinished.add(self._newest)
        return self._newest

    def _conclude(self, closed: Committed, arrived: float) -> None:
        heard = self._hearing.newest
        task = asyncio.create_task(self._end_utterance(closed, arrived, self._open, self._outlet.reserve(), heard))
        self._open = []
        self._conclusions.add(task)
        task.add_done_callback(self._conclusions.discard)

    async def _end_utterance(
        self, closed: Committed, arrived: float, decodings: list[Decoding], turn: int, heard: Work | None
    ) -> None:
        """Exactly one Final or Failed, when all pieces have been decoded. `heard`: how the end of its audio was."""
        if decodings:
            await asyncio.wait([decoding.spoken for decoding in decodings])
        self._unfinished.difference_update(decodings)
        self._line.said.discard(closed.utterance)
        now = self._clock()
        event = ending(
            closed,
            [decoding.spoken for decoding in decodings],
            kept_language=(self._line.lock.current if self._line.lock else None) or "",
            works=((heard,) if heard else ()) + tuple(work for decoding in decodings for work in decoding.works),
            made_at=now,
            lag=max(now - arrived, 0.0),
            model_seconds=decodings[-1].model_seconds if decodings else 0.0,
        )
        self._outlet.put(event, turn)
        self._outlet.end(turn)

    async def _forget(self) -> None:
        """Drop the decodes of the utterance that was open."""
        forgotten, self._open = self._open, []
        for decoding in forgotten:
            await decoding.cancel()
            self._line.said.discard(decoding.utterance)
        self._unfinished.difference_update(forgotten)

    async def _free(self, error: ServingError | None) -> None:
        if self._freed:
            return
        self._freed = True
        self._ended, self._closing, self._error = True, True, error  # close() must not interrupt this
        self._inbox.clear()
        self._taken.set()
        for conclusion in set(self._conclusions):
            conclusion.cancel()
        await asyncio.gather(*self._conclusions, return_exceptions=True)
        while self._unfinished:
            await self._unfinished.pop().cancel()
        for order in [order for order in self._orders if not order.done()]:
            order.set_exception(error or InputInvalid("the stream has ended; open another one"))
            order.exception()
        self._open, self._newest = [], None
        self._outlet.close(error)
        if self._lease is not None:
            self._lease.release()
