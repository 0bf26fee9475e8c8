"""Text for speech, subtitles, and what comes from a language model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import srt as reader
import webvtt

from gateway.assistant.chat_completions import _Reader
from gateway.assistant.chat_messages import messages
from gateway.assistant.language_model import AssistantFailed, Called, Ended, Entry, Returned, Said
from gateway.assistant.server_sent import LONGEST, EventTooLong, events
from speech.cues import SubtitleRules, cues
from speech.events import Word
from speech.subtitles import srt, vtt
from speech.text import Lexicon, TextOptions, TextSegmenter, explain, read
from tests.fuzz.target import REFUSALS, any_text, cuts, refused, run, target, text_of

TEXTS = (
    "Dr. Smith paid $29.95 on 3/4/2025 at 10:30 p.m., i.e. 1,234.5 kg; see https://example.com/a?b=c or a@b.co.",
    "# Title\n\n- **bold** and `code`\n1. [link](http://x)\n\n```py\nprint(1)\n```\n| a | b |\n|---|---|\n| 1 | 2 |",
    "<speak>Hello <break time='1s'/> there</speak> 😀👩‍👩‍👧 שלום 你好 Ⅻ ½ 5′10″ x² +1 (555) 123-4567 "
    "v1.2.3 #tag @me ~/a",
    "Wait… what?! “Yes,” she said—no. U.S.A. 'twas 1990s, 007, 1e-9, €5m, 20°C, 3:2, 2nd, XIV, AT&T",
)
WORDS = (
    "```",
    "\n",
    "**",
    "<break/>",
    "$1.5",
    "10:30",
    "1/2",
    "http://",
    "-->",
    "Mr.",
    "e.g.",
    "°",
    "…",
    "«",
    "１",
    "²",
    "\u200d",
)
MARKDOWN, CODE, EMOJI = ("strip", "speak"), ("strip", "speak", "name"), ("strip", "name", "speak")


@target("normaliser", TEXTS, kind="text", words=WORDS)
def normaliser(data: bytes) -> None:
    """Any text gives tokens that lie in it, in order, and every character that is left out is named."""
    text, first = any_text(data), data[0] if data else 0
    options = TextOptions(markdown=MARKDOWN[first % 2], code=CODE[first % 3], emoji=EMOJI[first // 3 % 3])  # type: ignore[arg-type]
    reading = read(text, options)
    last = 0
    for token in reading.tokens:
        assert last <= token.start <= token.end <= len(text), token
        assert token.text
        last = token.start
    assert all(0 <= one.start <= one.end <= len(text) for one in reading.removed)
    assert len(reading.tokens) <= 40 * len(text) + 1
    json.dumps(explain(text, options).as_json())


@target("segmenter", TEXTS, kind="text", words=WORDS)
def segmenter(data: bytes) -> None:
    """Segments cover the text, none is too long, and where the text was cut makes no difference."""
    text, sizes = any_text(data), data[:3]
    for split in ("sentence", "clause", "none"):
        cap = 20 + (sizes[0] if sizes else 0)
        whole, pieces = TextSegmenter(split, cap), TextSegmenter(split, cap)  # type: ignore[arg-type]
        expected = [*whole.feed(text), *whole.flush()]
        found, at = [], 0
        for piece in cuts(bytes(len(text)), sizes):
            found += pieces.feed(text[at : at + len(piece)])
            at += len(piece)
        found += pieces.flush()
        assert "".join(segment.text for segment in expected) == text
        assert all(len(segment.text) <= cap for segment in expected)
        assert [(one.start, one.end, one.code) for one in found] == [(one.start, one.end, one.code) for one in expected]


LEXICON = {"Kubernetes": "koo ber net ees", "IPA": "/aɪ/", "read me": "reed me", "the": "thee"}


@target("lexicon", [json.dumps(LEXICON)], kind="json", words=(*LEXICON, "/", "//", "/ /"))
def lexicon(data: bytes) -> None:
    try:
        entries = json.loads(data)
    except (ValueError, RecursionError):
        return
    with refused(*REFUSALS):
        known = Lexicon(entries)
        said = " ".join(map(str, entries))[:500] if isinstance(entries, dict) else ""
        read(said, TextOptions(), known)


CUES = [
    [0.0, 1.0, "Hello there."],
    [0.9, 3.0, "A <b>b</b> & c --> d\n\ne"],
    [59.9996, 3600.1, "WEBVTT"],
    [1.0, 1.0, "\u2028"],
]


@target(
    "subtitles",
    [json.dumps(CUES)],
    kind="json",
    words=("-->", "\n\n", "NOTE", "WEBVTT", "00:00:00.000", "STYLE", "1\n"),
)
def subtitles(data: bytes) -> None:
    """Whatever words were heard, other programs read as many cues as were written, with their times in order."""
    try:
        rows = json.loads(data)
        timed = [(float(start), float(start) + abs(float(end)), str(text)) for start, end, text in rows]
    except (ValueError, TypeError, RecursionError, OverflowError):
        return
    timed = [
        (start, end, text.encode("utf-8", "replace").decode()) for start, end, text in timed if 0 <= start < end < 1e6
    ]
    words = [Word(f" {text}", start, end, 1.0) for start, end, text in timed]

    class Heard:
        def __init__(self, word: Word) -> None:
            self.start, self.end, self.text, self.words = word.start, word.end, word.text, [word]

    made = cues([Heard(word) for word in words], SubtitleRules())
    for given in (timed, made):
        text = srt(given)
        parsed = list(reader.parse(text))
        written = [one for one in text.split("\n\n") if one.strip()] if text else []
        assert len(parsed) == len(written)
        assert [one.start for one in parsed] == sorted(one.start for one in parsed)
        assert all(one.start < one.end for one in parsed)
        found = webvtt.from_string(vtt(given))
        assert len(found.captions) == len(parsed)


CHUNKS = (
    b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}}]}\r\n\r\n'
    b": comment\nevent: x\nid: 1\n\n"
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}\n\n'
    b"data: [DONE]\n\n",
    b"data: a\ndata:b\n\ndata\n\n\ndata: cut",
)


@target("server_sent", CHUNKS, words=("data: ", "\n\n", "\r\n", "\r", ":", "data", "[DONE]"))
def server_sent(data: bytes) -> None:
    """However the bytes are cut, the same events come; and what they hold is pieces of an answer or a failure."""

    async def pieces(sizes: bytes) -> AsyncIterator[bytes]:
        for piece in cuts(data, sizes):
            yield piece

    async def read_all(sizes: bytes) -> list[str]:
        return [event async for event in events(pieces(sizes))]

    try:
        expected = run(read_all(b""))
        assert run(read_all(data[:3] or b"\1")) == expected
    except EventTooLong:
        assert len(data) > LONGEST
        return
    completion = _Reader()
    try:
        for event in expected:
            for piece in completion.read(event):
                assert piece is not None
        assert isinstance(completion.end(), Ended)
    except AssistantFailed as error:
        assert len(error.message) < 300


COMPLETION = {
    "choices": [{"delta": {"content": "Hi", "tool_calls": [
        {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}  # fmt: skip


@target("completion", [json.dumps(COMPLETION)], kind="json", words=("error", "choices", "delta", "length"))
def completion(data: bytes) -> None:
    reading = _Reader()
    try:
        for piece in (*reading.read(text_of(data)), *reading.read(text_of(data)), reading.end()):
            str(piece).encode()
    except AssistantFailed as error:
        assert len(error.message) < 300


@target("chat_messages", [bytes([0, 1, 2, 3, 4, 5, 6, 7]), bytes([1, 4, 0, 7, 1]), bytes([4, 1])], longest=64)
def chat_messages(data: bytes) -> None:
    """Calls are followed by their results at once, each once, whatever was said in between."""
    history: list[Entry] = []
    for byte in data:
        name = str(byte >> 4 & 3)
        kinds: tuple[Entry, ...] = (
            Said("user", name),
            Called(name, "f", ""),
            Returned(name, "r"),
            Said("assistant", ""),
        )
        history.append(kinds[byte % 4])
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages(history, "x"):
        if message["role"] == "tool":
            assert waiting, "a result without its call"
            assert waiting.pop(0) == message["tool_call_id"]
            continue
        assert not waiting, "a call without its result"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        assert not seen & set(waiting)
        seen |= set(waiting)
    assert not waiting
