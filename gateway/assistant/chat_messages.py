"""A conversation in the form that chat completions take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.assistant.language_model import Called, Entry, Returned, Said, Wanted

Message = dict[str, Any]


def request_body(wanted: Wanted, model: str) -> dict[str, Any]:
    """The JSON of a streaming request."""
    body: dict[str, Any] = {
        "model": model,
        "messages": messages(wanted.history, wanted.instructions),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if wanted.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters) or {"type": "object", "properties": {}},
                },
            }
            for tool in wanted.tools
        ]
        named = wanted.tool_choice not in ("auto", "none", "required")
        body["tool_choice"] = (
            {"type": "function", "function": {"name": wanted.tool_choice}} if named else wanted.tool_choice
        )
    if wanted.max_tokens is not None:
        body["max_tokens"] = wanted.max_tokens
    return body


def messages(history: Sequence[Entry], instructions: str) -> list[Message]:
    """Calls in a row belong to one message; a call without its result, or a result without its call, is left out.

    Endpoints refuse a whole conversation for either, and both come about when old items are forgotten.
    """
    asked = {entry.call_id for entry in history if isinstance(entry, Called)}
    answered = {entry.call_id for entry in history if isinstance(entry, Returned)}
    said: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    calls: list[Message] | None = None
    for entry in history:
        match entry:
            case Said(role, text):
                if text:
                    said.append({"role": role, "content": text})
                    calls = None
            case Called(call_id, name, arguments):
                if call_id not in answered:
                    continue
                if calls is None:
                    calls = []
                    said.append({"role": "assistant", "content": None, "tool_calls": calls})
                calls.append(
                    {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}
                )
            case Returned(call_id, output):
                if call_id in asked:
                    said.append({"role": "tool", "tool_call_id": call_id, "content": output})
                    calls = None
    return said
