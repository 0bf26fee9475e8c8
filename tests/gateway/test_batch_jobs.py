"""Jobs over HTTP against the real service with the real tiny.en: submit, follow, fetch, listen, refuse."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
import soundfile
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families
from tusclient.client import TusClient
from whisper_normalizer.english import EnglishTextNormalizer

from gateway.batch.audio import parse_range
from tests.gateway.batch_client import JOBS, ended, events, get, submit

normalise = EnglishTextNormalizer()
JFK = "jfk.flac"


@pytest.fixture
async def http(service: str) -> AsyncIterator[ClientSession]:
    async with ClientSession(service) as session:
        yield session


@pytest.fixture(scope="module")
def jfk(data: Path) -> bytes:
    return (data / JFK).read_bytes()


@pytest.fixture
async def done(http: ClientSession, jfk: bytes) -> dict[str, Any]:
    """A job of the recording that has ended; the same file is heard once only."""
    status, job = await submit(http, jfk, JFK)
    assert status == 201
    body: dict[str, Any] = await ended(http, job["id"])
    assert (body["state"], body["error"]) == ("done", None)
    return body


async def result(http: ClientSession, job: dict[str, Any], kind: str) -> tuple[str, str, str]:
    async with http.get(job["urls"]["results"][kind]) as answer:
        assert answer.status == 200
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return answer.content_type, answer.headers["Content-Disposition"], await answer.text()


async def test_a_job_is_followed_by_events_to_its_end(http: ClientSession, data: Path) -> None:
    talk = np.concatenate([soundfile.read(data / f"austen-0{n}.wav")[0] for n in (870, 880, 890)])
    file = io.BytesIO()
    soundfile.write(file, talk, 16_000, format="WAV")
    everything: list[tuple[str, Any]] = []

    async def follow_all() -> None:
        async for event in events(http, "/v1/batch/events"):
            everything.append(event)

    following = asyncio.create_task(follow_all())
    status, job = await submit(
        http, file.getvalue(), "dir/three talks.wav", language="en", priority="high", keywords=["Dashwood", "Norland"]
    )
    assert status == 201
    assert job["name"] == "three talks.wav"
    assert job["options"]["priority"] == "high"
    assert job["options"]["keywords"] == ["Dashwood", "Norland"]
    seen = []
    async for name, body in events(http, job["urls"]["events"], {"Last-Event-ID": "17"}):
        assert name == "job"
        seen.append((time.monotonic(), body))
    states = [body["state"] for _, body in seen]
    assert states[-1] == "done"
    assert len(set(states)) > 1
    progress = [body["progress"] for _, body in seen]
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    assert min(later[0] - sooner[0] for sooner, later in pairwise(seen[1:])) > 0.1
    last = seen[-1][1]
    assert last["decoded"] == pytest.approx(len(talk) / 16_000, abs=0.2)
    assert last["chunks_done"] == last["chunks"] >= 1
    # Who comes late is told the end at once.
    assert [body["state"] async for _, body in events(http, job["urls"]["events"])] == ["done"]
    async with http.delete(job["urls"]["self"]) as answer:
        assert answer.status == 204
    async with asyncio.timeout(5):
        while ("deleted", {"id": job["id"]}) not in everything:
            await asyncio.sleep(0.05)
    following.cancel()
    mine = [body for name, body in everything if name == "job" and body["id"] == job["id"]]
    assert mine[-1]["state"] == "done"


async def test_results_in_every_format(http: ClientSession, done: dict[str, Any], references: dict[str, str]) -> None:
    expected = {
        "txt": "text/plain",
        "srt": "application/x-subrip",
        "vtt": "text/vtt",
        "tsv": "text/tab-separated-values",
        "json": "application/json",
    }
    texts = {}
    for kind, content_type in expected.items():
        found, disposition, texts[kind] = await result(http, done, kind)
        assert found == content_type
        assert disposition.startswith(f'attachment; filename="jfk.{kind}"')
    assert jiwer.wer(normalise(references[JFK]), normalise(texts["txt"])) < 0.1
    assert texts["vtt"].startswith("WEBVTT")
    assert "-->" in texts["srt"]
    assert json.loads(texts["json"])
    async with http.get(f"{done['urls']['self']}/results/docx") as answer:
        assert (answer.status, (await answer.json())["error"]["param"]) == (400, "format")


async def test_audio_whole_and_by_range(http: ClientSession, done: dict[str, Any], jfk: bytes) -> None:
    url, size = done["urls"]["audio"], len(jfk)

    async def fetch(status: int, **headers: str) -> tuple[bytes, Any]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with http.get(url, headers=sent) as answer:
            assert answer.status == status
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            return await answer.read(), answer.headers

    whole, headers = await fetch(200)
    assert whole == jfk
    assert (headers["Content-Type"], headers["Accept-Ranges"]) == ("audio/flac", "bytes")
    assert "sandbox" in headers["Content-Security-Policy"]
    assert headers["Content-Disposition"].startswith("attachment")
    for asked, first, end in (("100-299", 100, 300), ("-50", size - 50, size), ("1000-", 1000, size)):
        part, headers = await fetch(206, Range=f"bytes={asked}")
        assert part == jfk[first:end]
        assert headers["Content-Range"] == f"bytes {first}-{end - 1}/{size}"
    _, headers = await fetch(416, Range=f"bytes={size}-")
    assert headers["Content-Range"] == f"bytes */{size}"
    assert (await fetch(200, Range="bytes=0-1", If_Range='"another file"'))[0] == jfk
    assert (await fetch(206, Range="bytes=0-1", If_Range=f'"{done["source"]}"'))[0] == jfk[:2]
    await fetch(304, If_None_Match=f'"{done["source"]}"')
    async with http.head(url) as answer:
        assert (answer.status, answer.content_length, await answer.read()) == (200, size, b"")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ("bytes=0-0", (0, 1)),
        ("bytes=5-99", (5, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-30", (0, 10)),
        ("bytes=-0", (0, 0)),
        ("bytes=10-", (0, 0)),
        ("bytes=3-2", None),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
    ],
)
def test_ranges(header: str, expected: tuple[int, int] | None) -> None:
    assert parse_range(header, 10) == expected


async def test_a_page_that_somebody_uploads_never_runs(http: ClientSession) -> None:
    page = b"<html><script>alert(1)</script></html>"
    status, job = await submit(http, page, "talk.html", name='a/evil".html\r\nX-Evil: 1')
    assert (status, job["name"]) == (201, 'evil".htmlX-Evil: 1')
    body = await ended(http, job["id"])
    assert body["state"] == "failed"
    assert body["error"]
    async with http.get(job["urls"]["audio"]) as answer:
        assert (answer.content_type, await answer.read()) == ("application/octet-stream", page)
        assert answer.headers["Content-Disposition"].startswith("attachment; ")
        assert "X-Evil" not in answer.headers
    status, error = await get(http, f"{job['urls']['self']}/results/txt")
    assert (status, error["error"]["type"]) == (409, "invalid_request_error")


async def test_a_job_from_a_resumable_upload_is_made_once(service: str, http: ClientSession, data: Path) -> None:
    upload = TusClient(f"{service}/v1/batch/uploads").uploader(
        str(data / JFK), chunk_size=70_000, metadata={"filename": "Rede.flac"}
    )
    await asyncio.to_thread(upload.upload, 70_000)
    assert upload.url is not None
    fields = {"upload": upload.url.rpartition("/")[2], "channels": "mix", "repair": False, "subtitle_line": 30}
    async with http.post(JOBS, json=fields) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (409, "upload_incomplete")
    await asyncio.to_thread(upload.upload)
    async with http.post(JOBS, json=fields) as answer:
        job = await answer.json()
        assert (answer.status, answer.headers["Location"]) == (201, job["urls"]["self"])
    assert (job["name"], job["options"]["repair"], job["options"]["subtitles"]["line"]) == ("Rede.flac", False, 30)
    async with http.post(JOBS, json=fields) as answer:
        assert (answer.status, (await answer.json())["id"]) == (200, job["id"])
    assert (await ended(http, job["id"]))["state"] == "done"
    async with http.get(job["urls"]["audio"]) as answer:
        assert await answer.read() == (data / JFK).read_bytes()


async def test_lists_in_pages(http: ClientSession, jfk: bytes) -> None:
    made = [(await submit(http, jfk, f"{n}.flac"))[1]["id"] for n in range(3)]
    for job in made:
        await ended(http, job)
    _, first = await get(http, f"{JOBS}?limit=2")
    assert ([job["id"] for job in first["data"]], first["has_more"]) == ([made[2], made[1]], True)
    _, second = await get(http, f"{JOBS}?limit=1&before={made[1]}")
    assert [job["id"] for job in second["data"]] == [made[0]]
    _, running = await get(http, f"{JOBS}?state=running")
    assert not {job["id"] for job in running["data"]} & set(made)
    for query, param in (("state=gone", "state"), ("limit=0", "limit"), ("before=nobody", "before"), ("x=1", "x")):
        status, error = await get(http, f"{JOBS}?{query}")
        assert (status, error["error"]["param"]) == (400, param)


async def test_cancel_retry_delete(http: ClientSession, data: Path) -> None:
    speech, rate = soundfile.read(data / "austen-0870.wav", dtype="int16")
    file = io.BytesIO()
    soundfile.write(file, np.resize(speech, 600 * rate), rate, format="FLAC")
    _, job = await submit(http, file.getvalue(), "long.flac")
    url = job["urls"]["self"]
    status, _ = await get(http, f"{url}/results/txt")
    assert status == 409
    async with http.post(f"{url}/retry") as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (409, "job_state_conflict")
    async with http.post(f"{url}/cancel") as answer:
        assert (answer.status, (await answer.json())["state"]) == (200, "cancelled")
    async with http.post(f"{url}/retry") as answer:
        assert answer.status == 200
        assert (await answer.json())["state"] in ("queued", "running")
    async with http.delete(url) as answer:
        assert answer.status == 204
    for path in (url, f"{url}/events", f"{url}/audio", f"{url}/results/txt"):
        status, error = await get(http, path)
        assert (status, error["error"]["code"]) == (404, "job_not_found")
    for method in ("POST", "DELETE"):
        async with http.request(method, f"{url}/cancel" if method == "POST" else url) as answer:
            assert answer.status == 404


async def test_cancelling_what_has_ended_is_a_conflict(http: ClientSession, done: dict[str, Any]) -> None:
    for what in ("cancel", "retry"):
        async with http.post(f"{done['urls']['self']}/{what}") as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (409, "job_state_conflict")


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "base"}, 404, "model"),
        ({"repair_model": "base"}, 404, "repair_model"),
        ({"language": "klingon"}, 400, "language"),
        ({"language": "de"}, 400, "language"),
        ({"channels": "both"}, 400, "channels"),
        ({"priority": "urgent"}, 400, "priority"),
        ({"repair": "maybe"}, 400, "repair"),
        ({"subtitle_line": "9"}, 400, "subtitle_line"),
        ({"subtitle_lines": "1.5"}, 400, "subtitle_lines"),
        ({"subtitle_longest": "nan"}, 400, "subtitle_longest"),
        ({"webhook": "https://example.com/"}, 400, "webhook"),
        ({"keywords": ["word"] * 9, "colour": "blue"}, 400, "colour"),
        ({"prompt": ["a", "b"]}, 400, "prompt"),
        ({"prompt": "a" * 4097}, 400, "prompt"),
        ({"keywords": ["a" * 101]}, 400, "keywords"),
        ({"upload": "0" * 32}, 400, "upload"),
    ],
)
async def test_a_wrong_field_is_named(
    http: ClientSession, jfk: bytes, fields: dict[str, Any], status: int, param: str
) -> None:
    answered, body = await submit(http, jfk, **fields)
    assert (answered, body["error"]["param"]) == (status, param)


async def test_bodies_that_are_no_job(http: ClientSession) -> None:
    for body, headers, status, param in (
        (b"{", {"Content-Type": "application/json"}, 400, None),
        (b"[]", {"Content-Type": "application/json"}, 400, None),
        (b'{"prompt": "\\ud800"}', {"Content-Type": "application/json"}, 400, "prompt"),
        (b'{"prompt": {"a": 1}}', {"Content-Type": "application/json"}, 400, "prompt"),
        (b"{}", {"Content-Type": "application/json"}, 400, "upload"),
        (b'{"upload": "../../etc/passwd"}', {"Content-Type": "application/json"}, 404, "upload"),
        (b"[" * 100_000, {"Content-Type": "application/json"}, 400, None),
        (b"\xff\xfe{}", {"Content-Type": "application/json"}, 400, None),
        (b'{"upload": ' + b"1" * 5000 + b"}", {"Content-Type": "application/json"}, 400, None),
        (b"{}", {"Content-Type": "application/json; charset=klingon"}, 400, "upload"),
        (b" " * 2_000_000, {"Content-Type": "application/json"}, 413, None),
        (b"RIFF", {"Content-Type": "audio/wav"}, 415, None),
        (b"--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x"}, 400, "file"),
    ):
        async with http.post(JOBS, data=body, headers=headers) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["param"]) == (status, param)
            assert error["message"]
    assert (await submit(http, b""))[1]["error"]["param"] == "file"


async def test_health_and_metrics_know_of_jobs(http: ClientSession, done: dict[str, Any]) -> None:
    _, body = await get(http, "/readyz")
    assert body["batch"] == {"status": "ready", "detail": None}

    async def metrics() -> dict[tuple[str, str], float]:
        async with http.get("/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
            return {
                (sample.name, sample.labels.get("state", "")): sample.value
                for family in families
                for sample in family.samples
                if "_job" in sample.name
            }

    async with asyncio.timeout(5):
        while not (found := await metrics()).get(("speechlane_jobs_ended_total", "done")):
            await asyncio.sleep(0.1)
    assert found["speechlane_job_audio_seconds_total", ""] >= 10
    assert ("speechlane_jobs", "running") in found
