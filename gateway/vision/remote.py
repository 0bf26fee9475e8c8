"""Pictures and clips at an address: fetched only from hosts that whoever runs the service has named, by default none.

A name is looked up once, its addresses are judged, and one of those is connected to. No redirect is followed, no proxy
asked, nothing unpacked; what comes is bounded in size and time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp

from gateway.batch.webhook_hosts import AddressRefused, CheckedResolver, WebhookHosts
from vision_text.media.data_urls import too_large
from workers.errors import InputInvalid

FETCH_SECONDS = 20.0
_BLOCK = 64 * 1024


class PictureHosts:
    """The allow-list: HOST, HOST:PORT, private:HOST or private:HOST:PORT."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._none = not entries
        self._hosts = WebhookHosts(entries)

    async def fetch(self, url: str, most_bytes: int, name: str) -> bytes:
        """What is there. Raises InputInvalid and InputTooLarge, which name the field `name` and never say more of a
        host that is not named than that."""
        if self._none:
            raise InputInvalid(
                f"{name} is an address, and this service fetches nothing; send the file itself as a data URL "
                "(data:image/png;base64,...).",
                param=name,
            )
        try:
            target = self._hosts.check(url)
        except InputInvalid as error:
            said = error.message.removeprefix("webhook ").replace("webhook_hosts", "picture_hosts")
            raise InputInvalid(f"{name} {said}", param=name) from None
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(target.private), use_dns_cache=False, force_close=True, limit=1
        )
        headers = {"User-Agent": "speechlane", "Accept-Encoding": "identity", "Accept": "image/*, video/*"}
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    timeout=aiohttp.ClientTimeout(total=FETCH_SECONDS),
                    trust_env=False,
                    auto_decompress=False,
                    cookie_jar=aiohttp.DummyCookieJar(),
                ) as session,
                session.get(target.url, headers=headers, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise InputInvalid(f"{name} could not be fetched: its host answered {answer.status}.", param=name)
                return await _bounded(answer, most_bytes, name)
        except AddressRefused:
            raise InputInvalid(f"{name} names a host with an address that is not public.", param=name) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error.__cause__, AddressRefused) or isinstance(
                getattr(error, "os_error", None), AddressRefused
            ):
                raise InputInvalid(f"{name} names a host with an address that is not public.", param=name) from None
            raise InputInvalid(f"{name} could not be fetched: {type(error).__name__}.", param=name) from None


async def _bounded(answer: aiohttp.ClientResponse, most_bytes: int, name: str) -> bytes:
    if (answer.content_length or 0) > most_bytes:
        raise too_large(most_bytes, name)
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise InputInvalid(f"{name} came packed, though it was asked for as it is.", param=name)
    found = bytearray()
    async for block in answer.content.iter_chunked(_BLOCK):
        found += block
        if len(found) > most_bytes:
            raise too_large(most_bytes, name)
        await asyncio.sleep(0)  # a host that is near must not keep the loop busy
    return bytes(found)
