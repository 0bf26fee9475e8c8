"""Cross-encoders: a query and a document read together, for a score of how well the one answers the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from vision_text.embeddings.backend import PIECE
from vision_text.embeddings.model import check_text
from vision_text.embeddings.settings import EmbeddingSettings
from vision_text.models import ModelUnusable, read_json, resolve
from workers.backend import Limits, Spec
from workers.device import Device
from workers.errors import BackendFailed, InputTooLarge
from workers.onestep import OneStep
from workers.pool import Pool


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a document as the model reads them: ids and, where it has them, types of tokens."""

    ids: npt.NDArray[np.int64]
    types: npt.NDArray[np.int64] | None = None
    cut: bool = False


class RerankBackend(OneStep):
    """A cross-encoder on a device. A task is a pair, those of one length share a batch."""

    def __init__(self, name: str, revision: str, directory: Path) -> None:
        self.spec = Spec("rerank", name, revision, "float32")
        size = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
        self.limits = Limits(items=64, cost=PIECE["cpu"], resident_bytes=size)
        self._directory, self._device = directory, "cpu"
        self._model: Any = None

    def load(self, device: str) -> None:
        from transformers import AutoModelForSequenceClassification

        if self._model is None:
            model = AutoModelForSequenceClassification.from_pretrained(self._directory, local_files_only=True)
            self._model, self._device = model.to(device).eval(), device
            self.limits = Limits(64, PIECE.get(device.partition(":")[0], PIECE["cuda"]), self.limits.resident_bytes)

    def check(self) -> None:
        if self._model is None:
            raise BackendFailed(f"{self.spec.model} is not loaded")

    def cost(self, payload: Pair) -> float:
        return len(payload.ids)

    def bucket(self, payload: Pair) -> int:
        return len(payload.ids)

    def run(self, payloads: Sequence[Pair]) -> list[float | Exception]:
        inputs = {"input_ids": np.stack([pair.ids for pair in payloads])}
        types = [pair.types for pair in payloads if pair.types is not None]
        if types:
            inputs["token_type_ids"] = np.stack(types)
        with torch.inference_mode():
            given = {name: torch.from_numpy(array).to(self._device) for name, array in inputs.items()}
            scores = torch.sigmoid(self._model(**given).logits[:, 0].float()).tolist()
        return [
            score if np.isfinite(score) else BackendFailed("the model's score of this document is no number")
            for score in scores
        ]

    def close(self) -> None:
        self._model = None


class Reranker:
    """Made by `load`, which blocks for seconds."""

    def __init__(self, name: str, tokeniser: Any, most: int, pool: Pool) -> None:
        self.name, self.pool = name, pool
        self._tokeniser, self._most = tokeniser, most

    @classmethod
    def load(cls, name: str, settings: EmbeddingSettings, devices: Sequence[Device]) -> Reranker:
        """Give every device a replica. Raises ModelUnusable."""
        from transformers import AutoTokenizer

        found = resolve(name, allow_download=settings.download)
        config = read_json(found.directory / "config.json")
        if len(config.get("id2label") or {0: ""}) > 1 and config.get("num_labels", 1) != 1:
            raise ModelUnusable(f"{name} tells classes apart; a reranker gives a single score")
        tokeniser = AutoTokenizer.from_pretrained(found.directory, local_files_only=True)
        most = min(int(config.get("max_position_embeddings") or 512), tokeniser.model_max_length)
        for device in devices:
            device.add(RerankBackend(found.name, found.revision, found.directory))
        return cls(found.name, tokeniser, most, Pool(found.name, devices))

    def prepare(self, query: str, documents: Sequence[str], truncate: bool, most_characters: int) -> list[Pair]:
        """Tokenise. Blocks. Raises InputInvalid, InputTooLarge, naming the document."""
        check_text(query, "query", most_characters)
        for n, document in enumerate(documents):
            check_text(document, f"documents[{n}]", most_characters)
        found = self._tokeniser([query] * len(documents), list(documents), verbose=False)
        pairs = []
        for n, document in enumerate(documents):
            ids, types = found["input_ids"][n], found.get("token_type_ids", [None] * len(documents))[n]
            cut = len(ids) > self._most
            if cut and not truncate:
                raise InputTooLarge(
                    f"documents[{n}] and the query have {len(ids)} tokens, and {self.name} takes {self._most}",
                    param=f"documents[{n}]",
                )
            if cut:
                once = self._tokeniser(query, document, truncation="longest_first", max_length=self._most)
                ids, types = once["input_ids"], once.get("token_type_ids")
            pairs.append(Pair(np.array(ids, np.int64), None if types is None else np.array(types, np.int64), cut))
        return pairs
