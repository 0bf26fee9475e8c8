"""A file to chunks: all its speech, cut in silence, its audio in the spool, the same every time and however it is read.

With the real voice activity on real recordings.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batch_jobs import split as module
from batch_jobs import wire
from batch_jobs.job import Channels, JobOptions
from batch_jobs.queue.task import MAX_PAYLOAD
from batch_jobs.settings import BatchSettings
from batch_jobs.split import Progress, SplitReport, split
from batch_jobs.spool import BlobMissing, Spool, SpoolFull
from batch_jobs.transcript import Chunk, Run
from speech.asr import SAMPLE_RATE, Samples
from speech.pieces import quietest
from speech.vad import SileroVad
from tests.batch_jobs.media_files import encoded, garbled, talk
from tests.batch_jobs.test_media_channels import planes
from tests.speech.sounds import joined, not_speech, recording, silence
from workers.clock import monotonic
from workers.device import Device
from workers.errors import InputInvalid, InputTooLarge
from workers.pool import Pool


@pytest.fixture(scope="module")
def vad() -> Iterator[Pool]:
    device = Device("vad")
    device.add(SileroVad())
    device.start()
    yield Pool("silero", [device])
    device.close()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", 1 << 40)


class Cut:
    """All that a split gave: `chunks`, `steps` of progress, the `report`."""

    def __init__(self, found: list[Chunk | Progress | SplitReport], spool: Spool) -> None:
        self.found = found
        self.chunks = [each for each in found if isinstance(each, Chunk)]
        self.steps = [each for each in found if isinstance(each, Progress)]
        assert isinstance(found[-1], SplitReport)
        self.report = found[-1]
        self._spool = spool

    def audio(self, run: Run) -> Samples:
        """What a worker hears of a run."""
        parts = [self._spool.read(s.blob, 2 * s.first, 2 * s.last) for s in run.audio]
        return np.frombuffer(b"".join(parts), "<i2").astype(np.float32) / 32768

    def check(self, *channels: Samples) -> None:
        """Chunks hold all speech, in order and once, in at most 28 s each, and their audio is that of `channels`."""
        assert len({chunk.id for chunk in self.chunks}) == len(self.chunks)
        for number, sound in enumerate(channels):
            own = [chunk for chunk in self.chunks if chunk.channel == number]
            for before, after in pairwise(run for chunk in own for run in chunk.runs):
                assert before.end <= after.start
            for chunk in own:
                assert chunk.length <= 28 * SAMPLE_RATE
                assert all(before.end < after.start for before, after in pairwise(chunk.runs)), "else they were one"
                assert all(any(r.start <= a < b <= r.end for r in chunk.runs) for a, b in chunk.speech)
                for run in chunk.runs:
                    assert 0 <= run.start < run.end <= len(sound)
                    np.testing.assert_allclose(self.audio(run), sound[run.start : run.end].clip(-1, 1), atol=1e-4)
            assert merged(self.report.speech[number]) == merged(span for chunk in own for span in chunk.speech)


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same without seams: voice that goes on over a cut is two spans that touch."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and out[-1][1] == start:
            out[-1] = out[-1][0], end
        else:
            out.append((start, end))
    return out


async def cut(
    data: bytes, spool: Spool, vad: Pool, channels: Channels = Channels.MIX, limits: BatchSettings | None = None
) -> Cut:
    options = JobOptions(channels=channels)
    found = [each async for each in split(spool.put([data]), options, spool, vad, monotonic, limits or BatchSettings())]
    return Cut(found, spool)


def flac(samples: Samples) -> bytes:
    return encoded("flac", "flac", SAMPLE_RATE, samples)


async def test_chunks_hold_all_speech_in_order_and_their_audio_is_that_of_the_file(spool: Spool, vad: Pool) -> None:
    sound = talk(200)
    done = await cut(flac(sound), spool, vad)
    spans = done.report.speech[0]
    assert sum(b - a for a, b in spans) > 0.5 * len(sound)
    done.check(sound)
    assert done.report.decoded == done.report.container == 200.0
    assert done.report.holes == ()


async def test_cuts_fall_into_silence_or_the_quietest_moment(spool: Spool, vad: Pool) -> None:
    voice = joined(*[recording("jfk.flac")[8_000 : 8 * SAMPLE_RATE] for _ in range(12)])
    done = await cut(flac(voice), spool, vad)
    seams = [after.start for before, after in pairwise(done.chunks) if before.end == after.start]
    assert seams, "nobody pauses for two seconds here, so some cuts fall into the talk"
    for at in seams:
        near = voice[at - 3 * SAMPLE_RATE : at + 3 * SAMPLE_RATE]
        around = voice[at - 800 : at + 800]
        assert np.mean(around**2) < 0.05 * np.mean(near**2)
        assert quietest(near, 0, len(near)) >= 0


async def test_pieces_share_a_chunk_while_they_fit_and_the_silence_between_them_is_left_out(
    spool: Spool, vad: Pool
) -> None:
    short, long = recording("austen-0880.wav"), recording("austen-0920.wav")
    sound = joined(*(part for _ in range(5) for part in (short, silence(4), long, silence(40))))
    done = await cut(flac(sound), spool, vad)
    done.check(sound)
    lengths = [[(run.end - run.start) / SAMPLE_RATE for run in chunk.runs] for chunk in done.chunks]
    assert max(map(len, lengths)) >= 3
    for these, following in pairwise(lengths):
        assert sum(these) + following[0] > 28, "nothing is left out that would fit"
    assert done.steps[-1].silent > 5 * 38
    assert sum(map(sum, lengths)) < 5 * (len(short) + len(long)) / SAMPLE_RATE + 10


async def test_the_most_pieces_make_a_task_that_fits_the_queue(spool: Spool, vad: Pool) -> None:
    """Shorter pieces than these there are none: the least voice, with what is kept before and behind it."""
    word = recording("jfk.flac")[round(0.3 * SAMPLE_RATE) : round(0.75 * SAMPLE_RATE)]
    done = await cut(flac(joined(*(part for _ in range(60) for part in (word, silence(2.6))))), spool, vad)
    most = max(done.chunks, key=lambda chunk: len(chunk.runs))
    assert len(most.runs) > 15
    assert len(wire.dump(most)) * 28 / most.length * SAMPLE_RATE * 2 < MAX_PAYLOAD


async def test_the_parts_are_the_whole_file_and_small_at_the_beginning(
    spool: Spool, vad: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PARTS", (7, 11, 30))
    sound = talk(100)
    done = await cut(flac(sound), spool, vad)
    parts = done.report.parts[0]
    assert [(part.end - part.start) / SAMPLE_RATE for part in parts] == [7, 11, 30, 30, 22]
    whole = np.frombuffer(b"".join(spool.read(part.blob) for part in parts), "<i2")
    np.testing.assert_allclose(whole / 32768, sound, atol=1 / 32768)
    assert max(len(run.audio) for chunk in done.chunks for run in chunk.runs) >= 2, "some straddle two parts"
    done.check(sound)
    slices = done.report.audio(0, 5 * SAMPLE_RATE, 20 * SAMPLE_RATE)
    assert [s.last - s.first for s in slices] == [2 * SAMPLE_RATE, 11 * SAMPLE_RATE, 2 * SAMPLE_RATE]


async def test_chunks_come_while_the_file_is_still_being_decoded(
    spool: Spool, vad: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PARTS", (15,))
    decoded, when = 0.0, []
    for each in (await cut(flac(talk(120)), spool, vad)).found:
        if isinstance(each, Progress):
            decoded = each.decoded
        elif isinstance(each, Chunk):
            when.append(decoded - each.end / SAMPLE_RATE)
    assert max(when) < 15 + 10 + 3 + 28, "a part, a step, the pause behind a piece, and the piece that no longer fits"
    assert min(when[:-1]) < max(when)


async def test_progress_adds_up(spool: Spool, vad: Pool) -> None:
    done = await cut(flac(talk(90)), spool, vad)
    assert done.steps[0].expected == 90.0
    for before, after in pairwise(done.steps):
        assert after.decoded >= before.decoded
        assert after.silent >= before.silent
        assert after.speech >= before.speech
        assert after.work >= before.work
    last = done.steps[-1]
    assert last.decoded == 90.0
    assert last.silent + sum(c.length for c in done.chunks) / SAMPLE_RATE == pytest.approx(90.0)
    assert last.speech == pytest.approx(sum(b - a for a, b in done.report.speech[0]) / SAMPLE_RATE)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reads=st.integers(1, 4_000), steps=st.integers(1, 40), pauses=st.lists(st.floats(0, 0.003), min_size=1))
def test_however_it_is_read_the_chunks_are_the_same(
    tmp_path: Path, vad: Pool, reads: int, steps: int, pauses: list[float]
) -> None:
    """The size of reads, of steps to voice activity, and a consumer that is slow now and then change nothing."""
    data = encoded("mp3", "libmp3lame", 44_100, talk(40))
    spool = Spool(tmp_path / "spool", 1 << 40)

    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size if size is not None and size >= 0 else 1 << 30, reads))

    async def again() -> Cut:
        found = []
        async for each in split(spool.put([data]), JobOptions(), spool, vad, monotonic, BatchSettings()):
            found.append(each)
            await asyncio.sleep(pauses[len(found) % len(pauses)])
        return Cut(found, spool)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PARTS", (8, 20))
        quiet = asyncio.run(cut(data, spool, vad))
        patch.setattr(spool, "open", lambda blob: Trickle(data))
        patch.setattr(module, "_AT_ONCE", steps)
        other = asyncio.run(again())
    assert other.chunks == quiet.chunks
    assert wire.dump(other.report) == wire.dump(quiet.report)
    assert wire.load(SplitReport, wire.dump(quiet.report)) == quiet.report


async def test_a_task_that_runs_again_gives_the_same_and_stores_nothing_new(spool: Spool, vad: Pool) -> None:
    data = flac(talk(60))
    first = await cut(data, spool, vad)
    used = spool.usage()
    again = await cut(data, spool, vad)
    assert again.chunks == first.chunks
    assert again.report == first.report
    assert spool.usage() == used


async def test_a_split_that_is_broken_off_closes_its_file_and_can_start_again(spool: Spool, vad: Pool) -> None:
    source = spool.put([flac(talk(60))])
    going = split(source, JobOptions(), spool, vad, monotonic, BatchSettings())
    assert isinstance(await anext(going), Progress)
    await anext(going)
    await going.aclose()
    found = [each async for each in split(source, JobOptions(), spool, vad, monotonic, BatchSettings())]
    assert isinstance(found[-1], SplitReport)


async def test_each_channel_has_its_own_chunks_on_one_clock(spool: Spool, vad: Pool) -> None:
    one, other = recording("austen-0870.wav"), recording("jfk.flac")
    left = joined(one, silence(len(other) / SAMPLE_RATE + 5))
    right = joined(silence(len(one) / SAMPLE_RATE + 2.5), other, silence(2.5))
    done = await cut(planes(left, right), spool, vad, Channels.EACH)
    assert done.report.channels == 2
    done.check(left, right)
    spoken = [sum(b - a for a, b in spans) / SAMPLE_RATE for spans in done.report.speech]
    assert spoken[0] > 5
    assert spoken[1] > 7
    assert min(chunk.start for chunk in done.chunks if chunk.channel == 1) > len(one)
    assert done.report.parts[1][0].start > 0, "a channel costs nothing until it has sound"
    last = done.steps[-1]
    chunks = sum(c.length for c in done.chunks) / SAMPLE_RATE / last.channels
    assert last.silent + chunks == pytest.approx(last.decoded)


async def test_what_is_odd_about_a_file_is_in_the_report(spool: Spool, vad: Pool) -> None:
    voice = talk(40)
    data = encoded("flac", "flac", SAMPLE_RATE, np.stack([voice, -voice]))
    done = await cut(garbled(data[: len(data) * 3 // 4], 0.3, 60_000), spool, vad)
    assert "opposite phase" in " ".join(done.report.warnings)
    assert done.report.container == 40.0
    assert done.report.decoded < 32
    middle, end = done.report.holes[0], done.report.holes[-1]
    assert 5 < middle.start < middle.end < 25
    assert "damaged" in middle.reason
    assert (end.start, end.end) == (pytest.approx(done.report.decoded), 40.0)
    assert "cut off" in end.reason or "missing at its end" in end.reason


@pytest.mark.parametrize("kind", ["silence", "white noise", "hum"])
async def test_where_nobody_speaks_there_are_no_chunks(spool: Spool, vad: Pool, kind: str) -> None:
    done = await cut(flac(not_speech(kind, 20)), spool, vad)
    assert done.chunks == []
    assert done.report.speech == ((),)
    assert done.steps[-1].silent == done.report.decoded == 20.0


async def test_one_sample_has_no_chunks(spool: Spool, vad: Pool) -> None:
    done = await cut(planes(np.ones(1, np.float32)), spool, vad)
    assert done.chunks == []
    assert done.report.decoded == 1 / SAMPLE_RATE


async def test_speech_up_to_the_very_end_is_kept(spool: Spool, vad: Pool) -> None:
    sound = joined(silence(1), recording("jfk.flac")[: 3 * SAMPLE_RATE + 9_737])
    done = await cut(flac(sound), spool, vad)
    assert done.chunks[-1].end == len(sound)
    done.check(sound)


async def test_errors_come_out_as_they_are(spool: Spool, vad: Pool, tmp_path: Path) -> None:
    with pytest.raises(InputInvalid, match="empty"):
        await cut(b"", spool, vad)
    with pytest.raises(InputTooLarge):
        await cut(flac(talk(20)), spool, vad, limits=BatchSettings(max_seconds=10))
    with pytest.raises(BlobMissing):
        [each async for each in split("0" * 64, JobOptions(), spool, vad, monotonic, BatchSettings())]
    data = flac(talk(70))
    small = Spool(tmp_path / "small", len(data) + 1_000_000)
    with pytest.raises(SpoolFull):
        await cut(data, small, vad)
    assert small.usage() == len(data)
