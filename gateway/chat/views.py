"""Answers of a chat as OpenAI's clients read them; ours is under `speechlane`."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vision_text.vlm.request import Answered

Json = dict[str, Any]


class Completion:
    """One answer: its id, and the forms that it and its parts have."""

    def __init__(self, model: str) -> None:
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}

    def whole(self, answered: Answered) -> Json:
        """The answer in one piece."""
        message = {"role": "assistant", "content": answered.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answered.finish_reason}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage(answered),
            "speechlane": notes(answered),
        }

    def first(self, *, counted: bool) -> Json:
        """The first part of a streamed answer, which says who speaks. `counted`: usage will follow."""
        return self._part({"role": "assistant", "content": "", "refusal": None}, None, counted)

    def delta(self, text: str, *, counted: bool) -> Json:
        """More text."""
        return self._part({"content": text}, None, counted)

    def last(self, answered: Answered, *, counted: bool) -> Json:
        """The end of it."""
        return self._part({}, answered.finish_reason, counted) | {"speechlane": notes(answered)}

    def counted(self, answered: Answered) -> Json:
        """What it took, for who has asked for that."""
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(answered)}

    def _part(self, delta: Json, reason: str | None, counted: bool) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        found = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return found | ({"usage": None} if counted else {})


def usage(answered: Answered) -> Json:
    """Tokens. Those of the prompt include the visual ones, of clips as well, and those that were kept. Visual ones are
    told apart twice: under the name that OpenAI's clients know, and under their own."""
    return {
        "prompt_tokens": answered.prompt_tokens,
        "completion_tokens": answered.completion_tokens,
        "total_tokens": answered.prompt_tokens + answered.completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": answered.cached_tokens,
            "image_tokens": answered.visual_tokens,
            "visual_tokens": answered.visual_tokens,
        },
    }


def notes(answered: Answered) -> Json:
    """How the answer was made."""
    return {
        "seconds_to_first": round(answered.seconds_to_first, 4),
        "visual_tokens": answered.visual_tokens,
        "approximation": answered.approximation.as_dict(),
    }
