"""Settings of the service: one name each, the same as a flag, an environment variable and a key of the TOML file.

Flags win over SPEECHLANE_* variables, those over the TOML file, that over the defaults. Sizes are in bytes, times in
seconds.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from gateway.setting_values import Addresses, Hosts, HttpUrl, Origins, RedisUrl, is_loopback

MIB = 1024 * 1024
GIB = 1024 * MIB
ENV_PREFIX = "SPEECHLANE_"

_KEY = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class SettingsInvalid(ValueError):
    """The configuration cannot be used; the message names each setting and what to do, never a value."""


class Settings(BaseSettings):
    """Everything `speechlane serve` can be told."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True, env_ignore_empty=True)

    config: Path | None = Field(None, description="TOML file holding any of these settings (port = 8700).")
    host: str = Field("127.0.0.1", description="Address to listen on; any but loopback needs an API key.")
    port: int = Field(8700, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (), description="Keys that clients may use, separated by commas. A flag shows in ps; prefer the file."
    )
    api_keys_file: Path | None = Field(
        None, description="File with one API key a line; a line that starts with # is a comment."
    )
    key_store: SecretStr | None = Field(
        None, description="Keys made by speechlane keys: a file, or rediss://:PASSWORD@HOST for several services."
    )
    key_room: float = Field(
        0.5, gt=0, le=1, description="Part of the room for live sessions that one of several keys may hold."
    )
    allowed_origins: Annotated[Origins, NoDecode] = Field(
        (),
        description="Pages that may use this service besides its own (https://app.example.com), separated by commas; "
        "unset: with keys all, without keys none.",
    )
    trusted_proxies: Annotated[Addresses, NoDecode] = Field(
        (), description="Addresses of proxies whose X-Forwarded-For is believed, separated by commas."
    )
    tls_cert: Path | None = Field(None, description="Certificate chain (PEM) to serve https and wss with.")
    tls_key: Path | None = Field(None, description="Its private key (PEM).")
    models: Annotated[tuple[str, ...], NoDecode] = Field(
        ("tiny.en",),
        description="Models to load, separated by commas; the first is the default; base@cuda:1: on that device alone.",
    )
    voices: Annotated[tuple[str, ...], NoDecode] = Field(
        ("heart",), description="Voices to load, separated by commas; the first is the default; none: empty."
    )
    piper_python: str = Field("", description="Python with piper-tts, for voices that are Piper's NAME.onnx files.")
    embeddings: Annotated[tuple[str, ...], NoDecode] = Field(
        ("all-MiniLM-L6-v2",),
        description="Models for embeddings, separated by commas; the first is the default; none: empty.",
    )
    rerankers: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Cross-encoders that rank documents, separated by commas; none: by embeddings."
    )
    documents: int = Field(8, ge=0, le=256, description="Documents that may be read at once; none: 0.")
    document_replicas: int = Field(1, ge=1, le=64, description="Readers of each kind for documents, a thread each.")
    embedding_arithmetic: Literal["float32", "bfloat16"] = Field(
        "float32", description="Of embedding models; bfloat16 is refused where it changes what they find."
    )
    chat_models: Annotated[tuple[str, ...], NoDecode] = Field(
        ("shapes-vlm",), description="Models that see and answer, separated by commas; the first is the default."
    )
    image_models: Annotated[tuple[str, ...], NoDecode] = Field(
        ("shapes-image",), description="Models that draw pictures, separated by commas; none: empty."
    )
    video_models: Annotated[tuple[str, ...], NoDecode] = Field(
        ("shapes-video",), description="Models that make clips, separated by commas; none: empty."
    )
    vision_load: Literal["first", "start"] = Field(
        "first", description="Load these three at their first request, or at the start, behind speech."
    )
    unproven_options: bool = Field(
        False, description="Let requests ask for approximations that speechlane tune has not shown to be good here."
    )
    picture_hosts: Annotated[Hosts, NoDecode] = Field(
        (),
        description="Hosts that pictures and clips named by URL are fetched from (img.example.com, private:nas.lan), "
        "separated by commas; unset: from none.",
    )
    max_media_bytes: int = Field(24 * MIB, ge=1, description="Largest picture or clip sent to a chat.")
    max_picture_pixels: int = Field(40_000_000, ge=1, description="Largest picture, or frame of a clip, in pixels.")
    max_clip_seconds: float = Field(600.0, gt=0, description="Longest clip sent to a chat.")
    max_videos: int = Field(64, ge=1, description="Made videos that are kept at once, and as many that wait.")
    video_keep_seconds: float = Field(3600.0, gt=0, description="Made videos go after this long, or with a restart.")
    device: str = Field(
        "cpu",
        description="Where models run: cpu, cuda:0; cuda takes every GPU; several with commas, cuda:2+cuda:3 a group.",
    )
    threads: int | None = Field(None, ge=1, description="CPU threads of the models; unset: measured or all cores.")
    cluster: str = Field(
        "", description="Ray cluster whose devices transcribe (auto, HOST:6379); unset: those of this host."
    )
    cluster_resources: str = Field(
        "", description="What each of them takes of it; unset: GPU=1 with --device cuda, else CPU=threads."
    )
    asr_engine: Literal["torch", "reference"] = Field(
        "torch", description="torch, or reference: faster-whisper on padded windows, to compare with."
    )
    utilisation: float = Field(0.85, gt=0, le=1, description="Share of a device's time that live sessions may reserve.")
    admission: Literal["measured", "estimated", "everybody"] = Field(
        "measured",
        description="measured: as many live sessions as speechlane capacity has found, where it has; estimated: never "
        "by that; everybody: to measure, not for people.",
    )
    download: bool = Field(False, description="Fetch models that are not on this machine from the hub at start.")
    max_sessions: int = Field(512, ge=1, description="Live sessions at once, whatever the device could carry.")
    max_sessions_per_key: int | None = Field(None, ge=1, description="Live sessions at once for each API key.")
    resume_seconds: float = Field(
        30.0, gt=0, le=600, description="Time that a live session waits for a client whose connection broke."
    )
    sessions_redis: RedisUrl | None = Field(
        None, description="Redis that gateways share, so that live sessions resume at any of them; unset: at their own."
    )
    sessions_redis_bytes: int = Field(GIB, ge=1, description="Most that live sessions of all gateways take there.")
    max_parked: int = Field(64, ge=0, description="Live sessions that wait so at once.")
    max_files: int = Field(4, ge=1, description="Uploaded files transcribed at once.")
    max_upload_bytes: int = Field(256 * MIB, ge=1, description="Largest uploaded file.")
    max_audio_seconds: float = Field(3600.0, gt=0, description="Longest uploaded recording.")
    session_seconds: float = Field(1800.0, gt=0, description="Longest live session; announced as expires_at.")
    max_speeches: int = Field(64, ge=1, description="Texts spoken over POST at once.")
    max_contexts: int = Field(16, ge=1, le=256, description="Speeches at once on one socket of /v1/speak.")
    assistant_url: HttpUrl | None = Field(
        None,
        description="OpenAI-compatible endpoint that answers in conversations (http://127.0.0.1:8000/v1); unset: the "
        "embedded echo, which repeats what it hears and tells the time.",
    )
    assistant_model: str | None = Field(None, description="Model to ask for at assistant_url.")
    assistant_key: SecretStr | None = Field(None, description="Key for assistant_url; prefer the variable or the file.")
    assistant_first_seconds: float = Field(
        30.0, gt=0, le=600, description="Longest wait for the first words of the assistant's answer."
    )
    assistant_between_seconds: float = Field(
        15.0, gt=0, le=600, description="Longest pause in the middle of the assistant's answer."
    )
    collections: str | None = Field(
        None,
        description="Where collections of texts and vectors lie: a folder, or postgresql://USER@HOST/DATABASE; unset: "
        "collections in batch_dir.",
    )
    search_transcripts: bool = Field(
        True, description="Let transcripts of finished jobs be searched for what was said (with embeddings only)."
    )
    batch: bool = Field(True, description="Take long files as jobs (/v1/batch).")
    batch_dir: Path | None = Field(
        None, description="Where the queue and the files of jobs are kept; unset: batch in the cache directory."
    )
    redis_url: RedisUrl | None = Field(
        None, description="Redis or Valkey for the queue of jobs (rediss://:PASSWORD@HOST); unset: one of our own."
    )
    spool_url: str | None = Field(
        None, description="Where workers on other hosts find the files (s3://BUCKET/PREFIX); unset: in batch_dir."
    )
    batch_concurrency: int = Field(
        8, ge=0, le=256, description="Pieces of jobs transcribed at once here; 0 leaves them to speechlane worker."
    )
    batch_uploads: int = Field(8, ge=1, le=256, description="Files of jobs received at once.")
    batch_max_file_bytes: int = Field(16 * GIB, ge=1, description="Largest file of a job.")
    batch_max_seconds: float = Field(48 * 3600.0, gt=0, description="Longest recording of a job.")
    batch_spool_bytes: int = Field(64 * GIB, ge=1, description="Files of all jobs together; more are refused.")
    batch_keep_seconds: float = Field(7 * 86_400.0, gt=0, description="Jobs that have ended go after this long.")
    webhook_hosts: Annotated[Hosts, NoDecode] = Field(
        (),
        description="Hosts that jobs may call when they end (hooks.example.com, private:ci.lan:8080), separated by "
        "commas; private: allows http and addresses that are not public.",
    )
    webhook_secret: SecretStr | None = Field(
        None, description="Secret that signs webhooks, at least 16 characters; needed with webhook_hosts."
    )
    wyoming_port: int | None = Field(
        None, ge=0, le=65535, description="Port for the Wyoming protocol, which has no keys; unset: it is not spoken."
    )
    wyoming_host: str = Field(
        "127.0.0.1", description="Address for Wyoming; any but loopback needs wyoming_open, whatever keys there are."
    )
    wyoming_open: bool = Field(False, description="Let everybody who reaches wyoming_host use it without a key.")
    drain_seconds: float = Field(20.0, ge=0, description="Time that running work gets to end on SIGTERM.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="How much to log (debug, info, warning, error); debug has a line for every utterance."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="json: an object a line; text: for people; auto: text on a terminal, else json."
    )
    otlp_endpoint: HttpUrl | None = Field(
        None,
        description="Collector that traces are sent to with OTLP over HTTP (http://127.0.0.1:4318); unset: that of "
        "OTEL_EXPORTER_OTLP_ENDPOINT, if any.",
    )
    log_transcripts: bool = Field(
        False, description="Let lines of the log (debug) hold what was said, to find faults; else no line does."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        path = init_settings().get("config") or os.environ.get(f"{ENV_PREFIX}CONFIG")
        if not path:
            return init_settings, env_settings
        if not Path(path).is_file():
            raise SettingsInvalid(f"config: there is no file {path}")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=Path(path))

    @field_validator(
        "api_keys",
        "allowed_origins",
        "trusted_proxies",
        "models",
        "voices",
        "embeddings",
        "rerankers",
        "chat_models",
        "image_models",
        "video_models",
        "picture_hosts",
        "webhook_hosts",
        mode="before",
    )
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("models")
    @classmethod
    def _some_model(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("name at least one model, for example tiny.en")
        return value

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: give both, or neither")
        return self

    @model_validator(mode="after")
    def _assistant_is_whole(self) -> Self:
        if self.assistant_url is not None and not self.assistant_model:
            raise ValueError("assistant_url needs assistant_model, the name of a model that it serves")
        if self.assistant_url is None and (self.assistant_model or self.assistant_key is not None):
            raise ValueError("assistant_model and assistant_key belong to an endpoint: set assistant_url")
        return self

    @model_validator(mode="after")
    def _webhooks_are_signed(self) -> Self:
        secret = self.webhook_secret.get_secret_value() if self.webhook_secret is not None else ""
        if self.webhook_hosts and len(secret) < 16:
            raise ValueError(
                "webhook_hosts needs webhook_secret with 16 characters or more (make one with: openssl rand -hex 24)"
            )
        return self

    @model_validator(mode="after")
    def _wyoming_is_meant(self) -> Self:
        if self.wyoming_port is not None and not self.wyoming_open and not is_loopback(self.wyoming_host):
            raise ValueError(
                f"wyoming_host {self.wyoming_host} can be reached by others, and Wyoming knows no keys: listen on "
                "127.0.0.1, or say with wyoming_open that everybody there may use it"
            )
        return self

    @model_validator(mode="after")
    def _keys_are_usable(self) -> Self:
        keys = self.keys()
        for number, key in enumerate(keys, 1):
            if not _KEY.fullmatch(key):
                raise ValueError(
                    f"API key {number} holds a character that a browser cannot send; "
                    "use letters, digits and - . _ ~ only (try: openssl rand -hex 24)"
                )
        if not keys and self.key_store is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} can be reached by others, so an API key is needed: set api_keys_file or "
                "SPEECHLANE_API_KEYS (make one with: openssl rand -hex 24), or key_store (speechlane keys create), "
                "or listen on 127.0.0.1"
            )
        return self

    def key_count(self) -> int:
        """How many keys there are; of a store, whose keys come and go, it is known only that there may be several."""
        return len(self.keys()) + (2 if self.key_store is not None else 0)

    def keys(self) -> tuple[str, ...]:
        """All API keys in clear, in the order they were given; () means that none is asked for."""
        keys = [key.get_secret_value() for key in self.api_keys]
        if self.api_keys_file is not None:
            try:
                lines = self.api_keys_file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                # What the file holds is never shown.
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                raise ValueError(f"api_keys_file: {self.api_keys_file} cannot be read: {reason}") from error
            found = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
            if not found:
                raise ValueError("api_keys_file holds no key; write one a line")
            keys += found
        return tuple(keys)


def load_settings(**flags: Any) -> Settings:
    """Settings from `flags` (None means not given), the environment and the TOML file; raises `SettingsInvalid`."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        # pydantic's own text repeats the values it was given, which may be keys.
        problems = [_problem(item["loc"], item["type"], item["msg"]) for item in error.errors(include_input=False)]
        raise SettingsInvalid("; ".join(problems)) from None
    except SettingsInvalid:
        raise
    except ValueError as error:
        raise SettingsInvalid(f"config: {error}") from None


def _problem(location: tuple[int | str, ...], kind: str, message: str) -> str:
    name = ".".join(str(part) for part in location)
    if kind == "extra_forbidden":
        return f"{name}: there is no such setting"
    message = message.removeprefix("Value error, ")
    return f"{name}: {message}" if name else message
