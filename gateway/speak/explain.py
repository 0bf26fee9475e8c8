"""POST /v1/text/explain: how a text would be read, and why: what is said for which of it, by what rule, and how."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, InstanceOf

from gateway.speak.request import Length, checked, read_object
from gateway.speak.spec import TextPolicy, Voice, Words, lexicon
from gateway.state import SERVICE
from speech.text.explain import explain
from speech.text.segmenter import TextSegmenter
from speech.tts import Voice as Speaking

MOST_INPUT = 16_384
"""Characters of one request."""


class ExplainRequest(BaseModel):
    """A text, and what decides how it is read."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    input: Annotated[InstanceOf[str], Length(0, MOST_INPUT)]
    voice: Voice = ""
    policy: TextPolicy = TextPolicy()
    lexicon: Words | None = None
    split: Literal["sentence", "clause", "none"] = "sentence"


async def explain_handler(request: web.Request) -> web.Response:
    """The route."""
    service = request.app[SERVICE]
    asked = checked(ExplainRequest, await read_object(request))
    voice = service.engine.voice(asked.voice)
    return web.json_response(await asyncio.to_thread(explained, asked, voice))


def explained(asked: ExplainRequest, voice: Speaking) -> dict[str, Any]:
    """The answer: the explanation, and where the text would be cut when it comes at once. Raises InputInvalid."""
    segmenter = TextSegmenter(asked.split)
    segments = [*segmenter.feed(asked.input), *segmenter.flush()]
    cut = [{"start": segment.start, "end": segment.end, "text": segment.text} for segment in segments]
    found = explain(asked.input, asked.policy.options(), lexicon(asked.lexicon), voice)
    return {"object": "text.explanation", **found.as_json(), "segments": cut}
