"""The body of POST /v1/chat/completions, checked: every refusal names its field."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from gateway.vision.fields import Options, Seed

MOST_MESSAGES = 256
MOST_TOKENS = 131_072
MOST_STOPS, STOP_CHARACTERS = 4, 256
DEFAULT_TOKENS = 256
MOST_FRAMES = 768
MOST_TOKENS_PER_IMAGE = 16_384

Taken = Any
"""Of fields that have no effect here: whatever a client sends."""


def _stops(value: object) -> object:
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    if isinstance(found, tuple) and len(found) > MOST_STOPS:
        raise ValueError(f"at most {MOST_STOPS} texts")
    return found


def _asks_nothing(*nothing: object) -> Any:
    """A field that is only taken with a value that changes nothing."""

    def check(value: object) -> object:
        if value not in nothing:
            raise ValueError(f"{' or '.join(map(repr, nothing))}, for nothing else is done here")
        return value

    return AfterValidator(check)


class StreamOptions(BaseModel):
    """How an answer is streamed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    include_usage: bool = False
    include_obfuscation: bool = False
    """Taken, without effect."""


class Budget(BaseModel):
    """How much a model is given to see; None: what the service has for it. It is never more than the service's."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    tokens_per_image: Annotated[int, Field(ge=1, le=MOST_TOKENS_PER_IMAGE)] | None = None
    max_pixels: Annotated[int, Field(ge=1)] | None = None
    frames: Annotated[int, Field(ge=1, le=MOST_FRAMES)] | None = None
    fps: Annotated[float, Field(gt=0, le=240)] | None = None


class ChatRequest(BaseModel):
    """What a client wants answered."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    messages: list[Any]
    """See `gateway.chat.messages`."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """0 unless said otherwise: an answer about a picture is not to vary."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    stop: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=STOP_CHARACTERS)], ...], BeforeValidator(_stops)
    ] = ()
    seed: Seed | None = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    budget: Budget | None = None
    """Ours."""
    exact: bool = False
    """Ours: without any approximation, whatever the service is set to."""
    options: Options = Field(default_factory=dict)
    """Ours: approximations by name."""
    lane: Literal["interactive", "bulk"] = "interactive"
    """Ours."""

    n: Annotated[int, _asks_nothing(1)] = 1
    presence_penalty: Annotated[float, _asks_nothing(0.0)] = 0.0
    frequency_penalty: Annotated[float, _asks_nothing(0.0)] = 0.0
    logprobs: Annotated[bool, _asks_nothing(False)] = False
    tools: Annotated[list[Any], _asks_nothing([])] = Field(default_factory=list)
    functions: Annotated[list[Any], _asks_nothing([])] = Field(default_factory=list)
    tool_choice: Annotated[Any, _asks_nothing("none", "auto")] = "none"
    response_format: Annotated[dict[str, Any], _asks_nothing({"type": "text"})] = Field(
        default_factory=lambda: {"type": "text"}
    )
    modalities: Annotated[list[Any], _asks_nothing(["text"])] = Field(default_factory=lambda: ["text"])
    logit_bias: Annotated[dict[str, Any], _asks_nothing({})] = Field(default_factory=dict)

    user: Taken = None
    metadata: Taken = None
    store: Taken = None
    service_tier: Taken = None
    parallel_tool_calls: Taken = None
    safety_identifier: Taken = None
    prompt_cache_key: Taken = None
    prompt_cache_retention: Taken = None
    reasoning_effort: Taken = None
    verbosity: Taken = None

    @property
    def most_tokens(self) -> int:
        """Of the answer."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_TOKENS


class Turn(BaseModel):
    """One of the messages; `content` is a text or a list of parts."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Any] | None = None
    name: str | None = None
    """Taken, without effect."""
    refusal: Taken = None
    annotations: Taken = None
    audio: Annotated[Any, _asks_nothing(None)] = None
    tool_calls: Annotated[Any, _asks_nothing(None, [])] = None
    function_call: Annotated[Any, _asks_nothing(None)] = None
