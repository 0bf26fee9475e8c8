"""Sessions that go on at another gateway: after cuts, after a kill, in an upgrade; and at one gateway only."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from load.cutting import CuttingProxy
from tests.conftest import wait_ready
from tests.gateway.realtime.client import PCM, recording, session, update
from tests.gateway.shared.conftest import RESUME_SECONDS, Gateway, StartGateway, Valkey
from tests.gateway.shared.listening import Heard, blocks_of
from tests.gateway.shared.listening import listen as listen_with

PREFIX = b"speechlane:live:"
KEY, OTHER = "first-key", "second-key"


class Fleet:
    """Two gateways; one that a test has ended is replaced."""

    def __init__(self, start: StartGateway) -> None:
        self._start = start
        self._gateways: list[Gateway] = []
        self.whole: Heard | None = None
        """What is heard where nothing breaks."""

    async def two(self) -> list[Gateway]:
        self._gateways = [one for one in self._gateways if one.process.poll() is None]
        while len(self._gateways) < 2:
            self._gateways.append(self._start("--api-keys", f"{KEY},{OTHER}", ready=False))
        for gateway in self._gateways:
            await asyncio.to_thread(wait_ready, gateway)
        if self.whole is None:
            self.whole = await listen(self._gateways[0].address, await blocks_of())
            self.whole.check()
            assert len(self.whole.finals) >= 2 and all(text for text, *_ in self.whole.finals)
        return self._gateways


@pytest.fixture(scope="module")
def fleet(start_gateway: StartGateway) -> Fleet:
    return Fleet(start_gateway)


async def listen(url: str, blocks: list[bytes], **how: Any) -> Heard:
    return await listen_with(url, blocks, key=KEY, **how)


def kept(valkey: Valkey) -> list[bytes]:
    """The names of the sessions in Redis."""
    return [name for name in valkey.redis.scan_iter(PREFIX + b"*") if len(name) == len(PREFIX) + 64]


def moved(gateway: Gateway, how: str) -> float:
    return gateway.metric(f'speechlane_sessions_moved_total{{how="{how}"}}')


@asynccontextmanager
async def balanced(*gateways: Gateway, cuts: bool = False, seed: int = 1) -> AsyncIterator[CuttingProxy]:
    """A load balancer without affinity before the gateways; with `cuts` it breaks connections at random bytes."""
    first, *others = (gateway.place for gateway in gateways)
    proxy = CuttingProxy(*first, random.Random(seed), up=40_000, down=3_000, others=others)
    proxy.armed = cuts
    async with proxy.running():
        yield proxy


async def becomes(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, "it does not come true"
        await asyncio.sleep(0.05)


async def test_cuts_at_random_bytes_change_nothing(fleet: Fleet, valkey: Valkey) -> None:
    two, blocks = await fleet.two(), await blocks_of()

    async def broken(seed: int) -> int:
        async with balanced(*two, cuts=True, seed=seed) as proxy:
            heard = await listen(f"ws://127.0.0.1:{proxy.port}", blocks)
        heard.check(fleet.whole)
        return proxy.cuts

    assert sum(await asyncio.gather(*(broken(seed) for seed in range(5)))) >= 15
    assert sum(moved(gateway, "came") for gateway in two) >= 5
    await becomes(lambda: not kept(valkey), RESUME_SECONDS + 10.0)  # who was cut before its first event is waited for
    assert int(valkey.redis.hget(PREFIX + b"sizes", "total") or 0) == 0


@pytest.mark.long
async def test_a_gateway_that_was_held_up_writes_nothing_any_more(fleet: Fleet, valkey: Valkey) -> None:
    frozen, other = await fleet.two()
    heard, lost = Heard(), moved(frozen, "lost")
    async with balanced(frozen) as proxy:
        url = f"ws://127.0.0.1:{proxy.port}"
        listening = asyncio.create_task(listen(url, await blocks_of(), speed=2.0, heard=heard))
        await heard.talking.wait()
        frozen.process.send_signal(signal.SIGSTOP)
        proxy.targets[:] = [other.place]
        proxy.cut()
        (name,) = kept(valkey)
        await becomes(lambda: valkey.redis.hget(name, "fence") == b"2")
        frozen.process.send_signal(signal.SIGCONT)
        await becomes(lambda: moved(frozen, "lost") == lost + 1)
        assert valkey.redis.hget(name, "fence") in (b"2", None)  # None: all was said meanwhile
        await listening
    heard.check(fleet.whole)


@pytest.mark.long
async def test_redis_goes_and_comes_back(fleet: Fleet, valkey: Valkey) -> None:
    here, there = await fleet.two()
    up = 'speechlane_shared_up{kind="live sessions"}'
    heard = Heard()
    async with balanced(here) as proxy:
        url = f"ws://127.0.0.1:{proxy.port}"
        listening = asyncio.create_task(listen(url, await blocks_of() * 2, speed=2.0, heard=heard))
        await heard.talking.wait()
        valkey.freeze()
        await becomes(lambda: here.metric(up) == 0)
        seen = len(heard.finals)
        await becomes(lambda: len(heard.finals) > seen)  # it goes on
        proxy.cut()  # and resumes where it is
        valkey.go_on()
        valkey.stop()
        valkey.start()  # and knows nothing any more
        await becomes(lambda: here.metric(up) == 1 and here.metric("speechlane_sessions_shared") == 1)
        proxy.targets[:] = [there.place]
        proxy.cut()
        await listening
    heard.check()
    assert fleet.whole is not None and heard.finals[: len(fleet.whole.finals)] == fleet.whole.finals
    assert heard.breaks == 2
    for gateway in (here, there):
        assert gateway.log().count("Redis is away") == gateway.log().count("Redis is back") <= 2
        assert "Traceback" not in gateway.log()


async def test_whose_it_is_and_what_can_be_seen(fleet: Fleet, valkey: Valkey) -> None:
    here, there = await fleet.two()

    def named(key: str) -> dict[str, Any]:
        return {"additional_headers": {"Authorization": f"Bearer {key}"}}

    url = f"{here.address}/v1/realtime?intent=transcription&resume=1"
    async with session(url, update(format=PCM), **named(KEY)) as client:
        token = client.of("session.created")[0]["session"]["resume"]["token"]
        await client.append(recording("austen-0880.wav")[:32_000], 0.1)
        await client.until("x.taken")
        client.socket.transport.abort()
    (name,) = kept(valkey)
    assert 0 < valkey.redis.pttl(name) <= 1000 * (RESUME_SECONDS + 5)
    seen = name + b"".join(field + value for field, value in valkey.redis.hgetall(name).items())
    assert token.encode() not in seen and KEY.encode() not in seen
    again = f"{there.address}/v1/realtime?session={token}"
    for key, query, status in (
        (OTHER, "", 404),
        (KEY, "&last_event=99", 410),
        (KEY, "&taken=99", 410),
        (KEY, "&taken=x", 400),
        ("wrong", "", 401),
    ):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(again + query, **named(key)):
                pass
        assert refused.value.response.status_code == status
    async with connect(again, **named(KEY)) as socket:
        told, created = json.loads(await socket.recv()), json.loads(await socket.recv())
        assert told["type"] == "x.session.resumed" and told["samples"] >= 16_000
        assert created == client.seen[0] and created["session"]["resume"]["token"] == token


async def test_a_gateway_that_is_killed_in_mid_utterance(fleet: Fleet) -> None:
    dying, other = await fleet.two()
    heard = Heard()
    async with balanced(dying) as proxy:
        url = f"ws://127.0.0.1:{proxy.port}"
        listening = asyncio.create_task(listen(url, await blocks_of(), heard=heard))
        await heard.talking.wait()
        proxy.targets[:] = [other.place]
        dying.process.kill()
        await listening
    heard.check(fleet.whole)
    assert heard.breaks >= 1


async def test_an_upgrade_under_load_drops_nothing(fleet: Fleet) -> None:
    old, new = await fleet.two()
    blocks, came = await blocks_of(), moved(new, "came")
    async with balanced(old) as proxy:
        everybody = [Heard() for _ in range(6)]
        url = f"ws://127.0.0.1:{proxy.port}"
        listening = [asyncio.create_task(listen(url, blocks, speed=3.0, heard=heard)) for heard in everybody]
        await asyncio.wait([asyncio.create_task(heard.talking.wait()) for heard in everybody])
        proxy.targets.append(new.place)  # for a while a balancer may send clients to the one that shuts down
        old.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(old.process.wait, 20) == 0
        await asyncio.gather(*listening)
    for heard in everybody:
        heard.check(fleet.whole)
        assert heard.breaks >= 1
    assert moved(new, "came") - came == len(everybody)
    assert "cut off" not in old.log() and "Traceback" not in old.log() + new.log()
