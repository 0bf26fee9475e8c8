"""Conversation sessions of OpenAI's Realtime protocol: somebody speaks, a language model answers, a voice says it.

    audio in -> live transcript -> language model -> speaker -> audio out, no further ahead than the listener needs

`floor` decides who speaks: it makes answers, holds one when the listener begins to speak, and goes on with it or ends
it. A `turn` is one answer, and everything that belongs to it is gone with it. `history` is what both have heard.
"""

from gateway.realtime.conversation.session import ConversationSession, begun, open_conversation

__all__ = ["ConversationSession", "begun", "open_conversation"]
