"""Resumable uploads: the unmodified tuspy client, a service that is killed in mid-upload, and every answer of tus."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError

from batch_jobs.job import JobOptions
from batch_jobs.jobs import Jobs
from batch_jobs.settings import BatchSettings
from gateway.batch.errors import ChecksumMismatch, StorageFull, UploadBusy, UploadExpired, UploadNotFound
from gateway.batch.job_request import JobRequest
from gateway.batch.submit import _make
from gateway.batch.upload_store import Checksum, UploadStore
from gateway.batch.uploads import parse_metadata
from tests.conftest import RunningService, status_of, wait_until
from workers.errors import InputInvalid, Overloaded

LIMIT = 3_000_000
KEY, OTHER = "uploads-key-0123456789", "uploads-other-key-0123456789"
TUS = {"Tus-Resumable": "1.0.0", "Authorization": f"Bearer {KEY}"}
BODY = {"Content-Type": "application/offset+octet-stream"}
PATH = "/v1/batch/uploads"
Launch = Callable[..., RunningService]


class Uploads:
    """A service that takes uploads, which can be killed and comes back with what it had."""

    def __init__(self, launch: Launch, directory: Path) -> None:
        self._launch, self._directory = launch, directory
        self.running = self._start()

    def _start(self) -> RunningService:
        service = self._launch(
            ready=False,  # uploads need no model
            SPEECHLANE_BATCH_DIR=str(self._directory),
            SPEECHLANE_API_KEYS=f"{KEY},{OTHER}",
            SPEECHLANE_BATCH_MAX_FILE_BYTES=str(LIMIT),
            SPEECHLANE_BATCH_CONCURRENCY="0",
        )
        wait_until(lambda: status_of(f"{service.url}/healthz") == 200, "alive", service)
        wait_until(lambda: "the queue of jobs is open" in service.log(), "open for jobs", service)
        return service

    @property
    def url(self) -> str:
        return self.running.url + PATH

    def kill_and_restart(self) -> None:
        self.running.stop(signal.SIGKILL)
        self.running = self._start()


@pytest.fixture(scope="module")
def uploads(launch_service: Launch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Uploads]:
    uploads = Uploads(launch_service, tmp_path_factory.mktemp("uploads"))
    yield uploads
    uploads.running.stop(signal.SIGKILL)


@pytest.fixture
async def http(uploads: Uploads) -> AsyncIterator[ClientSession]:
    async with ClientSession(headers=TUS) as session:
        yield session


def client(uploads: Uploads, key: str = KEY) -> TusClient:
    return TusClient(uploads.url, headers={"Authorization": f"Bearer {key}"})


async def create(http: ClientSession, uploads: Uploads, length: int, **headers: str) -> str:
    async with http.post(uploads.url, headers={"Upload-Length": str(length), **headers}) as answer:
        assert answer.status == 201
        assert "GMT" in answer.headers["Upload-Expires"]
        return uploads.running.url + answer.headers["Location"]


async def offset(http: ClientSession, url: str) -> int:
    async with http.head(url) as answer:
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
        return int(answer.headers["Upload-Offset"])


def stored(uploads: Uploads, url: str) -> bytes:
    return (uploads._directory / "uploads" / f"{url.rpartition('/')[2]}.part").read_bytes()


def test_tuspy_uploads_in_pieces_and_goes_on_after_the_service_was_killed(uploads: Uploads, data: Path) -> None:
    content = (data / "jfk.flac").read_bytes()
    assert len(content) > 300_000
    file = io.BytesIO(content)
    first = client(uploads).uploader(file_stream=file, chunk_size=100_000, metadata={"filename": "jfk.flac"})
    first.upload(stop_at=200_000)
    assert first.url is not None
    place = urlsplit(first.url).path
    uploads.kill_and_restart()
    url = uploads.running.url + place
    second = client(uploads).uploader(file_stream=file, url=url, chunk_size=100_000, upload_checksum=True)
    assert second.offset == 200_000
    second.upload()
    assert stored(uploads, url) == content


async def test_bytes_of_a_request_that_breaks_off_are_kept(http: ClientSession, uploads: Uploads) -> None:
    content = bytes(range(256)) * 4000
    url = await create(http, uploads, len(content))
    half = len(content) // 2
    with send_part(url, content[:half], len(content)):
        while len(await asyncio.to_thread(stored, uploads, url)) < half:
            await asyncio.sleep(0.02)
        assert await offset(http, url) == half
        # The first request is still open, and one at a time may write.
        headers = {**BODY, "Upload-Offset": str(half)}
        async with http.patch(url, data=content[half:], headers=headers) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (423, "upload_locked")
        async with http.delete(url) as answer:
            assert answer.status == 423
    for _ in range(100):
        async with http.patch(url, data=content[half:], headers=headers) as answer:
            if answer.status != 423:
                break
        await asyncio.sleep(0.05)
    assert (answer.status, answer.headers["Upload-Offset"]) == (204, str(len(content)))
    assert stored(uploads, url) == content


async def test_bytes_without_their_checksum_do_not_count_even_when_the_service_dies(
    http: ClientSession, uploads: Uploads
) -> None:
    content = bytes(1_000_000)
    url = await create(http, uploads, len(content))
    place = urlsplit(url).path
    with send_part(url, content[:700_000], len(content), checksum=hashlib.sha1(content).digest()):
        while len(await asyncio.to_thread(stored, uploads, url)) < 700_000:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(uploads.kill_and_restart)
    url = uploads.running.url + place
    assert await offset(http, url) == 0
    headers = {**BODY, "Upload-Offset": "0"}
    for digest, status, reached in ((b"wrong", 460, 0), (hashlib.sha256(content).digest(), 204, len(content))):
        headers["Upload-Checksum"] = f"sha256 {base64.b64encode(digest).decode()}"
        async with http.patch(url, data=content, headers=headers) as answer:
            assert answer.status == status
        assert await offset(http, url) == reached


class send_part:
    """Begins a PATCH of which only the first bytes are sent; breaks it off at the end of the context."""

    def __init__(self, url: str, part: bytes, length: int, checksum: bytes | None = None) -> None:
        at = urlsplit(url)
        proof = f"Upload-Checksum: sha1 {base64.b64encode(checksum).decode()}\r\n" if checksum else ""
        self._socket = socket.create_connection((at.hostname, at.port))
        head = (
            f"PATCH {at.path} HTTP/1.1\r\nHost: {at.netloc}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n{proof}"
            f"Authorization: Bearer {KEY}\r\nContent-Type: {BODY['Content-Type']}\r\nContent-Length: {length}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + part)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        self._socket.close()


async def test_what_the_server_can(uploads: Uploads) -> None:
    async with ClientSession(headers={"Authorization": TUS["Authorization"]}) as http:
        async with http.options(uploads.url) as answer:
            assert answer.status == 204
            assert answer.headers["Tus-Version"] == "1.0.0"
            assert answer.headers["Tus-Max-Size"] == str(LIMIT)
            assert set(answer.headers["Tus-Extension"].split(",")) == {
                "creation",
                "expiration",
                "termination",
                "checksum",
            }
            assert "sha1" in answer.headers["Tus-Checksum-Algorithm"].split(",")
        for version in ({}, {"Tus-Resumable": "0.2.2"}):
            async with http.post(uploads.url, headers={"Upload-Length": "1", **version}) as answer:
                assert (answer.status, answer.headers["Tus-Version"]) == (412, "1.0.0")


@pytest.mark.parametrize(
    ("headers", "status", "param"),
    [
        ({}, 400, "Upload-Length"),
        ({"Upload-Length": "-1"}, 400, "Upload-Length"),
        ({"Upload-Length": "many"}, 400, "Upload-Length"),
        ({"Upload-Defer-Length": "1"}, 400, "Upload-Defer-Length"),
        ({"Upload-Length": str(LIMIT + 1)}, 413, "file"),
        ({"Upload-Length": "9", "Upload-Metadata": "filename ***"}, 400, "Upload-Metadata"),
    ],
)
async def test_an_upload_that_cannot_be(
    http: ClientSession, uploads: Uploads, headers: dict[str, str], status: int, param: str
) -> None:
    async with http.post(uploads.url, headers=headers) as answer:
        assert (answer.status, answer.headers["Tus-Resumable"]) == (status, "1.0.0")
        assert (await answer.json())["error"]["param"] == param


async def test_answers_to_requests_that_do_not_fit(http: ClientSession, uploads: Uploads) -> None:
    metadata = "filename " + base64.b64encode("Gespräch.wav".encode()).decode()
    url = await create(http, uploads, 10, **{"Upload-Metadata": metadata})
    async with http.head(url) as answer:
        assert (answer.headers["Upload-Length"], answer.headers["Upload-Metadata"]) == ("10", metadata)
    assert parse_metadata(metadata + ",flag") == {"filename": "Gespräch.wav", "flag": ""}

    async def patch(status: int, content: bytes = b"x", **headers: str) -> dict[str, str]:
        sent = {**BODY, "Upload-Offset": "0", **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with http.patch(url, data=content, headers=sent) as answer:
            assert answer.status == status
            assert answer.headers["Tus-Resumable"] == "1.0.0"
            return dict(answer.headers)

    await patch(415, Content_Type="application/octet-stream")
    await patch(400, Upload_Offset="")
    await patch(409, Upload_Offset="3")
    await patch(413, bytes(11))
    await patch(400, Upload_Checksum="crc32 AAAA")
    await patch(400, Upload_Checksum="sha1 *")
    assert await offset(http, url) == 0
    assert (await patch(204, b"01234"))["Upload-Offset"] == "5"

    async def too_much() -> AsyncIterator[bytes]:
        yield b"567"
        await asyncio.sleep(0.1)
        yield b"89+++"

    async with http.patch(url, data=too_much(), headers={**BODY, "Upload-Offset": "5"}) as answer:
        assert answer.status == 413
    reached = await offset(http, url)
    assert reached <= 8
    override = {**BODY, "Upload-Offset": str(reached), "X-HTTP-Method-Override": "PATCH"}
    async with http.post(url, data=b"0123456789"[reached:], headers=override) as answer:
        assert (answer.status, answer.headers["Upload-Offset"]) == (204, "10")
    async with http.post(url) as answer:
        assert answer.status == 405
    async with http.get(url) as answer:
        assert answer.status == 405
    async with http.delete(url) as answer:
        assert answer.status == 204
    for method, address in (("HEAD", url), ("PATCH", url), ("DELETE", url), ("HEAD", f"{uploads.url}/..%2fx")):
        async with http.request(method, address, headers={**BODY, "Upload-Offset": "0"}) as answer:
            assert answer.status == 404


async def test_an_upload_belongs_to_a_key(http: ClientSession, uploads: Uploads) -> None:
    url = await create(http, uploads, 4)
    async with ClientSession(headers=TUS | {"Authorization": f"Bearer {OTHER}"}) as stranger:
        for method in ("HEAD", "PATCH", "DELETE"):
            async with stranger.request(method, url, headers={**BODY, "Upload-Offset": "0"}) as answer:
                assert answer.status == 404
    with pytest.raises(TusCommunicationError):
        client(uploads, OTHER).uploader(file_stream=io.BytesIO(b"abcd"), url=url)
    assert await offset(http, url) == 0


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> UploadStore:
    return UploadStore(tmp_path / "uploads", max_uploads=3, max_bytes=100, keep=60.0, keep_empty=10.0, clock=clock)


def test_what_is_not_continued_expires_and_goes(store: UploadStore, clock: Clock, tmp_path: Path) -> None:
    upload = store.create(10, "", "me")
    with store.open(upload.name, "me") as writer:
        writer.write(b"x")
    os.utime(tmp_path / "uploads" / f"{upload.name}.part", (clock.now, clock.now))
    assert store.expires(upload) == clock.now + 60
    clock.now += 61
    with pytest.raises(UploadExpired):
        store.get(upload.name, "me")
    (tmp_path / "uploads" / "left-by-a-crash.new").touch()
    clock.now += 1e10
    store.sweep()
    with pytest.raises(UploadNotFound):
        store.get(upload.name, "me")
    assert list((tmp_path / "uploads").iterdir()) == []


def test_what_is_announced_and_never_begun_goes_soon(store: UploadStore, clock: Clock, tmp_path: Path) -> None:
    never, done = store.create(10, "", "me"), store.create(1, "", "me")
    with store.open(done.name, "me") as writer:
        writer.write(b"x")
        writer.became("job-1")
    os.utime(tmp_path / "uploads" / f"{done.name}.part", (clock.now, clock.now))
    store.create(10, "", "you")
    store.create(10, "", "you")
    with pytest.raises(Overloaded):
        store.create(10, "", "you")
    clock.now += 11
    assert store.create(10, "", "you"), "those of before take no places any more"
    with pytest.raises(UploadExpired):
        store.get(never.name, "me")
    assert store.get(done.name, "me").job == "job-1", "its bytes went into the job"
    store.sweep()
    with pytest.raises(UploadNotFound):
        store.get(never.name, "me")
    assert store.get(done.name, "me").job == "job-1"


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"\xff", b"[]", b'{"name": "other", "length": 1, "metadata": "", "owner": ""}']
)
def test_a_damaged_upload_is_gone_and_the_others_go_on(
    store: UploadStore, clock: Clock, tmp_path: Path, damaged: bytes
) -> None:
    bad, good = (store.create(10, "", "me") for _ in range(2))
    (tmp_path / "uploads" / f"{bad.name}.json").write_bytes(damaged)
    with pytest.raises(UploadNotFound):
        store.get(bad.name, "me")
    store.create(10, "", "me")
    store.sweep()
    assert store.get(good.name, "me") == good
    for path in (tmp_path / "uploads").glob(f"{bad.name}*"):
        os.utime(path, (clock.now - 61, clock.now - 61))
    store.sweep()
    assert not list((tmp_path / "uploads").glob(f"{bad.name}*"))
    assert store.get(good.name, "me") == good


def test_one_of_several_keys_takes_its_share_and_leaves_the_rest(tmp_path: Path, clock: Clock) -> None:
    store = UploadStore(
        tmp_path / "uploads", max_uploads=6, max_bytes=100, keep=60.0, keep_empty=60.0, keys=2, clock=clock
    )
    large = store.create(100, "", "me")
    with pytest.raises(StorageFull):
        store.create(1, "", "you")
    with store.open(large.name, "me") as writer:
        writer.remove()
    store.create(40, "", "me")
    with pytest.raises(StorageFull):
        store.create(11, "", "me")
    store.create(50, "", "you")
    store.create(1, "", "me")
    store.create(1, "", "me")
    with pytest.raises(Overloaded, match="3 uploads"):
        store.create(1, "", "me")
    store.create(0, "", "you")


def test_an_upload_whose_opening_fails_is_free_again(store: UploadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = store.create(10, "", "me")
    writer = store.open(upload.name, "me")
    writer.expect(Checksum("sha1", b""))
    os.close(writer._file)  # the service died in mid-request
    with monkeypatch.context() as patch:
        patch.setattr(store, "_save", no_room)
        with pytest.raises(OSError, match="No space"):
            store.open(upload.name, "me")
    with store.open(upload.name, "me") as again:
        assert again.upload.unproven is None


def no_room(upload: object) -> None:
    raise OSError(28, "No space left on device")


class Threads:
    """A lane in which everything works."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    async def call(self, work: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.to_thread(work, *args)

    disk = call

    def store(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.ensure_future(asyncio.to_thread(work))


async def test_a_service_that_dies_between_the_job_and_the_note_of_it_makes_no_second_one(
    store: UploadStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = store.create(4, "", "me")
    with store.open(upload.name, "me") as writer:
        writer.write(b"talk")
    jobs = await asyncio.to_thread(Jobs.open, BatchSettings(directory=tmp_path / "lane"))
    lane: Any = Threads(jobs)
    try:
        asked = JobRequest(JobOptions(), "talk.wav", upload.name)
        with store.open(upload.name, "me") as writer, monkeypatch.context() as patch:
            patch.setattr(writer, "became", no_room)
            with pytest.raises(OSError, match="No space"):
                await _make(lane, writer, asked, "me")
        with store.open(upload.name, "me") as writer:
            job, created = await _make(lane, writer, JobRequest(JobOptions(), "other.wav", upload.name), "me")
        assert (job.name, created) == ("talk.wav", False)
        assert [found.id for found in jobs.list()] == [job.id] == [store.get(upload.name, "me").job]
        assert jobs.create(job.source, "third.wav", JobOptions(), "me", job.id).id == job.id
        assert [found.name for found in jobs.list()] == ["talk.wav"]
    finally:
        await asyncio.to_thread(jobs.close)


def test_uploads_are_bounded_in_number_and_size(store: UploadStore) -> None:
    store.create(60, "", "")
    with pytest.raises(StorageFull):
        store.create(41, "", "")
    store.create(20, "", "")
    done = store.create(20, "", "")
    with pytest.raises(Overloaded):
        store.create(0, "", "")
    with store.open(done.name, "") as writer:
        writer.write(bytes(20))
        writer.became("job-1")
    store.create(20, "", "")
    assert (store.get(done.name, "").job, store.offset(store.get(done.name, ""))) == ("job-1", 20)


def test_a_full_disk_keeps_what_fitted(store: UploadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = store.create(10, "", "")
    with store.open(upload.name, "") as writer:
        writer.write(b"abc")
        monkeypatch.setattr("os.write", no_space)
        with pytest.raises(StorageFull):
            writer.write(b"def")
        monkeypatch.undo()
    assert store.offset(upload) == 3


def no_space(file: int, data: bytes) -> int:
    raise OSError(28, "No space left on device")


def test_one_writer_at_a_time_in_any_thread(store: UploadStore) -> None:
    upload = store.create(100, "", "")
    busy = []

    def write() -> None:
        try:
            with store.open(upload.name, "") as writer:
                barrier.wait(5)
                writer.write(b"x")
        except UploadBusy:
            busy.append(1)
            barrier.wait(5)

    barrier = threading.Barrier(2)
    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(busy), store.offset(upload)) == (1, 1)


def test_a_wrong_checksum_takes_the_bytes_of_its_request_back(store: UploadStore) -> None:
    upload = store.create(100, "", "")
    with store.open(upload.name, "") as writer:
        writer.write(b"good")
    with pytest.raises(ChecksumMismatch), store.open(upload.name, "") as writer:
        writer.expect(Checksum("md5", b"no"))
        writer.write(b"bad")
        assert store.offset(store.get(upload.name, "")) == 4
        writer.prove()
    with store.open(upload.name, "") as writer:
        assert (writer.offset, list(writer.pieces())) == (4, [b"good"])


@pytest.mark.parametrize("header", ["a b c", "filename", "x QUJD,x QUJD", "ä QUJD", "x " + "QUJD" * 2000, "k /w=="])
def test_metadata_is_checked(header: str) -> None:
    if header == "filename":
        assert parse_metadata(header) == {"filename": ""}
    else:
        with pytest.raises(InputInvalid):
            parse_metadata(header)
