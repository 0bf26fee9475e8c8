"""A player's gaps and the first audible sound, on numbers that can be checked."""

from __future__ import annotations

import numpy as np
import pytest

from load.playing import Audible, Player, Utterance, outcome

RATE = 8000


def pcm(seconds: float, level: float = 0.1) -> bytes:
    return np.full(round(seconds * RATE), level * 32768).astype("<i2").tobytes()


def utterance(*pieces: tuple[float, bytes]) -> Utterance:
    one = Utterance(100.0, RATE)
    for at, data in pieces:
        one.receive(at, data)
    return one


def test_a_player_starves_from_the_end_of_what_came_to_what_comes_next() -> None:
    player = Player(0.1)
    player.receive(10.0, 1.0)
    assert player.position(10.05) == 0
    assert player.position(10.6) == pytest.approx(0.5)
    player.receive(11.0, 0.5)
    assert player.dry_at == pytest.approx(11.6)
    assert player.position(20.0) == 1.5
    player.receive(11.85, 1.0)
    assert player.gaps == pytest.approx([0.25])
    assert player.dry_at == pytest.approx(12.85)


def test_the_first_audible_frame_is_found_however_the_sound_is_cut() -> None:
    sound = np.concatenate((np.zeros(2400), np.full(800, 0.1))).astype(np.float32)
    for size in (1, 37, 160, 5000):
        audible = Audible(RATE)
        for at in range(0, len(sound), size):
            audible.feed(sound[at : at + size])
        assert audible.at == pytest.approx(0.3)
    silence = Audible(RATE)
    silence.feed(np.full(8000, 0.004, np.float32))
    assert silence.at is None


def test_silence_at_the_head_is_waiting() -> None:
    one = utterance((100.2, pcm(0.3, 0)), (100.3, pcm(1.0)))
    assert one.first == 100.2
    assert one.heard == pytest.approx(100.5)
    late = utterance((100.2, pcm(0.1, 0)), (100.9, pcm(1.0)))
    assert late.heard == pytest.approx(100.9)
    assert late.bare.gaps == pytest.approx([0.6])
    assert late.buffered.gaps == pytest.approx([0.5])


def test_figures_of_many_utterances() -> None:
    smooth = utterance((100.1, pcm(1)), (100.9, pcm(1)))
    short = utterance((100.1, pcm(1)), (101.18, pcm(1)))  # the gap of 80 ms is none with a buffer of 100
    unheard = utterance((100.1, pcm(1)), (101.105, pcm(1)))
    refused, broken = utterance(), utterance((100.1, pcm(1)))
    refused.refused, broken.problem = True, "closed"
    found = outcome([smooth, short, unheard, refused, broken])
    assert (found.ended, found.refused, found.failed) == (3, 1, 1)
    assert (found.underruns, found.underruns_buffered) == (1, 0)
    assert found.audio == pytest.approx(6)
    assert found.starved_per_hour == pytest.approx(600 * 0.085)
    assert found.continuous == pytest.approx((2 / 3, 1, 1))
    assert found.first_sound == pytest.approx((0.1,) * 3)
    assert outcome([]).ended == 0
