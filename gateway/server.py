"""Running the application on a port until a signal comes, and going down without losing anybody's words."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

from aiohttp import web

from gateway.app import StartEngine, build_app, start_engine
from gateway.connections import PatientRunner
from gateway.process import prepare, settle, sweep
from gateway.settings import Settings
from gateway.state import SERVICE, Service
from gateway.wyoming.listener import WyomingListener

log = logging.getLogger("speechlane")

CANCEL_SECONDS = 2.0
"""What handlers that are still running after the drain get to clean up."""


class CannotListen(Exception):
    """The address cannot be listened on; the message says why and what to do."""


class CannotLoad(Exception):
    """The models could not be loaded; the message says why."""


async def serve(
    settings: Settings,
    *,
    listening: Callable[[str], None],
    ready: Callable[[str], None],
    start: StartEngine = start_engine,
) -> bool:
    """Serve until SIGTERM or SIGINT, then drain. A second signal skips the drain.

    `listening` and `ready` are told the URL, when health is answered and when the models are loaded. False when the
    signal came before the models were loaded; a thread may then still be loading them. Raises `CannotListen` before
    anything is loaded, `CannotLoad` when loading fails.
    """
    stop = asyncio.Event()
    hurry = asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    prepare()
    tls = tls_context(settings)
    with ExitStack() as sockets:
        sock = sockets.enter_context(bind(settings.host, settings.port))
        wyoming_sock = None
        if settings.wyoming_port is not None:
            wyoming_sock = sockets.enter_context(bind(settings.wyoming_host, settings.wyoming_port, "wyoming-port"))
        app = build_app(settings, start)
        service = app[SERVICE]
        runner = PatientRunner(app, access_log=None, shutdown_timeout=CANCEL_SECONDS, handle_signals=False)
        await runner.setup()
        wyoming = WyomingListener(service)
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, on_signal)
            await web.SockSite(runner, sock, ssl_context=tls).start()
            if wyoming_sock is not None:
                await wyoming.start(wyoming_sock)
            url = _url(settings.host, sock.getsockname()[1], "http" if tls is None else "https")
            listening(url)
            assert service.loading is not None
            if not await _first(service.loading, stop.wait()):
                return False
            if service.failure is not None:
                raise CannotLoad(str(service.failure)) from service.failure
            settle()
            sweeping = asyncio.create_task(sweep(service))
            ready(url)
            await stop.wait()
            sweeping.cancel()
            await _drain(service, hurry)
            return True
        finally:
            await wyoming.close()
            await runner.cleanup()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def bind(host: str, port: int, flag: str = "port") -> socket.socket:
    """A socket that listens on the address; raises `CannotListen` with the remedy, which names the flag."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(infos, key=lambda info: info[0] != socket.AF_INET)
        return socket.create_server(address[:2], family=family, backlog=512)
    except socket.gaierror as error:
        raise CannotListen(f"host {host} is no address of this machine: {error.strerror}") from error
    except OSError as error:
        shown_by = f"ss -ltnp 'sport = :{port}'" if sys.platform == "linux" else f"lsof -i :{port}"
        remedies = {
            errno.EADDRINUSE: f"port {port} is in use; stop what holds it ({shown_by} shows it) "
            f"or choose another: speechlane serve --{flag} {port + 1 if port < 65535 else port - 1}",
            errno.EACCES: f"port {port} needs privileges; choose one above 1023: speechlane serve --{flag} 8700",
            errno.EADDRNOTAVAIL: f"host {host} is no address of this machine; use 127.0.0.1, or 0.0.0.0 for all",
        }
        raise CannotListen(remedies.get(error.errno or 0, f"cannot listen on {host}:{port}: {error}")) from error


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """What to serve https with; None: http. Raises `CannotListen`."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A key with a passphrase would be asked for on the terminal.
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except OSError as error:  # ssl.SSLError among them
        reason = error.strerror or "it is no certificate in PEM"
        raise CannotListen(
            f"tls_cert {settings.tls_cert} with tls_key {settings.tls_key} cannot be used: {reason}"
        ) from error
    return context


async def _drain(service: Service, hurry: asyncio.Event) -> None:
    """Refuse new work, let what runs end."""
    log.info("draining: %d live sessions end, new ones are refused", service.sessions)
    drained = asyncio.create_task(service.drain())
    if not await _first(drained, hurry.wait()) or not drained.result():
        log.warning("not everything ended in time; %d sessions are cut off", service.sessions)
    if service.loaded is not None and not hurry.is_set():
        await service.loaded.drain(CANCEL_SECONDS)


async def _first(work: asyncio.Task[Any], event: Coroutine[Any, Any, object]) -> bool:
    """Wait for `work` or `event`, whichever comes first; True when `work` has ended."""
    waiter = asyncio.ensure_future(event)
    await asyncio.wait({work, waiter}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    return work.done()


def _url(host: str, port: int, scheme: str) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{scheme}://{shown}:{port}"
