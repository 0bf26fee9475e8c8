"""The browser pages and their files, with headers that let it load nothing from elsewhere and be framed by nobody."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.auth import is_open

WEB = Path(__file__).parent / "web"

PAGES = ("/", "/jobs", "/voice", "/vision", "/status", "/docs")

AUDIO_WORKER = "/static/jobs-audio-worker.js"
"""The service worker that adds the API key to the player's requests; it may be in charge of that one page."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "worker-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "media-src 'self' blob:",
            "connect-src 'self' ws: wss:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
}


async def index(request: web.Request) -> web.FileResponse:
    """The page for live transcription."""
    return web.FileResponse(WEB / "index.html")


async def jobs(request: web.Request) -> web.FileResponse:
    """The page for recordings: jobs of the batch lane."""
    return web.FileResponse(WEB / "jobs.html")


async def voice(request: web.Request) -> web.FileResponse:
    """The page for voices: a text read aloud, and a conversation."""
    return web.FileResponse(WEB / "voice.html")


async def vision(request: web.Request) -> web.FileResponse:
    """The page for pictures and clips: questions about them, and new ones."""
    return web.FileResponse(WEB / "vision.html")


async def status(request: web.Request) -> web.FileResponse:
    """The page that shows how the service is doing."""
    return web.FileResponse(WEB / "status.html")


@web.middleware
async def security_headers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every answer says what it is and no more; the page's own files are looked up again after an upgrade."""
    response = await handler(request)
    if not response.prepared:
        response.headers["X-Content-Type-Options"] = "nosniff"
        if request.secure:
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        if request.path in PAGES or request.path.startswith("/static/"):
            response.headers.update(SECURITY_HEADERS)
            response.headers["Cache-Control"] = "no-cache"
            if request.path == AUDIO_WORKER:
                response.headers["Service-Worker-Allowed"] = "/jobs"
        elif not is_open(request.path):
            response.headers.setdefault("Cache-Control", "no-store")
    return response
