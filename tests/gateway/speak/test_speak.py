"""/v1/speak with a plain WebSocket client: contexts, text in pieces, sound and words, cancel, hold, playback."""

from __future__ import annotations

import asyncio
import io
import time

import av
import numpy as np
import pytest

from tests.gateway.speak.client import speaking
from tests.gateway.speak.conftest import Running

SHORT = "Yes, of course."
TEXT = "Dr. Smith paid $3.50 for it. Then he went home, and nobody ever saw him again."


async def test_a_context_from_create_to_done(running: Running) -> None:
    async with speaking(running.url) as client:
        heard = await client.say(TEXT, lead=None)
    created, done = heard.events[0], heard.events[-1]
    assert (created["voice"], created["format"]) == (
        "heart",
        {"name": "pcm16", "rate": 24_000, "media_type": "audio/pcm; rate=24000; channels=1"},
    )
    assert (done["text"], done["characters"], done["reason"]) == (TEXT, len(TEXT), "end")
    assert done["samples"] == len(heard.samples()) == round(done["seconds"] * 24_000)
    assert 3 < done["seconds"] < 9
    assert np.abs(heard.samples()).max() > 3000
    # Frames follow each other without a hole.
    assert heard.frames[0][0] == 0
    assert all(first[0] < second[0] for first, second in zip(heard.frames, heard.frames[1:], strict=False))


async def test_words_are_those_of_the_text_and_come_before_their_sound(running: Running) -> None:
    async with speaking(running.url) as client:
        heard = await client.say(TEXT, lead=None)
    for word in heard.words:
        assert TEXT[word["start_char"] : word["end_char"]] == word["text"]
        assert 0 <= word["start"] < word["end"] <= heard.events[-1]["seconds"] + 0.01
    said = [word["text"].strip(".,") for word in heard.words]
    assert said[0] == "Dr" and "$3.50" in said and said[-1] == "again"
    starts = [word["start"] for word in heard.words]
    assert starts == sorted(starts)
    ends = [position for position, _ in heard.frames[1:]] + [len(heard.samples())]
    for (_, known), end in zip(heard.frames, ends, strict=True):
        begun = sum(start * 24_000 < end - 1 for start in starts)
        assert known >= begun, "a word that begins in a frame was told before it"


async def test_pieces_contexts_and_encodings_do_not_change_the_samples(running: Running) -> None:
    async with speaking(running.url) as client:
        whole = (await client.say(TEXT, "whole", lead=None)).samples()
        for name in ("pieces", "beside"):
            await client.send("create", name, lead=None, audio="base64" if name == "beside" else "binary")
        for piece in (TEXT[at : at + 3] for at in range(0, len(TEXT), 3)):
            await client.send("text", "pieces", text=piece)
            await client.send("text", "beside", text=piece)
        for name in ("pieces", "beside"):
            await client.send("end", name)
        over = {(await client.until("done"))["context"] for _ in range(2)}
        assert over == {"pieces", "beside"}
        for name in over:
            np.testing.assert_array_equal(client.heard[name].samples(), whole)
        other = (await client.say(TEXT, "other", lead=None, seed=1)).samples()
        assert len(other) == len(whole) and not np.array_equal(other, whole)
        fast = (await client.say(TEXT, "fast", lead=None, speed=2.0)).samples()
        assert 0.4 < len(fast) / len(whole) < 0.65


@pytest.mark.parametrize(
    ("name", "rate"), [("float32", 48_000), ("mulaw", None), ("wav", 16_000), ("flac", None), ("mp3", None),
                       ("opus", None), ("aac", 44_100)],
)  # fmt: skip
async def test_forms_of_sound(running: Running, name: str, rate: int | None) -> None:
    form = {"name": name} if rate is None else {"name": name, "rate": rate}
    async with speaking(running.url) as client:
        heard = await client.say(SHORT, lead=None, format=form)
    made = heard.events[0]["format"]["rate"]
    assert made == (rate or (8_000 if name == "mulaw" else 24_000))
    seconds = heard.events[-1]["seconds"]
    assert abs(heard.events[-1]["samples"] - seconds * made) <= 1
    if name == "float32":
        assert len(heard.sound) == 4 * heard.events[-1]["samples"]
    elif name == "mulaw":
        assert len(heard.sound) == heard.events[-1]["samples"]
    else:
        with av.open(io.BytesIO(heard.sound)) as container:
            found = sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))
        assert seconds - 0.001 <= found <= seconds + 0.15


async def test_flush_speaks_at_once_and_the_stream_goes_on(running: Running) -> None:
    async with speaking(running.url) as client:
        await client.send("create", lead=None, stall=30)
        await client.send("text", text="No full stop", flush=True)
        await client.until("sound")
        await client.send("text", text=" and more")
        await client.send("flush")
        await client.send("flush")
        await client.send("end")
        done = await client.until("done")
        assert done["text"] == "No full stop and more"
        assert [word["text"] for word in client.heard["a"].words] == ["No", "full", "stop", "and", "more"]


async def test_cancel_says_what_was_heard_and_nothing_follows(running: Running) -> None:
    async with speaking(running.url) as client:
        await client.send("create")
        await client.send("text", text=TEXT * 3)
        await client.until("sound")
        await client.send("playback", seconds=0.2)
        await asyncio.sleep(0.5)
        await client.send("cancel")
        cancelled = await client.until("cancelled")
        assert cancelled["spoken"] + cancelled["unspoken"] == TEXT * 3
        assert cancelled["characters"] == len(cancelled["spoken"])
        assert 0.2 <= cancelled["played"] < 2 and cancelled["played"] <= cancelled["made"]
        assert TEXT.startswith(cancelled["spoken"])
        assert running.until(lambda: running.speaking == 0)
        frames = len(client.heard["a"].frames)
        # The name is free again, and the second cancel of the first one is told so.
        await client.send("cancel", event_id="twice")
        error = await client.next()
        assert (error["error"]["code"], error["error"]["param"], error["event_id"]) == (
            "context_over",
            "context",
            "twice",
        )
        assert "cancelled" in error["error"]["message"]
        heard = client.heard["a"]
        assert len(heard.frames) == frames
        await client.say(SHORT, lead=None)
        assert client.heard["a"].events[0]["number"] > cancelled["number"]


async def test_a_listener_is_kept_within_the_lead_and_reports_move_it(running: Running) -> None:
    async with speaking(running.url) as client:
        await client.send("create", lead=1.0)
        await client.send("text", text=TEXT * 2, end=True)
        await client.until("sound")
        begun = time.monotonic()
        made = 0.0
        while time.monotonic() - begun < 1.2:
            try:
                event = await client.next(0.3)
            except TimeoutError:
                continue
            if event["type"] == "sound":
                made = len(client.heard["a"].samples()) / 24_000
                assert made <= time.monotonic() - begun + 1.0 + 0.6, "no further ahead than the lead and a window"
        assert made >= 1.0
        await client.send("playback", seconds=made)
        before = len(client.heard["a"].frames)
        await client.until("sound")
        assert len(client.heard["a"].frames) > before
        await client.send("cancel")
        await client.until("cancelled")


async def test_hold_and_resume_go_on_with_the_same_samples(running: Running) -> None:
    async with speaking(running.url) as client:
        whole = (await client.say(TEXT, "whole", lead=None)).samples()
        await client.send("create", lead=0.5)
        await client.send("text", text=TEXT, end=True)
        await client.until("sound")
        await client.send("hold")
        held = await client.until("held")
        assert held["spoken"] + held["unspoken"] == TEXT
        with pytest.raises(TimeoutError):
            while True:
                assert (await client.next(0.7))["type"] != "sound", "nothing comes while it is held"
        await client.send("resume")
        await client.until("resumed")
        while (event := await client.next())["type"] != "done":
            if event["type"] == "sound":  # a listener that is quick
                await client.send("playback", seconds=len(client.heard["a"].samples()) / 24_000)
        np.testing.assert_array_equal(client.heard["a"].samples(), whole)


async def test_halves_of_a_character_in_two_pieces_are_one(running: Running) -> None:
    async with speaking(running.url) as client:
        await client.send("create", lead=None, policy={"emoji": "name"})
        await client.socket.send('{"type": "text", "context": "a", "text": "Nice \\ud83d"}')
        await client.socket.send('{"type": "text", "context": "a", "text": "\\ude00 and \\ud83d", "end": true}')
        done = await client.until("done")
        assert done["text"] == "Nice 😀 and \N{REPLACEMENT CHARACTER}"
        assert done["characters"] == 12
        assert any(word["text"] == "😀" for word in client.heard["a"].words)
