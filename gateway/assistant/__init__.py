"""Who answers in a conversation: a language model behind one small interface.

`ChatCompletions` speaks to any OpenAI-compatible endpoint. `EchoAssistant` is the embedded default, which needs no
model and claims to be none: it repeats what it heard and tells the time and the date.
"""

from gateway.assistant.chosen import chosen_assistant
from gateway.assistant.language_model import (
    ArgumentsPiece,
    AssistantFailed,
    CallBegan,
    Called,
    Ended,
    Entry,
    LanguageModel,
    Piece,
    Returned,
    Said,
    TextPiece,
    Tool,
    Wanted,
)

__all__ = [
    "ArgumentsPiece",
    "AssistantFailed",
    "CallBegan",
    "Called",
    "Ended",
    "Entry",
    "LanguageModel",
    "Piece",
    "Returned",
    "Said",
    "TextPiece",
    "Tool",
    "Wanted",
    "chosen_assistant",
]
