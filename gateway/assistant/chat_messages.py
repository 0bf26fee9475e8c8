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
    """Calls in a row belong to one message, and their results follow it at once, whatever was said meanwhile; a call
    without its result, or a result without its call, is left out.

    Endpoints refuse a whole conversation for anything else, and all of it comes about: when old items are forgotten,
    and when somebody speaks while a function runs.
    """
    results = {entry.call_id: entry.output for entry in history if isinstance(entry, Returned)}
    said: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    calls: list[Message] = []
    known: set[str] = set()

    def close() -> None:
        for call in calls:
            said.append({"role": "tool", "tool_call_id": call["id"], "content": results[call["id"]]})
        calls.clear()

    for entry in history:
        match entry:
            case Said(role, text):
                if text:
                    close()
                    said.append({"role": role, "content": text})
            case Called(call_id, name, arguments) if call_id in results and call_id not in known:
                known.add(call_id)
                if not calls:
                    said.append({"role": "assistant", "content": None, "tool_calls": []})
                calls.append(
                    {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}
                )
                said[-1]["tool_calls"] = list(calls)
            case Returned():
                close()
            case _:
                pass
    close()
    return said
