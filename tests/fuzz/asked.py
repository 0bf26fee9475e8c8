"""What comes with HTTP: queries, forms, bodies and headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from copy import copy
from functools import cache
from types import SimpleNamespace
from typing import Any, get_args
from urllib.parse import parse_qsl

from aiohttp import MultipartReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict, CIMultiDictProxy, MultiDict
from pydantic import ValidationError
from yarl import URL

from gateway.assistant.echo import EchoAssistant
from gateway.auth import presented_key
from gateway.batch.job_request import JobRequest, clean_name, json_fields
from gateway.batch.jobs import attachment
from gateway.batch.submit import _json
from gateway.batch.uploads import _checksum, _number, parse_metadata
from gateway.batch.webhook_hosts import WebhookHosts
from gateway.deepgram import errors as deepgram_errors
from gateway.deepgram.options import Asked as DeepgramAsked
from gateway.deepgram.sound import Sound
from gateway.elevenlabs import errors as eleven_errors
from gateway.elevenlabs.http import SpeechBody
from gateway.elevenlabs.options import asked as eleven_asked
from gateway.fields import Fields
from gateway.http_errors import error_fields
from gateway.keys.record import id_of
from gateway.languages import NAMES, language_code
from gateway.origins import Forbidden, Origins
from gateway.outbox import encode
from gateway.realtime.config import Shape, described
from gateway.realtime.conversation import shapes
from gateway.realtime.conversation.messages import Session as ConversationSession
from gateway.realtime.handler import _included, _shape
from gateway.realtime.messages import Include
from gateway.realtime.parse import RequestError, refusal
from gateway.realtime.starting import SecretRequest, _blank, _body, _invalid, begun
from gateway.speak.explain import ExplainRequest
from gateway.speak.request import checked, read_object, read_request
from gateway.speak.spec import lexicon
from gateway.transcription_request import TranscriptionRequest
from gateway.transcriptions import resolve_model
from gateway.upgrades import UpgradeRequired, check_upgrade, subprotocols
from gateway.uploads import read_parts
from speech.config import checked as listenable
from speech.encode import output_format
from speech.speaking.config import checked as speakable
from speech.text.explain import explain
from tests.fuzz.engines import names
from tests.fuzz.target import REFUSALS, refused, run, target, tell, text_of

SERVICE: Any = SimpleNamespace(engine=names(), assistant=EchoAssistant())
ALLOWED = {
    ("hooks.example.com", 443), ("hooks.example.com", 8443), ("ci.lan", 8080), ("fd00::1", 80), ("fd00::1", 443),
    ("hooks.example.com", 80),
}  # fmt: skip
HOSTS = WebhookHosts(["hooks.example.com", "hooks.example.com:8443", "private:ci.lan:8080", "private:[fd00::1]"])


def query_of(data: bytes) -> MultiDict[str]:
    """Bytes as the query that aiohttp would make of them."""
    return MultiDict(parse_qsl(text_of(data), keep_blank_values=True, max_num_fields=None))


def fields_of(data: bytes) -> Fields:
    """The same as the fields of a form."""
    query = query_of(data)
    return {name.removesuffix("[]"): query.getall(name) for name in query}


def request_with(body: bytes, headers: dict[str, str] | None = None) -> web.Request:
    """As much of a request as those who read bodies look at."""
    loop = asyncio.get_running_loop()
    content = StreamReader(BaseProtocol(loop), 2**30, loop=loop)
    if body:
        content.feed_data(body)
    content.feed_eof()
    given = CIMultiDict(headers or {})
    request: Any = SimpleNamespace(
        content=content, content_length=None, content_type="multipart/form-data", headers=given
    )

    async def multipart() -> MultipartReader:
        return MultipartReader(given, content)

    request.multipart = multipart
    return request  # type: ignore[no-any-return]


def read_by(reader: Callable[[web.Request], Coroutine[Any, Any, Any]], body: bytes) -> Any:
    """What a reader makes of a body."""

    async def read() -> Any:
        return await reader(request_with(body))

    return run(read())


LISTEN = (
    "model=nova-3&language=en-US&encoding=linear16&sample_rate=16000&channels=2&multichannel=true&interim_results=true"
    "&endpointing=300&utterance_end_ms=1000&vad_events=true&keyterm=Kitty&keyterm=Mary&keywords=Kitty:2&keywords=x:-1"
    "&punctuate=true&smart_format=false&paragraphs=true&utterances=true&utt_split=0.8&tag=a&extra=k:v",
    "encoding=mulaw&sample_rate=8000&endpointing=false&diarize=false",
    "model=base&detect_language=true&callback=http://a",
)


def words_of(*queries: str) -> tuple[str, ...]:
    """Names and values of queries."""
    return (*dict.fromkeys(part for query in queries for pair in parse_qsl(query) for part in pair), "&", "=")


@target("deepgram_query", LISTEN, kind="text", words=words_of(*LISTEN))
def deepgram_query(data: bytes) -> None:
    try:
        asked = DeepgramAsked(query_of(data), names())
        sound = Sound(asked.query)
        listenable(asked.stream)
    except REFUSALS as error:
        tell(error_fields(error))
        deepgram_errors.response(error, "id")
        return
    assert 1 <= sound.streams <= 8
    assert all(isinstance(word, str) for word in asked.options.keywords)
    run(sound.close())


STREAM = (
    "model_id=eleven_turbo_v2&output_format=pcm_24000&language_code=en&inactivity_timeout=60&seed=1&auto_mode=true"
    "&enable_ssml_parsing=false&sync_alignment=true",
    "output_format=mp3_44100_128&enable_ssml_parsing=true",
)


@target("elevenlabs_query", STREAM, kind="text", words=words_of(*STREAM))
def elevenlabs_query(data: bytes) -> None:
    query = query_of(data)
    request: Any = SimpleNamespace(query=query, match_info={"voice_id": query.get("voice_id", "heart")})
    try:
        asked = eleven_asked(request, names())
        speakable(asked.config(None, None, 10.0))
    except REFUSALS as error:
        tell(error_fields(error))
        eleven_errors.response(error)


FORM = (
    "model=whisper-1&language=en&prompt=p&response_format=verbose_json&temperature=0.2&timestamp_granularities[]=word"
    "&timestamp_granularities[]=segment&stream=false&chunking_strategy=auto&keywords[]=Kitty",
    "model=tiny.en&response_format=json&include[]=logprobs&stream=true&languages[]=en",
)


@target("transcription_form", FORM, kind="text", words=words_of(*FORM))
def transcription_form(data: bytes) -> None:
    with refused(*REFUSALS):
        asked = TranscriptionRequest.parse(fields_of(data))
        resolve_model(names(), asked.model)
        assert all(0 <= one <= 1 for one in asked.options.temperatures)


SPEECH = {"model": "tts-1", "input": "Hello.", "voice": {"id": "heart"}, "response_format": "wav", "speed": 1.5,
          "seed": 1, "instructions": "Nicely.", "stream_format": "sse"}  # fmt: skip


@target("speech_body", [json.dumps(SPEECH), json.dumps({**SPEECH, "voice": "alloy"})], kind="json", words=(*SPEECH,))
def speech_body(data: bytes) -> None:
    with refused(*REFUSALS):
        asked = read_by(read_request, data)
        output_format("pcm16", 24_000)
        assert 1 <= len(asked.input) <= 4096


ELEVEN = {"text": "Hello.", "model_id": "eleven_x", "language_code": "en", "voice_settings": {"speed": 1.1}, "seed": 3}


@target("elevenlabs_body", [json.dumps(ELEVEN)], kind="json", words=(*ELEVEN, "pronunciation_dictionary_locators"))
def elevenlabs_body(data: bytes) -> None:
    try:
        fields = read_by(lambda request: read_object(request, "text"), data)
        body = checked(SpeechBody, {name: value for name, value in fields.items() if value is not None})
        request: Any = SimpleNamespace(query={}, match_info={"voice_id": "heart"})
        eleven_asked(request, names(), model_id=body.model_id, language_code=body.language_code, seed=body.seed).config(
            body.voice_settings, None, None
        )
    except REFUSALS as error:
        tell(error_fields(error))
        eleven_errors.response(error)


EXPLAIN = {"input": "Dr. Smith paid $5.", "voice": "", "policy": {"markdown": "speak"}, "lexicon": {"a": "/b/"},
           "split": "clause"}  # fmt: skip


@target("explain_body", [json.dumps(EXPLAIN)], kind="json", words=(*EXPLAIN, "code", "emoji", "language"))
def explain_body(data: bytes) -> None:
    with refused(*REFUSALS):
        asked = checked(ExplainRequest, read_by(read_object, data))
        found = explain(asked.input, asked.policy.options(), lexicon(asked.lexicon))
        json.dumps(found.as_json())


JOB = (
    "model=tiny.en&language=en&prompt=p&keywords=a&keywords=b&channels=each&priority=high&repair=false&repair_model=base"
    "&subtitle_line=42&subtitle_lines=2&subtitle_reading_speed=21&subtitle_shortest=0.8&subtitle_longest=7"
    "&subtitle_gap=0&webhook=https://hooks.example.com/done&name=a.wav&upload=abc",
)


@target("job_form", JOB, kind="text", words=words_of(*JOB))
def job_form(data: bytes) -> None:
    with refused(*REFUSALS):
        asked = JobRequest.parse(fields_of(data), names(), HOSTS)
        assert asked.name == clean_name(asked.name)
        assert attachment(f"{asked.name}.srt").isprintable()


JOB_JSON = {
    "upload": "0" * 32,
    "model": "tiny.en",
    "keywords": ["a"],
    "repair": False,
    "subtitle_line": 42,
    "name": "a.wav",
}


@target("job_json", [json.dumps(JOB_JSON)], kind="json", words=(*JOB_JSON, "webhook", "channels", "languages"))
def job_json(data: bytes) -> None:
    with refused(*REFUSALS):
        asked = JobRequest.parse(json_fields(read_by(_json, data)), names(), HOSTS)
        assert asked.upload is None or isinstance(asked.upload, str)


SECRETS = [
    {"expires_after": {"anchor": "created_at", "seconds": 60}, "session": {"type": "transcription", "include": []}},
    {"session": {"type": "realtime", "model": "echo", "instructions": "x", "tools": [], "audio": {}}},
    {"session": {"type": "transcription", "audio": {"input": {"transcription": {"model": "base", "language": "de"}}}}},
]


@target(
    "client_secret", [json.dumps(one) for one in SECRETS], kind="json", words=("tracing", "voice", "turn_detection")
)
def client_secret(data: bytes) -> None:
    """The body of the route; what a secret holds has to be able to begin a session, and to be shown to its client."""
    with refused(*REFUSALS):
        try:
            asked = SecretRequest.model_validate(read_by(_body, data))
            session = begun(SERVICE, asked.session, _blank(SERVICE, asked.session))
        except ValidationError as error:
            raise _invalid(refusal(error.errors(include_url=False, include_input=False)[0])) from None
        except RequestError as error:
            raise _invalid(error) from None
        show = shapes.described if isinstance(session, ConversationSession) else described
        encode(show(session, Shape.GA, "sess", 1))


WEBHOOKS = (
    "https://hooks.example.com/done?a=b", "https://hooks.example.com:8443/", "http://ci.lan:8080/x", "http://[fd00::1]/",
    "https://user:pass@hooks.example.com/", "https://hooks.example.com@evil.example/", "https://2130706433/",
)  # fmt: skip


@target("webhook_url", WEBHOOKS, kind="text", words=("private:", "//", "@", "[", "]", "%", ":", "#", "\\", "\t"))
def webhook_url(data: bytes) -> None:
    with refused(*REFUSALS):
        found = HOSTS.check(text_of(data))
        # What connects reads the address with another parser; both have to see one that is allowed.
        host, port = URL(found.url).host, URL(found.url).port
        assert (host, port) in ALLOWED, (host, port)


TUS = ("filename YS53YXY=,type d2F2", "sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0=", "12", "md5 AAAA", "a ,b")


@target(
    "tus_headers", TUS, kind="text", words=("sha256 ", "filename ", ",", " ", "=", "é", "é".encode().decode("latin-1"))
)
def tus_headers(data: bytes) -> None:
    value = data.decode("utf-8", "surrogateescape")
    headers = dict.fromkeys(("Upload-Metadata", "Upload-Checksum", "Upload-Offset"), value)
    request: Any = SimpleNamespace(headers=headers)
    with refused(*REFUSALS):
        clean_name(parse_metadata(value).get("filename", ""))
    with refused(*REFUSALS):
        assert 0 <= _number(request, "Upload-Offset") < 10**18
    with refused(*REFUSALS):
        _checksum(request)


BOUNDARY = b"x"
PARTS = b"""--x\r
Content-Disposition: form-data; name="model"\r
\r
whisper-1\r
--x\r
Content-Disposition: form-data; name="timestamp_granularities[]"\r
\r
word\r
--x\r
Content-Disposition: form-data; name="file"; filename*=UTF-8''%e2%82%ac.wav\r
Content-Type: audio/wav\r
Content-Transfer-Encoding: binary\r
\r
RIFF1234WAVE\r
--x--\r
"""


@target(
    "multipart",
    [PARTS],
    words=("--x", "--x--", "\r\n", "\r\n\r\n", 'name="file"', "Content-Type: multipart/mixed; boundary=y", "filename=",
           "Content-Transfer-Encoding: base64", "Content-Encoding: gzip", "Content-Length: 9", "charset=utf-7", "--y",
           "_charset_"),
    examples=30,
)  # fmt: skip
def multipart(data: bytes) -> None:
    took = 0

    async def sink(piece: bytes) -> None:
        nonlocal took
        took += len(piece)

    async def read() -> None:
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        parts = await read_parts(request_with(data, headers), sink, max_file_bytes=1000)
        assert parts.size == took <= 1000
        clean_name(parts.filename)

    with refused(*REFUSALS):
        run(read())


@cache
def make_request() -> web.Request:
    """A request without headers, which is slow to make."""
    return make_mocked_request("GET", "/v1/realtime")


HEADERS = (
    "Authorization: Bearer sl_abcdefgh_" + "a" * 43, "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.K",
    "Sec-WebSocket-Protocol: token, K", "xi-api-key: K", "Host: 127.0.0.1:8700\nOrigin: http://127.0.0.1:8700",
    "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==",
    "OpenAI-Beta: realtime=v1", "Origin: null", "Host: [::1", "Host: 999999999999",
)  # fmt: skip


@target("headers", HEADERS, kind="text", words=("Host: ", "Origin: ", "[", "]", "\n", "Bearer ", "Token ", "\udc80"))
def headers(data: bytes) -> None:
    """Who asks, from where, for what: before any key is known to be right."""
    pairs = [line.partition(":")[::2] for line in data.decode("utf-8", "surrogateescape").split("\n")]
    given = CIMultiDict((name.strip() or "X", value.strip()) for name, value in pairs)
    request = copy(make_request())
    request._headers, request._cache = CIMultiDictProxy(given), {}
    request._message = request._message._replace(headers=request._headers)
    key = presented_key(request)
    assert key is None or key
    if key is not None:
        assert id_of(key) is None or len(id_of(key) or "") == 8
    for open_service in (True, False):
        with refused(Forbidden):
            Origins(["https://app.example.com"]).check(request, open=open_service)
    with refused(UpgradeRequired, *REFUSALS):
        check_upgrade(request, ("realtime",))
    subprotocols(request)
    _shape(request)
    with refused(*REFUSALS):
        _included(MultiDict({"include": given.get("Host", "")}), get_args(Include))


@target("language", ["en", "en-GB", "English", "haitian creole", "pt_BR"], kind="text", words=(*NAMES,)[:20])
def language(data: bytes) -> None:
    code = language_code(text_of(data))
    assert code is None or code in NAMES
