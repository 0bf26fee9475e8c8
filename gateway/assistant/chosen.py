"""Which language model the settings ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.assistant.chat_completions import ChatCompletions
from gateway.assistant.echo import EchoAssistant
from gateway.assistant.language_model import LanguageModel

if TYPE_CHECKING:
    from gateway.settings import Settings


def chosen_assistant(settings: Settings) -> LanguageModel:
    """The endpoint at `assistant_url`, or the embedded echo when none is named."""
    if settings.assistant_url is None or settings.assistant_model is None:
        return EchoAssistant()
    return ChatCompletions(
        settings.assistant_url,
        settings.assistant_model,
        settings.assistant_key,
        first=settings.assistant_first_seconds,
        between=settings.assistant_between_seconds,
    )
