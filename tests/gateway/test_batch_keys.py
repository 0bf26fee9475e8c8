"""Jobs of several keys, and the calls that a service makes when they end."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from tests.conftest import RunningService, free_port, wait_until
from tests.gateway.batch_client import JOBS, ended, events, get, submit

KEYS = ("jobs-key-0123456789-a", "jobs-key-0123456789-b")
SECRET = "webhooks-secret-0123456789"
Launch = Callable[..., RunningService]


@dataclass
class Receiver:
    """Takes webhooks; answers with `answers` in turn, then 204."""

    port: int = field(default_factory=free_port)
    answers: list[web.Response] = field(default_factory=list)
    calls: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.calls.append((request.path, await request.read(), dict(request.headers)))
        return self.answers.pop(0) if self.answers else web.Response(status=204)

    async def calls_of(self, job: str, count: int = 1, seconds: float = 20.0) -> list[tuple[bytes, dict[str, str]]]:
        """The calls about a job, once there are so many."""
        async with asyncio.timeout(seconds):
            while True:
                found = [(body, headers) for path, body, headers in self.calls if job in body.decode()]
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("keys")
    return {
        "SPEECHLANE_BATCH_DIR": str(directory),
        "SPEECHLANE_API_KEYS": ",".join(KEYS),
        "SPEECHLANE_WEBHOOK_SECRET": SECRET,
    }


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def keyed(launch_service: Launch, settings: dict[str, str], port: int) -> RunningService:
    """A service with two keys that may call a receiver on this machine."""
    return launch_service(**settings, SPEECHLANE_WEBHOOK_HOSTS=f"private:127.0.0.1:{port},hooks.example.com,10.1.2.3")


@pytest.fixture
async def receiver(port: int) -> AsyncIterator[Receiver]:
    receiver = Receiver(port)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield receiver
    await runner.cleanup()


def session(service: RunningService, key: int) -> ClientSession:
    return ClientSession(service.url, headers={"Authorization": f"Bearer {KEYS[key]}"})


async def test_a_key_sees_its_own_jobs_only(keyed: RunningService, data: Path) -> None:
    jfk = (data / "jfk.flac").read_bytes()
    async with session(keyed, 0) as owner, session(keyed, 1) as stranger:
        seen: list[object] = []

        async def look() -> None:
            async for event in events(stranger, "/v1/batch/events"):
                seen.append(event)

        looking = asyncio.create_task(look())
        _, job = await submit(owner, jfk)
        url = job["urls"]["self"]
        for path in (url, f"{url}/events", f"{url}/audio", f"{url}/results/txt"):
            assert (await get(stranger, path))[0] == 404
        for method, path in (("POST", f"{url}/cancel"), ("POST", f"{url}/retry"), ("DELETE", url)):
            async with stranger.request(method, path) as answer:
                assert answer.status == 404
        assert (await get(stranger, JOBS))[1]["data"] == []
        assert [found["id"] for found in (await get(owner, JOBS))[1]["data"]] == [job["id"]]
        assert (await ended(owner, job["id"]))["state"] == "done"
        async with owner.delete(url) as answer:
            assert answer.status == 204
        await asyncio.sleep(0.5)
        looking.cancel()
        assert seen == []
    async with ClientSession(keyed.url) as nobody:
        for path in (JOBS, "/v1/batch/events", "/v1/batch/uploads"):
            assert (await get(nobody, path))[0] == 401


async def test_the_end_of_a_job_is_told_once_signed_and_tried_again(
    keyed: RunningService, data: Path, receiver: Receiver
) -> None:
    elsewhere = web.Response(status=302, headers={"Location": f"http://127.0.0.1:{receiver.port}/elsewhere"})
    receiver.answers = [elsewhere]
    async with session(keyed, 0) as http:
        hook = f"http://127.0.0.1:{receiver.port}/hooks/done?for=us"
        status, job = await submit(http, (data / "jfk.flac").read_bytes(), webhook=hook)
        assert status == 201
        calls = await receiver.calls_of(job["id"], 2)
        await asyncio.sleep(1.0)
    assert len(receiver.calls) == 2
    assert {path for path, _, _ in receiver.calls} == {"/hooks/done"}
    deliveries = set()
    for body, headers in calls:
        stamp, _, signature = headers["Speechlane-Signature"].partition(",v1=")
        moment = stamp.removeprefix("t=")
        assert abs(time.time() - int(moment)) < 30
        expected = hmac.new(SECRET.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(signature, expected)
        deliveries.add(headers["Speechlane-Delivery"])
    assert len(deliveries) == 1
    event = json.loads(calls[0][0])
    assert (event["type"], event["job"]["id"], event["job"]["state"]) == ("job.done", job["id"], "done")
    assert SECRET not in keyed.log()


@pytest.mark.parametrize(
    "hook",
    [
        "https://elsewhere.example.com/",
        "http://hooks.example.com/",
        "https://hooks.example.com:8443/",
        "https://user:word@hooks.example.com/",
        "https://10.1.2.3/",
        "https://127.0.0.1/",
        "ftp://hooks.example.com/",
        "hooks.example.com",
        "https://[::1",
    ],
)
async def test_no_other_host_can_be_called(keyed: RunningService, data: Path, hook: str) -> None:
    async with session(keyed, 0) as http:
        status, body = await submit(http, (data / "jfk.flac").read_bytes(), webhook=hook)
    assert (status, body["error"]["param"]) == (400, "webhook")


@pytest.mark.long
async def test_what_ended_while_nobody_could_be_told_is_told_after_a_restart(
    keyed: RunningService, launch_service: Launch, settings: dict[str, str], data: Path, port: int
) -> None:
    """Last in this file, because it ends the service."""
    async with session(keyed, 1) as http:
        hook = f"http://127.0.0.1:{port}/later"
        _, job = await submit(http, (data / "jfk.flac").read_bytes(), webhook=hook)
        await ended(http, job["id"])
    wait_until(lambda: f"{job['id']}: ClientConnectorError" in keyed.log(), "refused by the receiver", keyed)
    keyed.stop(signal.SIGKILL)
    receiver = Receiver(port)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    # The keys change places: what is whose stays.
    changed = settings | {"SPEECHLANE_API_KEYS": ",".join(reversed(KEYS))}
    again = launch_service(
        ready=False, **changed, SPEECHLANE_WEBHOOK_HOSTS=f"private:127.0.0.1:{port}", SPEECHLANE_BATCH_CONCURRENCY="0"
    )
    try:
        await receiver.calls_of(job["id"], seconds=90)
        async with session(again, 1) as http:
            assert [found["id"] for found in (await get(http, JOBS))[1]["data"]] == [job["id"]]
        await asyncio.sleep(1.0)
        assert len(receiver.calls) == 1
    finally:
        again.stop(signal.SIGKILL)
        await runner.cleanup()
