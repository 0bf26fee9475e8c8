"""tiny.en as a PyTorch checkpoint in OpenAI's layout, for servers that read no CTranslate2 folder."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from speech.whisper.weights import Checkpoint, load

_LINEAR = {"weight": "weight", "bias": "bias"}
_NORM = {"gamma": "weight", "beta": "bias"}


def write(model: Path, into: Path) -> Path:
    """The file made of the CTranslate2 folder `model`; one that is there already is kept."""
    file = into / "tiny.en.pt"
    if not file.exists():
        into.mkdir(parents=True, exist_ok=True)
        found = load(model)
        sizes = {
            "n_mels": found.mels, "n_audio_ctx": len(found.tensors["encoder/position_encodings/encodings"]),
            "n_audio_state": found.dim, "n_audio_head": found.heads, "n_audio_layer": found.encoder_layers,
            "n_vocab": found.vocabulary, "n_text_ctx": len(found.tensors["decoder/position_encodings/encodings"]),
            "n_text_state": found.dim, "n_text_head": found.heads, "n_text_layer": found.decoder_layers,
        }  # fmt: skip
        torch.save({"dims": sizes, "model_state_dict": renamed(found)}, file)
    return file


def alignment_heads(model: Path) -> str:
    """The heads that follow the audio, as Whisper's own table has them: a mask, packed, in base 85."""
    found = load(model)
    mask = np.zeros((found.decoder_layers, found.heads), bool)
    for layer, head in found.alignment_heads:
        mask[layer, head] = True
    return base64.b85encode(gzip.compress(mask.tobytes(), mtime=0)).decode()


def renamed(found: Checkpoint) -> dict[str, Tensor]:
    """The variables under the names of OpenAI's modules, with query, key and value apart."""
    old, new = found.tensors, dict[str, Tensor]()

    def put(source: str, target: str, names: dict[str, str]) -> None:
        for one, other in names.items():
            new[f"{target}.{other}"] = old[f"{source}/{one}"].clone()

    def attention(source: str, target: str, *, crossed: bool) -> None:
        put(f"{source}/layer_norm", f"{target}_ln", _NORM)
        first = "linear_0 linear_1" if crossed else "linear_0"
        for kind in _LINEAR:
            joined = torch.cat([old[f"{source}/{name}/{kind}"] for name in first.split()])
            for part, values in zip(("query", "key", "value"), joined.chunk(3), strict=True):
                if (part, kind) != ("key", "bias"):  # which is zero, and not there
                    new[f"{target}.{part}.{kind}"] = values.clone()
        put(f"{source}/linear_{len(first.split())}", f"{target}.out", _LINEAR)

    for side, layers in (("encoder", found.encoder_layers), ("decoder", found.decoder_layers)):
        new[f"{side}.positional_embedding"] = old[f"{side}/position_encodings/encodings"].clone()
        put(f"{side}/layer_norm", "encoder.ln_post" if side == "encoder" else "decoder.ln", _NORM)
        for n in range(layers):
            source, target = f"{side}/layer_{n}", f"{side}.blocks.{n}"
            attention(f"{source}/self_attention", f"{target}.attn", crossed=False)
            if side == "decoder":
                attention(f"{source}/attention", f"{target}.cross_attn", crossed=True)
            put(f"{source}/ffn/layer_norm", f"{target}.mlp_ln", _NORM)
            put(f"{source}/ffn/linear_0", f"{target}.mlp.0", _LINEAR)
            put(f"{source}/ffn/linear_1", f"{target}.mlp.2", _LINEAR)
    new["decoder.token_embedding.weight"] = old["decoder/embeddings/weight"].clone()
    put("encoder/conv1", "encoder.conv1", _LINEAR)
    put("encoder/conv2", "encoder.conv2", _LINEAR)
    return new
