"""The spool in a folder and in a bucket: what is in it is whole, what does not fit leaves nothing, old things go."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from batch_jobs.spool import BlobMissing, Spool, SpoolFull

MIB = 1 << 20


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URL of a bucket on an S3 server in this process."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        boto3.client("s3").create_bucket(Bucket="speech")
        yield "s3://speech"
    server.stop()


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("batch_jobs.spool._IN_MEMORY", 5 * MIB)  # the least part of an S3 upload, to keep files short
    if request.param == "folder":
        return str(tmp_path / "spool")
    return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


@pytest.fixture
def spool(place: str) -> Spool:
    return Spool(place, 1 << 40)


def pieces(count: int, size: int = MIB) -> Iterator[bytes]:
    for number in range(count):
        yield bytes([number % 251]) * size


@pytest.mark.parametrize("count", [0, 1, 3, 12], ids=["empty", "one", "held in memory", "longer than that"])
def test_a_blob_is_named_by_its_content_and_comes_back(spool: Spool, count: int) -> None:
    whole = b"".join(pieces(count))
    blob = spool.put(pieces(count))
    assert blob == hashlib.sha256(whole).hexdigest()
    assert spool.size(blob) == len(whole)
    assert spool.exists(blob)
    assert spool.read(blob) == whole
    assert spool.put([whole]) == blob
    assert spool.usage() == len(whole), "the same bytes are kept once, and nothing else is left"


def test_a_range_is_read_and_a_file_can_be_sought_in(spool: Spool) -> None:
    blob = spool.put([b"0123456789" * 1000])
    assert spool.read(blob, 5, 12) == b"5678901"
    assert spool.read(blob, 9_995) == b"56789"
    with spool.open(blob) as file:
        file.seek(-3, os.SEEK_END)
        assert file.read() == b"789"
        file.seek(4_001)
        assert file.read(4) == b"1234"


def test_what_is_not_there_is_named(spool: Spool) -> None:
    nothing = "0" * 64
    for use in (spool.size, spool.read, spool.open):
        with pytest.raises(BlobMissing, match=nothing):
            use(nothing)
    assert not spool.exists(nothing)
    spool.delete(nothing)


@pytest.mark.parametrize("count", [3, 12], ids=["held in memory", "longer than that"])
def test_an_upload_that_breaks_off_leaves_nothing(spool: Spool, count: int) -> None:
    def broken() -> Iterator[bytes]:
        yield from pieces(count)
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError):
        spool.put(broken())
    assert spool.usage() == 0
    assert spool.put(pieces(count)), "and the next one is taken"


@pytest.mark.parametrize("count", [3, 12], ids=["held in memory", "longer than that"])
def test_what_passes_the_limit_is_refused_and_leaves_nothing(place: str, count: int) -> None:
    spool = Spool(place, (count + 1) * MIB)
    kept = spool.put([b"x" * (2 * MIB)])
    with pytest.raises(SpoolFull, match="purge"):
        spool.put(pieces(count))
    assert spool.usage() == 2 * MIB
    with pytest.raises(SpoolFull):
        spool.save("results/large", b"y" * (count * MIB))
    assert spool.load("results/large") is None
    spool.delete(kept)
    assert spool.put(pieces(count)), "room that was made counts"


def test_the_limit_counts_what_another_process_wrote(place: str) -> None:
    Spool(place, 1 << 40).put([b"x" * (3 * MIB)])
    with pytest.raises(SpoolFull):
        Spool(place, 4 * MIB).put([b"y" * (2 * MIB)])


FILL = """
import resource, sys
from batch_jobs.spool import Spool, SpoolFull
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
spool = Spool(sys.argv[1], 1 << 40)
kept = spool.put([b"k" * 1000])
try:
    spool.put(b"x" * 70_000 for _ in range(int(sys.argv[2])))
except SpoolFull as error:
    print("full:", error.message)
spool.save("jobs/1/transcript.json", b"old")
try:
    spool.save("jobs/1/transcript.json", b"n" * (2 << 20))
except SpoolFull:
    print("old:", spool.load("jobs/1/transcript.json") == b"old")
print("left:", spool.usage())
"""


@pytest.mark.parametrize("count", [20, 400], ids=["held in memory", "longer than that"])
def test_a_disk_that_takes_no_more_leaves_no_half_file(tmp_path: Path, count: int) -> None:
    """The system refuses to write past a megabyte, as a full disk does, in the middle of a file."""
    done = subprocess.run(
        [sys.executable, "-c", FILL, tmp_path / "spool", str(count)], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("full: there is no space left")
    assert lines[1:] == ["old: True", "left: 1003"]


def test_two_writers_of_one_file_at_once(spool: Spool) -> None:
    names: list[str] = []
    writers = [threading.Thread(target=lambda: names.append(spool.put(pieces(12)))) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert set(names) == {hashlib.sha256(b"".join(pieces(12))).hexdigest()}
    assert len(names) == 4
    assert spool.usage() == 12 * MIB


def test_named_things_are_written_again_and_forgotten(spool: Spool) -> None:
    assert spool.load("jobs/a1/transcript.json") is None
    spool.save("jobs/a1/transcript.json", b"one")
    spool.save("jobs/a1/transcript.json", b"two")
    spool.save("jobs/a1/words.tsv", b"three")
    spool.save("jobs/a10/transcript.json", b"another job's")
    assert spool.load("jobs/a1/transcript.json") == b"two"
    spool.forget("jobs/a1")
    assert spool.load("jobs/a1/transcript.json") is None
    assert spool.load("jobs/a1/words.tsv") is None
    assert spool.load("jobs/a10/transcript.json") == b"another job's"
    spool.forget("jobs/a10/transcript.json")
    spool.forget("jobs/a10/transcript.json")
    assert spool.usage() == 0


@pytest.mark.parametrize("name", ["", "/x", "../x", "a/../b", "a//b", ".hidden", "a/.b", "a b", "a\n", "ä", "x" * 201])
def test_names_cannot_leave_the_spool(tmp_path: Path, name: str) -> None:
    spool = Spool(tmp_path / "spool", MIB)
    for use in (lambda: spool.save(name, b""), lambda: spool.load(name), lambda: spool.forget(name)):
        with pytest.raises(ValueError, match="is no name"):
            use()


@pytest.mark.parametrize("blob", ["", "..", "A" * 64, "0" * 63, "../" + "0" * 61])
def test_blobs_cannot_leave_the_spool(tmp_path: Path, blob: str) -> None:
    spool = Spool(tmp_path / "spool", MIB)
    for use in (spool.read, spool.open, spool.size, spool.exists, spool.delete):
        with pytest.raises(ValueError, match="is no blob"):
            use(blob)


def test_a_sweep_takes_what_is_old_and_not_wanted(spool: Spool) -> None:
    wanted, other = spool.put([b"wanted"]), spool.put([b"other"])
    spool.save("jobs/live/transcript.json", b"1")
    spool.save("jobs/gone/transcript.json", b"22")
    spool.save("results/x", b"333")
    assert spool.sweep((), older_than=60) == 0, "nothing is old yet"
    assert spool.sweep({wanted, "jobs/live"}, older_than=-60) == len(b"other") + 2 + 3
    assert spool.read(wanted) == b"wanted"
    assert not spool.exists(other)
    assert spool.load("jobs/live/transcript.json") == b"1"
    assert spool.load("jobs/gone/transcript.json") is None
    assert spool.load("results/x") is None


def test_a_file_that_is_submitted_again_is_young_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", MIB)
    blob = spool.put([b"a recording"])
    (path,) = (tmp_path / "spool").rglob(blob)
    long_ago = time.time() - 1_000_000
    os.utime(path, (long_ago, long_ago))
    spool.put([b"a recording"])
    assert spool.sweep((), older_than=1_000) == 0
    os.utime(path, (long_ago, long_ago))
    assert spool.sweep((), older_than=1_000) == len(b"a recording")


def test_a_sweep_clears_what_a_killed_upload_left(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", 1 << 40)
    spool.put([b"x"])
    left = tmp_path / "spool" / "incoming" / "left"
    left.write_bytes(b"half a file")
    assert spool.sweep((), older_than=0.0) == 1, "only the blob: an upload may still be running"
    long_ago = time.time() - 10_000
    os.utime(left, (long_ago, long_ago))
    assert spool.sweep((), older_than=0.0) == len(b"half a file")
    assert not left.exists()


def test_a_sweep_spares_what_is_put_again_while_it_goes_on(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = spool.put([b"sound"])
    listed = {path: (size, 0.0) for path, (size, _) in spool._files(spool._root).items()}  # as it was, long ago
    monkeypatch.setattr(spool, "_files", lambda root: listed)
    spool.put([b"sound"])
    assert spool.sweep((), 60.0) == 0
    assert spool.read(blob) == b"sound"


def aged(spool: Spool, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The clock goes on."""
    now = time.time() + seconds
    monkeypatch.setattr("batch_jobs.spool.time.time", lambda: now)


def test_what_was_put_again_just_now_is_not_deleted(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = spool.put([b"sound"])
    spool.save("results/x", b"words")
    assert not spool.delete(blob, 60.0) and not spool.forget("results/x", 60.0)
    assert (spool.read(blob), spool.load("results/x")) == (b"sound", b"words")
    aged(spool, monkeypatch, 61.0 if spool._local else 1861.0)
    assert spool.delete(blob, 60.0) and spool.forget("results/x", 60.0)
    assert not spool.exists(blob) and spool.load("results/x") is None
    assert spool.delete(blob, 60.0), "it is gone all the same"


def test_a_file_put_again_at_the_moment_of_its_deletion_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its age and the end, and just after it was taken aside."""
    spool = Spool(tmp_path / "spool", MIB)
    blob = spool.put([b"sound"])
    (path,) = (tmp_path / "spool").rglob(blob)
    real = os.rename
    for again in ("before", "after"):
        os.utime(path, (1.0, 1.0))

        def rename(old: str, new: str, again: str = again) -> None:
            if again == "before":
                spool.put([b"sound"])
            real(old, new)
            if again == "after":
                spool.put([b"sound"])

        monkeypatch.setattr("batch_jobs.spool.os.rename", rename)
        assert spool.delete(blob, 60.0) == (again == "after")
        assert spool.read(blob) == b"sound"
        assert not list((tmp_path / "spool" / "incoming").iterdir())


def test_no_refusal_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path / "spool", MIB)
    errors = []
    for refused in (lambda: spool.read("0" * 64), lambda: spool.put([bytes(2 * MIB)]), lambda: spool.save("x", b"y")):
        monkeypatch.setattr("batch_jobs.spool.os.fsync", no_space)
        with pytest.raises((SpoolFull, BlobMissing)) as caught:
            refused()
        errors.append(caught.value.message)
    assert not [message for message in errors if str(tmp_path) in message]
    assert ["does not hold" in errors[0], "spool is full" in errors[1], "no space" in errors[2]] == [True] * 3


def no_space(file: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
