"""Reads published models: a Llama folder (config.json, *.safetensors) and a SNAC folder (config.json, weights).

Weights are checked against the sizes in the configuration, by name and shape, before anything runs. They are read
straight to the device, so no second copy stays in memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from speech.models.errors import ModelCorrupt
from speech.voices.codec.layout import LEVELS
from speech.voices.codec.llama import LlamaConfig, RopeScaling
from speech.voices.codec.snac import SnacConfig

_STRIDES = tuple(LEVELS[-1] // level for level in LEVELS)


def llama_config(folder: Path) -> LlamaConfig:
    """The language model's sizes. Raises ModelCorrupt."""
    raw = _json(folder / "config.json")
    kind, activation = raw.get("model_type"), raw.get("hidden_act", "silu")
    if kind != "llama" or activation != "silu" or raw.get("attention_bias") or raw.get("mlp_bias"):
        raise ModelCorrupt(f"{folder} is no Llama model: model_type {kind!r}, hidden_act {activation!r}")
    try:
        # Newer files keep everything rotary in one place.
        rope = raw.get("rope_parameters") or {**(raw.get("rope_scaling") or {}), "rope_theta": raw.get("rope_theta")}
        heads, dim = int(raw["num_attention_heads"]), int(raw["hidden_size"])
        return LlamaConfig(
            dim=dim,
            layers=int(raw["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(raw.get("num_key_value_heads") or heads),
            head=int(raw.get("head_dim") or dim // heads),
            ffn=int(raw["intermediate_size"]),
            vocabulary=int(raw["vocab_size"]),
            positions=int(raw["max_position_embeddings"]),
            eps=float(raw["rms_norm_eps"]),
            theta=float(rope.get("rope_theta") or 10000.0),
            scaling=_scaling(rope, folder),
            tied=bool(raw.get("tie_word_embeddings", False)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelCorrupt(f"config.json in {folder} lacks what a Llama model needs: {error}") from error


def llama_weights(folder: Path, config: LlamaConfig, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """The language model's weights on `device`. Raises ModelCorrupt."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        parts = {str(name) for name in dict(_json(index).get("weight_map", {})).values()}
        files = [folder / Path(name).name for name in sorted(parts)]
    else:
        files = [folder / "model.safetensors"]
    shapes = config.shapes()
    found: dict[str, Tensor] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt", device=device) as weights:
                for name in set(weights.keys()) & shapes.keys():
                    found[name] = weights.get_tensor(name).to(dtype)
        except (OSError, SafetensorError) as error:
            raise ModelCorrupt(f"{file} can't be read: {error}") from error
    _check(found, shapes, folder)
    return found


def snac_config(folder: Path) -> SnacConfig:
    """The codec's sizes. Raises ModelCorrupt, also for a codec whose frames are not 1 + 2 + 4 codes."""
    raw = _json(folder / "config.json")
    try:
        config = SnacConfig(
            rate=int(raw["sampling_rate"]),
            latent=int(raw.get("latent_dim") or int(raw["encoder_dim"]) << len(raw["encoder_rates"])),
            dim=int(raw["decoder_dim"]),
            rates=tuple(int(rate) for rate in raw["decoder_rates"]),
            strides=tuple(int(stride) for stride in raw["vq_strides"]),
            codebook=int(raw["codebook_size"]),
            codebook_dim=int(raw["codebook_dim"]),
            noise=bool(raw["noise"]),
            depthwise=bool(raw["depthwise"]),
        )
        attention = raw.get("attn_window_size")
    except (KeyError, TypeError, ValueError) as error:
        raise ModelCorrupt(f"config.json in {folder} lacks what a SNAC codec needs: {error}") from error
    if config.strides != _STRIDES or attention is not None:
        raise ModelCorrupt(f"{folder} is no codec of {' + '.join(map(str, LEVELS))} codes a frame without attention")
    return config


def snac_weights(folder: Path, config: SnacConfig, device: str) -> dict[str, Tensor]:
    """The decoder's float32 weights on `device`, weight norm folded in. Raises ModelCorrupt."""
    file = next(
        (folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).is_file()), None
    )
    if file is None:
        raise ModelCorrupt(f"the codec {folder} has neither model.safetensors nor pytorch_model.bin")
    try:
        if file.suffix == ".bin":
            raw: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
        else:
            with safe_open(file, framework="pt", device="cpu") as weights:
                raw = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ModelCorrupt(f"{file} can't be read: {error}") from error
    shapes = config.shapes()
    found = {name: _folded(raw, name) for name in shapes}
    _check({name: value for name, value in found.items() if value is not None}, shapes, folder)
    return {name: value.float().to(device) for name, value in found.items() if value is not None}


def _folded(raw: Mapping[str, Tensor], name: str) -> Tensor | None:
    """A weight; one under weight norm is stored as length and direction, under the older names or the newer."""
    if name in raw:
        return raw[name]
    base = name.removesuffix("weight")
    for length, direction in (
        (f"{base}parametrizations.weight.original0", f"{base}parametrizations.weight.original1"),
        (f"{base}weight_g", f"{base}weight_v"),
    ):
        if length in raw and direction in raw:
            v = raw[direction].float()
            norm: Tensor = torch.linalg.vector_norm(v, dim=(1, 2), keepdim=True)
            return v * (raw[length].float() / norm)
    return None


def _check(found: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], folder: Path) -> None:
    for name, shape in shapes.items():
        if name not in found:
            raise ModelCorrupt(f"the model in {folder} has no weight {name}")
        if tuple(found[name].shape) != shape:
            raise ModelCorrupt(f"{name} in {folder} is {tuple(found[name].shape)} and should be {shape}")


def _scaling(rope: Mapping[str, Any], folder: Path) -> RopeScaling | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise ModelCorrupt(f"the model in {folder} has rotary positions of a kind that is not known here: {kind}")
    return RopeScaling(
        factor=float(rope["factor"]),
        low=float(rope["low_freq_factor"]),
        high=float(rope["high_freq_factor"]),
        original=int(rope["original_max_position_embeddings"]),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelCorrupt(f"{path} can't be read: {error}") from error
    if not isinstance(read, dict):
        raise ModelCorrupt(f"{path} is not a JSON object")
    return read
