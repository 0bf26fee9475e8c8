"""What is measured of long files: made up here so that every figure is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from load import corpora
from load.batch_scoring import Edge, Regions, Timed, by_utterance, drift, edges, errors, repeated, text
from load.long_file import RATE, Said, build

SAID = [Said(1.0, 3.0, "press one now"), Said(4.0, 5.0, "please wait"), Said(9.0, 10.0, "goodbye")]


def heard(*rows: tuple[str, float, float]) -> list[Timed]:
    return [(f" {word}", start, end) for word, start, end in rows]


WORDS = heard(("press", 1.1, 1.5), ("one", 1.6, 2.0), ("no", 2.5, 3.2), ("please", 3.9, 4.4), ("wait", 4.5, 5.1))


def test_words_go_to_the_utterance_they_are_nearest_to() -> None:
    assert [text(words) for words in by_utterance(WORDS, SAID)] == ["press one no", "please wait", ""]


def test_errors_do_not_depend_on_how_a_text_is_divided_and_numbers_do_not_grow_together() -> None:
    references = [one.text for one in SAID]
    whole = errors(references, ["press one no please", "wait"])
    assert (whole.rate, whole.inserted, whole.words) == (pytest.approx(100 * 2 / 6), 0.0, 6)
    assert whole == errors(references, ["press one", "no", "please wait"])
    assert errors(["dial one", "two rings"], ["dial 1.", "2 rings"]).rate == 0.0


def test_errors_are_counted_where_they_lie() -> None:
    regions = Regions(1.0, [3.5, 20.0])
    for one, words in zip(SAID, by_utterance(WORDS, SAID), strict=True):
        regions.add(one, text(words))
    assert (regions.words[True], regions.words[False]) == (2, 4)
    assert regions.wrong[True] == 1, "'now' was heard as 'no', 0.83 s before the cut"
    assert regions.rate(False) == 25.0, "'goodbye' is missing"


def test_edges_count_where_the_word_is_right() -> None:
    found = edges(SAID, by_utterance(WORDS, SAID))
    assert [(edge.at, round(edge.late, 3)) for edge in found] == [(1.0, 0.1), (4.0, -0.1), (5.0, 0.1)]


def test_drift_compares_the_same_recordings() -> None:
    first = [Edge(float(n), 0.01 * n, f"text {n}", False) for n in range(10)]
    second = [Edge(100.0 + n, 0.01 * n + 0.08, f"text {n}", False) for n in range(5)]
    assert drift([*first, *second]) == pytest.approx(0.08)
    assert drift(first[:3]) == 0.0


def test_loops_are_counted() -> None:
    assert repeated(["thank you for watching this video"]) == 0
    assert repeated(["la la la la la la la la"]) == 3


def test_a_long_file_says_what_it_was_built_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEECHLANE_CACHE", str(tmp_path))
    clips = [clip for clip in corpora.bundled() if clip.path.name.startswith("austen-")]
    path, said = build(0.5, 7, clips)
    assert build(0.5, 7, clips) == (path, said)
    assert build(0.5, 8, clips)[1] != said
    samples, rate = soundfile.read(path, dtype="float32")
    assert rate == RATE
    assert len(samples) / RATE >= 30.0
    assert {one.text for one in said[:5]} == {clip.text for clip in clips}, "all are said before one is said again"
    loud = np.abs(samples) > 0.02
    for one, after in zip(said, [*said[1:], Said(len(samples) / RATE + 1, 0.0, "")], strict=True):
        assert loud[round(one.start * RATE) : round(one.end * RATE)].mean() > 0.2
        assert after.start - one.end >= 0.3
        assert not loud[round((one.end + 0.05) * RATE) : round((after.start - 0.05) * RATE)].any()
