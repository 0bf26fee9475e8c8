"""From a model's name to the subject that can be tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.gate.subject import Subject

KINDS = ("image", "video", "vlm", "asr", "tts", "embeddings")
_CLASSES = {"FluxPipeline": "image", "CogVideoXPipeline": "video"}


class SubjectUnknown(ValueError):
    """Nobody knows what kind of model this is; the message says the remedy."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be tried, and how. `prompts` one a line, `recordings` a folder with references.tsv."""

    model: str
    kind: str | None = None
    device: str = "cpu"
    steps: int | None = None
    side: int | None = None
    prompts: Path | None = None
    recordings: Path | None = None
    smaller: str | None = None
    download: bool = False


def subject(wanted: Wanted) -> Subject:
    """Loaded; seconds. Raises SubjectUnknown, and whatever the loading of such a model raises."""
    match wanted.kind or kind_of(wanted.model):
        case "image" | "video" as kind:
            from vision_text.tuning.drawing import ImageSubject, VideoSubject

            made = ImageSubject if kind == "image" else VideoSubject
            return made(
                wanted.model, device=wanted.device, prompts=_lines(wanted.prompts), steps=wanted.steps,
                side=wanted.side, allow_download=wanted.download,
            )  # fmt: skip
        case "vlm":
            from vision_text.tuning.seeing import SeeingSubject

            return SeeingSubject(wanted.model, device=wanted.device, allow_download=wanted.download)
        case "asr":
            from speech.tuning.asr import WhisperSubject

            return WhisperSubject(wanted.model, recordings=wanted.recordings, smaller=wanted.smaller)
        case "tts":
            from speech.tuning.tts import VoiceSubject

            return VoiceSubject()
        case "embeddings":
            from vision_text.embeddings.tuning import EmbeddingSubject

            return EmbeddingSubject(wanted.model, allow_download=wanted.download)
        case other:
            raise SubjectUnknown(f"there is no kind {other!r}; there is {', '.join(KINDS)}")


def kind_of(model: str) -> str:
    """By the name where it is known, else by the model's files. Raises SubjectUnknown."""
    if model == "heart":
        return "tts"
    from speech.models import known_models

    if any(known.name == model and known.task == "transcription" for known in known_models()):
        return "asr"
    from vision_text.models import ModelUnusable, bundles, read_json, resolve

    if model in bundles():
        return "embeddings"
    try:
        found = resolve(model)
    except ModelUnusable as error:
        raise SubjectUnknown(f"{error}; or say with --kind what it is") from error
    if name := read_json(found.directory / "model_index.json").get("_class_name"):
        if str(name) in _CLASSES:
            return _CLASSES[str(name)]
    elif "vision_config" in read_json(found.directory / "config.json"):
        return "vlm"
    elif (found.directory / "modules.json").is_file():
        return "embeddings"
    raise SubjectUnknown(f"it is not clear what kind of model {model} is; say with --kind: {', '.join(KINDS)}")


def _lines(path: Path | None) -> Sequence[str]:
    if path is None:
        return ()
    return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
