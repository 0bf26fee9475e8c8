"""The real service with the embedded voice, and the public client on it."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterator

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from elevenlabs.client import ElevenLabs

from tests.gateway.speak.conftest import Running, Server


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """One engine for all tests."""
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="package")
def running(server: Server) -> Iterator[Running]:
    """The service with its default limits."""
    running = server.serve()
    yield running
    running.stop()


@pytest.fixture(scope="package")
def client(running: Running) -> ElevenLabs:
    return ElevenLabs(base_url=running.http, api_key="not needed")


@pytest.fixture(scope="package")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a key for 127.0.0.1 and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
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
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return str(path)


@pytest.fixture(scope="package")
def secure(running: Running, certificate: str) -> Iterator[ElevenLabs]:
    """The client's own sockets insist on TLS, so this is the service behind it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    # The client reads and writes in two threads; the tickets that TLS 1.3 sends after its handshake meet the first
    # write there now and then, and it waits for ever.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    site = web.TCPSite(running.runner, "127.0.0.1", 0, ssl_context=context)
    running.server.run(site.start())
    port = running.runner.addresses[-1][1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", certificate)
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield ElevenLabs(base_url=f"https://127.0.0.1:{port}", api_key="not needed")
