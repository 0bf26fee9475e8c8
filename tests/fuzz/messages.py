"""Messages of every protocol on a socket: what comes out of a frame, and what the session makes of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import WSMessage, WSMsgType

from gateway.deepgram import errors as deepgram_errors
from gateway.deepgram import messages as deepgram
from gateway.elevenlabs import errors as eleven_errors
from gateway.elevenlabs import messages as eleven
from gateway.elevenlabs.options import Asked
from gateway.http_errors import error_fields
from gateway.outbox import encode
from gateway.realtime.config import Shape, audio_format, described, from_beta, initial, merged
from gateway.realtime.conversation import messages as talk
from gateway.realtime.conversation import shapes
from gateway.realtime.conversation.history import History
from gateway.realtime.conversation.items import made
from gateway.realtime.conversation.plan import chosen_tool, planned
from gateway.realtime.conversation.session import _check_size, _merged, begun, open_conversation
from gateway.realtime.live import requested_stream
from gateway.realtime.messages import EVENTS, BetaSessionUpdate, SessionUpdate
from gateway.realtime.parse import Events, RequestError, parse_now
from gateway.speak import messages as speak
from gateway.vosk.messages import order
from gateway.wyoming import fields as wyoming_fields
from gateway.wyoming.events import LINE_BYTES, Broken, encoded, read_event
from gateway.wyoming.transcription import _layout
from speech.audio import AudioFormat
from speech.config import checked
from speech.encode import OutputFormat, output_format
from speech.speaking.config import checked as speakable
from tests.fuzz.engines import HEART, names
from tests.fuzz.target import REFUSALS, refused, run, target, tell, text_of

MOST_APPEND = 15 * 1024 * 1024

AUDIO_INPUT = {
    "format": {"type": "audio/pcm", "rate": 16_000},
    "noise_reduction": {"type": "near_field", "strength": 0.5},
    "transcription": {"model": "whisper-1", "language": "en", "prompt": "p", "keywords": ["Kitty"], "delay": "low"},
    "turn_detection": {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "idle_timeout_ms": 5000,
    },
}
SEMANTIC = {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}
REALTIME: list[dict[str, Any]] = [
    {"type": "session.update", "event_id": "e", "session": {"type": "transcription", "audio": {"input": AUDIO_INPUT}}},
    {"type": "session.update", "session": {"audio": {"input": SEMANTIC}, "include": ["x.words", "x.lag"]}},
    {"type": "session.update", "session": {"audio": {"input": {"turn_detection": None, "transcription": None}}}},
    {"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}},
    {
        "type": "transcription_session.update",
        "session": {
            "input_audio_format": "g711_ulaw",
            "input_audio_noise_reduction": {"type": "far_field"},
            "input_audio_transcription": {"model": "whisper-1", "language": "en"},
            "turn_detection": {"type": "server_vad", "threshold": 0.4},
            "include": ["item.input_audio_transcription.logprobs"],
            "modalities": ["text"],
        },
    },
    {"type": "input_audio_buffer.append", "audio": "AAAAAAEAAgADAA=="},
    {"type": "input_audio_buffer.commit", "event_id": "1"},
    {"type": "input_audio_buffer.clear"},
    {"type": "conversation.item.retrieve", "item_id": "item_1"},
    {"type": "conversation.item.delete", "item_id": "item_1"},
]
TOOL = {"type": "function", "name": "weather", "description": "d", "parameters": {"type": "object", "properties": {}}}
CONVERSATION: list[dict[str, Any]] = [
    {
        "type": "session.update",
        "session": {
            "type": "realtime",
            "model": "echo",
            "output_modalities": ["audio"],
            "instructions": "Be brief.",
            "tools": [TOOL],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
            "tracing": {"workflow_name": "w"},
            "truncation": "auto",
            "audio": {
                "input": AUDIO_INPUT,
                "output": {"format": {"type": "audio/pcma"}, "voice": "heart", "speed": 1.5},
            },
        },
    },
    {
        "type": "session.update",
        "session": {
            "modalities": ["text", "audio"],
            "voice": {"id": "heart"},
            "speed": 1,
            "input_audio_format": "g711_alaw",
            "output_audio_format": "pcm16",
            "input_audio_transcription": {"model": "whisper-1"},
            "turn_detection": {"type": "server_vad", "create_response": False},
            "temperature": 0.8,
            "tools": [],
            "tool_choice": {"type": "function", "name": "weather"},
            "max_response_output_tokens": 100,
        },
    },
    {
        "type": "conversation.item.create",
        "previous_item_id": "root",
        "item": {"id": "i", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    },
    {
        "type": "conversation.item.create",
        "item": {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
    },
    {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "c", "output": "rain"}},
    {"type": "conversation.item.truncate", "item_id": "i", "content_index": 0, "audio_end_ms": 100},
    {
        "type": "response.create",
        "response": {
            "conversation": "none",
            "input": [
                {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "x"}]},
                {"type": "item_reference", "id": "i"},
            ],
            "instructions": "no",
            "output_modalities": ["text"],
            "audio": {"output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "heart"}},
            "tools": [TOOL],
            "tool_choice": "required",
            "max_output_tokens": 7,
            "metadata": {"a": "b"},
        },
    },
    {"type": "response.create", "response": {"modalities": ["text"], "output_audio_format": "pcm16", "voice": "alloy"}},
    {"type": "response.create"},
    {"type": "response.cancel", "response_id": "r"},
    {"type": "output_audio_buffer.clear"},
    {"type": "x.output_audio.played", "item_id": "i", "audio_end_ms": 100},
]
SPEAK: list[dict[str, Any]] = [
    {
        "type": "create",
        "context": "a",
        "event_id": "e",
        "voice": "heart",
        "speed": 1.5,
        "seed": 1,
        "split": "clause",
        "policy": {"markdown": "speak", "code": "name", "emoji": "name", "language": "en"},
        "lexicon": {"Kubernetes": "koo ber net ees", "IPA": "/aɪ/"},
        "lead": None,
        "stall": 0.3,
        "format": {"name": "opus", "rate": 48000},
        "audio": "base64",
        "words": False,
    },
    {"type": "text", "context": "a", "text": "Hello there. \ud83d\ude00", "flush": True, "end": False},
    {"type": "flush", "context": "a"},
    {"type": "end", "context": "a"},
    {"type": "cancel", "context": "a"},
    {"type": "playback", "context": "a", "seconds": 0.5},
    {"type": "hold", "context": "a"},
    {"type": "resume", "context": "a"},
]
DEEPGRAM: list[dict[str, Any]] = [
    {"type": "KeepAlive"},
    {"type": "Finalize", "channel": 0},
    {"type": "CloseStream"},
    {"type": "Configure", "keyterms": ["Kitty"], "features": {"punctuate": True, "smart_format": False}},
]
VOSK: list[dict[str, Any]] = [
    {"config": {"sample_rate": 16000, "words": 1, "max_alternatives": 2, "phrase_list": ["yes", "[unk]"]}},
    {"eof": 1},
    {"reset": 1},
    {"config": {"sample_rate": 8000.0, "model": "tiny.en"}, "reset": True, "eof": False},
]
ELEVEN: list[dict[str, Any]] = [
    {
        "text": " ",
        "voice_settings": {"stability": 0.5, "similarity_boost": 0.8, "use_speaker_boost": False, "speed": 1.1},
        "generation_config": {"chunk_length_schedule": [120, 160, 250, 290]},
        "xi_api_key": "key",
        "context_id": "a",
    },
    {"text": "Hello there. ", "try_trigger_generation": True, "flush": True, "contextId": "b"},
    {"text": None, "authorization": "Bearer key", "pronunciation_dictionary_locators": [{"id": "x"}]},
    {"context_id": "a", "close_context": True},
    {"close_socket": True, "generator_config": {}},
    {"text": ""},
]
WYOMING: list[tuple[dict[str, Any], Any, bytes]] = [
    ({"type": "describe"}, None, b""),
    ({"type": "ping", "data": {"text": "a"}}, None, b""),
    ({"type": "transcribe"}, {"name": "tiny.en", "language": "en"}, b""),
    ({"type": "audio-start", "data": {"rate": 16000, "width": 2, "channels": 1}}, None, b""),
    ({"type": "audio-chunk"}, {"rate": 16000, "width": 2, "channels": 1}, b"\0\1" * 20),
    ({"type": "audio-stop"}, {"timestamp": 5}, b""),
    ({"type": "synthesize"}, {"text": "Hello.", "voice": {"name": "heart", "language": "en"}}, b""),
    ({"type": "synthesize-start"}, {"voice": {"language": "en-GB"}}, b""),
    ({"type": "synthesize-chunk"}, {"text": "Hello."}, b""),
    ({"type": "synthesize-stop"}, None, b""),
]


def lines(messages: list[dict[str, Any]]) -> list[bytes]:
    """Messages as frames."""
    return [json.dumps(message).encode() for message in messages]


def fields_of(messages: Any) -> tuple[str, ...]:
    """The names and short texts in messages, for a fuzzer to try elsewhere."""
    found: dict[str, None] = {}
    waiting = [messages]
    while waiting:
        match waiting.pop():
            case dict() as fields:
                found |= dict.fromkeys(fields)
                waiting += fields.values()
            case list() | tuple() as several:
                waiting += several
            case str(text) if 0 < len(text) < 40:
                found[text] = None
    return tuple(name for name in found if name.isprintable())


def framed(event: tuple[dict[str, Any], Any, bytes]) -> bytes:
    """A Wyoming event as it comes over TCP."""
    header, data, payload = event
    more = json.dumps(data).encode() if data is not None else b""
    return (
        json.dumps({**header, "data_length": len(more), "payload_length": len(payload)}).encode()
        + b"\n"
        + more
        + payload
    )


def event_of(data: bytes, known: Events) -> Any:
    """The client event in a frame; None when it was refused."""
    with refused(RequestError):
        return parse_now(text_of(data), MOST_APPEND, known)


@target("realtime", lines(REALTIME), kind="json", words=fields_of(REALTIME))
def realtime(data: bytes) -> None:
    event = event_of(data, EVENTS)
    if not isinstance(event, SessionUpdate | BetaSessionUpdate):
        return
    shape = Shape.BETA if isinstance(event, BetaSessionUpdate) else Shape.GA
    with refused(RequestError, *REFUSALS):
        patch = from_beta(event.session) if isinstance(event, BetaSessionUpdate) else event.session
        session = merged(initial("tiny.en"), patch, "tiny.en")
        wanted = session.audio.input.transcription
        checked(requested_stream(names(), session, wanted and wanted.model))
        assert audio_format(session).frame_bytes in (1, 2)
        encode(described(session, shape, "sess", 1))
        # The same again changes nothing more.
        assert merged(session, patch, "tiny.en") == session


@target("conversation", lines(CONVERSATION), kind="json", words=fields_of(CONVERSATION))
def conversation(data: bytes) -> None:
    engine, history = names(), History()
    event = event_of(data, talk.CONVERSATION)
    session = open_conversation(engine, "echo", [])
    for shape in Shape:
        with refused(RequestError, *REFUSALS):
            match event:
                case talk.SessionUpdate():
                    patch, shown = shapes.session_patch(event.session, shape)
                    changed = _merged(session, patch, "tiny.en")
                    chosen_tool(changed.tool_choice, changed.tools, "session.tool_choice")
                    _check_size(changed)
                    wanted = changed.audio.input.transcription
                    checked(requested_stream(engine, changed, wanted and wanted.model))
                    assert len(encode(shapes.described(changed, shown, "sess", 1))) < 3 << 20
                case talk.ItemCreate():
                    item = made(event.item)
                    history.insert(item, event.previous_item_id)
                    encode(shapes.in_shape(item.described(), shape))
                    history.entries()
                case talk.ResponseCreate():
                    plan = planned(session, shapes.response_wish(event.response, shape), history)
                    assert isinstance(plan.output, OutputFormat)
                    encode(plan.described())


@target("client_secret_session", lines([m["session"] for m in CONVERSATION + REALTIME if "session" in m]), kind="json")
def client_secret_session(data: bytes) -> None:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(fields, dict):
        with refused(RequestError, *REFUSALS):
            begun(names(), open_conversation(names(), "echo", []), fields)


@target("speak", lines(SPEAK), kind="json", words=fields_of(SPEAK))
def speaking(data: bytes) -> None:
    try:
        message = speak.parse(text_of(data), 64 * 1024)
    except speak.Refused as refusal:
        tell({**error_fields(refusal.error), "context": refusal.context, "event_id": refusal.event_id})
        return
    encode({"context": message.context, "event_id": message.event_id})
    if isinstance(message, speak.Create):
        with refused(*REFUSALS):
            speakable(message.config())
            output_format(message.format.name, HEART.rate, message.format.rate)


@target("deepgram_message", lines(DEEPGRAM), kind="json", words=fields_of(DEEPGRAM))
def deepgram_message(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        message = deepgram.parse(text)
    except REFUSALS as error:
        tell(deepgram_errors.message(error, text[:500]))
        return
    encode({"keyterms": message.keyterms})


@target("vosk_message", [*lines(VOSK), b'{"eof" : 1}', b'{ "eof":1 }'], kind="json", words=fields_of(VOSK))
def vosk_message(data: bytes) -> None:
    for frame in (
        WSMessage(WSMsgType.TEXT, data.decode("utf-8", "replace"), ""),
        WSMessage(WSMsgType.BINARY, data, ""),
    ):
        with refused(*REFUSALS):
            asked = order(frame)
            if asked is not None and asked.config is not None and asked.config.sample_rate is not None:
                AudioFormat("pcm16", round(asked.config.sample_rate))
                encode(asked.model_dump())


@target("elevenlabs_message", lines(ELEVEN), kind="json", words=fields_of(ELEVEN))
def elevenlabs_message(data: bytes) -> None:
    text = text_of(data)
    try:
        message = eleven.parse(text)
    except REFUSALS as error:
        tell(eleven_errors.message(error, eleven.context_of(text)))
        return
    assert message.key is None or isinstance(message.key, str)
    encode({"context": message.context_id})
    with refused(*REFUSALS):
        asked = Asked(HEART, OutputFormat("pcm16", 24_000))
        speakable(asked.config(message.voice_settings, message.generation_config, 10.0))


@target("wyoming", lambda: [framed(event) for event in WYOMING], kind="framed", words=fields_of(WYOMING))
def wyoming(data: bytes) -> None:
    """Events until the end, each read as its handler reads it; what is answered can be written."""

    async def read() -> None:
        reader = asyncio.StreamReader(limit=LINE_BYTES)
        reader.feed_data(data)
        reader.feed_eof()
        for _ in range(len(data) + 1):
            with refused(*REFUSALS):
                try:
                    event = await read_event(reader)
                except Broken as error:
                    tell({"text": str(error)})
                    return
                if event is None:
                    return
                encoded(event)
                for name in ("text", "name", "language"):
                    with refused(*REFUSALS):
                        encode({"said": wyoming_fields.optional_text(event.data, name)})
                with refused(*REFUSALS):
                    names().resolve(wyoming_fields.optional_text(event.data, "name"))
                with refused(*REFUSALS):
                    wyoming_fields.nested(event.data, "voice")
                with refused(*REFUSALS):
                    _layout(event.data)
        raise AssertionError("more events than bytes")

    run(read())
