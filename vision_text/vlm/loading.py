"""A model that sees, from its name: weights and processor by the library's own classes, once for each device."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from vision_text.models import Found, ModelUnusable, read_json, resolve
from vision_text.vlm.core import TextCore
from vision_text.vlm.family import Family, read_family


@dataclass(slots=True, eq=False)
class Loaded:
    """What is on a device. `vision` is the whole model, of which the encoder is used."""

    vision: nn.Module
    core: TextCore


@dataclass(eq=False)
class Weights:
    """The files of a model, and what is loaded of them."""

    found: Found
    processor: Any
    family: Family
    ends: frozenset[int]
    context: int
    counters: Counter[str]
    _on: dict[str, Loaded] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def read(cls, name: str, *, allow_download: bool, counters: Counter[str]) -> Weights:
        """All but the weights, which are read for each device. Raises ModelUnusable."""
        from transformers import AutoProcessor

        processors: Any = AutoProcessor
        found = resolve(name, allow_download=allow_download)
        try:
            processor = processors.from_pretrained(found.directory, local_files_only=True)
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise ModelUnusable(f"the processor of {name} cannot be loaded: {error}") from error
        model = _load(found, "meta")
        family = read_family(model, processor)
        context = _placed(model, torch.device("meta"), counters).core.context
        return cls(found, processor, family, _ends(found, model, processor), context, counters)

    def on(self, device: str) -> Loaded:
        """The model on a device of torch, loaded on first use."""
        with self._lock:
            if device not in self._on:
                self._on[device] = _placed(_load(self.found, device), torch.device(device), self.counters)
            return self._on[device]

    @property
    def precision(self) -> Mapping[str, str]:
        return {name: str(one.core.shape.dtype).removeprefix("torch.") for name, one in self._on.items()}

    def close(self) -> None:
        with self._lock:
            self._on.clear()


def _load(found: Found, device: str) -> Any:
    from transformers import AutoConfig, AutoModelForImageTextToText

    dtype = torch.float32 if torch.device(device).type == "cpu" else torch.bfloat16
    try:
        if device == "meta":
            config = AutoConfig.from_pretrained(found.directory, local_files_only=True)
            empty: Any = AutoModelForImageTextToText
            with torch.device("meta"):
                return empty.from_config(config)
        model = AutoModelForImageTextToText.from_pretrained(
            found.directory, dtype=dtype, local_files_only=True, attn_implementation="sdpa", use_safetensors=True
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelUnusable(f"{found.name} cannot be loaded as a model of pictures and text: {error}") from error
    whole: Any = model
    return whole.to(device).eval().requires_grad_(False)


def _placed(model: Any, device: torch.device, counters: Counter[str]) -> Loaded:
    base = model.model
    text = getattr(base, "text_model", None) or getattr(base, "language_model", None)
    if text is None:
        raise ModelUnusable(f"{type(model).__name__} has no language model that is known here")
    return Loaded(model, TextCore(text, model.lm_head, device, counters))


def _ends(found: Found, model: Any, processor: Any) -> frozenset[int]:
    """Tokens that end an answer."""
    tokenizer = processor.tokenizer
    given = read_json(found.directory / "generation_config.json").get("eos_token_id")
    given = given if given is not None else getattr(model.config.get_text_config(), "eos_token_id", None)
    ends = {tokenizer.eos_token_id, *(given if isinstance(given, list | tuple) else [given])}
    if (named := getattr(processor, "end_of_utterance_token", None)) is not None:
        token = tokenizer.convert_tokens_to_ids(named)
        if token != tokenizer.unk_token_id:
            ends.add(token)
    return frozenset(int(one) for one in ends if one is not None)


def load_draft(name: str, device: str, vocabulary: int, *, allow_download: bool, counters: Counter[str]) -> TextCore:
    """The language model of a smaller model with the same tokens. Raises ModelUnusable."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    found = resolve(name, allow_download=allow_download)
    dtype = torch.float32 if torch.device(device).type == "cpu" else torch.bfloat16
    try:
        config = AutoConfig.from_pretrained(found.directory, local_files_only=True)
        kind = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
        model: Any = kind.from_pretrained(found.directory, dtype=dtype, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelUnusable(f"the draft model {name} cannot be loaded: {error}") from error
    model = model.to(device).eval().requires_grad_(False)
    base = getattr(model, "model", None)
    text = getattr(base, "text_model", None) or getattr(base, "language_model", None) or base
    if text is None:
        raise ModelUnusable(f"{type(model).__name__} is of no class that is served here as a draft")
    core = TextCore(text, model.lm_head, torch.device(device), counters)
    if core.vocabulary != vocabulary:
        raise ModelUnusable(f"the draft model {name} has {core.vocabulary} tokens, not {vocabulary}")
    return core
