"""Models that put texts and pictures into one space: CLIP, SigLIP and their like, as transformers loads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from vision_text.embeddings.backend import checked
from vision_text.embeddings.model import Input, ModelInfo, Prepared, check_text, made_space
from vision_text.embeddings.pictures import Picture, unpack
from vision_text.embeddings.quantise import Ranges
from vision_text.embeddings.settings import EmbeddingSettings
from vision_text.embeddings.space import Space
from vision_text.models import Found, ModelUnusable, read_json
from workers.backend import Limits, Spec
from workers.device import Device
from workers.errors import BackendFailed, InputInvalid, InputTooLarge, ServingError
from workers.onestep import OneStep
from workers.pool import Pool

_PADDED = ("siglip", "siglip2")
"""Trained on texts that are all of one length, so that padding is part of what they understand."""
_KINDS = ("clip", "chinese_clip", "altclip", *_PADDED)
PICTURES, TEXTS = 4, 32
"""Of a piece: on two cores a picture takes as long as hundreds of tokens."""


@dataclass(frozen=True, slots=True)
class DualPiece:
    """Texts as ids in ascending length, or pictures as pixels; one of the two."""

    texts: tuple[npt.NDArray[np.int64], ...] = ()
    pictures: tuple[npt.NDArray[np.float32], ...] = ()
    apart: bool = False


def is_dual(directory: Path) -> bool:
    """Whether the model in a directory is one of these."""
    return read_json(home(directory) / "config.json").get("model_type") in _KINDS


def home(directory: Path) -> Path:
    """Where its files are: sentence-transformers puts them into a folder."""
    modules = read_json(directory / "modules.json")
    return directory / modules[0].get("path", "") if modules else directory


class DualBackend(OneStep):
    """Both towers on a device."""

    def __init__(self, name: str, revision: str, directory: Path, arithmetic: str) -> None:
        self.spec = Spec("embedding", name, revision, arithmetic)
        size = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
        self.limits = Limits(items=8, cost=PICTURES * 512, resident_bytes=size)
        self._directory, self._dtype, self._device = directory, getattr(torch, arithmetic), "cpu"
        self._model: Any = None
        self.width = 0

    def load(self, device: str) -> None:
        from transformers import AutoModel

        if self._model is None:
            model = AutoModel.from_pretrained(self._directory, dtype=self._dtype, local_files_only=True)
            self._model, self._device = model.to(device).eval(), device
            self.width = len(self.run([DualPiece(texts=(np.zeros(4, np.int64),))])[0][0])  # type: ignore[arg-type]

    def check(self) -> None:
        if self._model is None:
            raise BackendFailed(f"{self.spec.model} is not loaded")

    def cost(self, payload: DualPiece) -> float:
        return sum(map(len, payload.texts)) + 512 * len(payload.pictures)

    def bucket(self, payload: DualPiece) -> tuple[bool, bool]:
        return bool(payload.pictures), payload.apart

    def run(self, payloads: Sequence[DualPiece]) -> list[list[npt.NDArray[np.float32] | ServingError]]:
        with torch.inference_mode():
            return [[checked(vector) for vector in self._vectors(payload)] for payload in payloads]

    def _vectors(self, payload: DualPiece) -> npt.NDArray[np.float32]:
        made = []
        if payload.pictures:
            pixels = torch.from_numpy(np.stack(payload.pictures)).to(self._device, self._dtype)
            made.append(self._model.get_image_features(pixel_values=pixels))
        for _, same in groupby(payload.texts, len):
            ids = torch.from_numpy(np.stack(list(same))).to(self._device)
            made.append(self._model.get_text_features(input_ids=ids))
        found = torch.cat([getattr(one, "pooler_output", one) for one in made]).float()
        vectors: npt.NDArray[np.float32] = F.normalize(found).cpu().numpy()
        return vectors

    def close(self) -> None:
        self._model = None


class DualModel:
    """Made by `load`, which blocks for seconds."""

    def __init__(
        self, info: ModelInfo, tokeniser: Any, processor: Any, padded: bool, pool: Pool, ranges: Ranges
    ) -> None:
        self.info, self.pool, self.ranges = info, pool, ranges
        self._tokeniser, self._processor, self._padded = tokeniser, processor, padded

    @classmethod
    def load(
        cls,
        found: Found,
        aliases: tuple[str, ...],
        settings: EmbeddingSettings,
        ranges: Ranges,
        devices: Sequence[Device],
    ) -> DualModel:
        """Give every device a replica. Raises ModelUnusable, ValueError when it does not fit."""
        from transformers import AutoImageProcessor, AutoTokenizer

        directory = home(found.directory)
        try:
            tokeniser = AutoTokenizer.from_pretrained(directory, local_files_only=True)
            processor = AutoImageProcessor.from_pretrained(directory, local_files_only=True)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, ImportError) as error:
            raise ModelUnusable(f"{found.name} lacks its tokeniser or what prepares its pictures: {error}") from error
        for device in devices:
            backend = DualBackend(found.name, found.revision, directory, settings.arithmetic)
            backend.load(device.torch_device)
            device.add(backend)
        config = read_json(directory / "config.json")
        text = config.get("text_config") or {}
        most = int(text.get("max_position_embeddings") or 77)
        sizes = tuple(sorted({*(config.get("matryoshka_dimensions") or ()), *settings.matryoshka.get(found.name, ())}))
        info = ModelInfo(found.name, aliases, backend.width, sizes, most, True, found.revision)
        return cls(info, tokeniser, processor, config["model_type"] in _PADDED, Pool(found.name, devices), ranges)

    def space(self, dimensions: int | None, precision: str, prompt: str) -> Space:
        """Raises InputInvalid (param "dimensions", "precision")."""
        return made_space(self.info, "projection", prompt, True, dimensions, precision, self.ranges)

    def prepare(
        self, first: int, inputs: Sequence[Input], prompt: str, truncate: bool, settings: EmbeddingSettings
    ) -> Prepared:
        """Tokens of texts, pixels of pictures. Blocks; not on the event loop."""
        ready = Prepared()
        for n, given in enumerate(inputs, first):
            name = f"input[{n}]"
            try:
                if isinstance(given, Picture):
                    picture = unpack(given, settings.most_pixels, name)
                    pixels = self._processor(images=picture, return_tensors="np")["pixel_values"][0]
                    ready.pictures[n] = np.asarray(pixels, np.float32)
                    ready.tokens[n] = 1
                elif isinstance(given, str):
                    text = prompt + check_text(given, name, settings.most_characters)
                    self._keep(ready, n, text, truncate)
                else:
                    raise InputInvalid(f"{name} holds token ids; {self.info.name} takes texts and pictures", param=name)
            except ServingError as error:
                ready.errors[n] = error
        return ready

    def _keep(self, ready: Prepared, n: int, text: str, truncate: bool) -> None:
        most = self.info.most_tokens
        ids = self._tokeniser(text, verbose=False)["input_ids"]
        if len(ids) > most:
            if not truncate:
                raise InputTooLarge(
                    f"input[{n}] has {len(ids)} tokens, and {self.info.name} takes {most}; shorten it, or ask for "
                    "truncate to have its end left out",
                    param=f"input[{n}]",
                )
            ready.truncated.add(n)
        ready.tokens[n] = min(len(ids), most)
        padding = "max_length" if self._padded else False
        kept = self._tokeniser(text, truncation=True, max_length=most, padding=padding)["input_ids"]
        ready.texts[n] = np.array(kept, np.int64)

    def pieces(self, ready: Prepared, *, apart: bool) -> list[tuple[list[int], DualPiece]]:
        """Everything that is ready, with the indices of each piece's inputs."""
        pictures, texts = sorted(ready.pictures), sorted(ready.texts, key=lambda n: len(ready.texts[n]))
        runs = [pictures[at : at + PICTURES] for at in range(0, len(pictures), PICTURES)]
        runs += [texts[at : at + TEXTS] for at in range(0, len(texts), TEXTS)]
        return [(run, self.piece(ready, run, apart=apart)) for run in runs]

    def piece(self, ready: Prepared, numbers: Sequence[int], *, apart: bool) -> DualPiece:
        """Some of one kind."""
        if numbers[0] in ready.pictures:
            return DualPiece(pictures=tuple(ready.pictures[n] for n in numbers), apart=apart)
        return DualPiece(texts=tuple(ready.texts[n] for n in numbers), apart=apart)
