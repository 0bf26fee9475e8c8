"""Whisper's encoder for audio shorter than its window: frozen padding, and increments while an utterance grows.

Whisper always attends over 1,500 frames (30 s). The padding after the speech is the same silence every time, so its
keys, values and final states are computed once ("frozen") per level of that silence, and only the frames of the
speech are ever run: their queries attend over their own keys and values and the frozen ones, of which those that are
alike count as one (groups.py). In a final, a few frames of the padding are run as well, which tell how the speech
changes the others (probes.py). While an utterance grows, the frames already encoded stay as they are but for the
newest (`REDO`), so that a partial costs the same at second 1 and at second 25. Several utterances run together: their
rows are packed for the dense layers, and each attends over its own keys, so nothing is padded and no utterance sees
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from speech.dense import dense
from speech.whisper.features import MEL_FRAMES
from speech.whisper.groups import BLOCK, GROUPS, Groups
from speech.whisper.probes import Probes
from speech.whisper.weights import Checkpoint

FRAMES = MEL_FRAMES // 2
"""Encoder frames of a window, 20 ms each."""

MARGIN = 10
"""Frames of silence encoded after the speech (0.2 s)."""

REDO = 75
"""Frames re-encoded when an utterance has grown (1.5 s): what lies further back hardly hears what is new."""

_CONTEXT = 4
"""Encoder frames around a piece that its convolutions look at (two would do)."""

GROUPED = FRAMES // BLOCK * GROUPS
"""Keys that stand in an utterance's buffer before its first frame: the groups of the whole frozen window."""

_QUERIES = 128
"""Queries of one attention product in bfloat16."""

_FLOOR_STEP = 0.25
_FLOORS = (-1.5, -0.25)


@dataclass(slots=True)
class Frozen:
    """A window of nothing: (layers, 2, heads, groups + 1500, head) keys and values, and (1500, dim) final states.

    `weight` (layers, heads, groups + 1500) is what a score gains where a key stands for several frames; `middle`
    (layers, heads, groups) where in the window they are.
    """

    kv: Tensor
    states: Tensor
    weight: Tensor
    middle: Tensor


@dataclass(slots=True)
class Encoding:
    """Frames [lo, hi) of one utterance on their way through the layers. `x` is (hi - lo, dim), then the probes' rows.

    `kv` is the utterance's own buffer (Encoder.buffer), kept between partials; None for a final, which needs no past
    but may have probes of its padding: `shares` (layers, heads, groups behind the speech, probes) is what each weighs.
    """

    x: Tensor
    lo: int
    hi: int
    floor: float
    kv: Tensor | None = None
    probes: Probes | None = None
    shares: Tensor | None = None
    layer: int = 0
    part: Part | None = None


@dataclass(slots=True)
class Keys:
    """Keys and values (heads, keys, head). `weight` (heads, keys): see Frozen; None when every key is a frame."""

    k: Tensor
    v: Tensor
    weight: Tensor | None = None


@dataclass(slots=True)
class Part:
    """A layer that is under way: queries of all rows (heads, rows, head), and how many rows are through.

    The speech looks at `keys`, `probed` (the rows from `speech` on) at every frame by itself: silence looks closely
    at its neighbours, and what grouping them changes would pass for something that the probes have heard.
    """

    q: Tensor
    keys: Keys
    speech: int
    probed: Keys | None = None
    done: int = 0


def floor_of(value: float) -> float:
    """The level of silence whose frozen window serves an utterance with this mel floor."""
    low, high = _FLOORS
    return min(high, max(low, round(round(value / _FLOOR_STEP) * _FLOOR_STEP, 3)))


def floors() -> list[float]:
    """All levels of silence that can be asked for."""
    low, high = _FLOORS
    return [round(low + n * _FLOOR_STEP, 3) for n in range(round((high - low) / _FLOOR_STEP) + 1)]


def frames_of(samples: int) -> int:
    """Encoder frames to compute for this many samples at 16 kHz."""
    return min(FRAMES, -(-samples // 320) + MARGIN)


class Encoder:
    """The encoder of one checkpoint on one device."""

    def __init__(self, weights: Checkpoint, precision: str, device: str, probes: int = 0) -> None:
        w = {name: t.to(device) for name, t in weights.tensors.items() if name.startswith("encoder/")}
        parts = ("self_attention/linear_0", "self_attention/linear_1", "ffn/linear_0", "ffn/linear_1")
        self.layers, self.heads, self.dim, self.mels = (
            weights.encoder_layers,
            weights.heads,
            weights.dim,
            weights.mels,
        )
        self.device = device
        self.probes = probes
        self._short = precision == "bfloat16"
        self.kv_dtype = torch.bfloat16 if self._short else torch.float32
        """Of the keys and values that an Encoding keeps."""
        self._w = {name: t for name, t in w.items() if not name.rpartition("/")[0].endswith(parts)}
        self._positions = w["encoder/position_encodings/encodings"]
        self._dense = {
            f"{i}/{name}": dense(
                precision,
                w[f"encoder/layer_{i}/{name}/weight"],
                w.get(f"encoder/layer_{i}/{name}/bias"),
                keep=self._short and name.endswith("linear_0"),  # into the attention, and the activation
            )
            for i in range(self.layers)
            for name in parts
        }
        self._frozen: dict[float, Frozen] = {}

    def stem(self, mel: Tensor, begin: int, lo: int, hi: int) -> Tensor:
        """(hi - lo, dim) rows from normalised mel (mels, n) that starts at encoder frame `begin` <= lo."""
        w = self._w
        x = mel.to(self.device)[None]
        x = F.gelu(F.conv1d(x, w["encoder/conv1/weight"], w["encoder/conv1/bias"], padding=1))
        x = F.gelu(F.conv1d(x, w["encoder/conv2/weight"], w["encoder/conv2/bias"], stride=2, padding=1))
        return x[0].t()[lo - begin : hi - begin] + self._positions[lo:hi]

    def whole(self, x: Tensor, mel_floor: float, floor: float) -> Encoding:
        """The encoding of a whole utterance from its rows `x` (n, dim), with probes of the padding behind them."""
        n = len(x)
        if n == FRAMES or not self.probes:
            return Encoding(x, 0, n, floor)
        probes = Probes.over(n, FRAMES, self.probes, self.device)
        width = 2 * _CONTEXT + 1
        silence = torch.full((self.mels, 2 * width), mel_floor)
        still = self.stem(silence, 0, _CONTEXT, _CONTEXT + 1) - self._positions[_CONTEXT]
        shares = probes.at(self.frozen(floor).middle[:, :, self._behind(n)[0] :])
        rows = torch.cat([x, still + self._positions[probes.positions]])
        return Encoding(rows, 0, n, floor, probes=probes, shares=shares.to(self.kv_dtype))

    def buffer(self, floor: float) -> Tensor:
        """Room for an utterance's keys and values, laid out as Frozen.kv, with the groups of its silence.

        Its frames are not filled, so that memory is only taken up as the utterance grows.
        """
        frozen = self.frozen(floor).kv
        kv = torch.empty_like(frozen)
        kv[:, :, :, :GROUPED] = frozen[:, :, :, :GROUPED]
        return kv

    @staticmethod
    def context(lo: int, hi: int) -> tuple[int, int]:
        """The encoder frames whose mel the stem needs to give rows [lo, hi)."""
        return max(0, lo - _CONTEXT), min(FRAMES, hi + _CONTEXT)

    def run(self, batch: Sequence[Encoding], layers: int) -> None:
        """Take every encoding of `batch` (all at the same layer) through the next `layers` layers."""
        first = batch[0].layer
        sizes = [len(e.x) for e in batch]
        x = torch.cat([e.x for e in batch])
        for i in range(first, first + layers):
            x = self._layer(i, x, batch, sizes)
        if first + layers == self.layers:
            x = self._norm(x, "encoder/layer_norm")
        for e, rows in zip(batch, x.split(sizes), strict=True):
            e.x, e.layer = rows, first + layers

    def run_rows(self, e: Encoding, rows: int) -> None:
        """Take the next rows of an encoding through its layer: a long utterance gives way to others within a layer."""
        i = e.layer
        if e.part is None:
            e.part = self._part(i, e, self._qkv(i, e.x))
            return
        part, end = e.part, min(e.part.done + rows, len(e.x))
        # In place: the other rows of the layer have their queries, keys and values already.
        e.x[part.done : end] = self._rest(i, e.x[part.done : end], self._attention(part, part.done, end))
        part.done = end
        if end == len(e.x):
            e.layer, e.part = i + 1, None
            if self.finished(e):
                e.x = self._norm(e.x, "encoder/layer_norm")

    def finished(self, e: Encoding) -> bool:
        """Whether `e.x` holds final states."""
        return e.layer == self.layers

    def frozen(self, floor: float) -> Frozen:
        """The frozen window for a floor of the grid (see floor_of); computed on first use, kept for ever."""
        if floor not in self._frozen:
            self._frozen[floor] = self._silence(floor)
        return self._frozen[floor]

    def _silence(self, floor: float) -> Frozen:
        shape = (self.layers, 2, self.heads, GROUPED + FRAMES, self.dim // self.heads)
        kv = torch.empty(shape, dtype=self.kv_dtype, device=self.device)
        mel = torch.full((self.mels, MEL_FRAMES), floor)
        e = Encoding(self.stem(mel, 0, 0, FRAMES), 0, FRAMES, floor, kv)
        self.run([e], self.layers)
        groups = Groups.of(kv[:, :, :, GROUPED:])
        kv[:, :, :, :GROUPED] = groups.means
        return Frozen(kv, e.x, F.pad(groups.weight, (0, FRAMES)).to(self.kv_dtype), groups.middle)

    def _layer(self, i: int, x: Tensor, batch: Sequence[Encoding], sizes: list[int]) -> Tensor:
        parts = [self._part(i, e, rows) for e, rows in zip(batch, self._qkv(i, x).split(sizes), strict=True)]
        mixed = [self._attention(part, 0, size) for part, size in zip(parts, sizes, strict=True)]
        return self._rest(i, x, torch.cat(mixed))

    def _qkv(self, i: int, x: Tensor) -> Tensor:
        return self._dense[f"{i}/self_attention/linear_0"](
            self._norm(x, f"encoder/layer_{i}/self_attention/layer_norm")
        )

    def _rest(self, i: int, x: Tensor, mixed: Tensor) -> Tensor:
        """The layer behind its attention, row by row."""
        x = x + self._dense[f"{i}/self_attention/linear_1"](mixed)
        h = F.gelu(self._dense[f"{i}/ffn/linear_0"](self._norm(x, f"encoder/layer_{i}/ffn/layer_norm")))
        return x + self._dense[f"{i}/ffn/linear_1"](h)

    def _part(self, i: int, e: Encoding, qkv: Tensor) -> Part:
        """One utterance's rows (n, 3 dim) with the keys and values of the silence, its past and itself."""
        q, k, v = qkv.view(-1, 3, self.heads, self.dim // self.heads).permute(1, 2, 0, 3)
        if e.hi == FRAMES and e.kv is None:
            return Part(q, Keys(k, v), len(qkv))
        first, edge = self._behind(e.hi)
        frozen = self._frozen[e.floor] if e.hi < FRAMES else None
        weight = None if frozen is None else frozen.weight[i, :, first : GROUPED + edge]
        if e.kv is not None:
            kv = e.kv[i]
            kv[0, :, GROUPED + e.lo : GROUPED + e.hi] = k
            kv[1, :, GROUPED + e.lo : GROUPED + e.hi] = v
            if frozen is not None:
                seam = slice(GROUPED + e.hi, GROUPED + edge)
                kv[:, :, seam] = frozen.kv[i, :, :, seam]
            k, v = kv[:, :, first : GROUPED + edge]
            return Part(q, Keys(k, v, weight), len(qkv))
        assert frozen is not None
        still_k, still_v = frozen.kv[i]
        keys = Keys(self._padded(i, e, k, still_k), self._padded(i, e, v, still_v), weight)
        if e.probes is None:
            return Part(q, keys, len(qkv))
        frames = slice(GROUPED, None)
        probed = Keys(e.probes.pad(k, still_k[:, frames]), e.probes.pad(v, still_v[:, frames]))
        return Part(q, keys, e.hi, probed)

    @staticmethod
    def _behind(hi: int) -> tuple[int, int]:
        """(the first group, and the first frame) of the blocks that lie wholly behind the frames [0, hi)."""
        block = -(-hi // BLOCK)
        return block * GROUPS, block * BLOCK

    def _padded(self, i: int, e: Encoding, own: Tensor, frozen: Tensor) -> Tensor:
        """Keys or values (heads, keys, head) of a final: of groups of silence, of its own rows, of single frames."""
        first, edge = self._behind(e.hi)
        groups, single = frozen[:, first:GROUPED], frozen[:, GROUPED + e.hi : GROUPED + edge]
        if e.probes is not None and e.shares is not None:
            heard = e.probes.heard(own, frozen[:, GROUPED:])
            groups = groups + e.shares[i] @ heard
            single = single + e.probes.weights[: edge - e.hi].to(heard.dtype) @ heard
        return torch.cat([groups, own[:, : e.hi], single], 1)

    def _attention(self, part: Part, begin: int, end: int) -> Tensor:
        """(end - begin, dim): what rows [begin, end) of a layer take from the keys that they look at."""
        attention = _short_attention if self._short else _fused_attention
        cut = min(max(begin, part.speech), end)
        out = [attention(part.q[:, begin:cut], part.keys)] if begin < cut else []
        if cut < end and part.probed is not None:
            out.append(attention(part.q[:, cut:end], part.probed))
        return torch.cat(out, 1).transpose(0, 1).reshape(-1, self.dim)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (self.dim,), self._w[name + "/gamma"], self._w[name + "/beta"])


def _fused_attention(q: Tensor, keys: Keys) -> Tensor:
    """Attention (heads, n, head) by torch's fused kernel, which is only taken when there is a dimension for a batch.

    Without one torch multiplies, masks and normalises whole matrices of scores: two and a half times the time.
    """
    mask = None if keys.weight is None else keys.weight[None, :, None].expand(1, -1, q.shape[1], -1)
    return F.scaled_dot_product_attention(q[None], keys.k[None], keys.v[None], mask)[0]


def _short_attention(q: Tensor, keys: Keys) -> Tensor:
    """Attention (heads, n, head) in bfloat16, a block of queries at a time so that its scores stay in the cache.

    On CPUs with bfloat16 arithmetic it takes two thirds of the time of the fused kernel in float32.
    """
    q, k = q * q.shape[-1] ** -0.5, keys.k.transpose(1, 2).contiguous()
    gain = None if keys.weight is None else keys.weight[:, None]
    blocks = q.split(_QUERIES, 1)
    scores = (block @ k if gain is None else torch.baddbmm(gain, block, k) for block in blocks)
    return torch.cat([torch.softmax(one, -1) @ keys.v for one in scores], 1)
