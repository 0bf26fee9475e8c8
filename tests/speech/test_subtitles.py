"""Subtitles: stamps, escaping, order, no overlap; and what FFmpeg reads back from them."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speech.subtitles import srt, vtt


def test_srt_as_written() -> None:
    assert srt([(0.0, 1.5, " Hello there. "), (1.5, 3661.25, "Two\nlines")]) == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n2\n00:00:01,500 --> 01:01:01,250\nTwo\nlines\n"
    )


def test_vtt_as_written() -> None:
    assert vtt([(0.0, 1.5, "AT&T <said> --> so"), (2.0, 2.5, "Yes.")]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nAT&amp;T &lt;said&gt; --&gt; so\n\n"
        "00:00:02.000 --> 00:00:02.500\nYes.\n"
    )


def test_without_cues() -> None:
    assert srt([]) == ""
    assert vtt([(0.0, 1.0, "  \n ")]) == "WEBVTT\n"


@pytest.mark.parametrize(
    ("seconds", "stamp"),
    [
        (0.0004, "00:00:00,000"),
        (59.9996, "00:01:00,000"),
        (3599.9999, "01:00:00,000"),
        (359_999.999, "99:59:59,999"),
        (360_000.0, "100:00:00,000"),
        (-0.2, "00:00:00,000"),
    ],
)
def test_stamps(seconds: float, stamp: str) -> None:
    assert srt([(seconds, seconds + 1, "x")]).splitlines()[1].startswith(f"{stamp} --> ")


def test_the_arrow_in_srt_text_cannot_be_taken_for_a_stamp() -> None:
    assert srt([(0, 1, "a --> b ---> c ---->d")]).count("-->") == 1


def test_blank_lines_do_not_end_a_cue() -> None:
    assert srt([(0, 1, "a\r\n\r\n  \u2028b")]) == "1\n00:00:00,000 --> 00:00:01,000\na\nb\n"


times = st.floats(0, 500_000)


@given(st.lists(st.tuples(times, times, st.text(max_size=20))))
def test_any_cues_come_out_ordered_apart_and_complete(cues: list[tuple[float, float, str]]) -> None:
    for text, point in ((srt(cues), ","), (vtt(cues), ".")):
        stamp = rf"(\d{{2,}}):(\d\d):(\d\d){re.escape(point)}(\d\d\d)"
        found = re.findall(rf"^{stamp} --> {stamp}$", text, re.M)
        spans = [
            tuple(((int(h) * 60 + int(m)) * 60 + int(s)) * 1000 + int(ms) for h, m, s, ms in (row[:4], row[4:]))
            for row in found
        ]
        assert len(spans) == sum(any(line.strip() for line in cue[2].splitlines()) for cue in cues)
        assert all(start < end for start, end in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize(("write", "format"), [(srt, "srt"), (vtt, "webvtt")])
def test_ffmpeg_reads_the_same_cues(write, format: str) -> None:
    cues = [(0.0, 1.25, "One."), (2.0, 4.5, "Two,\nin two lines."), (360_000.0, 360_001.0, "Late.")]
    with av.open(io.BytesIO(write(cues).encode()), "r", format=format) as container:
        packets = [packet for packet in container.demux() if packet.size]
    read = [(float(p.pts * p.time_base), float((p.pts + p.duration) * p.time_base), bytes(p).decode()) for p in packets]
    assert read == cues
