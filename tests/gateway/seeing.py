"""A service that sees and draws, in a thread of this process: real devices and models, no speech."""

from __future__ import annotations

import asyncio
import base64
import http.client
import io
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import openai
from aiohttp import web
from PIL import Image

from gateway.app import build_app
from gateway.connections import PatientRunner
from gateway.settings import Settings
from gateway.state import SERVICE, Service
from speech.engine import Engine, EngineSettings


@dataclass(frozen=True)
class Seeing:
    """A running service."""

    url: str
    service: Service
    loop: asyncio.AbstractEventLoop

    def openai(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None, **headers: str) -> tuple[int, Any]:
        """Status, and what came: parsed if it is JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        headers.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, _read(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error)

    def events(self, method: str, path: str, body: Any = None) -> Iterator[tuple[str, Any]]:
        """Names and data of server-sent events, as they come."""
        host = self.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=60)
        data = json.dumps(body).encode() if body is not None else None
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.headers["Content-Type"] == "text/event-stream"
        name = "message"
        try:
            for line in answer:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text[7:]
                elif text.startswith("data: "):
                    yield name, text[6:] if text == "data: [DONE]" else json.loads(text[6:])
                    name = "message"
        finally:
            connection.close()


def _read(answer: Any) -> Any:
    data = answer.read()
    return json.loads(data) if answer.headers.get_content_type() == "application/json" else data


@contextmanager
def seeing(**settings: Any) -> Iterator[Seeing]:
    """A service with these settings; without models that are not named."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="seeing", daemon=True)
    thread.start()
    given = {"port": 0, "embeddings": (), "chat_models": (), "image_models": (), "video_models": ()} | settings

    async def start(_: Settings) -> Engine:
        return await Engine.start(EngineSettings(models=(), voices=()))

    async def begin() -> tuple[PatientRunner, str, Service]:
        app = build_app(Settings(**given), start)
        runner = PatientRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return runner, f"http://{host}:{port}", app[SERVICE]

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    runner, url, service = run(begin())
    try:
        yield Seeing(url, service, loop)
    finally:
        run(runner.cleanup())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def as_url(picture: Image.Image | bytes, kind: str = "PNG", **options: Any) -> str:
    """A picture, or a file of any kind, as a data URL."""
    if isinstance(picture, Image.Image):
        buffer = io.BytesIO()
        picture.save(buffer, kind, **options)
        picture = buffer.getvalue()
    return f"data:image/{kind.lower()};base64,{base64.b64encode(picture).decode()}"
