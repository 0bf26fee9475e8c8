"""Kinds of values that settings have, and what is said of one that cannot be meant."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, SecretStr

_HOST = re.compile(r"(private:)?([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?")
_ENDPOINT = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
_ORIGIN = re.compile(r"https?://[a-z0-9._-]+(:\d{1,5})?|https?://\[[0-9a-f:.]+\](:\d{1,5})?")


def _redis_url(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("give a URL that starts with redis://, rediss:// or unix://")
    return value


def _hosts(value: tuple[str, ...]) -> tuple[str, ...]:
    for entry in value:
        if not _HOST.fullmatch(entry):
            raise ValueError(
                f"{entry[:80]!r} is no host; write hooks.example.com, hooks.example.com:8443 or private:ci.lan:8080"
            )
    return value


def _origins(value: tuple[str, ...]) -> tuple[str, ...]:
    for entry in value:
        if not _ORIGIN.fullmatch(entry):
            raise ValueError(f"{entry[:80]!r} is no origin; write https://app.example.com, without a path")
    return value


def _addresses(value: tuple[str, ...]) -> tuple[str, ...]:
    for entry in value:
        try:
            ipaddress.ip_address(entry)
        except ValueError:
            raise ValueError(f"{entry[:80]!r} is no address; write 10.0.0.2 or fd00::2") from None
    return value


def _http_url(value: str) -> str:
    if not _ENDPOINT.fullmatch(value):
        raise ValueError("give a URL such as http://127.0.0.1:8000/v1, without a key in it")
    return value


RedisUrl = Annotated[SecretStr, AfterValidator(_redis_url)]
Hosts = Annotated[tuple[str, ...], AfterValidator(_hosts)]
Origins = Annotated[tuple[str, ...], AfterValidator(_origins)]
Addresses = Annotated[tuple[str, ...], AfterValidator(_addresses)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
