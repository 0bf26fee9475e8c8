"""What goes through the queue comes out of it as it was."""

from __future__ import annotations

import json
import math

from batch_jobs import wire
from batch_jobs.transcript import Segment
from speech.events import Word


def test_numbers_that_are_not_finite_come_back() -> None:
    segment = Segment(0.0, 1.5, "One.", (Word("One.", 0.0, 1.5, math.nan),), avg_logprob=-math.inf)
    text = wire.dump(segment)
    assert json.loads(text, parse_constant=lambda name: 1 / 0)["words"][0]["confidence"] == "NaN", "JSON as all read it"
    back = wire.load(Segment, text)
    assert back.avg_logprob == -math.inf and math.isnan(back.words[0].confidence)
    assert wire.dump(back) == text
