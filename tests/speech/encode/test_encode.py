"""Every form of sound, made as a stream and whole, and decoded back by FFmpeg: nothing lost at the head or the tail."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from speech.audio import ALAW, MULAW
from speech.encode import FORMATS, Encoder, OutputFormat, SoundFile, encode_whole, output_format
from speech.encode.formats import RATES
from speech.encode.ogg import OggStream
from speech.encode.raw import alaw, mulaw, pcm16
from workers.errors import InputInvalid

RATE = 24_000
FILES = ("wav", "flac", "mp3", "opus", "aac")
HEAD = {"mp3": 1105, "aac": 1024}
"""Samples that these put before the first one in a stream."""
FRAME = {"mp3": 1152, "aac": 1024}
Sound = NDArray[np.float32]


@pytest.fixture(scope="module")
def sound(data: Path) -> Sound:
    """Speech at the rate of a voice, with a click as its very first and very last samples."""
    speech, rate = soundfile.read(data / "austen-0880.wav", dtype="float32")
    import soxr

    speech = soxr.resample(speech[: rate * 4 + 77], rate, RATE).astype(np.float32)
    ramp = np.sin(np.arange(240) / 240 * np.pi * 20).astype(np.float32) * 0.7
    return np.concatenate((ramp, speech, ramp))


def stream(encoder: Encoder, sound: Sound, sizes: tuple[int, ...] = (4800, 6000, 12_000, 1, 0, 7777)) -> bytes:
    """The sound through an encoder in pieces of these sizes, over and over."""
    out, first, turn = b"", 0, 0
    while first < len(sound):
        size = sizes[turn % len(sizes)]
        out += encoder.feed(sound[first : first + size])
        first, turn = first + size, turn + 1
    return out + encoder.flush()


def decoded(data: bytes) -> tuple[Sound, int]:
    """All samples that FFmpeg finds, and their rate."""
    pieces, rate = [np.zeros((1, 0), np.float32)], 0
    with av.open(io.BytesIO(data)) as container:
        for frame in container.decode(audio=0):
            array = frame.to_ndarray()
            scale = {np.dtype(np.int16): 2**15, np.dtype(np.int32): 2**31}.get(array.dtype, 1)
            pieces.append(array.astype(np.float32) / np.float32(scale))
            rate = frame.sample_rate
    return np.concatenate(pieces, axis=1)[0], rate


def correlation(a: Sound, b: Sound) -> float:
    return float(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("whole", [False, True])
def test_all_of_a_sound_comes_back(name: str, whole: bool, sound: Sound) -> None:
    form = output_format(name, RATE)
    data = encode_whole(sound, form, RATE) if whole else stream(Encoder(form, RATE), sound)
    back, rate = decoded(data)
    back = back[:: rate // RATE]  # FFmpeg decodes Opus at 48 kHz
    head = 0 if whole and name == "mp3" else HEAD.get(name, 0)
    extra = len(back) - head - len(sound)
    assert 0 <= extra <= (FRAME.get(name, 0) if name == "aac" or not whole else 0)
    back = back[head : head + len(sound)]
    assert correlation(back, sound) > 0.98
    for part in (slice(0, 240), slice(len(sound) - 240, None)):
        assert correlation(back[part], sound[part]) > 0.9, "the clicks at both ends are there"


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 48_000])
@pytest.mark.parametrize("name", ["pcm16", "float32", "mulaw", "alaw", *FILES])
def test_another_sample_rate(name: str, rate: int, sound: Sound) -> None:
    if rate not in RATES.get(name, (rate,)):
        pytest.skip("the codec does not know this rate")
    import soxr

    encoder = Encoder(OutputFormat(name, rate), RATE)  # type: ignore[arg-type]
    data = stream(encoder, sound)
    wanted = soxr.resample(sound, RATE, rate)
    assert abs(encoder.position - len(sound) * rate / RATE) <= 0.5
    match name:
        case "pcm16":
            back = np.frombuffer(data, "<i2") / np.float32(32768)
        case "float32":
            back = np.frombuffer(data, "<f4")
        case "mulaw":
            back = MULAW[np.frombuffer(data, np.uint8)]
        case "alaw":
            back = ALAW[np.frombuffer(data, np.uint8)]
        case _:
            back, found = decoded(data)
            if name == "opus":
                back = back[:: found // rate]
            else:
                assert found == rate
    head = HEAD.get(name, 0)
    assert abs(len(back) - head - len(wanted)) <= FRAME.get(name, 1)
    count = min(len(wanted), len(back) - head)
    assert correlation(back[head : head + count], wanted[:count]) > 0.97


@pytest.mark.parametrize("name", ["pcm16", "float32", "mulaw", "alaw", "wav", "opus"])
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 3000), max_size=12), seed=st.integers(0, 5))
def test_bytes_do_not_depend_on_how_samples_are_cut(name: str, cuts: list[int], seed: int) -> None:
    noise = np.random.default_rng(seed).uniform(-1.2, 1.2, 9_001).astype(np.float32)
    form = output_format(name, RATE, 16_000 if name != "opus" else None)
    pieces = np.split(noise, np.cumsum(cuts).clip(0, len(noise)))
    one, many = Encoder(form, RATE), Encoder(form, RATE)
    whole = one.feed(noise) + one.flush()
    parts = b"".join(many.feed(piece) for piece in pieces) + many.flush()
    if name == "opus":  # the pages are others, and what is in them is the same
        np.testing.assert_array_equal(decoded(whole)[0], decoded(parts)[0])
    else:
        assert whole == parts


def test_raw_samples_are_rounded_and_clipped() -> None:
    values = np.array([0, 1, -1, 1.5, -1.5, 0.5, 1 / 65536 + 1e-6], np.float32)
    assert np.frombuffer(pcm16(values), "<i2").tolist() == [0, 32767, -32768, 32767, -32768, 16384, 1]
    for encode, table in ((mulaw, MULAW), (alaw, ALAW)):
        assert np.array_equal(table[np.frombuffer(encode(table), np.uint8)], table), "each value is itself again"
        steps = np.linspace(-1.1, 1.1, 4001).astype(np.float32)
        chosen = table[np.frombuffer(encode(steps), np.uint8)]
        nearest = np.abs(steps[:, None] - table[None]).min(1)
        np.testing.assert_allclose(np.abs(chosen - steps), nearest, atol=1e-7)


def test_g711_is_at_8_khz_unless_asked_otherwise() -> None:
    assert output_format("mulaw", RATE).rate == 8_000
    assert output_format("mulaw", RATE, 16_000).rate == 16_000
    assert output_format("opus", 22_050).rate == 24_000
    assert output_format("mp3", 22_050).rate == 22_050
    assert output_format("wav", 22_050).rate == 22_050


def test_a_wav_says_its_size_or_that_it_does_not_know_it(sound: Sound) -> None:
    form = output_format("wav", RATE)

    def sizes(data: bytes) -> tuple[int, int]:
        return struct.unpack_from("<I", data, 4)[0], struct.unpack_from("<I", data, 40)[0]

    unknown = stream(Encoder(form, RATE), sound)
    assert sizes(unknown) == (0xFFFFFFFF, 0xFFFFFFFF)
    for data in (stream(Encoder(form, RATE, total=len(sound)), sound), encode_whole(sound, form, RATE)):
        assert sizes(data) == (len(data) - 8, len(data) - 44)
        assert data[44:] == unknown[44:]
        assert soundfile.info(io.BytesIO(data)).frames == len(sound)
    short = stream(Encoder(form, RATE, total=len(sound) + 100), sound)
    assert sizes(short) == (len(short) - 8, len(short) - 44), "a header that was sent is kept to"
    assert len(short) == len(unknown) + 200


def test_flac_says_its_length_when_it_can_be_gone_back_in(sound: Sound) -> None:
    assert soundfile.info(io.BytesIO(encode_whole(sound, output_format("flac", RATE), RATE))).frames == len(sound)


def test_every_chunk_of_opus_is_a_page_of_its_own(sound: Sound) -> None:
    encoder = Encoder(output_format("opus", RATE), RATE)
    first = encoder.feed(sound[:6000])
    assert [page[5] for page in first.split(b"OggS")[1:]] and first.count(b"OggS") == 3, "two headers and the sound"
    assert encoder.feed(sound[6000:12_000]).count(b"OggS") == 1
    assert encoder.feed(sound[12_000:12_010]) == b"", "not a whole frame"
    heard = decoded(first + encoder.flush())[0]
    assert len(heard) > 0
    slow = Encoder(output_format("opus", 8_000, 8_000), 8_000).feed(sound[:48_000])
    assert slow.count(b"OggS") == 2 + 2, "a page holds 255 packets at most, and these are 300"


def test_pages_of_ogg_are_bounded() -> None:
    with pytest.raises(ValueError, match="255"):
        OggStream(1).page([b"x"] * 256, 0)


@pytest.mark.parametrize("name", FORMATS)
def test_no_sound_at_all_is_still_a_whole_file(name: str) -> None:
    form = output_format(name, RATE)
    encoder = Encoder(form, RATE)
    data = encoder.flush()
    if form.raw:
        assert data == b""
    elif name in ("wav", "flac", "opus"):
        assert len(decoded(data)[0]) == 0
    with pytest.raises(ValueError):
        encoder.flush()
    with pytest.raises(ValueError):
        encoder.feed(np.zeros(1, np.float32))


def test_a_file_keeps_what_lies_after_its_sound(tmp_path: Path, sound: Sound) -> None:
    path = tmp_path / "sound.wav"
    with path.open("wb") as file:
        writer = SoundFile(file, output_format("wav", RATE), RATE)
        assert writer.feed(sound) == b""
        assert writer.flush() == b""
    assert soundfile.info(path).frames == len(sound)


@pytest.mark.parametrize(
    ("name", "rate", "param"),
    [
        ("ogg", 24_000, "format"),
        ("", 24_000, "format"),
        ("opus", 44_100, "rate"),
        ("pcm16", 7_999, "rate"),
        ("wav", 48_001, "rate"),
        ("mp3", 0, "rate"),
        ("wav", True, "rate"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(name: str, rate: int, param: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        output_format(name, RATE, rate)
    assert caught.value.param == param
    assert "can be" in caught.value.message
