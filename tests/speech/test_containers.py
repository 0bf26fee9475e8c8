"""Containers, live and whole: real recordings through real encoders, damage, lies in headers, and threads that end."""

from __future__ import annotations

import gc
import io
import random
import resource
import struct
import threading
import time
import wave
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest

from speech.containers import FEED_SECONDS, SILENT_BYTES, ContainerDecoder, decode_file
from workers.errors import InputInvalid, InputTooLarge, ServingError

DATA = Path(__file__).parent.parent / "data"
FRAGMENTED = "frag_keyframe+empty_moov+default_base_moof"


class _Unseekable(io.RawIOBase):
    """Where a live muxer writes: it cannot go back to fill in a duration or an index."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.data += bytes(data)
        return len(data)


def read_wav(name: str) -> np.ndarray:
    with wave.open(str(DATA / name)) as file:
        assert file.getframerate() == 16_000
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


@cache
def original() -> np.ndarray:
    return read_wav("austen-0890.wav")


def encode(
    target, kind: str, codec: str, rate: int, samples: np.ndarray, channels: int, options: dict[str, str]
) -> None:
    with av.open(target, "w", format=kind, options=options) as container:
        stream = container.add_stream(codec, rate=rate)
        layout = {1: "mono", 2: "stereo"}[channels]
        stream.codec_context.layout = layout
        if codec in ("libopus", "aac", "libmp3lame"):
            stream.bit_rate = 64_000
        size = stream.codec_context.frame_size or None
        convert = av.AudioResampler(format=stream.codec_context.format, layout=layout, rate=rate, frame_size=size)
        frame = av.AudioFrame.from_ndarray(np.tile(samples, (channels, 1)), format="fltp", layout=layout)
        frame.sample_rate, frame.pts = 16_000, 0
        for ready in (*convert.resample(frame), *convert.resample(None)):
            container.mux(stream.encode(ready))
        container.mux(stream.encode(None))


@cache
def container(name: str) -> bytes:
    """The recording in a container of that name."""
    kind, codec, rate, channels, options = CONTAINERS[name]
    target = _Unseekable() if "live" in name or "fragmented" in name else io.BytesIO()
    encode(target, kind, codec, rate, original(), channels, options)
    return bytes(target.data) if isinstance(target, _Unseekable) else target.getvalue()


CONTAINERS: dict[str, tuple[str, str, int, int, dict[str, str]]] = {
    "ogg-opus": ("ogg", "libopus", 48_000, 1, {"page_duration": "20000"}),
    "ogg-opus-stereo": ("ogg", "libopus", 48_000, 2, {}),
    "ogg-vorbis-like-flac": ("ogg", "flac", 16_000, 1, {}),
    "webm-live": ("webm", "libopus", 48_000, 1, {"live": "1", "cluster_time_limit": "1000"}),
    "webm-file": ("webm", "libopus", 48_000, 1, {}),
    "mp3": ("mp3", "libmp3lame", 44_100, 1, {}),
    "flac": ("flac", "flac", 16_000, 1, {}),
    "flac-48k-stereo": ("flac", "flac", 48_000, 2, {}),
    "wav": ("wav", "pcm_s16le", 16_000, 1, {}),
    "wav-live": ("wav", "pcm_s16le", 16_000, 1, {}),
    "wav-24bit-stereo": ("wav", "pcm_s24le", 44_100, 2, {}),
    "wav-float": ("wav", "pcm_f32le", 24_000, 1, {}),
    "wav-mulaw": ("wav", "pcm_mulaw", 16_000, 1, {}),
    "wav-8bit": ("wav", "pcm_u8", 16_000, 1, {}),
    "m4a": ("ipod", "aac", 44_100, 1, {}),
    "m4a-alac": ("ipod", "alac", 16_000, 1, {}),
    "m4a-fragmented": ("mp4", "aac", 48_000, 1, {"movflags": FRAGMENTED, "frag_duration": "200000"}),
    "aac": ("adts", "aac", 44_100, 1, {}),
}
LOSSLESS = {"ogg-vorbis-like-flac", "flac", "wav", "wav-live", "m4a-alac"}
STREAMABLE = [name for name in CONTAINERS if name not in ("m4a", "m4a-alac")]


def whole(data: bytes, max_seconds: float = 60.0) -> np.ndarray:
    return np.concatenate(list(decode_file(data, max_seconds=max_seconds)))


def streamed(data: bytes, step: int) -> np.ndarray:
    with ContainerDecoder() as decoder:
        pieces = [decoder.feed(data[at : at + step]) for at in range(0, len(data), step)]
        return np.concatenate([*pieces, decoder.flush()])


def agreement(samples: np.ndarray, reference: np.ndarray) -> tuple[float, int]:
    """Correlation with the reference and how many samples later it sounds, at the best lag within 50 ms."""
    size = 1 << (len(samples) + len(reference)).bit_length()
    product = np.fft.irfft(np.fft.rfft(samples, size) * np.conj(np.fft.rfft(reference, size)), size)
    lag = max(range(-800, 801), key=lambda lag: product[lag])
    scale = np.sqrt(float((samples**2).sum()) * float((reference**2).sum()))
    return float(product[lag] / scale), lag


def assert_is_the_recording(name: str, samples: np.ndarray, reference: np.ndarray) -> None:
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    if name in LOSSLESS:
        np.testing.assert_array_equal(samples, reference)
        return
    correlation, lag = agreement(samples, reference)
    assert correlation > 0.97
    # AAC without an edit list begins with its encoder's delay of one frame, and ends on a whole frame.
    plain_aac = name in ("aac", "m4a-fragmented")
    assert 0 <= lag <= (400 if plain_aac else 1)
    assert 0 <= len(samples) - len(reference) <= (1_100 if plain_aac or name in ("m4a", "mp3") else 1)


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_whole_file(name: str) -> None:
    assert_is_the_recording(name, whole(container(name)), original())


@pytest.mark.parametrize("step", [313, 20_000])
@pytest.mark.parametrize("name", STREAMABLE)
def test_a_stream_in_pieces(name: str, step: int) -> None:
    assert_is_the_recording(name, streamed(container(name), step), original())


@pytest.mark.parametrize("name", ["ogg-opus", "webm-live", "mp3", "wav", "m4a-fragmented", "flac"])
def test_a_stream_does_not_depend_on_how_it_was_cut(name: str) -> None:
    data = container(name)
    rng = random.Random(name)
    cuts = sorted(rng.sample(range(len(data)), 200))
    with ContainerDecoder() as decoder:
        pieces = [decoder.feed(data[a:b]) for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        pieces.append(decoder.flush())
    np.testing.assert_array_equal(np.concatenate(pieces), streamed(data, len(data)))


def test_one_byte_at_a_time() -> None:
    data = container("webm-live")[:3_000]
    np.testing.assert_array_equal(streamed(data, 1), streamed(data, len(data)))


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("webm-live", 0.1), ("ogg-opus", 0.1), ("wav-live", 0.02), ("mp3", 0.2), ("m4a-fragmented", 0.3)],
)
def test_a_live_stream_is_decoded_as_it_comes(name: str, seconds: float) -> None:
    """What has been fed is out, but for `seconds`, from the first half second on."""
    data = container(name)
    with ContainerDecoder() as decoder:
        made = 0
        for at in range(0, len(data), 200):
            made += len(decoder.feed(data[at : at + 200]))
            fed = (at + 200) / len(data) * len(original()) / 16_000  # these encodings have a near constant bit rate
            if fed > 0.5:
                assert made / 16_000 > fed - seconds - 0.15  # the bit rate wavers


@pytest.mark.parametrize("name", ["m4a", "m4a-alac"])
def test_an_m4a_with_its_index_last_cannot_stream_and_says_how_to_mend_it(name: str) -> None:
    with ContainerDecoder() as decoder:
        with pytest.raises(InputInvalid, match="faststart") as caught:
            decoder.feed(container(name))
        assert caught.value.param == "audio"
        with pytest.raises(InputInvalid, match="faststart"):
            decoder.feed(b"more")


@pytest.mark.parametrize("step", [7, 100_000])
def test_an_m4a_with_its_index_first_streams(step: int, tmp_path: Path) -> None:
    path = tmp_path / "first.m4a"  # the muxer reads its own output again to move the index
    encode(str(path), "ipod", "aac", 44_100, original()[:32_000], 1, {"movflags": "faststart"})
    data = path.read_bytes()
    np.testing.assert_array_equal(streamed(data, step), whole(data))


def test_the_sound_of_a_video_is_taken() -> None:
    np.testing.assert_allclose(whole(video(sound=True)), np.zeros(16_000), atol=1e-4)


def video(sound: bool) -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as file:
        pictures = file.add_stream("mpeg4", rate=10)
        pictures.width = pictures.height = 64
        track = file.add_stream("flac", rate=16_000, layout="mono") if sound else None
        for number in range(10):
            picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))
            picture.pts = number
            file.mux(pictures.encode(picture))
        file.mux(pictures.encode(None))
        if track is not None:
            size = track.codec_context.frame_size
            for start in range(0, 16_000, size):
                silence = np.zeros((1, min(size, 16_000 - start)), np.int16)
                frame = av.AudioFrame.from_ndarray(silence, format="s16", layout="mono")
                frame.sample_rate, frame.pts = 16_000, start
                file.mux(track.encode(frame))
            file.mux(track.encode(None))
    return target.getvalue()


def test_a_recording_at_44_1_khz_and_a_file_object() -> None:
    with (DATA / "jfk.flac").open("rb") as file:
        pieces = list(decode_file(file, max_seconds=11.5))
        assert not file.closed
    samples = np.concatenate(pieces)
    assert len(samples) == 11 * 16_000
    assert max(len(piece) for piece in pieces) < 3 * 16_000  # streamed, not held whole
    np.testing.assert_array_equal(samples, whole((DATA / "jfk.flac").read_bytes()))


def test_a_file_object_is_read_from_where_it_stands() -> None:
    file = io.BytesIO(b"12345" + container("m4a"))
    file.seek(5)
    np.testing.assert_array_equal(np.concatenate(list(decode_file(file, max_seconds=60))), whole(container("m4a")))


def test_tags_in_another_character_set_are_no_obstacle() -> None:
    with wave.open(io.BytesIO(container("wav"))) as file:
        frames = file.readframes(file.getnframes())
    artist = "Bj\xf6rk\0".encode("latin-1")
    info = b"INFOIART" + struct.pack("<I", len(artist)) + artist
    chunks = b"LIST" + struct.pack("<I", len(info)) + info + b"data" + struct.pack("<I", len(frames)) + frames
    fmt = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 32_000, 2, 16)
    data = b"RIFF" + struct.pack("<I", 4 + len(fmt) + len(chunks)) + b"WAVE" + fmt + chunks
    np.testing.assert_array_equal(whole(data), original())
    np.testing.assert_array_equal(streamed(data, 11), original())


def test_tags_behind_the_samples_of_a_wav_are_no_sound() -> None:
    data = container("wav") + b"LIST" + struct.pack("<I", 4000) + b"\x7f" * 4000
    np.testing.assert_array_equal(streamed(data, 1000), original())


# Damage


@pytest.mark.parametrize("name", [name for name in CONTAINERS if name != "wav-float"])  # damaged floats are refused
def test_damage_in_the_middle_costs_only_the_middle(name: str) -> None:
    data = bytearray(container(name))
    middle = len(data) // 2
    data[middle : middle + 700] = random.Random(7).randbytes(700)
    samples = whole(bytes(data))
    # WebM is found again at the next cluster, which may be seconds away.
    assert len(samples) > (0.5 if name == "webm-file" else 0.8) * len(original())
    first = slice(0, int(0.3 * len(original())))
    assert agreement(samples[first], original()[first])[0] > 0.95


@pytest.mark.parametrize("name", [name for name in CONTAINERS if name not in ("m4a", "m4a-alac")])
def test_a_file_cut_short_gives_what_it_holds(name: str) -> None:
    data = container(name)
    samples = whole(data[: len(data) // 2])
    assert 0.3 * len(original()) < len(samples) < 0.7 * len(original())


def test_random_damage_never_raises_anything_but_our_errors() -> None:
    rng = random.Random(11)
    names = list(CONTAINERS)
    for turn in range(250):
        data = bytearray(container(names[turn % len(names)])[: rng.choice([500, 5_000, 30_000])])
        for _ in range(rng.choice([1, 5, 50])):
            data[int(rng.random() ** 3 * len(data))] = rng.randrange(256)
        try:
            samples = streamed(bytes(data), 4_096) if turn % 2 else whole(bytes(data))
        except (InputInvalid, InputTooLarge) as error:
            assert error.param in ("file", "audio")
            assert error.message
        else:
            assert np.isfinite(samples).all()
            assert np.abs(samples).max(initial=0) <= 1


# Lies and things that are no sound


def riff(
    tag: int = 1, channels: int = 1, rate: int = 16_000, bits: int = 16, data: bytes = b"\0" * 32_000, claim=None
) -> bytes:
    size = channels * bits // 8
    fmt = struct.pack("<IHHIIHH", 16, tag, channels, rate, rate * size & 0xFFFFFFFF, size & 0xFFFF, bits)
    length = len(data) if claim is None else claim
    return (
        b"RIFF"
        + struct.pack("<I", 36 + length & 0xFFFFFFFF)
        + b"WAVEfmt "
        + fmt
        + b"data"
        + struct.pack("<I", length)
        + data
    )


def junk(head: bytes, size: int = 60_000) -> bytes:
    return head + random.Random(3).randbytes(size)


REFUSED = {
    "one byte": b"x",
    "text": b"this is a text and holds no sound at all\n" * 100,
    "noise": junk(b""),
    "html": b"<!doctype html><html><body>413</body></html>",
    "playlist": b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n",
    "concat": b"ffconcat version 1.0\nfile /etc/passwd\n",
    "png": junk(b"\x89PNG\r\n\x1a\n"),
    "ogg junk": junk(b"OggS"),
    "webm junk": junk(b"\x1a\x45\xdf\xa3"),
    "flac junk": junk(b"fLaC"),
    "wav junk": junk(b"RIFF\0\0\0\0WAVE"),
    "mp4 junk": junk(b"\0\0\0\x18ftypM4A "),
    "mp3 junk": junk(b"\xff\xfb\x90\x64"),
    "id3 junk": junk(b"ID3\x04\0\0\0\0\0\0"),
    "aac junk": junk(b"\xff\xf1\x50\x80"),
    "header alone": riff()[:44],
    "half a header": riff()[:30],
    "no samples": riff(data=b""),
    "1000 channels": riff(channels=1_000),
    "64 channels": riff(channels=64),
    "no channel": riff(channels=0),
    "rate 0": riff(rate=0),
    "rate 1": riff(rate=1),
    "rate 4 GHz": riff(rate=4_000_000_000),
    "unknown codec": riff(tag=0x9999),
    "not finite": riff(tag=3, bits=32, data=b"\xff" * 4_000),
    "integers as floats": riff(tag=3, bits=32, data=struct.pack("<f", 20_000) * 1_000),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_sound_is_refused_and_named(name: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        whole(REFUSED[name])
    assert caught.value.param == "file"
    assert "file" in caught.value.message
    with pytest.raises(InputInvalid) as caught:
        streamed(REFUSED[name], 5_000)
    assert caught.value.param == "audio"


def test_an_empty_file_is_refused_and_an_empty_stream_is_empty() -> None:
    with pytest.raises(InputInvalid, match="empty"):
        whole(b"")
    assert len(streamed(b"", 1)) == 0


def test_a_video_without_sound() -> None:
    with pytest.raises(InputInvalid, match="no sound track"):
        whole(video(sound=False))


@pytest.mark.parametrize("claim", [0xFFFFFFFF, 0x7FFFFFFF, 0])
def test_a_wav_header_that_claims_hours_gives_the_second_that_is_there(claim: int) -> None:
    assert len(whole(riff(claim=claim))) == 16_000
    assert len(streamed(riff(claim=claim), 1_000)) == 16_000


@pytest.mark.parametrize("name", ["mp3", "m4a", "flac", "webm-live", "wav", "aac"])
def test_a_file_over_the_limit_of_length(name: str) -> None:
    limit = len(original()) / 16_000 - 0.5
    made = 0
    with pytest.raises(InputTooLarge) as caught:
        for piece in decode_file(container(name), max_seconds=limit):
            made += len(piece)
    assert caught.value.param == "file"
    assert made <= limit * 16_000


def lying_index(samples: int) -> bytes:
    """An M4A whose index claims a number of samples of one byte each."""
    data = bytearray(container("m4a"))
    struct.pack_into(">II", data, data.find(b"stsz") + 8, 1, samples)
    struct.pack_into(">II", data, data.find(b"stts") + 12, samples, 1024)
    at = data.find(b"stsc")
    struct.pack_into(">I", data, at + 8, 1)
    struct.pack_into(">III", data, at + 12, 1, samples, 1)
    return bytes(data)


def test_an_index_of_a_hundred_million_samples_takes_neither_memory_nor_time() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((InputInvalid, InputTooLarge)):
        whole(lying_index(100_000_000), max_seconds=1e9)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


@cache
def minutes_of_silence() -> bytes:
    """FLAC packs silence into some bytes a frame: twelve minutes."""
    target = io.BytesIO()
    encode(target, "flac", "flac", 16_000, np.zeros(12 * 60 * 16_000, np.float32), 1, {})
    return target.getvalue()


def test_a_piece_that_decodes_to_too_much_is_refused() -> None:
    with ContainerDecoder() as decoder:
        first = decoder.feed(minutes_of_silence())
        assert len(first) <= (FEED_SECONDS + 10) * 16_000
        with pytest.raises(InputTooLarge, match="smaller pieces"):
            decoder.feed(b"")
    with pytest.raises(InputTooLarge):
        whole(minutes_of_silence(), max_seconds=600)


def test_a_stream_of_tags_alone_is_refused() -> None:
    with ContainerDecoder() as decoder, pytest.raises(InputTooLarge, match="no sound in the first"):
        decoder.feed(b"ID3\x04\0\0\x7f\x7f\x7f\x7f")
        for _ in range(SILENT_BYTES // 65_536 + 1):
            decoder.feed(b"\0" * 65_536)


# Threads


@pytest.fixture
def threads() -> Iterator[None]:
    before = threading.active_count()
    yield
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


@pytest.mark.usefixtures("threads")
def test_close_ends_the_thread_at_any_moment() -> None:
    data = container("webm-live")
    for stop in (0, 3, 20, 200, 2_000, len(data)):
        decoder = ContainerDecoder()
        decoder.feed(data[:stop])
        decoder.close()
        decoder.close()
        with pytest.raises(ValueError, match="closed"):
            decoder.feed(b"x")


@pytest.mark.usefixtures("threads")
def test_flush_and_errors_end_the_thread() -> None:
    decoder = ContainerDecoder()
    decoder.feed(container("ogg-opus"))
    decoder.flush()
    with pytest.raises(ValueError, match="flushed"):
        decoder.flush()
    other = ContainerDecoder()
    with pytest.raises(InputInvalid):
        other.feed(REFUSED["webm junk"])
        other.flush()


@pytest.mark.usefixtures("threads")
def test_a_forgotten_decoder_leaves_no_thread() -> None:
    decoder = ContainerDecoder()
    decoder.feed(container("mp3")[:5_000])
    del decoder
    gc.collect()


@pytest.mark.usefixtures("threads")
def test_many_streams_at_once() -> None:
    data, expected = container("webm-live"), streamed(container("webm-live"), 900)
    decoders = [ContainerDecoder() for _ in range(20)]
    outputs: list[list[np.ndarray]] = [[] for _ in decoders]
    for at in range(0, len(data), 900):
        for decoder, output in zip(decoders, outputs, strict=True):
            output.append(decoder.feed(data[at : at + 900]))
    for decoder, output in zip(decoders, outputs, strict=True):
        output.append(decoder.flush())
        np.testing.assert_array_equal(np.concatenate(output), expected)


def test_errors_carry_the_status_for_the_wire() -> None:
    with pytest.raises(ServingError) as caught:
        whole(b"nothing of the kind")
    assert caught.value.status == 422
