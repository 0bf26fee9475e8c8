"""When a text is final, and how many of its words are wrong, on sequences of messages recorded or made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from load.corpora import Clip
from load.peers.measure import Step
from load.peers.peer import Said
from load.peers.settling import errors, latencies, settled, shares
from load.peers.whisperlive import Transcript
from load.script import Line, Script

NOBODY = "Nobody is available to take your call at the moment"
CIRCUITS = "All circuits are busy now."

# What one model of WhisperLive sent for these two, (seconds, start, end, completed, text): the last of each message is
# not completed, and those before are repeated.
RECORDED = (
    (5.96, (("2.270", "3.000", False, " No."),)),
    (6.92, (("2.270", "5.270", False, " Nobody is available to take your call at the moment."),)),
    (8.20, (("2.270", "5.270", False, " Nobody is available to take your call at the moment."),)),
    (9.29, (("2.270", "6.270", True, " Nobody is available to take your call at the moment."),
            ("6.270", "7.300", False, " All circuits."))),
    (10.21, (("2.270", "6.270", True, " Nobody is available to take your call at the moment."),
             ("6.320", "8.200", False, " All circuits are busy now."))),
    (11.40, (("2.270", "6.270", True, " Nobody is available to take your call at the moment."),
             ("6.320", "8.320", False, " All circuits are busy now!"))),
)  # fmt: skip


def said(*texts: str, shown: tuple[tuple[float, str], ...] = ()) -> Said:
    """A stream begun at second 100 whose recordings end at 2, 4, 6 … seconds."""
    lines = tuple(Line(Clip(Path("a.wav"), text, "en"), 2 * n, 2 * n + 2, 2 * n, 2 * n + 2.0)
                  for n, text in enumerate(texts))  # fmt: skip
    return Said(Script(np.zeros(16_000, np.int16), 16_000, lines), 0.1, begun=100.0, shown=list(shown))


def test_whisperlive_is_final_when_the_shown_words_changed_last() -> None:
    transcript, shown = Transcript(), []
    for at, segments in RECORDED:
        keys = ("start", "end", "completed", "text")
        shown.append((100 + at, transcript.take([dict(zip(keys, one, strict=True)) for one in segments])))
    one = said(NOBODY, CIRCUITS, shown=tuple(shown))
    assert settled(one) == pytest.approx([106.92, 110.21])  # neither ' No.' nor 'All circuits.' was the end of it
    assert latencies(one) == pytest.approx([4.92, 6.21])
    assert errors([one]) == 0.0


def test_completed_segments_stay_when_later_messages_leave_them_out() -> None:
    transcript = Transcript()
    transcript.take([{"start": "0.000", "end": "1.000", "completed": True, "text": " one"}])
    text = transcript.take([{"start": "1.000", "end": "2.000", "completed": True, "text": " two"},
                            {"start": "2.000", "end": "2.500", "completed": False, "text": " three"}])  # fmt: skip
    assert text.split() == ["one", "two", "three"]
    assert transcript.take([]).split() == ["one", "two"]


def test_words_that_are_taken_back_and_come_again_are_final_when_they_come_again() -> None:
    one = said("good morning", shown=((102.0, "good morning"), (103.0, "good"), (104.5, "Good morning!")))
    assert settled(one) == [104.5]


def test_a_recording_that_is_said_twice_is_final_when_it_stands_there_twice() -> None:
    one = said("yes please", "no", "yes please", shown=(
        (102.5, "yes please"), (104.5, "yes please no"), (106.5, "yes please no yes please")))  # fmt: skip
    assert settled(one) == [102.5, 104.5, 106.5]


def test_a_recording_without_a_word_has_no_final() -> None:
    one = said("good morning", "and good night", shown=((102.5, "good morning"),))
    assert settled(one) == [102.5, None]
    assert settled(said("good morning")) == [None]
    assert errors([one]) == pytest.approx(100 * 3 / 5)


def test_wrong_words_belong_to_the_recording_they_lie_in() -> None:
    references = ["take your call", "all circuits are busy", "good night"]
    found = shares(references, "Take a call. All serpents are busy now, good night then")
    assert found == ["take a call", "all serpents are busy", "now good night then"]


def test_a_step_passes_when_nearly_all_are_final_in_time_and_nobody_is_refused() -> None:
    texts = tuple(f"word{n}" for n in range(20))
    on_time = tuple((100 + 2 * n + 2.9, " ".join(texts[: n + 1])) for n in range(20))
    late = (*on_time[:-1], (on_time[-1][0] + 1, on_time[-1][1]))
    later = (*late[:-2], (late[-2][0] + 0.5, late[-2][1]), late[-1])
    assert Step(1, [said(*texts, shown=on_time)]).passed
    assert Step(1, [said(*texts, shown=late)]).passed  # one of twenty is 5 %
    assert not Step(1, [said(*texts, shown=later)]).passed
    assert not Step(1, [said(*texts, shown=on_time[:-2])]).passed  # two were not heard
    assert Step(1, [said(*texts, shown=on_time[:-2])]).p95 is None
    refused = said("word")
    refused.refused = True
    assert not Step(2, [said(*texts, shown=on_time), refused]).passed
    assert not Step(1).passed
