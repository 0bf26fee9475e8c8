"""What is written can be read back by others: subtitles, tables, the JSON document, and files that are whole."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import srt
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from batch_jobs.job import FORMATS, SubtitleRules
from batch_jobs.transcript import Account, Hole, Repair, Segment, Suspicion, Transcript
from batch_jobs.wire import dump, load
from batch_jobs.writers.files import write_file
from batch_jobs.writers.render import render
from speech.events import Word
from workers.errors import InputInvalid

RULES = SubtitleRules()


def segment(text: str, start: float, end: float, channel: int = 0) -> Segment:
    parts = text.split()
    each = (end - start) / max(len(parts), 1)
    words = (Word(f" {part}", start + n * each, start + (n + 1) * each, 0.9) for n, part in enumerate(parts))
    return Segment(start, end, text, tuple(words), channel, "en", -0.2, 0.01, 1.2, 0.0)


def transcript(*segments: Segment, channels: int = 1, decoded: float = 0.0, **more: Any) -> Transcript:
    told = Account(None, decoded, 0.0, 0.0, channels=channels)
    return Transcript(segments, told, "en", **more)


def seconds(stamp: str) -> float:
    hours, minutes, rest = stamp.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def test_text_as_written() -> None:
    said = transcript(segment("Hello there.", 0.5, 1.5), segment("Hi.", 2.0, 2.5, 1))
    assert render(said, "txt", RULES) == b"Hello there.\nHi.\n"
    calls = replace(said, account=replace(said.account, channels=2))
    assert render(calls, "txt", RULES) == b"[1] Hello there.\n[2] Hi.\n"
    assert render(calls, "srt", RULES).decode() == (
        "1\n00:00:00,500 --> 00:00:01,500\n[1] Hello there.\n\n2\n00:00:02,000 --> 00:00:02,800\n[2] Hi.\n"
    )
    assert render(calls, "vtt", RULES).decode() == (
        "WEBVTT\n\n00:00:00.500 --> 00:00:01.500\n[1] Hello there.\n\n00:00:02.000 --> 00:00:02.800\n[2] Hi.\n"
    )
    assert render(said, "tsv", RULES) == b"start\tend\ttext\n500\t1500\tHello there.\n2000\t2500\tHi.\n"
    assert render(calls, "tsv", RULES).splitlines()[2] == b"2000\t2500\tHi.\t2"


@pytest.mark.parametrize(
    ("edge", "stamp"),
    [
        (0.9995, "00:00:01.000"),
        (59.9996, "00:01:00.000"),
        (3599.9999, "01:00:00.000"),
        (35_999.9996, "10:00:00.000"),
        (359_999.9996, "100:00:00.000"),
        (450_000.25, "125:00:00.250"),
    ],
)
def test_stamps_carry(edge: float, stamp: str) -> None:
    said = transcript(segment("It carries over.", edge, edge + 2))
    assert f"{stamp} --> " in render(said, "vtt", RULES).decode()
    assert f"{stamp.replace('.', ',')} --> " in render(said, "srt", RULES).decode()
    assert render(said, "tsv", RULES).splitlines()[1].split(b"\t")[0] == str(round(1000 * seconds(stamp))).encode()


def test_a_cue_that_would_come_before_the_one_before_it() -> None:
    said = transcript(segment("One hundred and ten.", 8.0, 9.0), segment("One hundred and nine.", 5.0, 8.5))
    found = list(srt.parse(render(said, "srt", RULES).decode()))
    assert [cue.content for cue in found] == ["One hundred and nine.", "One hundred and ten."]
    assert found[0].end <= found[1].start


def test_no_cue_without_length() -> None:
    said = transcript(segment("Now.", 5.0, 5.0), segment("Then.", 5.0, 5.0), decoded=6.0)
    for cue in srt.parse(render(said, "srt", RULES).decode()):
        assert cue.start < cue.end


def test_an_arrow_that_was_said_is_no_arrow() -> None:
    said = transcript(segment("from a --> b ---> c", 1.0, 3.0))
    assert [cue.content for cue in srt.parse(render(said, "srt", RULES).decode())] == ["from a -> b -> c"]
    assert render(said, "vtt", RULES).count(b"-->") == 1


def test_a_silent_file() -> None:
    silent = Transcript((), Account(None, 60.0, 0.0, 0.0), warnings=("no speech was found",))
    assert {kind: render(silent, kind, RULES) for kind in ("txt", "srt", "vtt", "tsv")} == {
        "txt": b"", "srt": b"", "vtt": b"WEBVTT\n", "tsv": b"start\tend\ttext\n"
    }  # fmt: skip
    body = json.loads(render(silent, "json", RULES))
    assert body["segments"] == []
    assert body["warnings"] == ["no speech was found"]


def test_an_unknown_format_names_those_there_are() -> None:
    with pytest.raises(InputInvalid, match="txt, srt, vtt, tsv, json") as refused:
        render(transcript(), "docx", RULES)
    assert refused.value.param == "format"


def full() -> Transcript:
    doubt = Suspicion("repeated", 1.0, 2.0, 0, 4.0, 2.4, "'no' four times")
    mended = Repair(
        1.0, 2.0, 0, (doubt,), (segment("no no no no", 1, 2),), (segment("No.", 1, 1.5),), 0.2, 0.9, True, "beam 5", 2
    )
    return Transcript(
        (segment("No.", 1.0, 1.5), segment("Yes.", 2.0, 2.5, 1)),
        Account(12.5, 12.4, 3.0, 1.0, (Hole(5.0, 7.0, 1, "killed its worker"),), 2),
        "en",
        (mended,),
        (doubt,),
        ("2.0 s of speech have no words, in 1 place",),
        {"model": "tiny.en", "keywords": ("b", "a"), "subtitles": {"line": 42, "gap": 0.0}, "language": None},
    )


def test_the_document_has_the_fields_that_are_described() -> None:
    body = json.loads(render(full(), "json", RULES))
    assert (body["schema"], body["version"]) == ("speechlane.transcript", 1)
    described = (Path(__file__).parents[2] / "docs" / "transcript.md").read_text("utf-8")

    def names(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | set().union(*(names(one) for one in value.values()), set())
        return set().union(*map(names, value), set()) if isinstance(value, list) else set()

    settings = names(body.pop("settings"))
    assert settings == {"model", "keywords", "subtitles", "line", "gap", "language"}
    assert {name for name in names(body) if f"`{name}`" not in described} == set()
    assert body["repairs"][0]["before"][0]["text"] == "no no no no"
    assert body["repairs"][0]["reasons"] == body["suspicions"]
    assert body["account"]["missing"] == [{"start": 5.0, "end": 7.0, "channel": 1, "reason": "killed its worker"}]
    assert "".join(word["text"] for word in body["segments"][0]["words"]).strip() == body["segments"][0]["text"]


def test_equal_transcripts_are_equal_bytes() -> None:
    one = full()
    other = load(Transcript, dump(one))
    shuffled = replace(other, settings=dict(reversed(other.settings.items())))
    for kind in FORMATS:
        assert render(one, kind, RULES) == render(other, kind, RULES) == render(shuffled, kind, RULES)
    zero = replace(one, segments=(segment("No.", -0.0, 1.5),))
    assert render(zero, "json", RULES) == render(replace(one, segments=(segment("No.", 0.0, 1.5),)), "json", RULES)


def test_what_is_no_number_is_null() -> None:
    odd = replace(segment("No.", 1.0, 1.5), avg_logprob=math.nan, no_speech=math.inf)
    odd = replace(odd, words=(Word(" No.", 1.0, 1.5, math.nan),))
    body = json.loads(render(transcript(odd, settings={"x": math.nan}), "json", RULES), parse_constant=pytest.fail)
    assert body["segments"][0]["avg_logprob"] is None
    assert body["segments"][0]["words"][0]["confidence"] is None
    assert body["settings"] == {"x": None}


def test_settings_that_json_cannot_hold_are_an_error() -> None:
    with pytest.raises(TypeError, match="PosixPath"):
        render(transcript(settings={"path": Path("x")}), "json", RULES)


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.text("->a&<\n\t ", max_size=12)
spans = st.tuples(text, st.floats(0, 500_000), st.floats(0, 12), st.integers(0, 1))


@given(st.lists(spans, max_size=12), st.booleans())
def test_any_transcript_is_read_back(rows: list[tuple[str, float, float, int]], apart: bool) -> None:
    segments = sorted((segment(t, s, s + d, c) for t, s, d, c in rows), key=lambda one: one.start)
    said = transcript(*segments, channels=2 if apart else 1)
    letters = sorted("".join("".join(one.text.split()) for one in segments).replace("-", "").replace(">", ""))

    def same(found: str) -> bool:
        plain = found.replace("[1]", "").replace("[2]", "") if apart else found
        return sorted("".join(plain.split()).replace("-", "").replace(">", "")) == letters

    cues = list(srt.parse(render(said, "srt", RULES).decode()))
    assert [cue.index for cue in cues] == list(range(1, len(cues) + 1))
    assert all(cue.start < cue.end for cue in cues)
    assert all(before.end <= after.start for before, after in pairwise(cues))
    assert same("".join(cue.content for cue in cues))
    assert max((len(line) for cue in cues for line in cue.content.splitlines()), default=0) <= RULES.line

    captions = list(webvtt.from_buffer(io.StringIO(render(said, "vtt", RULES).decode())))
    assert [(seconds(cue.start), seconds(cue.end)) for cue in captions] == [
        (cue.start.total_seconds(), cue.end.total_seconds()) for cue in cues
    ]

    table = list(csv.reader(io.StringIO(render(said, "tsv", RULES).decode()), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert {len(row) for row in table} == {4 if apart else 3}
    assert same("".join(row[2] for row in table[1:]))

    body = json.loads(render(said, "json", RULES), parse_constant=pytest.fail)
    assert same("".join(one["text"] for one in body["segments"]))


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.srt"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_file(path, b"three")
    assert path.read_bytes() == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["talk.srt"]


def test_a_file_gets_the_users_rights_and_a_link_stays_one(tmp_path: Path) -> None:
    link, target = tmp_path / "link.txt", tmp_path / "target.txt"
    link.symlink_to(target)
    before = os.umask(0o027)
    try:
        write_file(link, b"text")
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert target.read_bytes() == b"text"
    assert target.stat().st_mode & 0o777 == 0o640
