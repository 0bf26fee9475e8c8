"""Any OpenAI-compatible endpoint as the language model: streaming chat completions over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, Literal
from uuid import uuid4

import aiohttp
from pydantic import SecretStr

from gateway.assistant.chat_messages import request_body
from gateway.assistant.language_model import ArgumentsPiece, AssistantFailed, CallBegan, Ended, Piece, TextPiece, Wanted
from gateway.assistant.server_sent import EventTooLong, events

log = logging.getLogger("speechlane.assistant")

MOST_CHARACTERS = 64 * 1024
"""Of one answer, text and arguments together; an endpoint that goes on without end is cut off here."""
MOST_CALLS = 16
_REASONS: dict[str, Literal["stop", "length", "content_filter"]] = {
    "length": "length",
    "content_filter": "content_filter",
}


class ChatCompletions:
    """Asks `url`/chat/completions (`url` like https://host/v1) with `key`, which is never logged or shown.

    `first` and `between` are seconds: to wait for the first piece, and from each piece to the next.
    """

    def __init__(
        self, url: str, model: str, key: SecretStr | None = None, *, first: float = 30.0, between: float = 15.0
    ) -> None:
        self.name = model
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._key = key
        self._first, self._between = first, between
        self._session: aiohttp.ClientSession | None = None

    async def answer(self, wanted: Wanted) -> AsyncIterator[Piece]:
        """The endpoint's answer, piece by piece. Raises `AssistantFailed` with what went wrong, without its words."""
        try:
            async with asyncio.timeout(self._first) as patience:
                async with self._post(wanted) as response:
                    _check(response)
                    reader = _Reader()
                    async for data in events(response.content.iter_any()):
                        if data == "[DONE]":
                            break
                        pieces = reader.read(data)
                        for piece in pieces:
                            # The time that the listener's side takes over a piece is not the endpoint's.
                            patience.reschedule(None)
                            yield piece
                        if pieces:
                            patience.reschedule(asyncio.get_running_loop().time() + self._between)
                    yield reader.end()
        except TimeoutError:
            raise AssistantFailed("The language model does not answer in time; try again.") from None
        except aiohttp.ClientError as error:
            log.warning("the language model cannot be reached: %s", type(error).__name__)
            raise AssistantFailed(
                "The language model cannot be reached; its address is set by assistant_url."
            ) from None
        except EventTooLong as error:
            raise AssistantFailed(f"The language model sent {error}.") from None

    async def close(self) -> None:
        """Close the connections to the endpoint."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _post(self, wanted: Wanted) -> Any:
        if self._session is None:
            # The timeout is the one above; a connection takes at most this long to come about.
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
            self._session = aiohttp.ClientSession(timeout=timeout)
        headers = {"Authorization": f"Bearer {self._key.get_secret_value()}"} if self._key is not None else {}
        # A redirect could carry the conversation, and the key, to somebody else.
        return self._session.post(
            self._url, json=request_body(wanted, self.name), headers=headers, allow_redirects=False
        )


def _check(response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    # What the endpoint says may hold the key that it was sent.
    log.warning("the language model answered with status %d", response.status)
    remedies = {
        401: "it does not accept the key; set assistant_key",
        403: "it does not accept the key; set assistant_key",
        404: "it knows no such model or address; check assistant_model and assistant_url",
        429: "it is overloaded; try again later",
    }
    reason = remedies.get(response.status, f"it answered with status {response.status}")
    raise AssistantFailed(f"The language model gave no answer: {reason}.")


def _tokens(count: object) -> int | None:
    """A count of tokens; None for anything else that an endpoint may say."""
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


class _Reader:
    """Chunks of one streamed completion to pieces."""

    def __init__(self) -> None:
        self._calls: dict[int, str] = {}
        self._characters = 0
        self._reason: Literal["stop", "length", "content_filter"] | None = None
        self._tokens: tuple[int | None, int | None] = (None, None)

    def read(self, data: str) -> list[Piece]:
        """Raises `AssistantFailed` for what is no chunk."""
        try:
            chunk = json.loads(data)
            if not isinstance(chunk, dict):
                raise ValueError("not an object")
            if chunk.get("error"):
                raise AssistantFailed("The language model broke off with an error.")
            return self._pieces(chunk)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            raise AssistantFailed("The language model sent something that is no chat completion.") from None

    def end(self) -> Ended:
        """What the endpoint said of the whole; raises `AssistantFailed` when it ended without a reason."""
        if self._reason is None:
            raise AssistantFailed("The language model broke off in the middle of its answer.")
        return Ended(self._reason, *self._tokens)

    def _pieces(self, chunk: dict[str, Any]) -> list[Piece]:
        if usage := chunk.get("usage"):
            self._tokens = (_tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens")))
        choices = chunk.get("choices") or []
        if not choices:
            return []
        choice, pieces = choices[0], list[Piece]()
        delta = choice.get("delta") or {}
        if text := delta.get("content"):
            pieces.append(TextPiece(self._counted(text)))
        for call in delta.get("tool_calls") or ():
            pieces += self._call(call)
        if reason := choice.get("finish_reason"):
            self._reason = _REASONS.get(reason, "stop")
        return pieces

    def _call(self, call: dict[str, Any]) -> list[Piece]:
        index, function = int(call.get("index", 0)), call.get("function") or {}
        pieces: list[Piece] = []
        if index not in self._calls:
            if len(self._calls) == MOST_CALLS:
                raise AssistantFailed(f"The language model calls more than {MOST_CALLS} functions at once.")
            known = self._calls.values()
            named = self._counted(call.get("id") or "")
            # Some endpoints leave the id out, or give each call the same.
            self._calls[index] = named if named and named not in known else f"call_{uuid4().hex[:24]}"
            pieces.append(CallBegan(self._calls[index], self._counted(function["name"])))
        if arguments := function.get("arguments"):
            pieces.append(ArgumentsPiece(self._calls[index], self._counted(arguments)))
        return pieces

    def _counted(self, text: str) -> str:
        if not isinstance(text, str):
            raise TypeError("text expected")
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            raise AssistantFailed(f"The language model's answer has more than {MOST_CHARACTERS} characters.")
        # Half of a surrogate pair can be escaped in JSON, and be sent to nobody.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
