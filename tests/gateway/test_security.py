"""What must be refused, with its status: foreign pages, slow and oversized clients, packed bodies, bombs. And TLS."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import io
import ipaddress
import json
import resource
import ssl
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from aiohttp import ClientSession, FormData, WSServerHandshakeError, web
from aiohttp.test_utils import TestClient, TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway import connections
from gateway.app import build_app
from gateway.connections import PatientRunner
from gateway.pages import PAGES
from gateway.server import CannotListen, tls_context
from gateway.settings import Settings, SettingsInvalid, load_settings
from tests.conftest import launch, wait_until

Client = TestClient[web.Request, web.Application]
KEY = "security-key-0123456789"
BEARER = {"Authorization": f"Bearer {KEY}"}
PAGE, FOREIGN = "https://app.example.com", "https://evil.example.com"


async def never(settings: Settings) -> Any:
    await asyncio.Event().wait()


@pytest.fixture
async def listed() -> AsyncIterator[Client]:
    """The application with a key and one page that may use it."""
    async with TestClient(TestServer(build_app(load_settings(api_keys=KEY, allowed_origins=PAGE), never))) as client:
        yield client


SOCKETS = ["/v1/realtime", "/v1/speak", "/v1/listen", "/vosk", "/v1/text-to-speech/heart/stream-input"]
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize("path", SOCKETS)
async def test_sockets_of_foreign_pages_are_refused_whatever_key_they_have(listed: Client, path: str) -> None:
    for origin, refused in ((FOREIGN, True), ("null", True), (PAGE + ".evil.com", True), (PAGE, False)):
        answer = await listed.get(path, headers=BEARER | UPGRADE | {"Origin": origin})
        assert (answer.status == 403) is refused, f"{origin}: {answer.status}"
    own = str(listed.make_url("/")).rstrip("/")
    assert (await listed.get(path, headers=BEARER | UPGRADE | {"Origin": own})).status != 403


async def test_pages_that_are_named_may_read_answers_and_no_others(listed: Client) -> None:
    for path in ("/v1/models", "/v1/nothing", "/healthz"):
        answer = await listed.get(path, headers=BEARER | {"Origin": PAGE})
        assert answer.headers["Access-Control-Allow-Origin"] == PAGE
        assert "Origin" in answer.headers.getall("Vary")
        assert "Access-Control-Allow-Credentials" not in answer.headers
        answer = await listed.get(path, headers=BEARER | {"Origin": FOREIGN})
        assert "Access-Control-Allow-Origin" not in answer.headers
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = await listed.options("/v1/audio/transcriptions", headers={"Origin": PAGE} | asked)
    assert answer.status == 204
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    answer = await listed.options("/v1/audio/transcriptions", headers={"Origin": FOREIGN} | asked)
    assert answer.status in (401, 403) and "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("entry", ["app.example.com", "https://app.example.com/", "*", "https://a b", "ftp://x"])
def test_what_is_no_origin_is_refused_in_the_settings(entry: str) -> None:
    with pytest.raises(SettingsInvalid, match="allowed_origins"):
        load_settings(allowed_origins=entry)


async def test_pages_are_strict(listed: Client) -> None:
    for path in (*PAGES, "/static/nothing.js"):
        answer = await listed.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy
        assert answer.headers["Referrer-Policy"] == "no-referrer"
    for path in (*PAGES, "/healthz", "/v1/models", "/v1/nothing"):
        assert (await listed.get(path)).headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP, gzip"])
async def test_packed_bodies_are_refused_and_never_unpacked(encoding: str) -> None:
    app = build_app(load_settings(api_keys=KEY), never)
    async with served(app) as address, ClientSession() as http:
        bomb = gzip.compress(bytes(64 * 1024 * 1024))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for path in ("/v1/audio/transcriptions", "/v1/audio/speech", "/v1/realtime/client_secrets", "/v1/batch/jobs"):
            headers = BEARER | {"Content-Encoding": encoding, "Content-Type": "application/json"}
            async with http.post(f"http://{address}{path}", data=bomb, headers=headers) as answer:
                assert answer.status == 415
                assert (await answer.json())["error"]["param"] == "Content-Encoding"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024  # KiB


class served:
    """The application behind the connections of the real server; as a context: host:port."""

    def __init__(self, app: web.Application) -> None:
        self._runner = PatientRunner(app, access_log=None, shutdown_timeout=1)

    async def __aenter__(self) -> str:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        return f"{host}:{port}"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


HEADS = [
    b"",
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /healthz HTTP/1.1\r\n",
]


@pytest.mark.parametrize("head", HEADS, ids=["nothing", "half a head", "half of a second one"])
async def test_a_client_that_does_not_finish_its_head_is_closed(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    async with served(build_app(load_settings(), never)) as address:
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head)

        async def drip() -> None:
            """A header line now and then does not help."""
            while head:
                await asyncio.sleep(0.1)
                writer.write(b"X: y\r\n")

        dripping = asyncio.create_task(drip())
        begun = time.monotonic()
        async with asyncio.timeout(20):
            while await reader.read(4096):
                pass
        assert time.monotonic() - begun >= 0.4
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        writer.close()
        async with ClientSession() as http:  # patient with those who ask one thing after another, and pause
            for _ in range(2):
                async with http.get(f"http://{address}/healthz") as answer:
                    assert answer.status == 200
                await asyncio.sleep(0.7)


async def test_a_flood_of_half_heads_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    serving = served(build_app(load_settings(), never))
    async with serving as address:
        host, _, port = address.partition(":")
        for _ in range(200):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(HEADS[1])
        async with asyncio.timeout(20):
            while serving._runner.server.connections:  # type: ignore[union-attr]
                await asyncio.sleep(0.05)


async def test_heads_are_bounded(listed: Client) -> None:
    answer = await listed.get("/v1/models", headers=BEARER | {"X-Long": "x" * 20_000})
    assert answer.status == 400
    answer = await listed.get("/v1/models?" + "x" * 20_000, headers=BEARER)
    assert answer.status in (400, 414)


async def test_an_oversized_body_is_refused(listed: Client) -> None:
    answer = await listed.post("/v1/realtime/client_secrets", data=b"{" + bytes(300_000), headers=BEARER)
    assert answer.status == 413


# Bombs


def wav(claim: int, data: bytes, channels: int = 1, rate: int = 16_000) -> bytes:
    """A WAV of 16-bit samples whose header claims `claim` bytes of them."""
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    head = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", claim)
    return b"RIFF" + struct.pack("<I", len(head) + len(data)) + head + data


def webm(seconds: int) -> bytes:
    """Silence, packed as FLAC packs it: a hundredth of what it will be."""
    target, size = io.BytesIO(), 4096
    with av.open(target, "w", format="matroska") as container:
        stream = container.add_stream("flac", rate=8_000, layout="mono")
        for n in range(seconds * 8_000 // size):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, size), np.int16), "s16", "mono")
            frame.sample_rate, frame.pts = 8_000, n * size
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return target.getvalue()


async def send(service: str, data: bytes, name: str = "talk.wav") -> tuple[int, dict[str, Any]]:
    form = FormData()
    form.add_field("file", data, filename=name)
    async with ClientSession() as http, http.post(f"{service}/v1/audio/transcriptions", data=form) as answer:
        return answer.status, await answer.json()


async def test_a_small_file_that_claims_ten_hours_is_what_it_holds(service: str) -> None:
    claim = 10 * 3600 * 32_000
    status, body = await send(service, wav(claim, bytes(1024 - 44)))
    assert (status, body.get("text")) == (200, "")


async def test_a_thousand_channels_are_refused(service: str) -> None:
    begun = time.monotonic()
    status, body = await send(service, wav(200_000, bytes(200_000), channels=1000))
    assert 400 <= status < 500 and body["error"]["param"] == "file", body
    assert time.monotonic() - begun < 10


async def test_a_bomb_of_a_webm_is_refused_as_soon_as_it_is_too_long(service: str) -> None:
    bomb = webm(3700)
    assert len(bomb) < 4_000_000
    status, body = await send(service, bomb, "talk.webm")
    assert (status, body["error"]["code"], body["error"]["param"]) == (413, "input_too_large", "file")


@pytest.mark.parametrize("name", ["/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:1/x", "concat:/etc/passwd"])
async def test_no_path_and_no_url_is_opened(service: str, name: str) -> None:
    """Neither one that is a file's name, nor one that a playlist holds."""
    status, body = await send(service, b"#EXTM3U\n#EXTINF:10,\n" + name.encode() + b"\n#EXT-X-ENDLIST\n", name)
    assert status == 400 and "root:" not in json.dumps(body)
    playlist = b"ffconcat version 1.0\nfile '" + name.encode() + b"'\n"
    status, body = await send(service, playlist, "list.ffconcat")
    assert status == 400 and "root:" not in json.dumps(body)
    fields = {"model": name, "url": name, "path": name}
    async with ClientSession() as http, http.post(f"{service}/v1/audio/speech", json=fields | {"input": "x"}) as answer:
        assert answer.status in (400, 404)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by itself."""
    directory = tmp_path_factory.mktemp("tls")
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "cert.pem", directory / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


async def test_https_and_wss(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    service = launch(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key), "--api-keys", KEY)
    url = service.url.replace("http", "https")
    trusting = ssl.create_default_context(cafile=str(cert))
    try:
        wait_until(lambda: "https://" in service.log(), "listening", service)
        async with ClientSession() as http:
            async with http.get(f"{url}/healthz", ssl=trusting) as answer:
                assert answer.status == 200
                assert "Strict-Transport-Security" in answer.headers
            with pytest.raises(WSServerHandshakeError) as caught:
                await http.ws_connect(f"{url.replace('https', 'wss')}/v1/realtime", ssl=trusting)
            assert caught.value.status == 401
            with pytest.raises(Exception):  # noqa: B017, whatever aiohttp makes of TLS where it expected text
                await http.get(f"{service.url}/healthz")
    finally:
        service.stop()


def test_tls_that_cannot_be_used_says_so(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    assert tls_context(load_settings()) is None
    assert tls_context(load_settings(tls_cert=cert, tls_key=key)) is not None
    with pytest.raises(SettingsInvalid, match="tls_cert and tls_key"):
        load_settings(tls_cert=cert)
    for wrong in (tmp_path / "none.pem", Path(__file__)):
        with pytest.raises(CannotListen, match="tls_cert"):
            tls_context(load_settings(tls_cert=wrong, tls_key=key))
