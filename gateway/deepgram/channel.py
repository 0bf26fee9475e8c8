"""One channel of a live session: what its stream says, in Deepgram's messages."""

from __future__ import annotations

import math
from typing import Any, Protocol

from gateway.deepgram import errors, results
from gateway.deepgram.options import Query
from gateway.metrics import Metrics
from speech.events import Committed, Event, Failed, Final, IdleTimeout, Partial, SpeechStarted, Word
from workers.errors import ServingError


class Out(Protocol):
    """Where messages go, in order."""

    def send(self, event: dict[str, Any]) -> None: ...
    def send_latest(self, key: object, event: dict[str, Any]) -> None: ...


class Channel:
    """Answers for channel `index` of `count`. Every utterance that is committed gets one final Results or an Error."""

    def __init__(
        self, out: Out, query: Query, metrics: Metrics, index: int, count: int, metadata: dict[str, Any]
    ) -> None:
        self.formatted = query.formatted
        self._out, self._query, self._metrics = out, query, metrics
        self._index = [index, count]
        self._metadata = metadata
        self._begun: dict[int, float] = {}
        self._stable: dict[int, str] = {}
        self._open: dict[int, Committed] = {}
        self._flushed: set[int] = set()
        """Utterances whose final a Finalize is waiting for."""
        self._last_word: float | None = None
        """End of the last word that no UtteranceEnd has followed."""
        self._silent = False
        """Its silence has come, and the words before it are still on their way."""

    def handle(self, event: Event) -> None:
        """Tell the client what happened."""
        match event:
            case SpeechStarted(utterance, at):
                self._begun[utterance] = at
                if self._query.vad_events:
                    self._out.send({"type": "SpeechStarted", "channel": self._index, "timestamp": results.seconds(at)})
            case Partial():
                self._interim(event)
            case Committed(utterance, _, _, reason):
                self._open[utterance] = event
                if reason == "client":
                    self._flushed.add(utterance)
            case Final():
                self._final(event)
            case Failed(utterance, error):
                self._fail(utterance, error)
            case IdleTimeout():
                self._silent = True
                self._end_utterance()
            case _:
                pass

    def finalized(self, position: float) -> None:
        """A Finalize found nothing new: what is on its way answers it, or else an empty result does."""
        if self._open:
            self._flushed.add(max(self._open))
        else:
            self._results(self._alternative("", (), 0.0), position, position, final=True, flushed=True)

    def fail_open(self, error: ServingError) -> None:
        """The stream has ended without answering for what was committed."""
        for utterance in list(self._open):
            self._fail(utterance, error)

    def _interim(self, event: Partial) -> None:
        stable = self._stable[event.utterance] = self._stable.get(event.utterance, "") + event.stable
        text = (stable + event.unstable).strip()
        start = self._begun.get(event.utterance, 0.0)
        words = results.estimated(text, start, event.audio_end)
        self._results(self._alternative(text, words, 0.0), start, event.audio_end, key=event.utterance)
        self._metrics.chunk_round_trip(event.lag)

    def _final(self, event: Final) -> None:
        committed = self._closed(event.utterance)
        ended = committed is not None and committed.reason in ("vad", "idle", "end")
        self._results(
            self._alternative(event.text, event.words, event.confidence),
            event.start,
            event.end,
            final=True,
            ended=ended and self._query.endpointing != math.inf,
            flushed=event.utterance in self._flushed,
        )
        self._flushed.discard(event.utterance)
        if event.words:
            self._last_word = event.words[-1].end
        self._end_utterance()
        self._metrics.utterance("final" if event.text else "empty")
        self._metrics.final_latency(event.lag)

    def _fail(self, utterance: int, error: ServingError) -> None:
        committed = self._closed(utterance)
        self._out.send(errors.message(error))
        if utterance in self._flushed and committed is not None:
            self._flushed.discard(utterance)
            self._results(self._alternative("", (), 0.0), committed.start, committed.end, final=True, flushed=True)
        self._end_utterance()
        self._metrics.utterance("failed")

    def _closed(self, utterance: int) -> Committed | None:
        self._begun.pop(utterance, None)
        self._stable.pop(utterance, None)
        return self._open.pop(utterance, None)

    def _end_utterance(self) -> None:
        """UtteranceEnd follows the words that it is about."""
        if not self._silent or self._open:
            return
        self._silent = False
        if self._last_word is not None:
            ended = {"channel": self._index, "last_word_end": results.seconds(self._last_word)}
            self._out.send({"type": "UtteranceEnd", **ended})
            self._last_word = None

    def _alternative(self, text: str, words: list[Word] | tuple[Word, ...], confidence: float) -> dict[str, Any]:
        return results.alternative(text, words, confidence, formatted=self.formatted)

    def _results(
        self,
        alternative: dict[str, Any],
        start: float,
        end: float,
        *,
        final: bool = False,
        ended: bool = False,
        flushed: bool = False,
        key: int | None = None,
    ) -> None:
        message = {
            "type": "Results",
            "channel_index": self._index,
            "duration": results.seconds(max(end - start, 0.0)),
            "start": results.seconds(start),
            "is_final": final,
            "speech_final": ended,
            "from_finalize": flushed,
            "channel": {"alternatives": [alternative]},
            "metadata": self._metadata,
        }
        if key is None:
            self._out.send(message)
        else:
            self._out.send_latest((self._index[0], key), message)
