"""The listener's clock and the pace it sets, by hand."""

from __future__ import annotations

import math

import pytest

from speech.speaking.pacing import BEAT, FILE_WITHIN, GUARD, TARGET, UNREAD, Pacing
from speech.speaking.playback import Playback
from tests.workers.models import VirtualClock
from workers.errors import InputInvalid
from workers.task import Lane


def made() -> tuple[VirtualClock, Playback]:
    clock = VirtualClock()
    clock.now = 100.0
    return clock, Playback(clock)


def test_without_reports_sound_is_heard_as_time_goes_and_waits_when_there_is_none() -> None:
    clock, playback = made()
    playback.hand(1.0)
    clock.sleep(0.4)
    assert (playback.heard, playback.dry_at) == (pytest.approx(0.4), pytest.approx(101.0))
    playback.hand(1.5)
    assert playback.dry_at == pytest.approx(101.5)
    clock.sleep(5.0)
    assert (playback.heard, playback.dry_at) == (1.5, pytest.approx(101.5))
    playback.hand(2.5)  # after a silence of 3.9 s
    assert playback.dry_at == pytest.approx(clock.now + 1.0)
    assert playback.reaches(2.0) == pytest.approx(clock.now + 0.5)
    assert playback.reaches(3.0) == math.inf


def test_reports_correct_the_clock_and_old_or_impossible_ones_do_not() -> None:
    clock, playback = made()
    playback.hand(3.0)
    clock.sleep(1.0)
    playback.report(0.4)  # it began late
    assert (playback.heard, playback.dry_at) == (0.4, pytest.approx(clock.now + 2.6))
    clock.sleep(0.5)
    playback.report(0.2)
    assert playback.heard == pytest.approx(0.9)
    playback.report(7.0)
    assert playback.heard == 3.0
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(InputInvalid) as refused:
            playback.report(wrong)
        assert refused.value.param == "played"


def test_windows_are_asked_for_up_to_the_lead_and_then_on_the_beat() -> None:
    clock, playback = made()
    pacing = Pacing(playback, 1.75, clock)
    assert pacing.window_at(0.5) == -math.inf
    pacing.made = 1.5
    assert pacing.window_at(0.5) == math.inf, "nothing has been taken, so nothing is heard"
    playback.hand(1.5)
    at = pacing.window_at(0.5)
    assert clock.now + 0.25 <= at <= clock.now + 0.25 + BEAT
    assert at / BEAT == pytest.approx(round(at / BEAT))
    clock.now = at
    assert pacing.window_at(0.5) == -math.inf
    assert pacing.ahead + 0.5 <= 1.75
    clock.now = 100.0
    assert pacing.window_at(9.0) >= clock.now + 0.625, "a long window waits until half the lead is left"


def test_a_new_stream_is_wanted_soon_and_a_running_one_before_it_runs_dry() -> None:
    clock, playback = made()
    pacing = Pacing(playback, 1.75, clock)
    assert pacing.urgency(0.0, 99.9) == (Lane.PARTIAL, pytest.approx(99.9 + TARGET))
    pacing.made = 0.5
    playback.hand(0.5)
    assert pacing.urgency(0.5, 99.9) == (Lane.FINAL, pytest.approx(100.5 - GUARD))
    playback.report(0.0)
    clock.sleep(0.3)
    playback.report(0.0)
    assert pacing.urgency(0.5, 99.9) == (Lane.FINAL, pytest.approx(100.8 - GUARD))
    clock.sleep(9.0)  # silent for want of text, which comes only now
    assert pacing.urgency(0.5, clock.now) == (Lane.FINAL, pytest.approx(clock.now + TARGET - GUARD))


def test_a_file_is_bounded_by_its_reader_alone() -> None:
    clock, playback = made()
    pacing = Pacing(playback, None, clock)
    assert pacing.urgency(0.0, 0.0) == (Lane.INTERACTIVE, 100.0 + FILE_WITHIN)
    pacing.made = UNREAD + 0.1
    assert pacing.window_at(0.5) == math.inf
    playback.hand(1.0)
    assert pacing.window_at(0.5) == -math.inf
