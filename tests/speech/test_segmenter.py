"""Segmentation as a pure state machine: real speech probabilities for what is heard, made-up ones for the corners."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from speech.asr import SAMPLE_RATE, DecodeOptions, Samples
from speech.config import StreamConfig, VadConfig, checked
from speech.pieces import Closed, Idle, PartialDue, Paused, Piece, Sealed, Signal, Started, Stopped, voiced
from speech.segmenter import Segmenter
from speech.vad import WINDOW, Gain, SileroVad, VadRequest, VadState
from tests.speech.sounds import joined, not_speech, recording, silence, telephone
from workers.backend import More
from workers.errors import InputInvalid

AUTOMATIC = StreamConfig("tiny.en")
MANUAL = StreamConfig("tiny.en", automatic=False)
NOTHING = silence(0)


@pytest.fixture(scope="module")
def vad() -> SileroVad:
    backend = SileroVad()
    backend.load("cpu")
    return backend


def hear(vad: SileroVad, segmenter: Segmenter, samples: Samples, finish: bool = True) -> list[Signal]:
    """A whole stream at once, with the real model."""
    whole = len(samples) // WINDOW * WINDOW
    state = vad.open(VadRequest(VadState.fresh(Gain()), samples[:whole].reshape(-1, WINDOW)))
    while isinstance(result := vad.step([state])[0], More):
        pass
    signals = segmenter.push(samples[:whole], result.output.probabilities)  # type: ignore[union-attr]
    return signals + (segmenter.finish(samples[whole:]) if finish else [])


def made_up(segmenter: Segmenter, *runs: tuple[float, float], seed: int = 0) -> tuple[Samples, list[Signal]]:
    """Noise of (seconds, probability) runs, whole windows each; loud where the probability is high."""
    random, sounds, signals = np.random.default_rng(seed), [], []
    for seconds, probability in runs:
        count = round(seconds * SAMPLE_RATE / WINDOW)
        sound = random.normal(0, 0.01 + 0.2 * probability, count * WINDOW).astype(np.float32)
        signals += segmenter.push(sound, np.full(count, probability, np.float32))
        sounds.append(sound)
    return np.concatenate(sounds), signals


def of(signals: list[Signal], kind: type[Signal]) -> list[Signal]:
    return [signal for signal in signals if isinstance(signal, kind)]


def sealed(signals: list[Signal]) -> list[Sealed]:
    return [signal for signal in signals if isinstance(signal, Sealed)]


def closed(signals: list[Signal]) -> list[Closed]:
    return [signal for signal in signals if isinstance(signal, Closed)]


# Real speech


def test_one_sentence_is_one_utterance_with_its_padding(vad: SileroVad) -> None:
    sound = joined(silence(1), recording("austen-0870.wav"), silence(1))
    signals = hear(vad, Segmenter(AUTOMATIC), sound)
    [started], [stopped], [end] = of(signals, Started), of(signals, Stopped), closed(signals)
    assert 0.7 * SAMPLE_RATE < started.at < 1.3 * SAMPLE_RATE
    assert (end.start, end.end, end.reason) == (started.at, stopped.at, "vad")
    [seal] = sealed(signals)
    np.testing.assert_array_equal(seal.samples, sound[end.start : end.start + len(seal.samples)])
    assert end.end - end.start - len(seal.samples) <= 0.3 * SAMPLE_RATE  # the silence that was only waited for
    assert voiced(seal.piece) > 5.5


def test_speech_at_the_very_start_is_kept(vad: SileroVad) -> None:
    sound = joined(recording("austen-0880.wav")[4000:], silence(1))
    signals = hear(vad, Segmenter(AUTOMATIC), sound)
    assert of(signals, Started)[0].at == 0


def test_speech_silence_speech_is_two_utterances_at_the_right_places(vad: SileroVad) -> None:
    first, second = recording("austen-0880.wav"), recording("austen-0930.wav")
    sound = joined(silence(0.5), first, silence(2), second, silence(1))
    ends = closed(hear(vad, Segmenter(AUTOMATIC), sound))
    assert [end.reason for end in ends] == ["vad", "vad"]
    begin = 2.5 * SAMPLE_RATE + len(first)
    assert begin - 0.35 * SAMPLE_RATE < ends[1].start < begin + 0.5 * SAMPLE_RATE
    assert ends[0].end < ends[1].start


@pytest.mark.parametrize("name", ["austen-0870.wav", "austen-0880.wav", "austen-0890.wav", "jfk.flac"])
def test_quiet_telephone_speech_is_found(vad: SileroVad, name: str) -> None:
    sound = telephone(joined(silence(0.5), recording(name), silence(1)), -20)
    normal = hear(vad, Segmenter(AUTOMATIC), joined(silence(0.5), recording(name), silence(1)))
    signals = hear(vad, Segmenter(AUTOMATIC), sound)
    assert of(signals, Started)
    assert sum(voiced(s.piece) for s in sealed(signals)) > 0.6 * sum(voiced(s.piece) for s in sealed(normal))


@pytest.mark.parametrize("kind", ["silence", "white noise", "hum", "music"])
@pytest.mark.parametrize("config", [AUTOMATIC, MANUAL])
def test_a_minute_of_anything_but_speech_is_no_speech(vad: SileroVad, kind: str, config: StreamConfig) -> None:
    segmenter = Segmenter(config)
    signals = hear(vad, segmenter, not_speech(kind, 60), finish=False)
    signals += segmenter.commit(NOTHING)
    assert sum(voiced(seal.piece) for seal in sealed(signals)) < 0.1
    assert closed(signals)[-1].reason == "client"


# Automatic mode


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.15, 0.3])
def test_silence_ends_a_turn_at_any_threshold(vad: SileroVad, threshold: float) -> None:
    config = replace(AUTOMATIC, vad=VadConfig(threshold=threshold))
    sound = joined(silence(1), recording("austen-0880.wav"), silence(3), recording("austen-0880.wav"), silence(3))
    signals = hear(vad, Segmenter(config), sound)
    assert [signal.reason for signal in closed(signals)] == ["vad", "vad"]


def test_framing_does_not_matter() -> None:
    random = np.random.default_rng(5)
    probabilities = np.clip(np.repeat(random.random(60), 10) * 1.2 - 0.1, 0, 1).astype(np.float32)
    sound = random.normal(0, 0.1, len(probabilities) * WINDOW).astype(np.float32)

    def shown(signals: list[Signal]) -> list[object]:
        return [
            (type(s), s.samples.tobytes(), s.piece.speech)
            if isinstance(s, Sealed | Paused)
            else (s.piece.utterance, s.end, s.at, s.settled)
            if isinstance(s, PartialDue)
            else s
            for s in signals
        ]

    whole = Segmenter(AUTOMATIC)
    expected = shown(whole.push(sound, probabilities) + whole.finish(NOTHING))
    for seed in range(5):
        cuts, at, segmenter, signals = np.random.default_rng(seed), 0, Segmenter(AUTOMATIC), []
        while at < len(probabilities):
            count = int(cuts.integers(1, 40))
            part = slice(at * WINDOW, (at + count) * WINDOW)
            signals += segmenter.push(sound[part], probabilities[at : at + count])
            at += count
        assert shown(signals + segmenter.finish(NOTHING)) == expected


def test_a_click_is_not_speech_and_a_dip_does_not_end_it() -> None:
    _, signals = made_up(Segmenter(AUTOMATIC), (1, 0), (0.032, 0.9), (1, 0))
    assert not signals
    _, signals = made_up(Segmenter(AUTOMATIC), (1, 0), (1, 0.9), (0.4, 0.1), (1, 0.4), (0.4, 0.1), (1, 0.9), (1, 0))
    assert len(closed(signals)) == 1


def test_padding_never_reaches_into_the_previous_utterance() -> None:
    config = replace(AUTOMATIC, vad=VadConfig(prefix=1.0, silence=0.3))
    _, signals = made_up(Segmenter(config), (1, 0), (1, 1), (0.4, 0), (1, 1), (1, 0))
    first, second = closed(signals)
    assert second.start == first.end


def test_partials_are_due_on_the_sample_clock_and_wait_out_a_pause() -> None:
    segmenter = Segmenter(AUTOMATIC)
    _, signals = made_up(segmenter, (0.32, 0), (3.2, 1), (0.448, 0), (1.6, 1), (1, 0))
    [start] = of(signals, Started)
    dues = [(due.at - start.at) / SAMPLE_RATE for due in of(signals, PartialDue)]
    onset = 0.3
    assert dues[0] == pytest.approx(onset + 0.6, abs=0.06)
    assert all(b - a >= 0.9 for a, b in itertools.pairwise(dues))
    assert not any(0.3 + 3.2 + 0.24 < due < 0.3 + 3.2 + 0.448 for due in dues)
    assert not made_up(Segmenter(replace(AUTOMATIC, partials=False)), (1, 0), (5, 1))[1][1:]


def test_the_longest_utterance_is_cut_where_it_is_quietest_and_nothing_is_lost() -> None:
    segmenter = Segmenter(replace(AUTOMATIC, max_utterance=8.0))
    sound, signals = made_up(segmenter, (0.5, 0), (6.72, 1), (0.16, 0), (6, 1), (1, 0))
    first, second = closed(signals)
    assert first.reason == "length"
    assert 6.72 < first.end / SAMPLE_RATE - 0.5 < 6.72 + 0.2
    assert second.start == first.end
    head, tail = sealed(signals)
    np.testing.assert_array_equal(
        np.concatenate([head.samples, tail.samples]), sound[first.start :][: len(head.samples) + len(tail.samples)]
    )
    assert [s.utterance for s in of(signals, Started)] == [0, 1]
    dues = [due for due in of(signals, PartialDue) if due.piece is head.piece]
    assert all(due.end <= len(head.samples) for due in dues if due.settled)
    assert any(not due.settled for due in dues)


def test_an_hour_of_speech_keeps_no_more_than_one_utterance() -> None:
    segmenter = Segmenter(AUTOMATIC)
    for _ in range(40):
        _, signals = made_up(segmenter, (10, 0.9))
        assert all(len(seal.samples) <= 28.1 * SAMPLE_RATE for seal in sealed(signals))
    assert segmenter._piece is not None
    assert segmenter._piece.length <= 28.1 * SAMPLE_RATE
    assert sum(len(samples) for _, samples in segmenter._recent) < SAMPLE_RATE


def test_commit_in_mid_speech_goes_on_without_losing_a_sample() -> None:
    segmenter = Segmenter(AUTOMATIC)
    before, signals = made_up(segmenter, (0.5, 0), (2, 1))
    after = np.random.default_rng(9).normal(0, 0.2, 60 * WINDOW).astype(np.float32)
    signals += segmenter.commit(after[:200])
    signals += segmenter.push(after, np.ones(60, np.float32))
    signals += segmenter.finish(NOTHING)
    sound = np.concatenate([before, after])
    first, second = closed(signals)
    assert (first.reason, second.reason) == ("client", "end")
    assert first.end == second.start == len(before) + 200
    head, tail = sealed(signals)
    np.testing.assert_array_equal(np.concatenate([head.samples, tail.samples]), sound[first.start :])


def test_commit_of_nothing_is_an_error_and_changes_nothing() -> None:
    segmenter = Segmenter(AUTOMATIC)
    with pytest.raises(InputInvalid, match="empty") as error:
        segmenter.commit(NOTHING)
    assert error.value.code == "input_audio_buffer_commit_empty"
    made_up(segmenter, (1, 1))
    segmenter.commit(NOTHING)
    with pytest.raises(InputInvalid):
        segmenter.commit(NOTHING)


def test_finish_and_stall_close_only_what_is_open() -> None:
    segmenter = Segmenter(AUTOMATIC)
    made_up(segmenter, (1, 0))
    assert segmenter.finish(NOTHING) == []
    assert segmenter.stall(NOTHING) == []
    made_up(segmenter, (1, 1))
    assert segmenter.speaking
    assert closed(segmenter.stall(NOTHING))[0].reason == "idle"
    assert not segmenter.speaking


def test_clear_forgets_and_the_next_utterance_has_its_own_number() -> None:
    segmenter = Segmenter(AUTOMATIC)
    _, signals = made_up(segmenter, (1, 0), (2, 1))
    segmenter.clear(NOTHING)
    with pytest.raises(InputInvalid):
        segmenter.commit(NOTHING)
    _, more = made_up(segmenter, (1, 0), (1, 1), (1, 0))
    assert [s.utterance for s in of(signals + more, Started)] == [0, 1]
    assert closed(signals + more)[0].start >= 3 * SAMPLE_RATE


def test_idle_timeout_comes_once_per_silence() -> None:
    segmenter = Segmenter(replace(AUTOMATIC, idle_timeout=2.0))
    _, signals = made_up(segmenter, (5, 0), (0.032, 1), (5, 0), (1, 1), (5, 0))
    first, second = of(signals, Idle)
    assert (first.start, first.end) == (0, pytest.approx(2 * SAMPLE_RATE, abs=WINDOW))
    assert second.start > 10 * SAMPLE_RATE


# Manual mode


def test_minutes_of_silence_cost_nothing_and_speech_keeps_its_place() -> None:
    segmenter = Segmenter(MANUAL)
    sound, signals = made_up(segmenter, (64, 0), (1.6, 1), (64, 0), (1.6, 1), (32, 0))
    signals += segmenter.commit(NOTHING)
    [seal], [end] = sealed(signals), closed(signals)
    assert len(seal.samples) < 5 * SAMPLE_RATE
    assert (end.start, end.end) == (0, len(sound))
    assert not of(signals, Started)
    for offset in (0, 1000, len(seal.samples) // 2 + 2000, len(seal.samples) - 1):
        assert seal.samples[offset] == sound[seal.piece.position(offset)]
        assert seal.piece.offset(seal.piece.position(offset)) == offset


def test_commit_of_silence_has_no_audio() -> None:
    segmenter = Segmenter(MANUAL)
    made_up(segmenter, (60, 0))
    assert segmenter.commit(NOTHING) == [Closed(0, 0, 1875 * WINDOW, "client")]


def test_a_word_begun_just_before_the_commit_is_kept() -> None:
    segmenter = Segmenter(MANUAL)
    made_up(segmenter, (2, 0), (0.032, 1))
    [seal] = sealed(segmenter.commit(np.full(300, 0.1, np.float32)))
    assert voiced(seal.piece) > 0.03
    assert seal.samples[-1] == np.float32(0.1)


def test_long_speech_is_sealed_in_pieces_without_a_gap() -> None:
    segmenter = Segmenter(MANUAL)
    sound, signals = made_up(segmenter, (1, 0), (70, 1), (1, 0))
    signals += segmenter.commit(NOTHING)
    seals = sealed(signals)
    assert len(seals) >= 3
    assert [seal.last for seal in seals] == [False] * (len(seals) - 1) + [True]
    got = np.concatenate([seal.samples for seal in seals])
    np.testing.assert_array_equal(got, sound[seals[0].piece.start :][: len(got)])
    assert len(closed(signals)) == 1


def test_turning_automatic_on_makes_an_utterance_of_what_was_kept() -> None:
    segmenter = Segmenter(MANUAL)
    _, signals = made_up(segmenter, (1, 0), (2, 1), (1, 0))
    signals += segmenter.reconfigure(AUTOMATIC)
    signals += made_up(segmenter, (1, 0))[1]
    assert [type(s) for s in signals if not isinstance(s, PartialDue)] == [Started, Sealed, Stopped, Closed]
    assert closed(signals)[0].reason == "vad"


def test_settings_wait_for_the_next_utterance() -> None:
    segmenter = Segmenter(AUTOMATIC)
    made_up(segmenter, (1, 0), (1, 1))
    german = replace(MANUAL, options=DecodeOptions(language="de"))
    assert segmenter.reconfigure(german) == []
    [seal] = sealed(made_up(segmenter, (1, 0))[1])
    assert seal.piece.config is AUTOMATIC
    assert segmenter.config is german


@pytest.mark.parametrize(
    ("config", "param"),
    [
        (replace(AUTOMATIC, vad=VadConfig(threshold=1.5)), "threshold"),
        (replace(AUTOMATIC, vad=VadConfig(prefix=-1)), "prefix"),
        (replace(AUTOMATIC, max_utterance=40), "max_utterance"),
        (replace(AUTOMATIC, idle_timeout=0.0), "idle_timeout"),
        (replace(AUTOMATIC, vad=VadConfig(silence=float("nan"))), "silence"),
    ],
)
def test_a_value_out_of_range_is_named(config: StreamConfig, param: str) -> None:
    with pytest.raises(InputInvalid) as error:
        checked(config)
    assert error.value.param == param


def test_splitting_a_piece_with_gaps_keeps_positions() -> None:
    piece = Piece(0, MANUAL)
    sound = np.arange(3000, dtype=np.float32)
    for start, end in ((0, 500), (1000, 1700), (2500, 3000)):
        piece.append(sound[start:end], start)
        piece.voice(start + 100, end - 100)
    tail = piece.split(800, 0, MANUAL)
    assert tail.start == 1300
    assert [tail.position(i) for i in (0, 399, 400, 899)] == [1300, 1699, 2500, 2999]
    np.testing.assert_array_equal(tail.audio.samples, sound[[tail.position(i) for i in range(tail.length)]])
    assert piece.speech == [(100, 400), (1100, 1300)]
    assert tail.speech == [(1300, 1600), (2600, 2900)]
