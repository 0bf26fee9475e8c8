"""Voices of a codec language model, by the model's path or its name on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from speech.models.errors import ModelNotFound
from speech.text.spoken import Spoken
from speech.tts import Phonemes, VoiceInfo
from speech.voices.codec.backend import CodecBackend
from speech.voices.codec.model import CodecModel
from speech.voices.codec.sampling import Sampling

ORPHEUS_SPEAKERS = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
SNAC_24KHZ = "hubertsiuzdak/snac_24khz"
_FILES = ["config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json", "pytorch_model.bin"]


class CodecVoice:
    """One speaker of a model. Voices of the same model share a backend on each device."""

    apart = False

    def __init__(
        self, model: CodecModel, speaker: str, *, languages: tuple[str, ...], slots: int, capacity: int, voicings: int
    ) -> None:
        self.info = VoiceInfo(
            name=speaker or model.name,
            model=model.name,
            languages=languages,
            rate=model.snac.rate,
            description="Autoregressive codec model; word times are estimated, speed is the model's own.",
        )
        self._model, self._speaker = model, speaker
        self._slots, self._capacity, self._voicings = slots, capacity, voicings

    def phonemes(self, tokens: Sequence[Spoken]) -> Phonemes:
        """The prompt's ids; none when there is nothing to say."""
        return self._model.prompter.prompt(tokens, self._speaker)

    def backend(self) -> CodecBackend:
        """A replica for one device."""
        return CodecBackend(self._model, slots=self._slots, capacity=self._capacity, voicings=self._voicings)


def load_voices(
    model: str,
    codec: str = SNAC_24KHZ,
    *,
    speakers: Sequence[str] = ORPHEUS_SPEAKERS,
    languages: tuple[str, ...] = ("en",),
    sampling: Sampling | None = None,
    slots: int = 16,
    capacity: int = 3072,
    voicings: int | None = None,
    allow_download: bool = False,
) -> list[CodecVoice]:
    """A voice for each speaker. `model` and `codec` are folders or names on the hub.

    `slots` segments can be spoken in one step, `voicings` (8 times as many) be under way; `capacity` is the tokens of a
    segment, prompt and codes (82 a second). A model by path is called as its folder is.

    Raises ModelNotFound, ModelCorrupt.
    """
    folder, sound = _folder(model, allow_download), _folder(codec, allow_download)
    by_path = Path(model).expanduser().is_dir()
    name, revision = (folder.resolve().name, "") if by_path else (model, folder.name)
    read = CodecModel(name, folder, sound, revision=revision, sampling=sampling)
    most = 8 * slots if voicings is None else voicings
    return [
        CodecVoice(read, speaker, languages=languages, slots=slots, capacity=capacity, voicings=most)
        for speaker in speakers
    ]


def _folder(name: str, allow_download: bool) -> Path:
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if name.startswith((".", "~", "/")):
        raise ModelNotFound(f"there is no directory {path}")
    # Imported here because a model by path does not need the hub's client.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=not allow_download, allow_patterns=_FILES))
    except HFValidationError:
        raise ModelNotFound(f"{name!r} is neither a directory nor a name on the hub (owner/name)") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        remedy = str(error).rstrip(".") if allow_download else "allow the download, or name a directory"
        raise ModelNotFound(f"the voice model {name!r} is not on this machine: {remedy}") from error
