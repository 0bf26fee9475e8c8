"""Raw audio: every encoding, any cutting of the bytes, wrong input."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speech.audio import ALAW, MULAW, AudioDecoder, AudioFormat
from workers.errors import InputInvalid

DATA = Path(__file__).parent.parent / "data"


def read_wav(name: str) -> tuple[int, bytes]:
    with wave.open(str(DATA / name)) as file:
        return file.getframerate(), file.readframes(file.getnframes())


def decode(format: AudioFormat, data: bytes, cuts: list[int] | None = None) -> np.ndarray:
    """Feed the data in pieces of the given sizes, round and round."""
    decoder = AudioDecoder(format)
    pieces, at, turn = [], 0, 0
    while at < len(data):
        step = cuts[turn % len(cuts)] if cuts else len(data)
        pieces.append(decoder.feed(data[at : at + step]))
        at, turn = at + step, turn + 1
    return np.concatenate([*pieces, decoder.flush()])


FORMATS = [
    AudioFormat("pcm16", 16_000),
    AudioFormat("pcm16", 24_000),
    AudioFormat("pcm16", 44_100, channels=2),
    AudioFormat("pcm16", 48_000, channels=3),
    AudioFormat("float32", 22_050),
    AudioFormat("float32", 16_000, channels=2),
    AudioFormat("mulaw", 8_000),
    AudioFormat("alaw", 8_000, channels=2),
    AudioFormat("pcm16", 44_099),
]


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f"{f.encoding}-{f.rate}-{f.channels}")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cuts=st.lists(st.one_of(st.integers(1, 9), st.integers(1, 5_000)), min_size=1, max_size=40),
    seed=st.integers(0, 2**32 - 1),
)
def test_output_does_not_depend_on_how_the_bytes_were_cut(format: AudioFormat, cuts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.uniform(-1, 1, (int(rng.integers(1, 3_000)), format.channels))
    if format.encoding == "pcm16":
        data = (samples * 32767).astype("<i2").tobytes()
    elif format.encoding == "float32":
        data = samples.astype("<f4").tobytes()
    else:
        data = rng.bytes(samples.size)
    np.testing.assert_array_equal(decode(format, data, cuts), decode(format, data))


@pytest.mark.parametrize("cuts", [[1], [3, 640, 1], [641]])
def test_odd_splits_of_pcm16_are_carried_not_padded(cuts: list[int]) -> None:
    rate, data = read_wav("austen-0880.wav")
    assert rate == 16_000
    expected = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    np.testing.assert_array_equal(decode(AudioFormat("pcm16", rate), data[:60_000], cuts), expected[:30_000])


def test_a_dangling_byte_at_the_end_is_dropped_and_reported() -> None:
    decoder = AudioDecoder(AudioFormat("pcm16", 16_000, channels=2))
    assert len(decoder.feed(b"\0" * 11)) == 2
    assert len(decoder.flush()) == 0
    assert decoder.dangling == 3
    with pytest.raises(ValueError, match="flushed"):
        decoder.feed(b"\0" * 4)


def test_channels_are_averaged() -> None:
    frames = np.array([[1.0, 0.0, -1.0, 0.5], [0.25, 0.25, 0.25, 0.25]], "<f4")
    np.testing.assert_array_equal(decode(AudioFormat("float32", 16_000, 4), frames.tobytes()), [0.125, 0.25])


def test_opposite_channels_cancel_after_resampling_as_before() -> None:
    _, data = read_wav("austen-0880.wav")
    left = np.frombuffer(data, "<i2")
    stereo = np.stack((left, left // 2), axis=1).astype("<i2").tobytes()
    mono = ((left.astype(np.float32) + (left // 2)) / 65536).astype("<f4").tobytes()
    np.testing.assert_allclose(
        decode(AudioFormat("pcm16", 24_000, 2), stereo), decode(AudioFormat("float32", 24_000), mono), atol=1e-6
    )


# Values of ITU-T G.711 (mu-law in 14 bits, A-law in 13), scaled to 16 bits.
@pytest.mark.parametrize(
    ("code", "value"), [(0xFF, 0), (0x7F, 0), (0x80, 32124), (0x00, -32124), (0xFE, 8), (0x7E, -8), (0xA0, 7932)]
)
def test_mulaw_table(code: int, value: int) -> None:
    assert MULAW[code] * 32768 == value


@pytest.mark.parametrize(
    "code, value", [(0xD5, 8), (0x55, -8), (0xAA, 32256), (0x2A, -32256), (0xD4, 24), (0x80, 5504)]
)
def test_alaw_table(code: int, value: int) -> None:
    assert ALAW[code] * 32768 == value


@pytest.mark.parametrize(("encoding", "codec"), [("mulaw", "pcm_mulaw"), ("alaw", "pcm_alaw")])
def test_companded_tables_agree_with_ffmpeg(encoding: str, codec: str) -> None:
    av = pytest.importorskip("av")
    context = av.CodecContext.create(codec, "r")
    context.sample_rate, context.layout = 8_000, "mono"
    (frame,) = context.decode(av.Packet(bytes(range(256))))
    theirs = frame.to_ndarray().ravel().astype(np.float32) / 32768
    np.testing.assert_array_equal(MULAW if encoding == "mulaw" else ALAW, theirs)


@pytest.mark.parametrize("encoding", ["mulaw", "alaw"])
def test_companded_speech_stays_close_to_the_recording(encoding: str) -> None:
    rate, data = read_wav("prompts/pbx-invalid.wav")
    assert rate == 8_000
    samples = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    table = MULAW if encoding == "mulaw" else ALAW
    codes = np.abs(table[None, :] - samples[:, None]).argmin(axis=1).astype(np.uint8)
    exact = decode(AudioFormat("pcm16", 8_000), data)
    error = decode(AudioFormat(encoding, 8_000), codes.tobytes()) - exact
    assert 10 * np.log10((exact**2).sum() / (error**2).sum()) > 30


def test_float_samples_over_full_scale_are_clipped() -> None:
    data = np.array([1.5, -3.0, 0.5], "<f4").tobytes()
    np.testing.assert_array_equal(decode(AudioFormat("float32", 16_000), data), [1.0, -1.0, 0.5])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 20_000.0, -1e30])
def test_floats_that_are_no_audio_are_refused_and_change_nothing(bad: float) -> None:
    decoder = AudioDecoder(AudioFormat("float32", 16_000))
    good = struct.pack("<4f", 0.1, 0.2, 0.3, 0.4)
    first = decoder.feed(good[:6])
    with pytest.raises(InputInvalid) as caught:
        decoder.feed(good[6:] + struct.pack("<f", bad))
    assert caught.value.param == "audio"
    assert "float32" in caught.value.message
    np.testing.assert_array_equal(np.concatenate((first, decoder.feed(good[6:]))), np.float32([0.1, 0.2, 0.3, 0.4]))


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        (("pcm24", 16_000), "encoding"),
        (("", 16_000), "encoding"),
        (("pcm16", 7_999), "rate"),
        (("pcm16", 48_001), "rate"),
        (("pcm16", 24_000.0), "rate"),
        (("pcm16", "24000"), "rate"),
        (("pcm16", True), "rate"),
        (("pcm16", 16_000, 0), "channels"),
        (("pcm16", 16_000, 33), "channels"),
        (("pcm16", 16_000, None), "channels"),
    ],
)
def test_a_wrong_format_names_its_field(arguments: tuple, param: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        AudioFormat(*arguments)
    assert caught.value.param == param


def test_nothing_in_gives_nothing_out() -> None:
    decoder = AudioDecoder(AudioFormat("pcm16", 24_000))
    assert len(decoder.feed(b"")) == 0
    assert len(decoder.flush()) == 0
