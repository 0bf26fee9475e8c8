"""When a factor in the cost of Whisper is worth having, and that its trial plays what a live stream decodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from faster_whisper.audio import decode_audio

from load import corpora
from load.factors.factor import Base, Factor, factors
from load.factors.live import PARTS, Played, play
from load.factors.trial import Line, Row, compared, told
from speech.asr import SAMPLE_RATE

LINES = [Line(np.zeros(SAMPLE_RATE, np.float32), text) for text in ("one two three four five", "six seven", "eight")]


def row(cost: float, texts: list[str]) -> Row:
    made = Row()
    for number, text in enumerate(texts):
        made.add(number, Played(text, [], dict.fromkeys(PARTS, cost / len(PARTS))))
    return made


def factor(**more: Any) -> Factor:
    return Factor("this", "decoder", "for this test", lambda base: base.loaded(), **more)


SPOKEN = [line.text for line in LINES]
WRONG = ["one two three four five", "six seven", "ate"]


@pytest.mark.parametrize(
    ("cost", "texts", "on"),
    [(0.5, SPOKEN, True), (0.97, SPOKEN, False), (2.0, SPOKEN, False), (0.5, WRONG, False)],
)
def test_a_factor_is_on_when_it_is_surely_cheaper_and_loses_no_words(cost: float, texts: list[str], on: bool) -> None:
    found = compared(factor(), row(1.0, SPOKEN), row(cost, texts), LINES)
    assert found.verdict[0] is on
    assert found.ratio == pytest.approx(cost) and found.low <= found.ratio <= found.high
    assert found.same == (1.0 if texts is SPOKEN else pytest.approx(2 / 3))


def test_a_factor_that_is_served_is_measured_against_the_engine_without_it() -> None:
    found = compared(factor(served=True), row(1.0, SPOKEN), row(4.0, SPOKEN), LINES)
    assert found.ratio == pytest.approx(0.25) and found.verdict == (True, "")


def test_a_factor_for_better_words_may_cost_something() -> None:
    found = compared(factor(better=True), row(1.0, WRONG), row(1.5, SPOKEN), LINES)
    assert found.verdict[0] and found.loss < 0
    assert told(found)["word_error_rate"] == 0.0


def test_names_are_different_and_every_factor_says_what_it_is() -> None:
    known = list(factors())
    assert len({one.name for one in known}) == len(known) > 5
    assert all(one.what and one.side in ("encoder", "decoder") for one in known)


@pytest.mark.long
def test_a_recording_is_decoded_as_a_live_stream_has_it() -> None:
    clip = next(corpora.bundled())
    line = Line(decode_audio(str(clip.path), sampling_rate=SAMPLE_RATE), clip.text)
    base = Base.of("tiny.en")
    served, undrafted = base.loaded(), next(one for one in factors() if one.name == "own draft").make(base)
    first, second = play(served, line.samples), play(undrafted, line.samples)
    assert len(first.partials) == (len(line.samples) - 1) // SAMPLE_RATE
    assert (first.text, first.partials) == (second.text, second.partials)
    assert all(first.spent[part] > 0 for part in PARTS)
    words = line.text.lower().split()
    assert sum(word.strip(".,!?") in first.text.lower() for word in words) > 0.8 * len(words)
