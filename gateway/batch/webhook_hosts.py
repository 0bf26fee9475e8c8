"""Which hosts a job may call when it ends, and at which addresses: only those that whoever runs the service has named.

A host that is named plainly is called by https at public addresses. One that is named as private: may also be called by
http and lie in the own network. The addresses that a name has when it is called are checked and are the ones that are
connected to, so a name that later points elsewhere gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from workers.errors import InputInvalid

PRIVATE = "private:"
PORTS = {"http": 80, "https": 443}
URL_CHARACTERS = 2000

_INTERNET = ipaddress.ip_network("2000::/3")
"""All that is given out of IPv6; outside of it lie old and odd ways to write an IPv4 address or one of a site."""
_NOT_PUBLIC = tuple(
    map(ipaddress.ip_network, ("2002::/16", "2001::/32", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24"))
)
"""6to4 and Teredo carry an IPv4 address that a gateway on the way would take out. Not every Python knows the others:
examples, what protocols are given, 6to4's gateways."""


class AddressRefused(OSError):
    """A name has an address that may not be called."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that may be called; `private` says that its address need not be public."""

    url: str
    private: bool


class WebhookHosts:
    """The allow-list; entries are HOST, HOST:PORT, private:HOST or private:HOST:PORT, in lower case."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._allowed = {entry.removeprefix(PRIVATE): entry.startswith(PRIVATE) for entry in entries}

    def check(self, url: str) -> Target:
        """The target of a URL; raises `InputInvalid` when it may not be called, with the reason."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            called = URL(url)  # what calls it reads it with this
        except (ValueError, IndexError):  # the second for http://[::1]@/
            raise _refused("is no URL") from None
        if len(url) > URL_CHARACTERS or any(not "!" <= letter <= "~" for letter in url) or not host:
            raise _refused("is no URL of at most 2000 ASCII characters such as https://hooks.example.com/done")
        if parts.scheme not in PORTS or parts.username is not None or parts.password is not None or parts.fragment:
            raise _refused("must be https (or http where allowed), without user, password and fragment")
        if called.host != host or (called.explicit_port is not None and called.explicit_port != port):
            raise _refused("is no URL that everybody reads the same way")
        name = f"[{host}]" if ":" in host else host
        asked = PORTS[parts.scheme] if port is None else port
        private = self._allowed.get(f"{name}:{asked}")
        if private is None and asked == PORTS[parts.scheme]:
            private = self._allowed.get(name)
        if private is None:
            raise _refused(f"names a host that this service may not call ({name}); webhook_hosts has to hold it")
        if parts.scheme == "http" and not private:
            raise _refused("must be https")
        literal = _address(host)
        if literal is None and host.replace(".", "").isdigit():  # an address to some, who would not ask for its name
            raise _refused("names a host by a number; write the address as 192.0.2.1")
        if literal is not None and not private and not is_public(literal):
            raise _refused("names an address that is not public; webhook_hosts has to name it as private:")
        return Target(url, private)


class CheckedResolver(AbstractResolver):
    """Gives the addresses of a name to the connector, all of which must be public unless `private`."""

    def __init__(self, private: bool) -> None:
        self._private = private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises `AddressRefused` when one of them may not be called."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        results: list[ResolveResult] = []
        for kind, _, protocol, _, address in found:
            number = _address(str(address[0]))
            if number is None or not (self._private or is_public(number)):
                raise AddressRefused(f"{host} has the address {address[0]}, which is not public")
            results.append(
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        return results

    async def close(self) -> None:
        """There is nothing to close."""


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is an address of the internet, and no other way to write one that is not."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in _INTERNET:
            return False
    return address.is_global and not address.is_multicast and not any(address in net for net in _NOT_PUBLIC)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _refused(why: str) -> InputInvalid:
    return InputInvalid(f"webhook {why}.", param="webhook")
