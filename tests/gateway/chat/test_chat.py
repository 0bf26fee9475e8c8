"""POST /v1/chat/completions by the client that people use: pictures, clips, turns, and all that is wrong."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import numpy as np
import openai
import pytest
from PIL import Image

from gateway.chat.messages import turns
from gateway.keys.identity import LOCAL
from gateway.speak.fields import FieldInvalid
from gateway.vision.body import parsed
from gateway.vision.remote import PictureHosts
from tests.gateway.seeing import Seeing, as_url, seeing
from vision_text.media import clip_file
from vision_text.scenes.grids import draw, questions, random_grid
from workers.errors import InputInvalid, InputTooLarge

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def service() -> Iterator[Seeing]:
    with seeing(chat_models=("shapes-vlm",), max_media_bytes=2_000_000, max_picture_pixels=4_000_000) as found:
        yield found


@pytest.fixture(scope="module")
def client(service: Seeing) -> openai.OpenAI:
    return service.openai()


def asked(*parts: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"messages": [{"role": role, "content": content}], "max_tokens": 4, **more}


def image(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def video(url: str) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": url}}


GRID = random_grid(np.random.default_rng(5))
SEEN = as_url(Image.fromarray(draw(GRID)))
QUESTION = questions(GRID)[0].text
CLIP = "data:video/mp4;base64," + base64.b64encode(clip_file(np.stack([draw(GRID)] * 16), 8)).decode()


def test_the_openai_package(client: openai.OpenAI) -> None:
    asking: Any = asked(QUESTION, image(SEEN))
    whole = client.chat.completions.create(model="gpt-4o", **asking)
    (choice,) = whole.choices
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    usage = whole.usage
    assert usage is not None and usage.prompt_tokens_details is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens <= 4
    visual = usage.prompt_tokens_details.visual_tokens  # type: ignore[attr-defined]
    assert 0 < visual < usage.prompt_tokens
    assert whole.speechlane["approximation"]["visual_tokens"] == visual  # type: ignore[attr-defined]

    parts = list(
        client.chat.completions.create(
            model="shapes-vlm", stream=True, stream_options={"include_usage": True}, **asking
        )
    )
    assert {part.id for part in parts} == {parts[0].id}
    assert parts[0].choices[0].delta.role == "assistant"
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == choice.message.content
    assert [part.choices[0].finish_reason for part in parts if part.choices][-1] == choice.finish_reason
    assert parts[-1].choices == []
    assert parts[-1].usage is not None
    assert parts[-1].usage.total_tokens == usage.total_tokens
    assert parts[0].usage is None
    without = list(client.chat.completions.create(model="gpt-4o", stream=True, **asking))
    assert all(part.choices and part.usage is None for part in without)
    with pytest.raises(openai.NotFoundError, match="shapes-vlm"):
        client.chat.completions.create(model="unknown", **asking)
    (info,) = [model for model in client.models.list() if model.id == "shapes-vlm"]
    assert (info.task, info.loaded) == ("chat", True)  # type: ignore[attr-defined]
    assert client.models.retrieve("gpt-4o").id == "gpt-4o"


def test_the_end_of_a_stream_is_said(service: Seeing) -> None:
    events = list(service.events("POST", CHAT, asked(QUESTION, image(SEEN), stream=True)))
    assert events[-1] == ("message", "[DONE]")
    assert all(data["object"] == "chat.completion.chunk" for _, data in events[:-1])


def test_turns_and_pictures_in_their_order(service: Seeing) -> None:
    other = as_url(Image.fromarray(draw(random_grid(np.random.default_rng(6)))))

    def tokens(body: dict[str, Any]) -> tuple[int, str]:
        status, answer = service.ask("POST", CHAT, body)
        assert status == 200, answer
        usage = answer["usage"]
        return usage["prompt_tokens_details"]["visual_tokens"], answer["choices"][0]["message"]["content"]

    one, first = tokens(asked(QUESTION, image(SEEN)))
    two, _ = tokens(asked(image(SEEN), QUESTION, image(other)))
    assert two == 2 * one
    talk = asked(QUESTION, image(SEEN))
    talk["messages"] = [
        {"role": "developer", "content": "Answer in a word."},
        *talk["messages"],
        {"role": "assistant", "content": first},
        {"role": "user", "content": "How many shapes are there?"},
    ]
    again, _ = tokens(talk)
    assert again == one
    # The order of two pictures is a part of the question.
    found = [turn.parts for turn in turns(asked(image(SEEN), "and", image(other))["messages"])]
    assert [part if isinstance(part, str) else part.url for part in found[0]] == [SEEN, "and", other]


def test_clips_are_sampled_to_the_budget(service: Seeing) -> None:
    def notes(part: dict[str, Any], **budget: Any) -> dict[str, Any]:
        status, answer = service.ask("POST", CHAT, asked("What is there?", part, budget=budget))
        assert status == 200, answer
        found: dict[str, Any] = answer["speechlane"]
        return found

    few, more = notes(video(CLIP), frames=2), notes(video(CLIP), frames=4)
    assert few["approximation"]["frames"] == 2
    assert more["approximation"]["frames"] == 4
    assert more["visual_tokens"] == 2 * few["visual_tokens"]
    assert notes(video(CLIP), fps=1)["approximation"]["frames"] <= 3
    frames = [as_url(Image.fromarray(draw(GRID))) for _ in range(6)]
    assert notes({"type": "video", "video": frames, "fps": 2}, frames=3)["approximation"]["frames"] == 3
    assert notes({"type": "video", "video": CLIP}, frames=2)["approximation"]["frames"] == 2
    small = notes(image(SEEN), tokens_per_image=9)
    assert small["visual_tokens"] <= 9


def png_head(width: int, height: int) -> bytes:
    def chunk(data: bytes) -> bytes:
        return struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR" + head) + chunk(b"IDAT" + zlib.compress(bytes(99)))


def photograph(**options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(draw(GRID)).save(buffer, "JPEG", **options)
    return buffer.getvalue()


GIF = io.BytesIO()
Image.new("RGB", (8, 8)).save(GIF, "GIF", save_all=True, append_images=[Image.new("RGB", (8, 8), "red")])
LONG = clip_file(np.zeros((8, 16, 16, 3), np.uint8), 0.01)
NOTHING = b"\x1a\x45\xdf\xa3" + bytes(50)
AT = "messages[0].content[0]"


@pytest.mark.parametrize(
    ("part", "status", "param", "said"),
    [
        (image(as_url(b"I am no picture")), 400, f"{AT}.image_url.url", "no picture"),
        (image(as_url(photograph()[:300])), 400, f"{AT}.image_url.url", "damaged or cut off"),
        (image(as_url(GIF.getvalue())), 400, f"{AT}.image_url.url", "several pictures"),
        (image(as_url(png_head(20_000, 20_000))), 413, f"{AT}.image_url.url", "more than 4,000,000"),
        (image(as_url(bytes(2_000_001))), 413, f"{AT}.image_url.url", "2000000 bytes"),
        (image("data:image/png;base64,?"), 400, f"{AT}.image_url.url", "base64"),
        (image("data:image/png"), 400, f"{AT}.image_url.url", "comma"),
        (image(""), 400, f"{AT}.image_url.url", "URL"),
        (image("file:///etc/passwd"), 400, f"{AT}.image_url.url", "no data URL"),
        (image("http://127.0.0.1/a.png"), 400, f"{AT}.image_url.url", "fetches nothing"),
        (image("https://example.com/a.png"), 400, f"{AT}.image_url.url", "fetches nothing"),
        (image(SEEN, detail="huge"), 400, f"{AT}.image_url.detail", "low"),
        ({"type": "image_url"}, 400, f"{AT}.image_url.url", "URL"),
        ({"type": "input_audio", "input_audio": {}}, 400, f"{AT}.type", "video_url"),
        (7, 400, AT, "object"),
        (video("data:video/mp4;base64," + base64.b64encode(LONG).decode()), 413, f"{AT}.video_url.url", "at most 600"),
        (video("data:video/mp4;base64," + base64.b64encode(NOTHING).decode()), 400, f"{AT}.video_url.url", "damaged"),
        (video("data:;base64," + base64.b64encode(b"#EXTM3U\nhttp://127.0.0.1/").decode()), 400,
            f"{AT}.video_url.url", "no clip"),
        ({"type": "video", "video": []}, 400, f"{AT}.video", "0 frames"),
        ({"type": "video", "video": [SEEN, as_url(Image.new("RGB", (3, 3)))]}, 400, f"{AT}.video[1]", "3 x 3"),
        ({"type": "video", "video": [SEEN], "fps": 0}, 400, f"{AT}.fps", "0.01"),
        ({"type": "text", "text": 5}, 400, f"{AT}.text", "text"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_seen(service: Seeing, part: Any, status: int, param: str, said: str) -> None:
    body = {"messages": [{"role": "user", "content": [part]}]}
    found, answer = service.ask("POST", CHAT, body)
    assert (found, answer["error"]["param"]) == (status, param), answer
    assert said in answer["error"]["message"]


@pytest.mark.parametrize(
    "part",
    [
        image(as_url(Image.new("RGB", (1, 1), "red"))),
        image(as_url(Image.fromarray(draw(GRID)).convert("CMYK"), "JPEG")),
        image(as_url(Image.fromarray(np.full((20, 30), 40_000, np.uint16)))),
        image(as_url(Image.new("RGB", (501, 7)))),
        image(as_url(Image.new("RGBA", (9, 9)))),
        image(
            as_url(photograph(exif=b"Exif\0\0" + b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"))
        ),
        image(SEEN, detail="low"),
        {"type": "image_url", "image_url": SEEN},
    ],
    ids=["one pixel", "cmyk", "16 bits", "wide", "clear", "turned", "low", "short"],
)
def test_odd_pictures_that_can_be_seen(service: Seeing, part: Any) -> None:
    status, answer = service.ask("POST", CHAT, asked("What is there?", part))
    assert status == 200, answer
    assert answer["usage"]["prompt_tokens_details"]["visual_tokens"] > 0


HELLO = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "messages"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "user", "content": ""}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "  "}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "user", "content": []}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role"),
        ({"messages": [{"role": "system", "content": "x"}]}, 400, "messages"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "x"}]}, 400, "messages"),
        ({"messages": [{"role": "system", "content": [image(SEEN)]}, *HELLO]}, 400, AT),
        ({"messages": HELLO * 257}, 413, "messages"),
        ({"messages": [{"role": "user", "content": "a" * 400_001}]}, 413, "messages"),
        ({"messages": [{"role": "user", "content": [image(SEEN)] * 65}]}, 413, "messages"),
        ({"messages": [{"role": "user", "content": "red " * 25_000}]}, 413, "messages"),
        ({"messages": HELLO, "max_tokens": 0}, 400, "max_tokens"),
        ({"messages": HELLO, "temperature": -1}, 400, "temperature"),
        ({"messages": HELLO, "temperature": float("nan")}, 400, "temperature"),
        ({"messages": HELLO, "top_p": 0}, 400, "top_p"),
        ({"messages": HELLO, "stop": ["a"] * 5}, 400, "stop"),
        ({"messages": HELLO, "n": 2}, 400, "n"),
        ({"messages": HELLO, "tools": [{"type": "function"}]}, 400, "tools"),
        ({"messages": HELLO, "response_format": {"type": "json_object"}}, 400, "response_format"),
        ({"messages": HELLO, "budget": {"frames": 0}}, 400, "budget.frames"),
        ({"messages": HELLO, "budget": {"pixels": 5}}, 400, "budget.pixels"),
        ({"messages": HELLO, "options": {"kv": "int1"}}, 400, "options"),
        ({"messages": HELLO, "more": 1}, 400, "more"),
        (b'{"messages": "\xff"}', 400, None),
        (b'{"messages": ', 400, None),
        (b"[" * 100_000, 400, None),
        (b" " * 8_000_000, 413, None),
    ],
)
def test_what_cannot_be_answered_is_said(service: Seeing, body: Any, status: int, param: str | None) -> None:
    found, answer = service.ask("POST", CHAT, body)
    assert (found, answer["error"]["param"]) == (status, param), answer
    assert answer["error"]["message"]


def test_what_asks_for_nothing_is_taken(service: Seeing) -> None:
    body = {
        "messages": HELLO, "max_completion_tokens": 1, "n": 1, "presence_penalty": 0, "tools": [], "logprobs": False,
        "response_format": {"type": "text"}, "user": "me", "metadata": {"a": "b"}, "store": False, "seed": 7,
        "stop": "x", "temperature": 0.5, "top_p": 0.9, "reasoning_effort": "low", "lane": "bulk",
    }  # fmt: skip
    status, answer = service.ask("POST", CHAT, body)
    assert status == 200, answer
    assert service.ask("POST", CHAT, body)[1]["choices"] == answer["choices"]


def test_who_hangs_up_frees_the_place(service: Seeing) -> None:
    body = json.dumps(asked(QUESTION, image(SEEN), stream=True) | {"max_tokens": 1500}).encode()
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert connection.recv(100)
    deadline = time.monotonic() + 10
    while service.service.vision.chatting._taken and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not service.service.vision.chatting._taken


def test_it_is_counted(service: Seeing) -> None:
    text = service.ask("GET", "/metrics")[1].decode()
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("speechlane_chat"))
    assert float(figures['speechlane_chat_tokens_total{kind="visual"}']) > 0
    assert float(figures["speechlane_chat_first_token_seconds_count"]) > 0


def test_bytes_in_hand_are_bounded(service: Seeing) -> None:
    whole = service.service.vision.in_hand
    assert whole.taken == 0
    most, whole.most = whole.most, 50_000
    try:
        noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
        status, answer = service.ask("POST", CHAT, asked("What is there?", image(as_url(Image.fromarray(noise)))))
        assert (status, answer["error"]["code"]) == (429, "overloaded")
        assert service.ask("POST", CHAT, asked("What is there?", image(SEEN)))[0] == 200
    finally:
        whole.most = most
    assert whole.taken == 0


def test_files_are_taken_out_of_a_body_before_it_is_parsed() -> None:
    long = "data:image/png;base64," + "A" * 100_000
    body = {"a": [long, {"b": long + "B"}], "c": 'say "data:' + "x" * 70_000 + '"', long: "data:short", "d": None}
    assert parsed(json.dumps(body).encode()) == {name: value for name, value in body.items() if value is not None}
    escaped = {"a": "data:" + "\u00e4\n" * 10_000}
    assert parsed(json.dumps(escaped).encode()) == escaped
    spaced = f'{{ "a" : "{long}" , "b":"x\\\\"}}'.encode()
    assert parsed(spaced) == {"a": long, "b": "x\\"}
    for wrong in (
        b'{"a": "data:' + b"A" * 100_000,
        b'{"a": "x""data:' + b"A" * 100_000 + b'"}',
        b'"data:' + b"A" * 99_999 + b'"',
    ):
        with pytest.raises(FieldInvalid):
            parsed(wrong)


class Elsewhere(BaseHTTPRequestHandler):
    """A host with pictures and traps."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/turn":
            self.send_response(302)
            self.send_header("Location", "/picture")
            self.end_headers()
            return
        data = base64.b64decode(SEEN.partition(",")[2]) if self.path == "/picture" else bytes(5_000_000)
        self.send_response(200 if self.path != "/none" else 404)
        if self.path == "/packed":
            self.send_header("Content-Encoding", "gzip")
        if self.path != "/endless":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            return

    def log_message(self, format: str, *arguments: Any) -> None:
        return


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def test_addresses_are_fetched_from_named_hosts_only(elsewhere: int) -> None:
    def fetched(url: str, *hosts: str) -> bytes:
        return asyncio.run(PictureHosts(hosts).fetch(url, 1_000_000, "url"))

    here = f"http://127.0.0.1:{elsewhere}"
    allowed = f"private:127.0.0.1:{elsewhere}"
    assert fetched(f"{here}/picture", allowed).startswith(b"\x89PNG")
    named = f"private:localhost:{elsewhere}"
    assert fetched(f"http://localhost:{elsewhere}/picture", named).startswith(b"\x89PNG")
    for path, error, said in (
        ("/turn", InputInvalid, "302"),  # and where it leads is not asked
        ("/none", InputInvalid, "404"),
        ("/large", InputTooLarge, "1000000"),
        ("/endless", InputTooLarge, "1000000"),
        ("/packed", InputTooLarge, "1000000"),
    ):
        with pytest.raises(error, match=said):
            fetched(here + path, allowed)
    Elsewhere.asked.clear()
    for url, hosts in (
        (f"{here}/picture", ()),
        (f"{here}/picture", ("example.com",)),
        (f"{here}/picture", (f"127.0.0.1:{elsewhere}",)),  # not named as private
        (f"https://localhost:{elsewhere}/picture", (f"localhost:{elsewhere}",)),  # a name that leads inside
        (f"http://user@127.0.0.1:{elsewhere}/picture", (allowed,)),
        (f"http://2130706433:{elsewhere}/picture", (f"private:2130706433:{elsewhere}",)),
        (f"http://127.0.0.1:{elsewhere}@example.com/", (allowed,)),
        ("http://169.254.169.254/latest/meta-data", (allowed,)),
        ("https://[::1]/", (allowed,)),
        ("https://[::ffff:127.0.0.1]/", ("[::ffff:127.0.0.1]",)),
        (f"gopher://127.0.0.1:{elsewhere}/", (allowed,)),
        (f"http://127.0.0.1:{elsewhere}/\r\nX: y", (allowed,)),
    ):
        with pytest.raises(InputInvalid) as refused:
            fetched(url, *hosts)
        assert refused.value.param == "url"
        assert "webhook" not in refused.value.message
    assert Elsewhere.asked == []


def test_a_key_needs_the_scope_and_a_service_may_do_without() -> None:
    with seeing(api_keys=("secret",)) as service:
        assert service.ask("POST", CHAT, {"messages": HELLO})[0] == 401
        status, answer = service.ask("POST", CHAT, {"messages": HELLO}, key="secret")
        assert (status, answer["error"]["code"]) == (501, "vision_unavailable")
        assert "chat_models" in answer["error"]["message"]
        assert service.service.vision.chat.state == "off"
    assert "vision" in LOCAL.scopes


def test_a_model_that_cannot_be_loaded_is_said() -> None:
    with seeing(chat_models=("./no-such-model",)) as service:
        status, answer = service.ask("POST", CHAT, {"messages": HELLO})
        assert (status, answer["error"]["code"]) == (503, "backend_unavailable")
        assert service.ask("POST", CHAT, {"messages": HELLO})[0] == 503
        status, answer = service.ask("GET", "/readyz")
        assert (status, answer["vision"]) == (200, {"chat": "failed", "image": "off", "video": "off"})
