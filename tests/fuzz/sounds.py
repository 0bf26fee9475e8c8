"""Sound in and out: raw samples, containers, and the encoders."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache

import numpy as np

from batch_jobs.job import Channels
from batch_jobs.media.decode import Media
from speech.asr import SAMPLE_RATE, Samples
from speech.audio import AudioDecoder, AudioFormat, Encoding
from speech.channels import ChannelsDecoder
from speech.containers import ContainerDecoder, decode_file
from speech.encode import Encoder, OutputFormat
from speech.encode.formats import FORMATS, RATES
from speech.wav_stream import wav_header
from tests.batch_jobs.media_files import encoded
from tests.fuzz.target import REFUSALS, cuts, refused, target
from tests.speech.sounds import recording

SECONDS = 20.0
"""That a file may last, whatever it claims."""
ENCODINGS: tuple[Encoding, ...] = ("pcm16", "float32", "mulaw", "alaw")
IN_RATES = (8_000, 11_025, 16_000, 24_000, 44_100, 48_000)
KINDS = (
    ("ogg", "libopus", 48_000), ("webm", "libopus", 48_000), ("mp3", "libmp3lame", 24_000), ("flac", "flac", 16_000),
    ("mp4", "aac", 16_000), ("adts", "aac", 16_000), ("wav", "pcm_s16le", 16_000), ("wav", "pcm_f32le", 8_000),
    ("wav", "pcm_mulaw", 8_000), ("ogg", "flac", 16_000),
)  # fmt: skip
FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}


@cache
def files() -> tuple[bytes, ...]:
    """The beginning of a recording in every container that is taken."""
    talk = recording("austen-0880.wav")[: SAMPLE_RATE * 2 // 5]
    made = [encoded(kind, codec, rate, talk) for kind, codec, rate in KINDS]
    return (
        *made,
        encoded("mp4", "aac", 16_000, talk, FRAGMENTED),
        encoded("flac", "flac", 16_000, np.stack([talk, talk])),
    )


def whole(pieces: Sequence[Samples]) -> Samples:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def sound(samples: Samples) -> None:
    """It is sound: finite, not louder than full scale but for what a filter adds."""
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert bool(np.isfinite(samples).all())
    assert not len(samples) or float(np.abs(samples).max()) < 4.0


@target("raw_audio", lambda: [bytes([n, n, n, 7, 1, 2]) + bytes(range(256)) * 2 for n in range(8)], longest=2048)
def raw_audio(data: bytes) -> None:
    """Encoding, rate, channels and cuts are told by the first bytes; the cuts make no difference, and refusals pass."""
    if len(data) < 7:
        return
    form = AudioFormat(ENCODINGS[data[0] % 4], IN_RATES[data[1] % 6], 1 + data[2] % 4)
    sizes, body = data[3:6], data[6:]

    def decoded(pieces: Sequence[bytes]) -> tuple[Samples, list[Samples]] | None:
        mixed, apart = AudioDecoder(form), ChannelsDecoder(form)
        out, each = [], [[] for _ in range(form.channels)]  # type: ignore[var-annotated]
        failed = False
        for piece in pieces:
            failed = True
            with refused(*REFUSALS):
                out.append(mixed.feed(piece))
                for channel, samples in zip(each, apart.feed(piece), strict=True):
                    channel.append(samples)
                failed = False
            if failed:
                return None
        out.append(mixed.flush())
        for channel, samples in zip(each, apart.flush(), strict=True):
            channel.append(samples)
        return whole(out), [whole(channel) for channel in each]

    expected, found = decoded([body]), decoded(list(cuts(body, sizes)))
    if form.encoding != "float32":
        assert expected is not None
        assert found is not None
    if expected is None or found is None:
        return
    for one, other in zip([expected[0], *expected[1]], [found[0], *found[1]], strict=True):
        sound(one)
        assert np.array_equal(one, other)


@target(
    "wav_header", lambda: [file for file in files() if file[:4] == b"RIFF"], longest=256, words=("data", "fmt ", "LIST")
)
def wav(data: bytes) -> None:
    found = wav_header(data)
    if found is not None and found.format is not None:
        assert found.start <= len(data)
        # More bytes do not change what has been found.
        assert wav_header(data + b"\0" * 64) == found


def _file(data: bytes) -> tuple[int, str]:
    """Samples, and how it ended."""
    made = 0
    try:
        for piece in decode_file(data, max_seconds=SECONDS):
            sound(piece)
            made += len(piece)
    except REFUSALS as error:
        return made, type(error).__name__
    finally:
        assert made <= (SECONDS + 2) * SAMPLE_RATE
    return made, ""


MARKS = ("OggS", "OpusHead", "fLaC", "ID3", "ftyp", "moov", "mdat", "stsz", "stco", "RIFF", "WAVE", "data", "fmt ")


@target("container_file", files, longest=16_384, examples=40, words=MARKS)
def container_file(data: bytes) -> None:
    _file(data)


@target("container_stream", files, longest=16_384, examples=25, words=MARKS)
def container_stream(data: bytes) -> None:
    """However a whole stream is cut, the same sound comes out. What FFmpeg makes of a damaged one is its own affair."""
    results = []
    for sizes in (b"", bytes([255, 1, 0, 90])):
        made, error = [], ""
        with ContainerDecoder() as decoder:
            try:
                for piece in cuts(data, sizes):
                    made.append(decoder.feed(piece))
                made.append(decoder.flush())
            except REFUSALS as refusal:
                error = type(refusal).__name__
        sound(whole(made))
        results.append((whole(made), error))
    (one, first), (other, second) = results
    if data in files():
        assert first == second  # an M4A with its index at the end is no stream
        assert first or np.array_equal(one, other)


@target("media", files, longest=16_384, examples=40, words=MARKS)
def media(data: bytes) -> None:
    """The batch lane's reader, which goes by time stamps."""
    for channels in Channels:
        with refused(*REFUSALS), Media(io.BytesIO(data), channels, SECONDS) as opened:
            for sounds in opened.sounds():
                for one in sounds:
                    sound(one.samples)
                    assert 0 <= one.start <= (SECONDS + 2) * SAMPLE_RATE
            assert opened.report is not None
            assert opened.report.samples <= (SECONDS + 2) * SAMPLE_RATE
            assert all(span.start <= span.end for span in opened.report.missing)


@target(
    "encoder",
    lambda: [bytes([n, n, 3, 250, 0]) + bytes(range(256)) * 3 for n in range(len(FORMATS))],
    longest=2048,
    examples=40,
)
def encoder(data: bytes) -> None:
    """Cuts make no difference to the bytes, and what comes out can be read."""
    if len(data) < 6:
        return
    name = FORMATS[data[0] % len(FORMATS)]
    rates = RATES.get(name, (8_000, 16_000, 22_050, 24_000, 48_000))
    form, sizes, body = OutputFormat(name, rates[data[1] % len(rates)]), data[2:5], data[5:]
    samples = np.frombuffer(body[: len(body) // 2 * 2], "<i2").astype(np.float32) / 16_384

    def coded(lengths: bytes) -> bytes:
        coder, out, at = Encoder(form, 24_000), [], 0
        for piece in cuts(bytes(len(samples)), lengths):
            out.append(coder.feed(samples[at : at + len(piece)]))
            at += len(piece)
        return b"".join([*out, coder.flush()])

    expected = coded(b"")
    if name != "opus":  # every Ogg stream has a serial number of its own
        assert coded(sizes) == expected
    if name in ("wav", "flac", "mp3", "aac", "opus") and len(samples) > 2_400:
        assert _file(expected)[0] > 0
