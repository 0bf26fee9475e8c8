"""A transcript as bytes in one of the formats. The same transcript and rules give the same bytes."""

from __future__ import annotations

import math

from batch_jobs.job import FORMATS, SubtitleRules
from batch_jobs.transcript import Segment, Transcript
from batch_jobs.writers.document import document
from speech.cues import cues
from speech.subtitles import Cue, srt, vtt
from workers.errors import InputInvalid


def render(transcript: Transcript, format: str, rules: SubtitleRules) -> bytes:
    """UTF-8 with newlines "\\n". `rules` shape srt and vtt. Raises InputInvalid(param="format") for an unknown format.

    txt: a line for each segment. srt, vtt: cues. tsv: a row for each segment, times in whole milliseconds. json: see
    `batch_jobs.writers.document`. With several channels, txt, srt and vtt say "[1]" before what the first one said, and
    tsv has a column more.
    """
    match format:
        case "txt":
            text = _txt(transcript)
        case "srt":
            text = srt(_cues(transcript, rules))
        case "vtt":
            text = vtt(_cues(transcript, rules))
        case "tsv":
            text = _tsv(transcript)
        case "json":
            text = document(transcript)
        case _:
            raise InputInvalid(f"format is {format!r}; give one of {', '.join(FORMATS)}", param="format")
    # A lone surrogate is no character and has no UTF-8.
    return text.encode("utf-8", "replace")


def _txt(transcript: Transcript) -> str:
    named = transcript.account.channels > 1
    lines = (
        (f"{_label(segment)} " if named else "", " ".join(segment.text.split())) for segment in transcript.segments
    )
    return "".join(f"{name}{text}\n" for name, text in lines if text)


def _tsv(transcript: Transcript) -> str:
    named = transcript.account.channels > 1
    rows = ["start\tend\ttext" + ("\tchannel" if named else "")]
    for segment in transcript.segments:
        # A tab or a newline would end the field.
        if text := " ".join(segment.text.split()):
            times = f"{_milliseconds(segment.start)}\t{_milliseconds(segment.end)}"
            rows.append(f"{times}\t{text}" + (f"\t{segment.channel + 1}" if named else ""))
    return "\n".join(rows) + "\n"


def _cues(transcript: Transcript, rules: SubtitleRules) -> list[Cue]:
    account = transcript.account
    label = _label if account.channels > 1 else None
    return cues(transcript.segments, rules, label=label, until=account.decoded or math.inf)


def _label(segment: Segment) -> str:
    return f"[{segment.channel + 1}]"


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
