"""Questions about pictures and clips."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from gateway.chat import messages as said
from gateway.chat import request as asked
from gateway.chat.request import ChatRequest
from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, body, described
from gateway.openapi.shapes import Json, answered

TAG = "Chat"
JSON_TYPE = "-H 'Content-Type: application/json'"
EXAMPLE: Json = {"messages": [{"role": "user", "content": "What shapes are there?"}], "max_tokens": 16}

FIELDS = {
    "model": "A model that sees, or one of OpenAI's names; else the default one.",
    "max_tokens": f"Of the answer; {asked.DEFAULT_TOKENS} unless said.",
    "max_completion_tokens": "The same.",
    "temperature": "0: always the likeliest token.",
    "top_p": "Choose among the likeliest tokens that have this share.",
    "stop": "Texts before which the answer ends.",
    "seed": "The same one, the same answer.",
    "stream": "Server-sent events, the words as they are written.",
    "stream_options": "`include_usage`: a last chunk with the tokens.",
    "budget": "How much of pictures and clips is looked at: the most tokens and pixels for a picture or frame, "
    "the most frames of a clip, and how many a second. Never more than the service has set.",
    "exact": "Without any approximation.",
    "options": "Approximations by name.",
    "lane": "`bulk` waits for whatever else there is to do.",
    **dict.fromkeys(("n", "presence_penalty", "frequency_penalty", "logprobs", "tools", "functions", "tool_choice",
        "response_format", "modalities", "logit_bias"), "Taken with the value that asks for nothing."),
    **dict.fromkeys(("user", "metadata", "store", "service_tier", "parallel_tool_calls", "safety_identifier",
        "prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "verbosity"), "Taken, without effect."),
}  # fmt: skip


class ChatTokens(TypedDict):
    """Parts of the prompt: kept from before, and of pictures and clips (twice: under OpenAI's name and its own)."""

    cached_tokens: int
    image_tokens: int
    visual_tokens: int


class ChatUsage(TypedDict):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: ChatTokens


class ChatMessage(TypedDict):
    """The answer."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(TypedDict):
    """There is one."""

    index: int
    message: ChatMessage
    logprobs: None
    finish_reason: str


class ChatNotes(TypedDict):
    """How the answer was made."""

    seconds_to_first: float
    visual_tokens: int
    approximation: dict[str, Any]


class ChatCompletion(TypedDict):
    """An answer, and what it took."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    speechlane: NotRequired[ChatNotes]


def room(here: Here) -> Room:
    """The routes."""
    changes: dict[str, Json] = {
        "messages": {"items": _message(), "minItems": 1, "maxItems": asked.MOST_MESSAGES, "description": "In turn; the "
            "last one is the user's."},
        "model": here.chat_names(),
        "stop": {"anyOf": [{"type": "string", "minLength": 1, "maxLength": asked.STOP_CHARACTERS}, {"type": "array",
            "maxItems": asked.MOST_STOPS,
            "items": {"type": "string", "minLength": 1, "maxLength": asked.STOP_CHARACTERS}}],
            "type": None, "items": None},
        "n": {"enum": [1]}, "presence_penalty": {"enum": [0]}, "frequency_penalty": {"enum": [0]},
        "logprobs": {"enum": [False]}, "tools": {"maxItems": 0}, "functions": {"maxItems": 0},
        "tool_choice": {"enum": ["none", "auto"]}, "response_format": {"enum": [{"type": "text"}]},
        "modalities": {"enum": [["text"]]}, "logit_bias": {"maxProperties": 0},
    }  # fmt: skip
    whole = answer("The answer.", answered(ChatCompletion))
    whole["content"]["text/event-stream"] = {
        "schema": {"description": "`chat.completion.chunk` objects, then `[DONE]`; an error is the last event."}
    }
    wanted = described(ChatRequest, FIELDS, changes, nullable=True)
    return Room(
        tag=TAG,
        about="Questions about pictures and clips, in OpenAI's form. Nothing is fetched from elsewhere unless the "
        "setting `picture_hosts` names its host.",
        operations=[
            Operation(
                method="POST", path="/v1/chat/completions", id="createChatCompletion", tag=TAG,
                summary="Ask about pictures and clips",
                description=f"Up to {said.MOST_PICTURES} pictures (PNG, JPEG, WebP, GIF, BMP, TIFF) and "
                f"{said.MOST_CLIPS} clips (MP4, MOV, WebM, Matroska, AVI, MPEG, GIF), in their order among the text.",
                body=body(wanted, example=EXAMPLE), answers={200: whole},
                fails=(400, 404, 408, 413, 429, 500, 501, 503),
                curl=f'{JSON_TYPE} -d \'{{"messages": [{{"role": "user", "content": "What shapes are there?"}}]}}\'',
            ),
        ],
    )  # fmt: skip


def _message() -> Json:
    text: Json = {"type": "string", "pattern": "\\S"}
    url: Json = {"type": "string", "format": "uri", "minLength": 1}
    rate: Json = {"type": "number", "minimum": said.LEAST_RATE, "maximum": 240}
    at: Json = {"type": "object", "properties": {"url": url, "detail": {"enum": [*said.DETAILS]}}, "required": ["url"]}
    frames: Json = {"type": "array", "items": url, "minItems": 1, "maxItems": asked.MOST_FRAMES}

    def part(kind: str, value: Json, **more: Json) -> Json:
        fields = {"type": {"const": kind}, kind: value, **more}
        return {"type": "object", "properties": fields, "required": ["type", kind]}

    parts: Json = {"type": "array", "minItems": 1, "items": {"anyOf": [
        part("text", text), part("image_url", at),
        part("video_url", {"type": "object", "properties": {"url": url}, "required": ["url"]}),
        part("video", frames, fps=rate),
    ]}}  # fmt: skip
    plain: Json = {"anyOf": [text, {"type": "array", "minItems": 1, "items": part("text", text)}]}

    def turn(roles: list[str], content: Json) -> Json:
        fields = {"role": {"enum": roles}, "content": content, "name": {"type": "string"}}
        return {"type": "object", "properties": fields, "required": ["role", "content"], "additionalProperties": False}

    return {"anyOf": [turn(["user"], {"anyOf": [text, parts]}), turn(["system", "developer", "assistant"], plain)]}
