"""Every kind of client at the real service: nothing to complain of when it does well, and each fault is noticed.

They mostly wait, so that all of them are there at once, and what they saw is looked at afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from load.corpora import Clip
from load.harness import asr, jobs, tts, voice
from load.harness.arrivals import Arrivals, Pattern
from load.harness.asr import AsrTrial
from load.harness.embed import EmbedTrial
from load.harness.jobs import JobsTrial
from load.harness.trial import Outcome, Trial
from load.harness.tts import TtsTrial
from load.harness.voice import VoiceTrial
from load.service import Running
from tests.load.harness.faulty import Message, Spoil, faulty

COMPLETED = "conversation.item.input_audio_transcription.completed"
SOON = Arrivals(spread=0.1)
OPEN = (Pattern.POISSON, Pattern.BURSTS)


def event(message: Message) -> dict[str, Any]:
    """What a message of the service says; nothing when it is no JSON object."""
    try:
        found = json.loads(message)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def once(matches: Callable[[Message], bool], change: Callable[[Message], list[Message]]) -> Spoil:
    """A fault in the first message that matches."""
    done = False

    async def spoil(message: Message) -> list[Message]:
        nonlocal done
        if done or not matches(message):
            return [message]
        done = True
        return change(message)

    return spoil


def lost(message: Message) -> list[Message]:
    return []


def doubled(message: Message) -> list[Message]:
    return [message, message]


def is_final(message: Message) -> bool:
    return event(message).get("type") == COMPLETED


def is_done(message: Message) -> bool:
    return event(message).get("type") == "response.done"


def misheard(message: Message) -> list[Message]:
    found = event(message)
    first, _, rest = found["transcript"].partition(" ")
    found["transcript"] = f"{'white' if first == 'red' else 'red'} {rest}"
    return [json.dumps(found)]


def later() -> Spoil:
    """The first final comes behind the second."""
    held: list[Message] = []

    async def spoil(message: Message) -> list[Message]:
        if not is_final(message) or len(held) > 1:
            return [message]
        held.append(message)
        return [] if len(held) == 1 else held[::-1]

    return spoil


def is_second_sound(message: Message) -> bool:
    """A frame of sound that is not the first of its speech."""
    return isinstance(message, bytes) and message[:4] == b"\1\0\0\0" and any(message[8:16])


async def stalled(message: Message) -> list[Message]:
    if is_second_sound(message):
        await asyncio.sleep(0.3)
    return [message]


def is_vectors(message: Message) -> bool:
    return len(event(message).get("data", [])) == 2


def swapped(message: Message) -> list[Message]:
    found = event(message)
    first, second = found["data"]
    first["embedding"], second["embedding"] = second["embedding"], first["embedding"]
    return [json.dumps(found)]


def halved(message: Message) -> list[Message]:
    found = event(message)
    return [json.dumps(found | {"data": found["data"][:1]})]


def not_finite(message: Message) -> list[Message]:
    found = event(message)
    size = len(base64.b64decode(found["data"][0]["embedding"]))
    found["data"][0]["embedding"] = base64.b64encode(b"\xff" * size).decode()
    return [json.dumps(found)]


def replaced(old: bytes, new: bytes, unless: bytes) -> Spoil:
    """In every body that does not begin so."""

    async def spoil(message: Message) -> list[Message]:
        assert isinstance(message, bytes)
        return [message if message.startswith(unless) else message.replace(old, new)]

    return spoil


@dataclass
class Seen:
    """What came of a kind without a fault, by how the clients came, and what it complained of under each fault."""

    trial: Trial
    well: dict[Pattern, Outcome]
    faults: dict[str, Outcome]

    def complaint(self, fault: str) -> str:
        return "\n".join(self.faults[fault].problems)


async def look(
    url: str, good: Trial, clients: int, seconds: float, seed: int, bad: Trial, worse: float, faults: dict[str, Spoil]
) -> Seen:
    """Have `clients` of `good` at the service for `seconds`, and one of `bad` for `worse` seconds at each fault."""

    async def one(spoil: Spoil) -> Outcome:
        async with faulty(url, spoil) as running:
            return await bad.run(running, 1, worse, seed)

    well, *found = await asyncio.gather(
        good.run(Running(url, None), clients, seconds, seed), *(one(spoil) for spoil in faults.values())
    )
    return Seen(good, {Pattern.CLOSED: well}, dict(zip(faults, found, strict=True)))


@pytest.fixture(scope="module")
def seen(url: str, clips: list[Clip]) -> dict[str, Seen]:
    """All kinds."""

    async def everything() -> dict[str, Seen]:
        heard = {
            "lost": once(is_final, lost),
            "doubled": once(is_final, doubled),
            "wrong": once(is_final, misheard),
        }
        spoken = {"lost": once(is_second_sound, lost), "doubled": once(is_second_sound, doubled), "stalled": stalled}
        vectors = {"swapped": swapped, "lost": halved, "broken": not_finite}
        others = asyncio.gather(
            *(
                EmbedTrial(arrivals=Arrivals(pattern), rate=10.0, batch=2).run(Running(url, None), 4, 1.5, 1)
                for pattern in OPEN
            )
        )
        found = await asyncio.gather(
            look(
                url, AsrTrial(recordings=clips, most_errors=0.0), 3, 8.0, 4,
                AsrTrial(recordings=clips, most_errors=0.0, patience=1.5, arrivals=SOON), 8.0,
                heard | {"late": later()},
            ),
            look(url, TtsTrial(arrivals=SOON), 3, 2.0, 1, TtsTrial(arrivals=SOON), 0.2, spoken),
            look(
                url, VoiceTrial(arrivals=SOON, recordings=clips, most_errors=0.0), 2, 3.0, 1,
                VoiceTrial(arrivals=SOON, recordings=clips, most_errors=0.0, patience=2.0), 0.5,
                {**{name: once(is_final, change) for name, change in
                    {"lost": lost, "doubled": doubled, "wrong": misheard}.items()},
                 "answered twice": once(is_done, doubled)},
            ),
            look(
                url, EmbedTrial(rate=10.0, batch=2), 4, 1.5, 1, EmbedTrial(rate=10.0, batch=2), 0.5,
                {name: once(is_vectors, change) for name, change in vectors.items()},
            ),
            look(
                url, JobsTrial(arrivals=SOON, recordings=clips, length=10.0, most_errors=0.0), 2, 0.5, 1,
                JobsTrial(arrivals=SOON, recordings=clips, length=10.0, most_errors=0.0), 0.1,
                {
                    "short": replaced(b'"covered": ', b'"covered": 0.0, "was": ', b"#"),
                    "failed": replaced(b'"state": "done"', b'"state": "failed"', b"#"),
                    "wrong": replaced(b"red ", b"brown ", b"#"),
                },
            ),
        )  # fmt: skip
        seen = {one.trial.kind: one for one in found}
        seen["embed"].well |= dict(zip(OPEN, await others, strict=True))
        return seen

    return asyncio.run(everything())


@pytest.mark.parametrize(("kind", "clients"), [("asr", 3), ("tts", 3), ("voice", 2), ("embed", 4), ("jobs", 2)])
def test_a_service_that_does_well_is_not_complained_of(seen: dict[str, Seen], kind: str, clients: int) -> None:
    trial = seen[kind].trial
    for pattern, out in seen[kind].well.items():
        assert out.problems == []
        if pattern is Pattern.CLOSED:
            assert (out.offered, out.admitted, out.refused) == (clients, clients, 0)
        assert out.ended == len(out.units) >= clients
        assert len(out.latencies[trial.objective.latency]) == out.ended
        assert all(unit.ended is not None and unit.ended >= unit.due for unit in out.units)
        assert out.latencies[trial.own]
        assert all(error == 0 for error in out.errors)
        assert out.watched is not None
        assert out.watched.loop_lag(0.99) is not None
        assert out.watched.memory > 0


def test_streams_are_heard_word_for_word(seen: dict[str, Seen]) -> None:
    out = seen["asr"].well[Pattern.CLOSED]
    assert len(out.errors) == 3
    assert out.counts["finals"] == out.ended
    assert set(out.latencies) >= {asr.FINAL, asr.TRIP, asr.COMMIT, asr.WORD, asr.OPEN}
    assert min(out.latencies[asr.FINAL]) > 0.4  # the silence that ends an utterance is in it
    assert out.track is not None
    assert out.track["utterances"]


def test_faults_of_transcription_are_noticed(seen: dict[str, Seen]) -> None:
    said = seen["asr"].complaint
    assert "did not come" in said("lost")
    assert "0 finals" in said("lost")
    assert "nothing was heard of" in said("lost")
    assert "2 finals" in said("doubled")
    assert "of the words are wrong" in said("wrong")
    assert "another order" in said("late")


def test_faults_of_speech_are_noticed(seen: dict[str, Seen]) -> None:
    well, said = seen["tts"].well[Pattern.CLOSED], seen["tts"].complaint
    assert well.counts[tts.UTTERANCES] == well.ended == len(well.latencies[tts.BYTE])
    assert "came behind" in said("lost")
    assert "came behind" in said("doubled")
    gaps = seen["tts"].faults["stalled"]
    assert gaps.problems == []  # a gap breaks no promise, but it is heard
    assert gaps.counts[tts.UNDERRUNS] == gaps.late == gaps.ended > 0


def test_faults_of_conversations_are_noticed(seen: dict[str, Seen]) -> None:
    said = seen["voice"].complaint
    assert set(seen["voice"].well[Pattern.CLOSED].latencies) >= {voice.HEARD, voice.COMMIT}
    assert "no transcript of" in said("lost")
    assert "transcribed twice" in said("doubled")
    assert "was heard and" in said("wrong")
    assert "of the words are wrong" in said("wrong")
    assert "ended twice" in said("answered twice")


def test_faults_of_vectors_are_noticed(seen: dict[str, Seen]) -> None:
    said = seen["embed"].complaint
    assert all(30 <= out.ended <= 90 for out in seen["embed"].well.values())  # 60 are asked on average
    assert "not its own" in said("swapped")
    assert "1 vectors came of 2 texts" in said("lost")
    assert "not finite" in said("broken")


def test_faults_of_jobs_are_noticed(seen: dict[str, Seen]) -> None:
    well, said = seen["jobs"].well[Pattern.CLOSED], seen["jobs"].complaint
    assert well.counts["seconds of audio"] > 10
    assert set(well.latencies) == {jobs.TURNAROUND, jobs.TAKEN, jobs.PER_SECOND}
    assert "are accounted for" in said("short")
    assert "ended as ['failed']" in said("failed")
    assert "of the words are wrong" in said("wrong")


async def test_nobody_answers() -> None:
    nowhere = Running("http://127.0.0.1:9", None)
    for trial in (AsrTrial(), TtsTrial(arrivals=SOON), EmbedTrial()):
        out = await trial.run(nowhere, 1, 1.0, 0)
        assert out.problems
        assert not out.ended
        assert not out.refused


async def test_a_service_that_is_full_refuses_and_does_no_wrong(clips: list[Clip]) -> None:
    headers: dict[str, str] = {}

    async def full(request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "full"}}, status=503, headers=headers)

    for told in (False, True):
        headers |= {"Retry-After": "5"} if told else {}
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", full)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        running = Running(f"http://{host}:{port}", None)
        for trial in (
            AsrTrial(recordings=clips, arrivals=SOON),
            TtsTrial(arrivals=SOON),
            VoiceTrial(recordings=clips, arrivals=SOON),
            JobsTrial(recordings=clips, arrivals=SOON, length=2.0),
        ):
            out = await trial.run(running, 2, 1.0, 0)
            assert (out.offered, out.admitted, out.refused, out.ended) == (2, 0, 2, 0)
            asked_again = trial.kind in ("asr", "voice")  # these clients read when they may come again
            assert bool(out.problems) == (asked_again and not told), out.problems
        await runner.cleanup()
