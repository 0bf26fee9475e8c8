"""What the files of a model say about it, in sentence-transformers' form: modules, pooling, prompts, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vision_text.models import ModelUnusable, read_json

_LEGACY = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_lasttoken": "lasttoken",
}
POOLINGS = tuple(_LEGACY.values())
QUESTION, DOCUMENT = ("query", "search_query"), ("document", "passage", "corpus", "search_document")
"""Prompts of these names make a pair: what is asked with the one is found with the other."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`transformer`: the directory with config, weights and tokeniser. `dense`: directories of linear layers after
    pooling. `most_tokens`: of a text, special ones included; None: what the model's positions allow. `prompts` by name,
    `default_prompt` the text put before everything. `sizes`: what vectors may be cut to."""

    transformer: Path
    config: Mapping[str, Any]
    pooling: tuple[str, ...] = ("mean",)
    pool_prompt: bool = True
    dense: tuple[Path, ...] = ()
    normalise: bool = False
    most_tokens: int | None = None
    prompts: Mapping[str, str] | None = None
    default_prompt: str = ""
    sizes: tuple[int, ...] = ()

    def prompt(self, asked: str) -> str:
        """The text of a prompt: one of the model's names, "" for its default, or a text itself."""
        return (self.prompts or {}).get(asked, asked) if asked else self.default_prompt

    def prompt_space(self, asked: str) -> str:
        """How a space names it: prompts of one pair make one space."""
        prompts = self.prompts or {}
        question = next((prompts[name] for name in QUESTION if name in prompts), None)
        document = next((prompts[name] for name in DOCUMENT if name in prompts), None)
        if asked in (*QUESTION, *DOCUMENT) and asked in prompts and question is not None and document is not None:
            return f"question {question!r}, document {document!r}"
        return self.prompt(asked)


def read_layout(directory: Path) -> Layout:
    """Raises ModelUnusable for what cannot be computed here."""
    modules = read_json(directory / "modules.json") or [{"type": "Transformer", "path": ""}, {"type": "Pooling"}]
    own = read_json(directory / "config_sentence_transformers.json")
    first, *rest = modules
    if str(first["type"]).rpartition(".")[2] != "Transformer":
        raise ModelUnusable(f"{directory}: its first module is a {first['type']}; only transformers are computed here")
    transformer = directory / first.get("path", "")
    fields: dict[str, Any] = {}
    dense = []
    for module in rest:
        kind, path = str(module["type"]).rpartition(".")[2], directory / module.get("path", "")
        if kind == "Pooling":
            fields |= _pooling(read_json(path / "config.json") if module.get("path") else {}, directory)
        elif kind == "Dense":
            dense.append(path)
        elif kind == "Normalize":
            fields["normalise"] = True
        elif kind != "Dropout":
            raise ModelUnusable(f"{directory}: its module {kind} is not computed here")
    config = read_json(transformer / "config.json")
    if not config:
        raise ModelUnusable(f"{transformer} has no config.json")
    prompts = {name: text for name, text in (own.get("prompts") or {}).items() if text}
    return Layout(
        transformer=transformer,
        config=config,
        dense=tuple(dense),
        most_tokens=_most_tokens(transformer, config),
        prompts=prompts,
        default_prompt=prompts.get(own.get("default_prompt_name") or "", ""),
        sizes=tuple(sorted({int(n) for source in (own, config) for n in source.get("matryoshka_dimensions") or ()})),
        **fields,
    )


def _pooling(config: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    modes = config.get("pooling_mode") or [mode for name, mode in _LEGACY.items() if config.get(name)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if config.get("pooling_mode_weightedmean_tokens"):
        modes.append("weightedmean")
    if unknown := [mode for mode in modes if mode not in POOLINGS]:
        raise ModelUnusable(f"{directory}: its pooling {unknown[0]} is not computed here")
    return {"pooling": tuple(modes), "pool_prompt": bool(config.get("include_prompt", True))}


def _most_tokens(transformer: Path, config: Mapping[str, Any]) -> int | None:
    """As sentence-transformers has it: its own setting, else what both the positions and the tokeniser allow."""
    own = read_json(transformer / "sentence_bert_config.json").get("max_seq_length")
    said = read_json(transformer / "tokenizer_config.json").get("model_max_length")
    most = [int(n) for n in (config.get("max_position_embeddings"), said) if n and n < 1 << 30]
    return int(own) if own else min(most) if most else None
