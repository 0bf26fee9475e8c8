"""OpenAI's Realtime sessions, vosk, and the secrets with which browsers open sockets."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, Socket, answer, body, described, in_query
from gateway.openapi.shapes import Shape, answered
from gateway.realtime.conversation.messages import INCLUDE
from gateway.realtime.conversation.messages import Session as Conversing
from gateway.realtime.handler import SUBPROTOCOL
from gateway.realtime.messages import Session as Transcribing
from gateway.realtime.starting import SecretRequest
from gateway.vosk.handler import PATH as VOSK

SECRET = {
    "expires_after": "From now on, in seconds. What is open by then goes on.",
    "session": "What sessions begin with: `type` is `transcription` or `realtime`, the rest as in `session.update`.",
}


class ClientSecret(TypedDict):
    """`value` is sent in the place of a key; `expires_at` in seconds since 1970."""

    value: Annotated[str, Field(pattern="^ek_")]
    expires_at: int
    session: dict[str, Any]


def room(here: Here) -> Room:
    """The routes."""
    sessions = {"anyOf": [Shape(Transcribing), Shape(Conversing)], "type": None, "additionalProperties": None}
    return Room(
        tag="Live",
        about="Words while they are spoken, and conversations, over WebSockets.",
        operations=[
            Operation(
                method="POST",
                path="/v1/realtime/client_secrets",
                id="createClientSecret",
                tag="Live",
                summary="Make a secret for a browser",
                description="A page should not hold a key: its server asks for a secret and hands that out. It opens "
                "`/v1/realtime` and `/v1/speak` alone, and counts for the key that made it. The browser offers the "
                "subprotocols `realtime, openai-insecure-api-key.VALUE`.",
                body=body(
                    described(SecretRequest, SECRET, {"session": sessions}),
                    required=False,
                    example={"expires_after": {"anchor": "created_at", "seconds": 60}},
                ),
                answers={200: answer("The secret, which is shown once.", answered(ClientSecret))},
                fails=(400, 404, 408, 413, 429, 500, 503),
                curl="-H 'Content-Type: application/json' "
                '-d \'{"expires_after": {"anchor": "created_at", "seconds": 60}}\'',
            )
        ],
        sockets=[
            Socket(
                path="/v1/realtime",
                name="OpenAI Realtime: transcription and conversation",
                summary="Audio in, words while they are spoken; or a conversation with a language model that can be "
                "interrupted. Sessions outlive a connection that breaks.",
                guide="realtime.md",
                subprotocols=[SUBPROTOCOL],
                parameters=[
                    in_query("intent", "Else the model tells.", enum=["transcription", "conversation"]),
                    in_query("model", "The model that listens, or the assistant."),
                    in_query("include", "What is left out otherwise, separated by commas.", enum=[*INCLUDE]),
                    in_query("resume", "1: a session that may be taken up again.", enum=["0", "1"]),
                    in_query("session", "Its token, to take it up."),
                    in_query("last_event", "The sequence of the last event that came.", pattern="^[0-9]{1,15}$"),
                    in_query("taken", "The events that the last x.taken told.", pattern="^[0-9]{1,15}$"),
                ],
            ),
            Socket(
                path=VOSK,
                name="vosk",
                summary="16-bit mono sound in binary frames, each answered with a partial or a result; also at `/`, "
                "where vosk's clients connect.",
                guide="protocols.md",
                parameters=[in_query("model", "A model that is loaded; else the default one.", **here.model_names())],
            ),
        ],
    )
