"""How requests of speech travel to a device on another host.

An utterance grows, and a partial asks about all of it: only the samples that are not there yet go along. The copy over
there is what the model's caches belong to, as long as anybody here holds the utterance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from speech.asr import DecodeOptions, FinalRequest, PartialRequest, Samples, Utterance
from workers.cluster.packing import Copy, Gone, Kept, Link


class Grown(NamedTuple):
    """A partial over the first `end` samples of the utterance `key`, of which those from `first` on are `samples`."""

    key: int
    first: int
    samples: Samples
    end: int
    stable: tuple[int, ...]
    options: DecodeOptions


class SpeechPacking:
    """A `Packing` of `PartialRequest` and `FinalRequest`."""

    def pack(self, payload: Any, link: Link) -> Any:
        if not isinstance(payload, PartialRequest):
            return payload
        utterance, end = payload.utterance, payload.end
        copy = utterance.cache
        if not isinstance(copy, Copy) or copy.link is not link:
            copy = link.copy()
            if not utterance.released:
                utterance.cache = copy
        first = min(copy.sent, end)
        copy.sent = max(copy.sent, end)
        return Grown(copy.key, first, utterance.samples[first:end], end, payload.stable, payload.options)

    def unpack(self, parcel: Any, kept: Kept) -> Any:
        if isinstance(parcel, FinalRequest):
            # What comes may lie in memory that is shared with other processes, and cannot be written to.
            return replace(parcel, samples=np.array(parcel.samples))
        if not isinstance(parcel, Grown):
            return parcel
        try:
            utterance: Utterance = kept.get(parcel.key)
        except Gone:
            if parcel.first:
                raise
            utterance = Utterance()
            kept.put(parcel.key, utterance)
        missing = parcel.first + len(parcel.samples) - utterance.length
        if missing > len(parcel.samples):
            raise Gone
        if missing > 0:
            utterance.append(parcel.samples[-missing:])
        return PartialRequest(utterance, parcel.end, parcel.stable, parcel.options)

    def renew(self, payload: Any) -> None:
        if isinstance(payload, PartialRequest):
            payload.utterance.cache = None

    def drop(self, thing: Utterance) -> None:
        thing.release()
