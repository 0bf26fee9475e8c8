"""Files of every kind: their sound is there, at its place, and whatever is missing of it is told."""

from __future__ import annotations

import io
import resource
import struct
import wave
from fractions import Fraction
from functools import cache

import av
import numpy as np
import pytest

from batch_jobs.job import Channels
from batch_jobs.media.decode import Media, Report
from batch_jobs.media.probe import Source
from batch_jobs.media.timeline import CUT_OFF, DAMAGED, MISSING, SHORT, UNREAD
from speech import container_decode
from speech.asr import Samples
from tests.batch_jobs.media_files import encoded, garbled, talk
from tests.speech.test_containers import lying_index
from workers.errors import InputInvalid, InputTooLarge

HOUR = 3600.0
SECONDS = 20
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "1000000"}


class Heard:
    """A decoded file: `sound` of each channel from its `start`, and the report."""

    def __init__(self, data: bytes, channels: Channels = Channels.MIX, max_seconds: float = HOUR) -> None:
        pieces: dict[int, list[Samples]] = {}
        self.start: dict[int, int] = {}
        with Media(io.BytesIO(data), channels, max_seconds) as media:
            for second in media.sounds():
                assert sum(len(sound.samples) for sound in second) < 10 * 16_000, "streamed, never held"
                for sound in second:
                    self.start.setdefault(sound.channel, sound.start)
                    held = pieces.setdefault(sound.channel, [])
                    assert sound.start == self.start[sound.channel] + sum(map(len, held))
                    held.append(sound.samples)
            assert media.report is not None
            self.report: Report = media.report
            self.claimed, self.codec, self.channels = media.claimed, media.codec, media.channels
        self.sound = {channel: np.concatenate(held) for channel, held in pieces.items()}
        for channel, sound in self.sound.items():
            assert sound.dtype == np.float32
            assert np.abs(sound).max(initial=0) <= 1.0
            assert self.start[channel] + len(sound) == self.report.samples

    @property
    def missing(self) -> list[tuple[float, float, str]]:
        return [(span.start, span.end, span.reason) for span in self.report.missing]


def likeness(sound: Samples, original: Samples, start: float, end: float) -> float:
    """Correlation of the loudness of both, 10 ms by 10 ms, over seconds [start, end); encoders may delay by 60 ms."""
    ours, theirs = loudness(sound), loudness(original)
    a, b = int(start * 100), int(end * 100)
    return max(float(np.corrcoef(ours[a + lag : b + lag], theirs[a:b])[0, 1]) for lag in range(7))


def loudness(sound: Samples) -> np.ndarray:
    padded = np.concatenate([sound, np.zeros(1_600, np.float32)])
    return np.sqrt(np.square(padded[: len(padded) // 160 * 160].reshape(-1, 160)).mean(axis=1))


FILES: dict[str, tuple[str, str, int, dict[str, str]]] = {
    "wav": ("wav", "pcm_s16le", 16_000, {}),
    "wav 24 bit 44.1 kHz": ("wav", "pcm_s24le", 44_100, {}),
    "wav float 192 kHz": ("wav", "pcm_f32le", 192_000, {}),
    "wav mu-law 8 kHz": ("wav", "pcm_mulaw", 8_000, {}),
    "wav ima adpcm": ("wav", "adpcm_ima_wav", 22_050, {}),
    "aiff": ("aiff", "pcm_s16be", 48_000, {}),
    "au": ("au", "pcm_alaw", 8_000, {}),
    "caf alac": ("caf", "alac", 44_100, {}),
    "w64": ("w64", "pcm_s16le", 16_000, {}),
    "flac": ("flac", "flac", 44_100, {}),
    "ogg flac": ("ogg", "flac", 16_000, {}),
    "ogg opus": ("ogg", "libopus", 48_000, {}),
    "mp3": ("mp3", "libmp3lame", 44_100, {}),
    "mp3 24 kHz": ("mp3", "libmp3lame", 24_000, {}),
    "mp2": ("mp2", "mp2", 48_000, {}),
    "m4a": ("ipod", "aac", 44_100, {}),
    "m4a fragmented": ("mp4", "aac", 48_000, FRAGMENTED),
    "aac": ("adts", "aac", 44_100, {}),
    "ac3": ("ac3", "ac3", 48_000, {}),
    "wma": ("asf", "wmav2", 44_100, {}),
    "wavpack": ("wv", "wavpack", 16_000, {}),
    "tta": ("tta", "tta", 16_000, {}),
    "webm": ("webm", "libopus", 48_000, {}),
    "mka": ("matroska", "aac", 44_100, {}),
    "mpegts": ("mpegts", "aac", 48_000, {}),
    "flv": ("flv", "libmp3lame", 44_100, {}),
    "avi": ("avi", "pcm_s16le", 16_000, {}),
    "amr-like 3gp": ("3gp", "aac", 16_000, {}),
}
LOSSLESS = ("wav", "w64", "ogg flac", "avi")
UNSTATED = ("aac", "ac3", "mp2", "mpegts")
"""Bare frames, whose container says nothing of their length."""


@cache
def file(name: str) -> bytes:
    kind, codec, rate, options = FILES[name]
    return encoded(kind, codec, rate, talk(SECONDS), options)


@pytest.mark.parametrize("name", FILES)
def test_the_sound_of_every_kind_of_file(name: str) -> None:
    heard = Heard(file(name))
    assert heard.missing == []
    assert heard.report.damaged == 0
    assert heard.report.warnings == ()
    assert heard.report.samples / 16_000 == pytest.approx(SECONDS, abs=0.1)
    if name in LOSSLESS:
        np.testing.assert_array_equal(heard.sound[0], talk(SECONDS))
    for start in (1, SECONDS - 5):
        assert likeness(heard.sound[0], talk(SECONDS), start, start + 4) > 0.9
    if name not in UNSTATED:
        assert heard.claimed == pytest.approx(SECONDS, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "codec", "rate"),
    [("mp4", "aac", 48_000), ("matroska", "flac", 16_000), ("mov", "pcm_s16le", 16_000), ("avi", "libmp3lame", 44_100)],
)
def test_the_first_sound_track_of_a_video(kind: str, codec: str, rate: int) -> None:
    heard = Heard(encoded(kind, codec, rate, talk(12), video=True))
    assert heard.missing == []
    assert heard.report.samples / 16_000 == pytest.approx(12, abs=0.1)
    assert likeness(heard.sound[0], talk(12), 1, 11) > 0.9


def test_a_video_without_sound_says_so() -> None:
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as video:
        pictures = video.add_stream("mpeg4", rate=10)
        pictures.width = pictures.height = 64
        for number in range(10):
            picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))
            picture.pts = number
            video.mux(pictures.encode(picture))
        video.mux(pictures.encode(None))
    with pytest.raises(InputInvalid, match="no sound track"):
        Heard(out.getvalue())


NO_RECORDINGS = {
    "text": b"this is a text that somebody named recording.wav\n" * 2_000,
    "html": b"<!doctype html><html><body>login</body></html>" * 100,
    "pdf": b"%PDF-1.7\n" + bytes(range(256)) * 100,
    "zip": b"PK\x03\x04" + bytes(range(256)) * 100,
    "zeros": bytes(100_000),
    "playlist": b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n",
    "concat": b"ffconcat version 1.0\nfile /etc/passwd\n",
    "sdp": b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 9 RTP/AVP 0\n",
    "dash": b'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>http://x/</BaseURL></MPD>',
    "subtitles": b"1\n00:00:01,000 --> 00:00:02,000\nhello\n\n" * 50,
    "header alone": file("wav")[:44],
    "index lost": file("m4a")[: len(file("m4a")) // 2],
}


@pytest.mark.parametrize("name", NO_RECORDINGS)
def test_what_is_no_recording_is_refused_in_words(name: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        Heard(NO_RECORDINGS[name])
    assert caught.value.param == "file"
    assert "file" in caught.value.message


def test_an_empty_file() -> None:
    with pytest.raises(InputInvalid, match="empty"):
        Heard(b"")


def riff(frames: np.ndarray, rate: int = 16_000, *, claim: int | None = None) -> bytes:
    data = frames.astype("<i2").tobytes()
    channels = frames.shape[1] if frames.ndim > 1 else 1
    fmt = struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    length = len(data) if claim is None else claim
    return b"RIFF" + struct.pack("<I", 0xFFFFFFFF) + b"WAVEfmt " + fmt + b"data" + struct.pack("<I", length) + data


def test_one_sample_and_silence_decode() -> None:
    one = Heard(riff(np.array([1000])))
    assert one.report.samples == 1
    np.testing.assert_array_equal(one.sound[0], np.float32([1000 / 32768]))
    still = Heard(encoded("mp3", "libmp3lame", 44_100, np.zeros(5 * 16_000, np.float32)))
    assert np.abs(still.sound[0]).max() < 1e-4
    assert still.missing == []


@pytest.mark.parametrize("claim", [0, 0x7FFFF000, 0xFFFFFFFF])
def test_a_wav_from_a_pipe_claims_nothing(claim: int) -> None:
    heard = Heard(riff(np.ones(32_000), claim=claim))
    assert heard.claimed is None
    assert heard.missing == []
    assert heard.report.samples == 32_000


def test_pcm_is_exact_at_full_scale() -> None:
    values = np.array([-32768, -32767, -1, 0, 1, 32767])
    np.testing.assert_array_equal(Heard(riff(values)).sound[0] * 32768, values)


# What is missing


@pytest.mark.parametrize("name", ["wav", "wav 24 bit 44.1 kHz", "wav mu-law 8 kHz", "flac", "mp3", "webm", "mka"])
def test_a_file_that_was_cut_off_names_what_is_missing(name: str) -> None:
    whole = file(name)
    heard = Heard(whole[: len(whole) * 2 // 3])
    [(start, end, reason)] = heard.missing
    assert reason == CUT_OFF
    assert start == pytest.approx(heard.report.samples / 16_000)
    assert start == pytest.approx(SECONDS * 2 / 3, abs=4)
    assert end == pytest.approx(SECONDS, abs=0.1)
    assert likeness(heard.sound[0], talk(SECONDS), 5, 9) > 0.9


def test_an_mp3_without_a_header_raises_no_alarm() -> None:
    """Its length is FFmpeg's guess from the first frames: half, or twice, what is there when the bit rate varies."""
    quiet_first = np.concatenate([np.zeros(5 * 16_000, np.float32), talk(10)])
    for sound in (quiet_first, quiet_first[::-1].copy()):
        data = encoded("mp3", "libmp3lame", 44_100, sound, {"write_xing": "0"}, bit_rate=0)
        with av.open(io.BytesIO(data)) as plain:
            assert plain.duration is not None
        heard = Heard(data)
        assert heard.claimed is None
        assert heard.missing == []
        assert heard.report.samples / 16_000 == pytest.approx(15, abs=0.15)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("flac", MISSING), ("ogg opus", MISSING), ("webm", MISSING), ("mka", None),
     ("m4a", DAMAGED), ("caf alac", DAMAGED), ("wma", None), ("mpegts", None)],
)  # fmt: skip
def test_damage_in_the_middle_is_located_and_what_follows_stays_in_its_place(name: str, reason: str | None) -> None:
    heard = Heard(garbled(file(name), 0.5, 12_000 if name != "flac" else 40_000))
    spans = heard.missing
    assert spans
    assert reason is None or {why for _, _, why in spans} == {reason}
    for start, end, _ in spans:
        assert SECONDS * 0.3 < start < end < SECONDS * 0.8
    assert heard.report.samples / 16_000 == pytest.approx(SECONDS, abs=0.1)
    assert likeness(heard.sound[0], talk(SECONDS), 1, 6) > 0.9
    assert likeness(heard.sound[0], talk(SECONDS), 16, 19) > 0.9
    first = int(spans[0][0] * 16_000) + 1_000
    if reason is MISSING:
        assert np.abs(heard.sound[0][first : int(spans[0][1] * 16_000) - 1_000]).max() < 0.01, "silence, not noise"


def test_damage_in_bare_frames_is_located_and_the_whole_is_told_to_be_short() -> None:
    heard = Heard(garbled(file("mp3"), 0.5, 20_000))  # 2.5 s
    assert {reason for _, _, reason in heard.missing} == {DAMAGED, SHORT}
    assert heard.missing[0][0] == pytest.approx(SECONDS / 2, abs=0.3)
    assert heard.missing[-1][1] == pytest.approx(SECONDS, abs=0.1)
    assert heard.report.damaged > 0
    assert "did not decode" in " ".join(heard.report.warnings)


def test_a_rest_that_cannot_be_reached_is_told() -> None:
    data = file("m4a fragmented")
    fragment = data.index(b"moof", len(data) // 2) - 4
    heard = Heard(garbled(data, fragment / len(data), 300))
    assert heard.report.samples / 16_000 < 14
    start, end, reason = heard.missing[-1]
    assert reason == UNREAD
    assert end == pytest.approx(SECONDS, abs=4), "by the bytes"
    assert start == pytest.approx(heard.report.samples / 16_000)


def test_floats_that_are_no_numbers_are_silence_and_told() -> None:
    data = bytearray(encoded("wav", "pcm_f32le", 16_000, talk(4)))
    at = len(data) - 4 * 32_000
    data[at : at + 4_000] = b"\xff" * 4_000
    heard = Heard(bytes(data))
    np.testing.assert_array_equal(heard.sound[0][32_000:33_000], 0)
    np.testing.assert_array_equal(heard.sound[0][:32_000], talk(4)[:32_000])
    assert "1000 samples were no numbers" in heard.report.warnings[0]
    integers = np.frombuffer(data[-32_000:], "<f4") * np.float32(32768)
    with pytest.raises(InputInvalid, match="integers"):
        Heard(bytes(data[: len(data) - 16 * 16_000]) + integers.tobytes() * 8)


def test_a_gap_in_time_stamps_is_silence_so_that_times_stay_those_of_a_player() -> None:
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as target:
        track = target.add_stream("pcm_s16le", rate=16_000, layout="mono")
        for second in (0, 1, 2, 33, 34):
            values = (talk(5)[:16_000] * 32767).astype(np.int16).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(values, format="s16", layout="mono")
            frame.sample_rate, frame.pts = 16_000, second * 16_000
            target.mux(track.encode(frame))
    heard = Heard(out.getvalue())
    assert heard.report.samples == 35 * 16_000
    assert heard.missing == [(pytest.approx(3.0), pytest.approx(33.0), MISSING)]
    assert not heard.sound[0][3 * 16_000 : 33 * 16_000].any()
    np.testing.assert_array_equal(heard.sound[0][33 * 16_000 : 34 * 16_000], heard.sound[0][:16_000])


def test_sound_that_begins_after_the_picture_keeps_its_place() -> None:
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as target:
        pictures = target.add_stream("mpeg4", rate=10)
        pictures.width = pictures.height = 64
        track = target.add_stream("pcm_s16le", rate=16_000, layout="mono")
        for number in range(40):
            picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))
            picture.pts = number
            target.mux(pictures.encode(picture))
        target.mux(pictures.encode(None))
        frame = av.AudioFrame.from_ndarray(np.full((1, 16_000), 9_000, np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.pts = 16_000, 2 * 16_000
        target.mux(track.encode(frame))
    heard = Heard(out.getvalue())
    assert heard.report.samples == 3 * 16_000
    assert not heard.sound[0][: 2 * 16_000 - 1].any()
    assert heard.sound[0][2 * 16_000 :].all()


# Limits, and the same every time


def test_longer_than_allowed_is_refused_before_it_is_decoded_or_when_it_is_seen() -> None:
    for name in ("flac", "aac", "webm"):
        with pytest.raises(InputTooLarge) as caught:
            Heard(file(name), max_seconds=SECONDS - 5)
        assert caught.value.param == "file"


class Trickle(io.BytesIO):
    """A file that gives a few bytes at a time, as a slow store may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size if size is not None and size >= 0 else 1 << 20, 777))


@pytest.mark.parametrize("name", ["mp3", "m4a", "wav 24 bit 44.1 kHz"])
def test_the_same_file_gives_the_same_sound_however_it_is_read(name: str) -> None:
    with (
        Media(Trickle(file(name)), Channels.MIX, HOUR) as slow,
        Media(io.BytesIO(file(name)), Channels.MIX, HOUR) as fast,
    ):
        for ours, theirs in zip(slow.sounds(), fast.sounds(), strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert one.start == other.start
                np.testing.assert_array_equal(one.samples, other.samples)


def test_the_sound_is_that_of_the_wave_module() -> None:
    with wave.open(io.BytesIO(file("wav"))) as plain:
        values = np.frombuffer(plain.readframes(plain.getnframes()), "<i2")
    np.testing.assert_array_equal(Heard(file("wav")).sound[0] * 32768, values)


def many_packets(count: int) -> bytes:
    """An M4A of so many packets of silence, each a few bytes."""
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as file:
        track = file.add_stream("aac", rate=48_000)
        track.layout = "mono"
        made: list[bytes] = []
        for number in range(4):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 48_000, number * 1024
            made += [bytes(packet) for packet in track.encode(frame)]
        for number in range(count):
            packet = av.Packet(made[-1])
            packet.stream, packet.time_base = track, Fraction(1, 48_000)
            packet.pts = packet.dts = number * 1024
            file.mux(packet)
    return out.getvalue()


def test_an_index_larger_than_live_streams_may_have_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of 16 hours has the size that one allocation may have, here that of ten minutes; all its packets are
    there, and when it is open the limit is as before."""
    data = many_packets(60_000)
    limits: list[int] = []
    real = container_decode._limit_allocations
    monkeypatch.setattr(container_decode, "_LARGEST_ALLOCATION", 1 << 20)
    monkeypatch.setattr(container_decode, "_limit_allocations", lambda most: limits.append(most) or real(most))
    real(1 << 20)
    try:
        source = Source(io.BytesIO(data))
        assert sum(packet.size > 0 for packet in source.container.demux(source.track)) == 60_000
        assert limits == [32 * len(data), 1 << 20]
    finally:
        real(64 << 20)


def test_a_small_file_may_not_claim_a_large_index() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = lying_index(100_000_000)
    with pytest.raises((InputInvalid, InputTooLarge)):
        Heard(data, max_seconds=1e9)
    with pytest.raises((InputInvalid, InputTooLarge)):
        Heard(data + bytes(20 << 20), max_seconds=1e9)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB
