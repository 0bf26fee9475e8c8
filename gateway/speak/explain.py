"""POST /v1/text/explain: how a text would be read, and why: what is said for which of it, by what rule, and how."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf

from gateway.speak.request import checked, length, read_object
from gateway.speak.spec import Entry, TextPolicy, Voice
from gateway.state import SERVICE
from speech.text.explain import explain
from speech.text.lexicon import Lexicon
from speech.text.options import TextOptions
from speech.text.segmenter import TextSegmenter
from speech.tts import Voice as Speaking

MOST_INPUT = 16_384
"""Characters of one request."""


class ExplainRequest(BaseModel):
    """A text, and what decides how it is read."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    input: Annotated[InstanceOf[str], AfterValidator(length(0, MOST_INPUT))]
    voice: Voice = ""
    policy: TextPolicy = TextPolicy()
    lexicon: Annotated[dict[Entry, Entry], Field(max_length=2_000)] | None = None
    split: Literal["sentence", "clause", "none"] = "sentence"


async def explain_handler(request: web.Request) -> web.Response:
    """The route."""
    service = request.app[SERVICE]
    asked = checked(ExplainRequest, await read_object(request))
    voice = service.engine.voice(asked.voice)
    options, lexicon = asked.policy.options(), Lexicon(asked.lexicon)
    body = await asyncio.to_thread(explained, asked.input, options, lexicon, voice, asked.split)
    return web.json_response(body)


def explained(
    text: str, options: TextOptions, lexicon: Lexicon, voice: Speaking, split: Literal["sentence", "clause", "none"]
) -> dict[str, Any]:
    """The answer: the explanation, and where the text would be cut when it comes at once."""
    segmenter = TextSegmenter(split)
    segments = [*segmenter.feed(text), *segmenter.flush()]
    cut = [{"start": segment.start, "end": segment.end, "text": segment.text} for segment in segments]
    return {"object": "text.explanation", **explain(text, options, lexicon, voice).as_json(), "segments": cut}
