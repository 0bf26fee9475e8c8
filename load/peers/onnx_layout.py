"""tiny.en as the two ONNX files and the list of tokens that sherpa-onnx reads Whisper from."""

from __future__ import annotations

import base64
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch
import torch.nn.functional as F
from faster_whisper.tokenizer import Tokenizer
from tokenizers import Tokenizer as Words
from torch import Tensor, nn

from load.peers.checkpoint import renamed
from load.peers.ggml import tokens
from speech.whisper.weights import Checkpoint, load

_FRAMES = 3_000
_OPSET = 17


def write(model: Path, into: Path) -> tuple[Path, Path, Path]:
    """(encoder, decoder, tokens) made of the CTranslate2 folder `model`, in single precision; kept when there."""
    encoder, decoder, words = (into / f"tiny.en-{name}" for name in ("encoder.onnx", "decoder.onnx", "tokens.txt"))
    if not words.exists():
        into.mkdir(parents=True, exist_ok=True)
        found = load(model)
        weights = {name: values.float() for name, values in renamed(found).items()}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using len")  # sizes of weights, which are constants
            _export(found, weights, encoder, decoder)
        marked: Any = onnx.load(str(encoder))
        for key, value in _facts(found, model).items():
            marked.metadata_props.add(key=key, value=str(value))
        onnx.save(marked, str(encoder))
        lines = (f"{base64.b64encode(word).decode()} {number}\n" for number, word in enumerate(tokens(model)))
        words.write_text("".join(lines), encoding="ascii")
    return encoder, decoder, words


class Encoder(nn.Module):
    """Log-mel (1, mels, frames) to keys and values of every decoder layer, each (layers, 1, frames / 2, dim)."""

    def __init__(self, found: Checkpoint, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.found, self.w = found, weights

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        w, heads = self.w, self.found.heads
        x = F.gelu(F.conv1d(mel, w["encoder.conv1.weight"], w["encoder.conv1.bias"], padding=1))
        x = F.gelu(F.conv1d(x, w["encoder.conv2.weight"], w["encoder.conv2.bias"], stride=2, padding=1))
        x = x.permute(0, 2, 1)
        x = x + w["encoder.positional_embedding"][: x.shape[1]]
        for n in range(self.found.encoder_layers):
            name = f"encoder.blocks.{n}"
            y = _norm(w, f"{name}.attn_ln", x)
            keys, values = (_linear(w, f"{name}.attn.{kind}", y) for kind in ("key", "value"))
            x = x + _attend(w, f"{name}.attn", y, keys, values, heads)
            x = _feed(w, name, x)
        x = _norm(w, "encoder.ln_post", x)
        layers = [f"decoder.blocks.{n}.cross_attn" for n in range(self.found.decoder_layers)]
        return (
            torch.stack([_linear(w, f"{name}.key", x) for name in layers]),
            torch.stack([_linear(w, f"{name}.value", x) for name in layers]),
        )


class Decoder(nn.Module):
    """Tokens (1, n) behind `offset` others to logits (1, n, vocabulary), and the keys and values with theirs."""

    def __init__(self, found: Checkpoint, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.found, self.w = found, weights

    def forward(
        self, said: Tensor, keys: Tensor, values: Tensor, cross_keys: Tensor, cross_values: Tensor, offset: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        w, heads = self.w, self.found.heads
        start, end = offset[0], offset[0] + said.shape[1]
        x = w["decoder.token_embedding.weight"][said] + w["decoder.positional_embedding"][start:end]
        size = len(w["decoder.positional_embedding"])
        mask = torch.full((size, size), -torch.inf).triu(1)[start:end, :end]
        new_keys, new_values = [], []
        for n in range(self.found.decoder_layers):
            name = f"decoder.blocks.{n}"
            y = _norm(w, f"{name}.attn_ln", x)
            own = [_linear(w, f"{name}.attn.{kind}", y) for kind in ("key", "value")]
            k, v = (torch.cat([old[n][:, :start], new, old[n][:, end:]], 1)
                    for old, new in zip((keys, values), own, strict=True))  # fmt: skip
            new_keys.append(k)
            new_values.append(v)
            x = x + _attend(w, f"{name}.attn", y, k[:, :end], v[:, :end], heads, mask)
            y = _norm(w, f"{name}.cross_attn_ln", x)
            x = x + _attend(w, f"{name}.cross_attn", y, cross_keys[n], cross_values[n], heads)
            x = _feed(w, name, x)
        logits = _norm(w, "decoder.ln", x) @ w["decoder.token_embedding.weight"].T
        return logits, torch.stack(new_keys), torch.stack(new_values)


def _linear(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def _norm(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, w[f"{name}.weight"].shape, w[f"{name}.weight"], w[f"{name}.bias"])


def _feed(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x + _linear(w, f"{name}.mlp.2", F.gelu(_linear(w, f"{name}.mlp.0", _norm(w, f"{name}.mlp_ln", x))))


def _attend(
    w: dict[str, Tensor], name: str, x: Tensor, keys: Tensor, values: Tensor, heads: int, mask: Tensor | None = None
) -> Tensor:
    """Multi-head attention; all are (1, n, dim)."""
    apart = [one.unflatten(2, (heads, -1)).transpose(1, 2) for one in (_linear(w, f"{name}.query", x), keys, values)]
    query, key, value = apart
    weight = query @ key.transpose(2, 3) * (len(w[f"{name}.query.bias"]) / heads) ** -0.5
    if mask is not None:
        weight = weight + mask
    return _linear(w, f"{name}.out", (weight.softmax(-1) @ value).transpose(1, 2).flatten(2))


def _export(found: Checkpoint, weights: dict[str, Tensor], encoder: Path, decoder: Path) -> None:
    mel = torch.zeros(1, found.mels, _FRAMES)
    first = Encoder(found, weights)
    cross = first(mel)
    size = len(weights["decoder.positional_embedding"])
    cache = torch.zeros(found.decoder_layers, 1, size, found.dim)
    names = ["n_layer_cross_k", "n_layer_cross_v"]
    torch.onnx.export(
        first, (mel,), str(encoder), dynamo=False, opset_version=_OPSET, input_names=["mel"], output_names=names,
        dynamic_axes={"mel": {2: "frames"}, **{name: {2: "half"} for name in names}},
    )  # fmt: skip
    own = ["n_layer_self_k_cache", "n_layer_self_v_cache"]
    inputs = ["tokens", *(f"in_{name}" for name in own), *names, "offset"]
    torch.onnx.export(
        Decoder(found, weights), (torch.zeros(1, 3, dtype=torch.int64), cache, cache, *cross, torch.tensor([2])),
        str(decoder), dynamo=False, opset_version=_OPSET, input_names=inputs,
        output_names=["logits", *(f"out_{name}" for name in own)],
        dynamic_axes={"tokens": {1: "count"}, **{name: {2: "half"} for name in names}},
    )  # fmt: skip


def _facts(found: Checkpoint, model: Path) -> dict[str, object]:
    """What the server reads from the encoder's metadata."""
    words = Words.from_file(str(model / "tokenizer.json"))
    kept = Tokenizer(words, multilingual=False)
    size = len(found.tensors["decoder/position_encodings/encodings"])
    return {
        "model_type": "whisper-tiny.en", "version": 1, "n_mels": found.mels, "n_audio_ctx": _FRAMES // 2,
        "n_audio_state": found.dim, "n_audio_head": found.heads, "n_audio_layer": found.encoder_layers,
        "n_vocab": found.vocabulary, "n_text_ctx": size, "n_text_state": found.dim, "n_text_head": found.heads,
        "n_text_layer": found.decoder_layers, "sot_sequence": kept.sot, "all_language_tokens": kept.sot + 1,
        "all_language_codes": "en", "sot": kept.sot, "sot_index": 0, "eot": kept.eot,
        "blank_id": kept.encode(" ")[0], "is_multilingual": 0, "no_speech": kept.no_speech,
        "non_speech_tokens": ",".join(map(str, kept.non_speech_tokens)), "transcribe": kept.transcribe,
        "translate": kept.translate, "sot_prev": kept.sot_prev, "sot_lm": kept.sot_lm,
        "no_timestamps": kept.no_timestamps,
    }  # fmt: skip
