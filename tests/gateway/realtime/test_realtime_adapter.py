"""What the domain says, as the wire says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway.metrics import Metrics
from gateway.realtime.adapter import Adapter
from gateway.realtime.config import Shape
from gateway.realtime.items import KEPT_ITEMS, Item, Items
from speech.events import (
    Cleared,
    Committed,
    Failed,
    Final,
    IdleTimeout,
    Lagging,
    Partial,
    SpeechStarted,
    SpeechStopped,
    Token,
    Word,
)
from tests.gateway.realtime.client import ITEM, TRANSCRIPTION, check_contract
from workers.errors import BackendDead, BackendFailed


class Sent(list[dict[str, Any]]):
    """Everything that was sent, nothing merged."""

    send = list.append

    def send_text(self, key: object, event: dict[str, Any], field: str) -> None:
        self.append(event)

    def send_latest(self, key: object, event: dict[str, Any]) -> None:
        self.append(event)

    def kinds(self) -> list[str]:
        return [event["type"].replace(TRANSCRIPTION, "").removeprefix("input_audio_buffer.") for event in self]


def adapted(included: Iterable[str] = ()) -> tuple[Adapter, Sent, Items]:
    sent, items = Sent(), Items()
    return Adapter(sent, items, lambda what: what in included, Metrics()), sent, items


def final(utterance: int, text: str = "so it goes") -> Final:
    word = Word("so", 1.25, 1.5, 0.875)
    token = Token(" so", b" so", -0.25)
    return Final(utterance, text, (word,), 1.0, 3.0, "en", 0.9, 0.1, 1.5, 0.04, (token,))


def test_the_course_of_an_utterance() -> None:
    adapter, sent, items = adapted()
    for event in (
        SpeechStarted(0, 1.0),
        Partial(0, "so", " it", 2.0),
        Partial(0, "", " it goes", 2.5),
        Partial(0, " it", " goes", 2.6),
        SpeechStopped(0, 3.0),
        Committed(0, 1.0, 3.0, "vad"),
        final(0),
    ):
        adapter.handle(event)
    assert sent.kinds() == [
        "speech_started", "delta", "delta", "speech_stopped", "committed", ITEM + "added", ITEM + "done", "completed",
    ]  # fmt: skip
    assert len({event["item_id"] for event in sent if "item_id" in event}) == 1
    assert sent[0]["audio_start_ms"] == 1000 and sent[3]["audio_end_ms"] == 3000
    assert [event["delta"] for event in sent if "delta" in event] == ["so", " it"]
    completed = sent[-1]
    assert completed["transcript"] == "so it goes"
    assert completed["usage"] == {"type": "duration", "seconds": 2.0}
    assert completed["languages"] == [{"code": "en"}]
    assert not {"words", "logprobs", "lag"} & completed.keys()
    item = items.get(completed["item_id"])
    assert item is not None and item.described()["content"] == [{"type": "input_audio", "transcript": "so it goes"}]
    check_contract(sent)


def test_what_was_asked_for_and_nothing_else() -> None:
    adapter, sent, _ = adapted(("x.words", "x.unstable", "x.lag", "item.input_audio_transcription.logprobs"))
    adapter.restart(10.0)
    for event in (
        SpeechStarted(0, 1.0),
        Partial(0, "so", " it", 2.0, lag=0.0125),
        Lagging(4.2),
        Committed(0, 1.0, 3.0, "client"),
        final(0),
    ):
        adapter.handle(event)
    unstable = next(event for event in sent if event["type"] == "x.transcription.unstable")
    assert (unstable["text"], unstable["audio_end_ms"], unstable["lag"]) == (" it", 12_000, 0.013)
    assert next(event for event in sent if event["type"] == "x.lag")["seconds"] == 4.2
    assert sent[0]["audio_start_ms"] == 11_000
    completed = sent[-1]
    assert completed["words"] == [{"word": "so", "start": 11.25, "end": 11.5, "confidence": 0.875}]
    assert completed["logprobs"] == [{"token": " so", "bytes": [32, 115, 111], "logprob": -0.25}]
    assert completed["lag"] == 0.04


def test_items_form_a_chain_and_a_failure_is_an_end() -> None:
    adapter, sent, items = adapted()
    for event in (
        Committed(0, 0.0, 1.0, "vad"),
        SpeechStarted(1, 1.2),
        Committed(1, 1.2, 2.0, "vad"),
        Failed(0, BackendDead("the device died")),
        final(1),
    ):
        adapter.handle(event)
    ends = check_contract(sent)
    assert [end["type"].removeprefix(TRANSCRIPTION) for end in ends] == ["failed", "completed"]
    error = ends[0]["error"]
    assert (error["type"], error["code"]) == ("server_error", "backend_unavailable")
    item = items.get(ends[0]["item_id"])
    assert item is not None and item.status == "incomplete"
    assert not [event for event in sent if event["type"] == "error"]


def test_a_cleared_utterance_is_another_item() -> None:
    adapter, sent, _ = adapted()
    for event in (SpeechStarted(0, 0.0), Cleared(), SpeechStarted(0, 2.0), Committed(0, 2.0, 3.0, "vad"), final(0)):
        adapter.handle(event)
    started = [event["item_id"] for event in sent if event["type"] == "input_audio_buffer.speech_started"]
    ends = check_contract(sent)
    assert started[0] != started[1] == ends[0]["item_id"]


def test_silence_after_something_open_waits_for_it() -> None:
    adapter, sent, _ = adapted()
    for event in (Committed(0, 0.0, 1.0, "vad"), IdleTimeout(1.0, 6.0)):
        adapter.handle(event)
    assert "completed" not in sent.kinds()
    adapter.handle(final(0))
    first, second = check_contract(sent)
    assert (first["transcript"], second["transcript"]) == ("so it goes", "")
    assert second["usage"]["seconds"] == 5.0


def test_what_is_open_at_the_end_fails() -> None:
    adapter, sent, _ = adapted()
    for utterance in range(3):
        adapter.handle(Committed(utterance, 0.0, 1.0, "vad"))
    adapter.handle(final(0))
    adapter.fail_open(BackendFailed("it ended"))
    adapter.fail_open(BackendFailed("it ended"))
    adapter.handle(final(1))  # too late: its item has had its end
    assert [end["type"].removeprefix(TRANSCRIPTION) for end in check_contract(sent)] == [
        "completed", "failed", "failed",
    ]  # fmt: skip


def test_beta_names() -> None:
    adapter, sent, _ = adapted()
    adapter.shape = Shape.BETA
    adapter.handle(Committed(0, 0.0, 1.0, "client"))
    adapter.handle(final(0))
    assert sent.kinds() == ["committed", ITEM + "created", "completed"]
    check_contract(sent)


def test_items_are_bounded() -> None:
    items = Items()
    kept = [Item(f"item_{number}") for number in range(3 * KEPT_ITEMS)]
    for item in kept:
        items.add(item)
        items.end(item, "completed", "x" * 10_000)
    assert items.get(kept[-1].id) is kept[-1]
    assert sum(items.get(item.id) is not None for item in kept) == 26  # of 10,000 characters each
    items.end(kept[0], "completed", "again")  # long gone
    assert items.delete(kept[-1].id) and not items.delete(kept[-1].id)
    assert items.get(kept[-1].id) is None
