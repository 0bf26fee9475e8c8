"""The session as the client sees and changes it, and what it asks of the live stream."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any

from gateway.languages import language_code
from gateway.realtime.messages import (
    AnySession,
    Audio,
    AudioInput,
    BetaSession,
    Format,
    Include,
    NoiseReduction,
    Session,
    Transcription,
    TurnDetection,
)
from gateway.realtime.parse import RequestError
from speech.asr import DecodeOptions
from speech.audio import AudioFormat, Encoding
from speech.config import StreamConfig, VadConfig

SERVER_VAD = TurnDetection(type="server_vad", threshold=0.5, prefix_padding_ms=300, silence_duration_ms=500)
SEMANTIC_VAD = TurnDetection(type="semantic_vad", eagerness="auto")
CLIENT_COMMITS = ("gpt-realtime-whisper", "gpt-live-transcribe")
"""OpenAI's models without turn detection: their clients commit, and say nothing of turn_detection."""
SERVER_ONLY = ("threshold", "prefix_padding_ms", "silence_duration_ms", "idle_timeout_ms")

SILENCE_OF_EAGERNESS = {"low": 1.5, "medium": 0.8, "auto": 0.8, "high": 0.4}
"""Seconds of silence that end a turn in semantic_vad: no model judges the sentence here, so eagerness is patience."""

INTERVAL_OF_DELAY = {"minimal": 0.4, "low": 0.6, "medium": 1.0, "high": 1.6, "xhigh": 2.5}
"""Seconds of new audio from one partial to the next."""

ENCODING_OF_TYPE: dict[str, Encoding] = {"audio/pcm": "pcm16", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
TYPE_OF_BETA = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
BETA_OF_TYPE = {name: beta for beta, name in TYPE_OF_BETA.items()}
PCM_RATE = 24_000
G711_RATE = 8_000

INPUT = "session.audio.input"
TRANSCRIPTION = f"{INPUT}.transcription"
BETA_PATHS = {
    f"{INPUT}.format": "session.input_audio_format",
    f"{INPUT}.noise_reduction": "session.input_audio_noise_reduction",
    TRANSCRIPTION: "session.input_audio_transcription",
    f"{INPUT}.turn_detection": "session.turn_detection",
    "session.audio.output.format": "session.output_audio_format",
    "session.audio.output.voice": "session.voice",
    "session.audio.output.speed": "session.speed",
    "session.output_modalities": "session.modalities",
    "session.max_output_tokens": "session.max_response_output_tokens",
}


class Shape(Enum):
    """Which of the two forms of the protocol a client speaks; it is answered in the one it used last."""

    GA = "ga"
    BETA = "beta"

    def param(self, path: str) -> str:
        """The name in this shape of a field that is named in the GA shape."""
        if self is Shape.BETA:
            for ga, beta in BETA_PATHS.items():
                if path.startswith(ga):
                    return beta + path.removeprefix(ga)
        return path


def initial(model: str, include: Iterable[Include] = ()) -> Session:
    """A session before its client has said anything: 24 kHz PCM, server_vad where the model has it, `model`."""
    audio = AudioInput(
        format=Format(type="audio/pcm", rate=PCM_RATE),
        transcription=Transcription(model=model),
        turn_detection=None if model in CLIENT_COMMITS else SERVER_VAD,
    )
    return Session(include=list(include) or None, audio=Audio(input=audio))


def from_beta(patch: BetaSession) -> Session:
    """The same request in the GA shape; only what the client set is set."""
    given = patch.model_fields_set
    fields: dict[str, Any] = {}
    if "input_audio_format" in given:
        fields["format"] = Format.model_validate({"type": TYPE_OF_BETA[patch.input_audio_format]})
    if "input_audio_noise_reduction" in given:
        fields["noise_reduction"] = patch.input_audio_noise_reduction
    if "input_audio_transcription" in given:
        fields["transcription"] = patch.input_audio_transcription
    if "turn_detection" in given:
        fields["turn_detection"] = patch.turn_detection
    session: dict[str, Any] = {"audio": Audio(input=AudioInput(**fields))}
    if "include" in given:
        session["include"] = patch.include
    return Session(**session)


def merged(current: Session, patch: Session, default_model: str) -> Session:
    """`current` with what `patch` sets: an absent field keeps, null clears. Raises `RequestError`.

    Clearing `transcription` takes it back to the default model, since a transcription session always transcribes.
    """
    audio = merged_input(current.audio.input, patch.audio.input, default_model)
    if audio.transcription is None:
        audio = audio.model_copy(update={"transcription": Transcription(model=default_model)})
    # Not one that looks like it: the one that no client has asked for.
    elif audio.turn_detection is SERVER_VAD and audio.transcription.model in CLIENT_COMMITS:
        audio = audio.model_copy(update={"turn_detection": None})
    session: dict[str, Any] = {"audio": Audio(input=audio)}
    if "include" in patch.model_fields_set:
        session["include"] = patch.include
    return current.model_copy(update=session)


def merged_input(now: AudioInput, new: AudioInput, default_model: str) -> AudioInput:
    """session.audio.input with what `new` sets. Raises `RequestError`."""
    given = new.model_fields_set
    fields: dict[str, Any] = {}
    if "format" in given:
        fields["format"] = merged_format(now.format, new.format, f"{INPUT}.format")
    if "noise_reduction" in given:
        fields["noise_reduction"] = new.noise_reduction and (now.noise_reduction or NoiseReduction()).updated(
            new.noise_reduction
        )
    if "transcription" in given:
        wanted = new.transcription and (now.transcription or Transcription()).updated(new.transcription)
        if wanted is not None and not wanted.model:
            wanted = wanted.model_copy(update={"model": default_model})
        fields["transcription"] = wanted
    if "turn_detection" in given:
        fields["turn_detection"] = new.turn_detection and _turn_detection(now.turn_detection, new.turn_detection)
    return now.model_copy(update=fields)


def merged_format(now: Format, new: Format, path: str) -> Format:
    """`now` with what `new` sets; `path` is its name. Raises `RequestError`."""
    kind = new.type if "type" in new.model_fields_set else now.type
    if kind != "audio/pcm":
        if new.rate not in (None, G711_RATE):
            raise RequestError(
                "G.711 audio has 8000 Hz; leave the rate out.", code="invalid_value", param=f"{path}.rate"
            )
        return Format(type=kind)
    kept = now.rate if now.type == kind and "rate" not in new.model_fields_set else None
    return Format(type=kind, rate=new.rate or kept or PCM_RATE)


def _turn_detection(now: TurnDetection | None, new: TurnDetection) -> TurnDetection:
    kind = new.type or (now.type if now else None) or "server_vad"
    for name in SERVER_ONLY if kind == "semantic_vad" else ("eagerness",):
        if getattr(new, name) is not None:
            raise RequestError(
                f"{kind} has no field {name}; leave it out or change turn_detection.type.",
                code="unknown_parameter",
                param=f"{INPUT}.turn_detection.{name}",
            )
    defaults = SEMANTIC_VAD if kind == "semantic_vad" else SERVER_VAD
    base = now if now is not None and now.type == kind else defaults
    wanted = base.updated(new)
    unset = {name: value for name, value in defaults if getattr(wanted, name) is None}
    return wanted.model_copy(update=unset)


PARAM_OF_FIELD = {
    "model": f"{TRANSCRIPTION}.model",
    "language": f"{TRANSCRIPTION}.language",
    "prompt": f"{TRANSCRIPTION}.prompt",
    "keywords": f"{TRANSCRIPTION}.keywords",
    "partial_interval": f"{TRANSCRIPTION}.delay",
    "threshold": f"{INPUT}.turn_detection.threshold",
    "silence": f"{INPUT}.turn_detection.silence_duration_ms",
    "prefix": f"{INPUT}.turn_detection.prefix_padding_ms",
    "idle_timeout": f"{INPUT}.turn_detection.idle_timeout_ms",
}
"""Where the client wrote what the live stream calls by its own name."""


def includes(session: Session, what: Include) -> bool:
    """Whether the client asked for something that is left out otherwise."""
    return what in (session.include or ())


def audio_format(session: AnySession) -> AudioFormat:
    """How to decode what the client appends."""
    wanted = session.audio.input.format
    return AudioFormat(ENCODING_OF_TYPE[wanted.type], wanted.rate or G711_RATE)


def stream_config(session: AnySession, model: str, languages: Collection[str]) -> StreamConfig:
    """The live stream that the session asks for, on a loaded `model` and its `languages`. Raises `RequestError`."""
    audio = session.audio.input
    wanted = audio.transcription or Transcription()
    options = DecodeOptions(
        language=_language(wanted, model, languages),
        prompt=wanted.prompt or "",
        keywords=tuple(wanted.keywords or ()),
    )
    turn = audio.turn_detection
    fields: dict[str, Any] = {"automatic": turn is not None}
    if turn is not None and turn.type == "semantic_vad":
        fields["vad"] = VadConfig(silence=SILENCE_OF_EAGERNESS[turn.eagerness or "auto"])
    elif turn is not None:
        # merged() has filled in every default.
        assert turn.threshold is not None and turn.silence_duration_ms is not None
        assert turn.prefix_padding_ms is not None
        fields["vad"] = VadConfig(
            threshold=turn.threshold, silence=turn.silence_duration_ms / 1000, prefix=turn.prefix_padding_ms / 1000
        )
        if turn.idle_timeout_ms is not None:
            fields["idle_timeout"] = turn.idle_timeout_ms / 1000
    if wanted.delay is not None:
        fields["partial_interval"] = INTERVAL_OF_DELAY[wanted.delay]
    return StreamConfig(model, options, **fields)


def _language(wanted: Transcription, model: str, known: Collection[str]) -> str | None:
    """The one language to listen for; None lets the model find it, also when the client names several."""
    named = [("language", wanted.language)] if wanted.language else []
    named += [(f"languages[{index}]", language) for index, language in enumerate(wanted.languages or ())]
    codes: list[str | None] = []
    for field, language in named:
        code = language_code(language)
        if code not in known:
            shown = ", ".join(sorted(known)[:8]) + (", ..." if len(known) > 8 else "")
            raise RequestError(
                f"The model {model} does not know the language {language!r}; it knows {shown}.",
                code="invalid_value",
                param=f"{TRANSCRIPTION}.{field}",
            )
        codes.append(code)
    return codes[0] if wanted.language or len(codes) == 1 else None


def described(session: Session, shape: Shape, session_id: str, expires_at: int) -> dict[str, Any]:
    """The session object of session.created and session.updated. `expires_at` is in seconds since 1970."""
    audio = session.audio.input
    parts = {
        "noise_reduction": audio.noise_reduction,
        "transcription": audio.transcription,
        "turn_detection": audio.turn_detection,
    }
    shown = {name: part and part.model_dump(exclude_none=True) for name, part in parts.items()}
    common = {"id": session_id, "object": "realtime.transcription_session", "expires_at": expires_at}
    if shape is Shape.BETA:
        return {
            **common,
            "client_secret": None,
            "modalities": ["text"],
            "input_audio_format": BETA_OF_TYPE[audio.format.type],
            "input_audio_noise_reduction": shown["noise_reduction"],
            "input_audio_transcription": shown["transcription"],
            "turn_detection": shown["turn_detection"],
            "include": session.include,
        }
    return {
        "type": "transcription",
        **common,
        "include": session.include,
        "audio": {"input": {"format": audio.format.model_dump(exclude_none=True), **shown}},
    }
