"""Several channels: a mix that loses nothing, or each for itself, with whatever is odd about them told."""

from __future__ import annotations

import numpy as np
import pytest

from batch_jobs.job import Channels
from speech.asr import Samples
from tests.batch_jobs.media_files import encoded, talk
from tests.batch_jobs.test_media import Heard, riff
from tests.speech.sounds import joined, recording, silence
from workers.errors import InputInvalid

RATE = 16_000


def planes(*channels: Samples) -> bytes:
    """A WAV of these channels."""
    length = max(map(len, channels))
    table = np.stack([np.pad(channel, (0, length - len(channel))) for channel in channels], axis=1)
    return riff(np.clip(np.rint(table * 32767), -32768, 32767))


def power(samples: Samples) -> float:
    return float(np.mean(samples**2))


def test_channels_are_mixed_to_their_mean() -> None:
    left, right = talk(6), talk(16)[10 * RATE :]
    heard = Heard(planes(left, right))
    assert heard.channels == 2
    np.testing.assert_allclose(heard.sound[0], (left + right) / 2, atol=1e-4)
    assert heard.report.warnings == ()


def test_channels_in_opposite_phase_do_not_cancel() -> None:
    voice = talk(8)
    heard = Heard(planes(voice, -voice))
    np.testing.assert_allclose(heard.sound[0], voice, atol=1e-4)
    [warning] = heard.report.warnings
    assert "channel 2 of 2 is in opposite phase from 0 s on" in warning


def test_opposite_phase_is_found_under_noise_and_behind_a_lossy_codec_and_in_midst_of_a_file() -> None:
    voice = talk(20)
    noise = np.random.default_rng(1).normal(0, 0.002, (2, len(voice))).astype(np.float32)
    signs = np.where(np.arange(len(voice)) < 10 * RATE, 1.0, -1.0).astype(np.float32)
    heard = Heard(encoded("mp3", "libmp3lame", 44_100, np.stack([voice, voice * signs]) + noise, bit_rate=192_000))
    for half in (slice(0, 9 * RATE), slice(12 * RATE, 20 * RATE)):
        assert power(heard.sound[0][half]) > 0.8 * power(voice[half])
    [warning] = heard.report.warnings
    assert "opposite phase from" in warning


def test_two_voices_on_a_call_both_stay_in_the_mix_after_an_echo_in_opposite_phase() -> None:
    """Nothing that is heard later may be lost to a decision taken earlier."""
    one, other = recording("austen-0880.wav"), recording("austen-0930.wav")
    left = joined(one, one, silence(len(other) / RATE))
    right = joined(-one, silence(len(one) / RATE), other)
    heard = Heard(planes(left, right)).sound[0]
    for start, voice in ((0, one), (len(one), one), (2 * len(one), other)):
        assert power(heard[start : start + len(voice)]) > 0.2 * power(voice)


def test_a_dead_channel_is_left_out_and_does_not_halve_the_other() -> None:
    voice = talk(5)
    hiss = np.random.default_rng(2).normal(0, 1e-4, len(voice)).astype(np.float32)
    for dead in (silence(5), hiss):
        heard = Heard(planes(dead, voice))
        np.testing.assert_allclose(heard.sound[0], voice, atol=1e-4)
        assert heard.report.warnings == ("channel 1 of 2 is silent; it was left out of the mix",)


def test_a_channel_that_wakes_late_is_in_the_mix_from_then_on() -> None:
    voice = talk(6)
    late = joined(silence(3), voice[: 3 * RATE])
    heard = Heard(planes(voice, late))
    assert heard.report.warnings == ()
    np.testing.assert_allclose(heard.sound[0][: 3 * RATE], voice[: 3 * RATE], atol=1e-4)
    np.testing.assert_allclose(heard.sound[0][4 * RATE :], ((voice + late) / 2)[4 * RATE :], atol=1e-4)


def test_silence_on_every_channel_is_silence() -> None:
    heard = Heard(planes(silence(2), silence(2)))
    np.testing.assert_array_equal(heard.sound[0], 0)
    assert heard.report.warnings == ()


def test_eight_channels_mixed_and_each() -> None:
    voices = [np.roll(talk(8), 7_000 * n) for n in range(8)]
    mixed = Heard(planes(*voices))
    np.testing.assert_allclose(mixed.sound[0], np.mean(voices, axis=0), atol=1e-4)
    each = Heard(planes(*voices), Channels.EACH)
    assert sorted(each.sound) == list(range(8))
    for channel, voice in enumerate(voices):
        np.testing.assert_allclose(each.sound[channel], voice, atol=1e-4)


def test_each_channel_of_a_call_at_another_rate() -> None:
    left, right = talk(6), np.roll(talk(6), 30_000)
    data = encoded("flac", "flac", 44_100, np.stack([left, right]))
    heard = Heard(data, Channels.EACH)
    for channel, voice in enumerate((left, right)):
        assert power(heard.sound[channel] - voice) < 1e-3 * power(voice)


def test_equal_channels_are_one() -> None:
    voice = talk(5)
    for data in (planes(voice, voice), encoded("mp3", "libmp3lame", 44_100, np.stack([voice, voice]))):
        heard = Heard(data, Channels.EACH)
        assert sorted(heard.sound) == [0]
        assert heard.report.warnings == ("channel 2 has the same sound as channel 1; it was transcribed once",)


def test_channels_that_part_late_are_apart_from_then_on() -> None:
    voice, other = talk(6), np.roll(talk(6), 50_000)
    heard = Heard(planes(voice, joined(voice[: 3 * RATE], other[3 * RATE :])), Channels.EACH)
    assert heard.start == {0: 0, 1: 3 * RATE}
    np.testing.assert_allclose(heard.sound[1], other[3 * RATE :], atol=1e-4)
    assert heard.report.warnings == ()


def test_a_silent_channel_is_told_and_costs_nothing() -> None:
    heard = Heard(planes(silence(3), talk(3)), Channels.EACH)
    assert sorted(heard.sound) == [1]
    assert heard.report.warnings == ("channel 1 of 2 is silent",)


def test_too_many_channels() -> None:
    voices = [np.roll(talk(1), 1_000 * n) for n in range(9)]
    with pytest.raises(InputInvalid, match="mix them") as caught:
        Heard(planes(*voices), Channels.EACH)
    assert caught.value.param == "channels"
    np.testing.assert_allclose(Heard(planes(*voices)).sound[0], np.mean(voices, axis=0), atol=1e-4)
