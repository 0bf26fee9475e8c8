"""Files through the whole lane, with the real tiny.en, the embedded queue and a spool on disk."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import av
import numpy as np
import pytest

from batch_jobs import jobs as facade
from batch_jobs import split as splitting
from batch_jobs import stages, wire
from batch_jobs.errors import NoSuchJob, NotReady
from batch_jobs.hear import sentences
from batch_jobs.job import FORMATS, Channels, Job, JobOptions, State
from batch_jobs.jobs import Jobs
from batch_jobs.queue import records
from batch_jobs.queue.task import Kind
from batch_jobs.settings import BatchSettings
from batch_jobs.stages import Stages
from batch_jobs.transcript import Chunk, Hole, Transcript
from speech.asr import SAMPLE_RATE, Samples
from speech.engine import Engine
from speech.events import Word
from tests.batch_jobs.lane import ended, flac, submit, until, working
from tests.batch_jobs.media_files import NAMES, talk
from tests.batch_jobs.test_media_channels import planes
from tests.gateway.realtime.client import wer
from tests.speech.sounds import DATA, joined, not_speech, recording, silence


@pytest.fixture
def lanes(tmp_path: Path) -> Iterator[list[Jobs]]:
    """Three lanes that have nothing in common."""
    opened = [Jobs.open(BatchSettings(directory=tmp_path / f"lane-{n}")) for n in range(3)]
    yield opened
    for lane in opened:
        lane.close()


def words(transcript: Transcript, channel: int = 0) -> list[Word]:
    return [word for segment in transcript.segments if segment.channel == channel for word in segment.words]


def text(transcript: Transcript, channel: int = 0) -> str:
    return " ".join(segment.text for segment in transcript.segments if segment.channel == channel)


def strict(data: bytes) -> object:
    """JSON without NaN and Infinity, which only Python reads."""
    return json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def files(jobs: Jobs) -> list[Path]:
    return sorted(path for path in (jobs.settings.directory / "spool").rglob("*") if path.is_file())


def silent_film() -> bytes:
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as file:
        track = file.add_stream("mpeg4", rate=10)
        track.width = track.height = 64
        for number in range(10):
            file.mux(track.encode(av.VideoFrame.from_ndarray(np.full((64, 64, 3), number, np.uint8))))
        file.mux(track.encode(None))
    return out.getvalue()


def holes_of(chunks: list[Chunk], reason: str) -> list[Hole]:
    return [
        Hole(run.start / SAMPLE_RATE, run.end / SAMPLE_RATE, chunk.channel, reason)
        for chunk in chunks
        for run in chunk.runs
    ]


def chunks_of(jobs: Jobs, job: Job) -> list[Chunk]:
    found = [wire.load(Chunk, task.payload) for task in jobs.queue.tasks(job.id).values() if task.kind is Kind.CHUNK]
    return sorted(found, key=lambda chunk: (chunk.channel, chunk.start))


def split_by_hand(jobs: Jobs, engine: Engine) -> list[Chunk]:
    """Cut the next job, and transcribe nothing of it yet."""
    lease = jobs.queue.take(5.0)
    assert lease is not None and lease.task.kind is Kind.SPLIT
    job = jobs.get(lease.task.job)
    asyncio.run(Stages(jobs.queue, jobs.spool, engine, jobs.settings).run(lease, job))
    return chunks_of(jobs, job)


# What comes out


def test_every_run_gives_the_same_words_at_their_times_and_all_formats(
    lanes: list[Jobs], engine: Engine, references: dict[str, str]
) -> None:
    at, parts, said = 0.0, [], []
    for name, pause in zip(["jfk.flac", *NAMES], (0.7, 1.0, 5.0, 0.6, 40.0, 3.0), strict=True):
        said.append((at, at + len(recording(name)) / SAMPLE_RATE, references[name]))
        parts += [recording(name), silence(pause)]
        at += len(recording(name)) / SAMPLE_RATE + pause
    data = flac(joined(*parts))
    found = []
    for lane, workers in zip(lanes, (1, 1, 2), strict=True):
        job = submit(lane, data)
        (done,) = ended(lane, engine, [job], workers)
        assert (done.state, done.error, done.chunks_done) == (State.DONE, None, done.chunks)
        assert done.covered + done.silent == pytest.approx(done.decoded, abs=0.01)
        found.append(lane.render(job.id, "json"))
    assert found[1] == found[0], "another run"
    assert found[2] == found[0], "two workers"
    transcript = lane.transcript(job.id)
    assert wer(" ".join(part for *_, part in said), text(transcript)) < 0.08
    for start, end, part in said:
        here = "".join(word.text for word in words(transcript) if start - 0.1 <= (word.start + word.end) / 2 <= end)
        assert wer(part, here) < 0.3, "each recording's words are where it is"
    assert all(0 <= one.start <= one.end <= other.start for one, other in pairwise(words(transcript)))
    assert all(word.end - word.start < 2.0 for word in words(transcript))
    account = transcript.account
    assert account.container == account.decoded == pytest.approx(at)
    assert account.missing == ()
    assert 0.5 * sum(end - start for start, end, _ in said) < account.words <= account.speech
    assert transcript.warnings == ()
    for format in FORMATS:
        assert b"my fellow Americans" in lane.render(job.id, format)
    strict(found[0])


def test_the_length_of_a_silence_moves_the_words_behind_it_and_nothing_else(jobs: Jobs, engine: Engine) -> None:
    """Both recordings share a chunk, in which nothing tells how long the silence between them was."""
    first, second = recording("austen-0870.wav"), recording("austen-0920.wav")
    quiet = [
        submit(jobs, flac(joined(silence(1), first, silence(pause), second, silence(1)))) for pause in (4.0, 304.0)
    ]
    ended(jobs, engine, quiet)
    assert [len(chunks_of(jobs, job)) for job in quiet] == [1, 1]
    near, far = (jobs.transcript(job.id) for job in quiet)
    assert text(near) == text(far)
    seam = 1 + len(first) / SAMPLE_RATE + 2
    for one, other in zip(words(near), words(far), strict=True):
        moved = 0.0 if one.start < seam else 300.0
        assert other.start - one.start == pytest.approx(moved, abs=0.05)
        assert other.end - one.end == pytest.approx(moved, abs=0.05)
    assert all(segment.end < seam or segment.start > seam for segment in (*near.segments, *far.segments))


def test_the_same_file_again_costs_nothing(jobs: Jobs, engine: Engine) -> None:
    data = (DATA / "jfk.flac").read_bytes()
    first, again = (ended(jobs, engine, [submit(jobs, data, name)])[0] for name in ("one.flac", "other.flac"))
    assert first.timings["asr"] > 0.0
    assert again.timings["asr"] == 0.0
    assert jobs.transcript(again.id) == jobs.transcript(first.id)
    (other,) = ended(jobs, engine, [submit(jobs, data, keywords=("Americans",))])
    assert other.timings["asr"] > 0.0, "other settings, other work"


def test_two_who_hand_in_one_file_at_once_get_the_same(jobs: Jobs, engine: Engine) -> None:
    data = flac(talk(25))
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda _: submit(jobs, data), range(2)))
    ended(jobs, engine, both, workers=2)
    assert both[0].source == both[1].source
    assert jobs.render(both[0].id, "json") == jobs.render(both[1].id, "json")


def test_each_channel_of_a_call_is_a_speaker(jobs: Jobs, engine: Engine, references: dict[str, str]) -> None:
    one, other = recording("austen-0920.wav"), recording("jfk.flac")
    left, right = joined(one, silence(len(other) / SAMPLE_RATE)), joined(silence(len(one) / SAMPLE_RATE), other)
    (done,) = ended(jobs, engine, [submit(jobs, planes(left, right), channels=Channels.EACH)])
    transcript = jobs.transcript(done.id)
    assert wer(references["austen-0920.wav"], text(transcript, 0)) < 0.15
    assert wer(references["jfk.flac"], text(transcript, 1)) < 0.15
    assert min(word.start for word in words(transcript, 1)) > len(one) / SAMPLE_RATE
    assert transcript.account.channels == done.channels == 2
    assert done.covered / 2 + done.silent == pytest.approx(done.decoded, abs=0.01)


def test_a_loop_is_transcribed_again_and_the_record_says_so(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speech played backwards is a language that tiny.en does not know, and it runs in circles."""
    data = flac(np.ascontiguousarray(recording("jfk.flac")[::-1]))
    raw, done = ended(jobs, engine, [submit(jobs, data, repair=False), submit(jobs, data)])
    before, after = jobs.transcript(raw.id), jobs.transcript(done.id)
    assert "loop" in {suspicion.rule for suspicion in before.suspicions}
    assert before.repairs == ()
    assert "loop" not in {suspicion.rule for suspicion in after.suspicions}
    repaired = next(one for one in after.repairs if "loop" in {reason.rule for reason in one.reasons})
    assert repaired.kept and repaired.score_after > repaired.score_before
    assert repaired.before[0].text in text(before)
    assert repaired.after[0].text in text(after)
    assert done.repairs == done.repairs_done == len(after.repairs) >= 1
    assert done.timings["repair"] > 0.0
    strict(jobs.render(done.id, "json"))
    monkeypatch.setattr(stages, "MAX_PAYLOAD", 100)  # so that what is repaired goes by reference
    (long,) = ended(jobs, engine, [submit(jobs, data)])
    assert jobs.render(long.id, "json") == jobs.render(done.id, "json")
    jobs.delete(long.id)
    assert not [path for path in files(jobs) if long.id in path.parts]


def test_where_nothing_is_said_there_is_an_empty_transcript(jobs: Jobs, engine: Engine) -> None:
    sounds: list[Samples] = [silence(20), not_speech("hum", 20), np.ones(1, np.float32)]
    for done in ended(jobs, engine, [submit(jobs, planes(sound), "quiet.wav") for sound in sounds]):
        assert (done.state, done.progress) == (State.DONE, 1.0)
        assert jobs.transcript(done.id).segments == ()
        assert jobs.render(done.id, "txt").strip() == b""
        strict(jobs.render(done.id, "json"))


# What goes wrong


def test_a_file_that_is_none_fails_alone_with_a_sentence(jobs: Jobs, engine: Engine) -> None:
    wrong = {
        "empty.wav": (b"", "empty"),
        "notes.wav": (b"Nothing to hear here.\n" * 50, "no recording"),
        "film.mp4": (silent_film(), "no sound track"),
    }
    given = [submit(jobs, data, name) for name, (data, _) in wrong.items()]
    good = submit(jobs, (DATA / "jfk.flac").read_bytes())
    *failed, fine = ended(jobs, engine, [*given, good])
    assert fine.state is State.DONE
    for done, (_, sentence) in zip(failed, wrong.values(), strict=True):
        assert done.state is State.FAILED
        assert sentence in (done.error or "")
        with pytest.raises(NotReady):
            jobs.transcript(done.id)


def test_what_every_chunk_would_fail_of_fails_the_job_before_it_is_cut(jobs: Jobs, engine: Engine) -> None:
    data = flac(talk(40))
    asked = [{"language": "tlh"}, {"model": "huge"}, {"repair_model": "huge"}]
    for done, named in zip(
        ended(jobs, engine, [submit(jobs, data, **options) for options in asked]),
        ("tlh", "'huge'", "'huge'"),
        strict=True,
    ):
        assert (done.state, done.chunks) == (State.FAILED, 0)
        assert named in (done.error or "")


def test_a_dead_chunk_is_a_named_hole_and_a_retry_mends_it(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "_PARTS", (45, 30))
    data = flac(talk(90))
    job = submit(jobs, data)
    chunks = split_by_hand(jobs, engine)
    gone = max(chunks, key=lambda chunk: len(chunk.runs)).runs[-1].audio[-1].blob
    kept = jobs.spool.read(gone)
    jobs.spool.delete(gone)
    dead = [chunk for chunk in chunks if any(one.blob == gone for run in chunk.runs for one in run.audio)]
    assert 0 < len(dead) < len(chunks)
    assert max(len(chunk.runs) for chunk in dead) > 1, "so that there is silence between its holes"
    (done,) = ended(jobs, engine, [job])
    assert (done.state, done.chunks_failed) == (State.PARTIAL, len(dead))
    assert done.covered + done.silent == pytest.approx(done.decoded, abs=0.01), "what is given up is settled too"
    partial = jobs.transcript(job.id)
    (reason,) = {letter.reason for letter in jobs.dead(job.id) if letter.kind is Kind.CHUNK}
    assert gone in reason
    holes = [hole for hole in partial.account.missing if hole.reason == reason]
    assert holes == holes_of(dead, reason)
    assert any(reason in warning for warning in partial.warnings)
    assert not any(hole.start < word.end and word.start < hole.end for hole in holes for word in words(partial))
    assert partial.repairs == (), "a hole is for a retry, not for a repair"
    assert words(partial)
    jobs.clean(-1.0)  # a moment ahead: everything is old
    jobs.spool.put([kept])
    assert jobs.retry(job.id)
    (mended,) = ended(jobs, engine, [job])
    assert (mended.state, mended.chunks_failed) == (State.DONE, 0)
    assert mended.covered + mended.silent == pytest.approx(mended.decoded, abs=0.01)
    whole = submit(jobs, data)
    ended(jobs, engine, [whole])
    assert jobs.render(job.id, "json") == jobs.render(whole.id, "json")
    assert not jobs.retry(job.id)


def test_a_job_waits_for_room_in_a_full_spool_and_says_so(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "_PARTS", (30, 20))
    data = flac(talk(60))

    async def run() -> None:
        job = submit(jobs, data)
        limit, jobs.spool.limit_bytes = jobs.spool.limit_bytes, len(data) + 2 * 40 * SAMPLE_RATE
        async with working(jobs, engine):
            await until(lambda: "the spool is full" in (jobs.get(job.id).waiting or ""))
            assert not jobs.get(job.id).state.ended
            jobs.spool.limit_bytes = limit
            await until(lambda: jobs.get(job.id).state.ended)
        done = jobs.get(job.id)
        assert (done.state, done.waiting, jobs.dead()) == (State.DONE, None, []), "no attempt of its one was counted"

    asyncio.run(run())


def test_a_spool_that_stays_full_fails_the_job_which_goes_on_when_there_is_room(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "_PARTS", (30, 20))
    monkeypatch.setattr(jobs.queue, "_settings", replace(jobs.settings, patience=0.0))
    data = flac(talk(60))
    job = submit(jobs, data)
    limit, jobs.spool.limit_bytes = jobs.spool.limit_bytes, len(data) + 2 * 40 * SAMPLE_RATE
    (failed,) = ended(jobs, engine, [job])
    assert failed.state is State.FAILED
    assert "the spool is full" in (failed.error or "")
    assert jobs.clean(-1.0) > 0, "its decoded audio does not keep the spool full"
    jobs.spool.limit_bytes = limit
    assert jobs.retry(job.id)
    whole = submit(jobs, data)
    done, other = ended(jobs, engine, [job, whole])
    assert (done.state, other.state) == (State.DONE, State.DONE)
    assert jobs.render(job.id, "json") == jobs.render(whole.id, "json")


def test_segments_end_with_sentences_and_before_silence() -> None:
    said = ["And", "Mr.", "Dashwood", "had", "then", "leisure.", "To", "consider", "how"]
    starts = [0.5 * n + (9 if n > 7 else 0) for n in range(len(said))]
    row = [Word(f" {part}", at, at + 0.4, 0.9) for part, at in zip(said, starts, strict=True)]
    groups = ["".join(word.text for word in group).strip() for group in sentences(row)]
    assert groups == ["And Mr. Dashwood had then leisure.", "To consider", "how"]


def test_a_result_that_was_deleted_is_a_hole(jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submit(jobs, flac(talk(20)))
    load = jobs.spool.load
    monkeypatch.setattr(jobs.spool, "load", lambda name: None if name.startswith("results/") else load(name))
    (done,) = ended(jobs, engine, [job])
    assert done.state is State.PARTIAL
    missing = jobs.transcript(job.id).account.missing
    assert list(missing) == sorted(holes_of(chunks_of(jobs, job), missing[0].reason), key=lambda hole: hole.start)
    assert "deleted" in missing[0].reason


def test_a_cancelled_job_ends_at_once_and_the_worker_goes_on(jobs: Jobs, engine: Engine) -> None:
    async def run() -> None:
        long = submit(jobs, flac(talk(120)))
        short = submit(jobs, (DATA / "jfk.flac").read_bytes())
        async with working(jobs, engine, concurrency=2):
            await until(lambda: jobs.get(long.id).chunks_done >= 1)
            assert await asyncio.to_thread(jobs.cancel, long.id)
            assert jobs.get(long.id).state is State.CANCELLED
            await until(lambda: jobs.get(short.id).state.ended)
        told = jobs.get(long.id)
        assert (told.state, told.chunks_done < told.chunks) == (State.CANCELLED, True)
        assert jobs.get(short.id).state is State.DONE
        assert not jobs.cancel(short.id), "it has ended otherwise"
        with pytest.raises(NotReady):
            jobs.transcript(long.id)
        assert jobs.queue.take(0.0) is None, "nothing of it is left in the queue"

    asyncio.run(run())


# What stays and what goes


def test_delete_takes_the_files_along_unless_another_job_has_them(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facade, "_IDLE", -1.0)
    data = flac(talk(20))
    first, second = ended(jobs, engine, [submit(jobs, data), submit(jobs, data)])
    jobs.delete(first.id)
    with pytest.raises(NoSuchJob):
        jobs.get(first.id)
    assert jobs.source(second.id).read() == data
    assert jobs.transcript(second.id).segments
    jobs.delete(second.id)
    assert files(jobs) == []


def test_a_file_that_somebody_hands_in_again_is_not_taken_from_him(
    jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He has found it in the spool and his job is not known yet when the last other one is deleted."""
    data = flac(talk(20))
    (first,) = ended(jobs, engine, [submit(jobs, data)])
    kept = jobs.keep([data])
    jobs.delete(first.id)
    second = jobs.create(kept, "again.flac", JobOptions())
    (done,) = ended(jobs, engine, [second])
    assert done.state is State.DONE
    now = time.time()
    monkeypatch.setattr(jobs.queue, "_clock", lambda: now + 61)
    jobs.discard()
    assert jobs.source(second.id).read() == data, "its time had come, but it is in use"
    jobs.delete(second.id)
    monkeypatch.setattr(jobs.queue, "_clock", lambda: now + 122)
    jobs.discard()
    assert jobs.spool.exists(kept), "it is young"
    for path in files(jobs):
        os.utime(path, (now - 100, now - 100))
    monkeypatch.setattr(jobs.queue, "_clock", lambda: now + 183)
    jobs.discard()
    assert files(jobs) == []


def test_a_deletion_reads_no_other_job(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [submit(jobs, b"same") for _ in range(3)]
    read: list[str] = []
    real = records.decode_job
    monkeypatch.setattr(records, "decode_job", lambda id, stored: read.append(id) or real(id, stored))
    jobs.delete(given[0].id)
    assert read == [given[0].id]


def test_cleaning_keeps_what_open_jobs_need_and_takes_the_rest(jobs: Jobs, engine: Engine) -> None:
    (done,) = ended(jobs, engine, [submit(jobs, (DATA / "jfk.flac").read_bytes())])
    submit(jobs, flac(talk(50)))
    chunks = split_by_hand(jobs, engine)
    before = set(files(jobs))
    assert jobs.clean(-1.0) > 0
    gone = before - set(files(jobs))
    assert {path.parent.name for path in gone if "named" in path.parts} == {"results"}
    assert jobs.source(done.id).read() == (DATA / "jfk.flac").read_bytes()
    assert jobs.transcript(done.id).segments
    assert all(jobs.spool.exists(one.blob) for chunk in chunks for run in chunk.runs for one in run.audio)
    (other,) = (job for job in jobs.list() if job.id != done.id)
    (told,) = ended(jobs, engine, [other])
    assert told.state is State.DONE


def test_silent_parts_of_an_open_job_are_kept_too(jobs: Jobs, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """No chunk lies in them, but a repair may reach into them."""
    monkeypatch.setattr(splitting, "_PARTS", (15, 15))
    submit(jobs, flac(joined(recording("jfk.flac"), silence(60))))
    split_by_hand(jobs, engine)
    before = files(jobs)
    assert jobs.clean(-1.0) == 0
    assert files(jobs) == before


def test_all_jobs_are_seen_although_some_are_deleted_meanwhile(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    module: ModuleType = __import__("batch_jobs.jobs", fromlist=["_PAGE"])
    monkeypatch.setattr(module, "_PAGE", 3)
    given = [submit(jobs, bytes([n])).id for n in range(8)]
    seen = []
    for job in jobs._all():
        seen.append(job.id)
        if len(seen) == 3:
            jobs.queue.delete(job.id)
    assert set(seen) == set(given)


def test_a_job_that_is_deleted_in_mid_task_leaves_nothing_that_is_worked_on(jobs: Jobs, engine: Engine) -> None:
    async def run() -> None:
        job = submit(jobs, flac(talk(60)))
        async with working(jobs, engine):
            await until(lambda: jobs.get(job.id).chunks_done >= 1)
            await asyncio.to_thread(jobs.delete, job.id)
            other = submit(jobs, (DATA / "jfk.flac").read_bytes())
            await until(lambda: jobs.get(other.id).state.ended)
            assert jobs.get(other.id).state is State.DONE
        assert jobs.dead() == []
        assert jobs.queue.take(0.0) is None

    asyncio.run(run())


def test_a_job_keeps_what_it_was_asked(jobs: Jobs) -> None:
    job = submit(jobs, b"x", keywords=("Dashwood",), prompt="Sense and Sensibility")
    assert jobs.get(job.id) == replace(job, state=State.QUEUED)
