"""A live stream that another process can go on with: from a point, the audio behind it, and what was asked meanwhile.

Everything that a stream decides follows from its audio, its orders and where it was, so a stream that begins at a point
and is given the same again says the same again: utterances, their order and their numbers. Only partials, which depend
on the load of the moment, may come at other times.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from speech.asr import DecodeOptions, Samples
from speech.config import StreamConfig, VadConfig
from speech.inbox import Order
from speech.pieces import Closed, Idle, Signal, Started, Stopped
from speech.segmenter import Segmenter
from speech.transcriber import Transcriber
from speech.vad import Gain, VadState
from workers.errors import InputInvalid

Audio = Callable[[int, int], Samples]
"""The samples from one position on the stream's clock to another."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An order that came when `position` samples had been received; "stall" is that none came for too long."""

    what: str
    position: int
    config: StreamConfig | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """Where a stream can be gone on from, with the audio from sample `first` on. `fields` is fit for JSON.

    `position`: samples that have been heard; `orders`: how many were carried out, `signals`: how many were given, since
    the stream began. What an utterance before number `utterance` says is not told again.
    """

    position: int
    first: int
    orders: int
    signals: int
    utterance: int
    fields: dict[str, Any]


class Continuable(Transcriber):
    """A live stream that tells where it is. `begun` and `audio` are those of the one that it goes on with."""

    def __init__(
        self, config: StreamConfig, *, begun: Point | None = None, audio: Audio | None = None, **how: Any
    ) -> None:
        super().__init__(config, **how)
        self.asked: list[Asked] = []
        """Orders that nobody has fetched yet, in the order in which they were carried out."""
        self._orders_done = self._signals = 0
        self._doing = False
        if begun is not None:
            assert audio is not None
            self._go_on(begun, audio)

    @property
    def signals(self) -> int:
        """Events given so far, but for those that come of decodes and lag."""
        return self._signals

    @property
    def language(self) -> str | None:
        """What the stream is taken to be in, where its client left that open."""
        return self._line.lock.current if self._line.lock is not None else None

    @language.setter
    def language(self, language: str | None) -> None:
        if self._line.lock is not None:
            self._line.lock.current = language

    def point(self) -> Point | None:
        """Where it is now; None where nobody could go on: in the middle of an order, behind a part of an utterance
        that was cut off already, or at the end."""
        segmenter, hearing = self._segmenter, self._hearing
        if self._doing or self._ended or any(not segmenter.holds(decoding.piece) for decoding in self._open):
            return None
        state = segmenter.state()
        position = state["heard"] + len(hearing.tail)
        needed = [position - len(hearing.tail), *(at for at, _ in state["recent"])]
        if state["piece"] is not None:
            needed += [at for at, _ in state["piece"]["runs"]]
        for name in ("config", "next"):
            state[name] = config_fields(state[name]) if state[name] is not None else None
        if state["piece"] is not None:
            state["piece"]["config"] = config_fields(state["piece"]["config"])
        gain = hearing.state.gain
        ear = {
            "memory": _packed(hearing.state.memory),
            "context": _packed(hearing.state.context),
            "gain": [gain.level, gain.now] if gain is not None else None,
        }
        fields = {"segmenter": state, "ear": ear}
        return Point(position, min(needed), self._orders_done, self._signals, segmenter.utterance, fields)

    async def replay(self, audio: Samples, asked: Iterable[Asked]) -> None:
        """Hear what came after the point (`audio`) and do what was `asked`, each in its place. Raises ServingError."""
        base = self._received
        for one in asked:
            await self.append(audio[self._received - base : one.position - base])
            try:
                await self._ask(one.what, one.config)
            except InputInvalid:
                continue  # as it was refused before
        await self.append(audio[self._received - base :])

    def _go_on(self, begun: Point, audio: Audio) -> None:
        state = {**begun.fields["segmenter"]}
        for name in ("config", "next"):
            state[name] = config_of(state[name]) if state[name] is not None else None
        if state["piece"] is not None:
            state["piece"] = {**state["piece"], "config": config_of(state["piece"]["config"])}
        self._segmenter = Segmenter.restored(state, audio)
        ear = begun.fields["ear"]
        gain = Gain(*ear["gain"]) if ear["gain"] is not None else None
        memory = _unpacked(ear["memory"]).reshape(2, 1, -1)
        self._hearing.go_on(VadState(memory, _unpacked(ear["context"]), gain), audio(state["heard"], begun.position))
        self._received = begun.position
        self._orders_done, self._signals = begun.orders, begun.signals

    # What is counted and kept on the way

    async def _ask(self, what: str, config: StreamConfig | None = None) -> None:
        position = self._received
        try:
            await super()._ask(what, config)
        finally:
            if what not in ("finish", "stall"):
                self.asked.append(Asked(what, position, config))

    async def _something(self) -> bool:
        some = await super()._something()
        if not some:  # the utterance is closed now, before anything else happens
            self._orders_done += 1
            self.asked.append(Asked("stall", self._received))
        return some

    async def _do(self, order: Order) -> bool:
        self._doing = True
        try:
            if order.what == "stall":
                self.asked.append(Asked("stall", self._received))
                self._act(self._segmenter.stall(self._hearing.tail))
                if not order.done.done():
                    order.done.set_result(None)
                return False
            ended = await super()._do(order)
            self._signals += order.what == "clear"
            return ended
        finally:
            self._orders_done += order.what != "finish"
            self._doing = False

    def _act(self, signals: list[Signal]) -> None:
        self._signals += sum(isinstance(signal, Started | Stopped | Closed | Idle) for signal in signals)
        super()._act(signals)


@lru_cache(256)
def config_fields(config: StreamConfig) -> dict[str, Any]:
    """A configuration, fit for JSON; not to be changed."""
    return asdict(config)


def config_of(fields: dict[str, Any]) -> StreamConfig:
    """The configuration of these fields."""
    options = {**fields["options"]}
    for name in ("keywords", "temperatures"):
        options[name] = tuple(options[name])
    return StreamConfig(**{**fields, "options": DecodeOptions(**options), "vad": VadConfig(**fields["vad"])})


def _packed(values: Samples) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def _unpacked(text: str) -> Samples:
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float32)
