"""A question to a running service over HTTP, with answers that say what to do when it does not go well."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from speechlane.client.errors import ClientError, refusal
from speechlane.client.wire import endpoint

TIMEOUT = 60.0
NO_CONTENT = 204


def ask(url: str, key: str | None, path: str, body: dict[str, Any] | None = None, *, method: str | None = None) -> Any:
    """What the endpoint `path` (/v1/...) of the service answers to a GET, or to a POST of `body`; None: nothing.

    Raises `ClientError`.
    """
    data = json.dumps(body).encode() if body is not None else None
    return _answer(url, key, path, data, "application/json", TIMEOUT, method)


def posted(url: str, key: str | None, path: str, body: bytes, content_type: str, *, timeout: float) -> Any:
    """What the endpoint answers to a POST of a body of any kind, at most `timeout` seconds later.

    Raises `ClientError`.
    """
    return _answer(url, key, path, body, content_type, timeout)


def _answer(
    url: str,
    key: str | None,
    path: str,
    data: bytes | None,
    content_type: str,
    timeout: float,
    method: str | None = None,
) -> Any:
    try:
        target = endpoint(url, path).replace("ws", "http", 1)
    except ValueError as error:
        raise ClientError(f"{url} is no address of a service ({error}); it looks like http://127.0.0.1:8700") from error
    if not target.startswith(("http://", "https://")):
        raise ClientError(f"{url} is no address of a service; it looks like http://127.0.0.1:8700")
    request = urllib.request.Request(target, data, {"Content-Type": content_type}, method=method)  # noqa: S310, checked above
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            return json.load(answer) if answer.status != NO_CONTENT else None
    except urllib.error.HTTPError as error:
        with error:
            raise refusal(error.code, error.read(65_536), url) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ClientError(f"no service answers at {url} ({reason}); start one with: speechlane serve") from error
