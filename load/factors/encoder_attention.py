"""What the encoder's attention costs: torch's kernel for it, and how many keys of silence it looks at."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from load.factors.encoder_engines import with_encoder
from load.factors.factor import Absent, Base, Factor
from load.factors.live import Engine
from speech.whisper.encoder import FRAMES, GROUPED, Encoder, Part
from speech.whisper.groups import BLOCK, GROUPS


class Singly(Encoder):
    """Every frame of the frozen silence is a key of its own."""

    @staticmethod
    def _behind(hi: int) -> tuple[int, int]:
        return GROUPED, FRAMES


class Unfused(Encoder):
    """Scores as whole matrices, which torch makes of attention without a dimension for a batch."""

    def _attention(self, part: Part, begin: int, end: int) -> Tensor:
        cut = min(max(begin, part.speech), end)
        out = []
        for q, keys in ((part.q[:, begin:cut], part.keys), (part.q[:, cut:end], part.probed)):
            if keys is not None and q.shape[1]:
                mask = None if keys.weight is None else keys.weight[:, None].expand(-1, q.shape[1], -1)
                out.append(F.scaled_dot_product_attention(q, keys.k, keys.v, mask))
        return torch.cat(out, 1).transpose(0, 1).reshape(-1, self.dim)


class Nearest(Encoder):
    """The first layer sees only the six seconds of silence next to the speech."""

    def _part(self, i: int, e: object, qkv: Tensor) -> Part:
        part = super()._part(i, e, qkv)  # type: ignore[arg-type]
        if i == 0 and part.keys.weight is not None:
            first, _ = self._behind(part.speech if part.probed is not None else e.hi)  # type: ignore[attr-defined]
            far = max(0, GROUPED - first - 6 * 50 // BLOCK * GROUPS)
            near = GROUPED - first - far
            for name in ("k", "v", "weight"):
                x = getattr(part.keys, name)
                setattr(part.keys, name, torch.cat([x[:, :near], x[:, near + far :]], 1))
        return part


def _unfused(base: Base) -> Engine:
    if base.precision.encoder != "float32":
        raise Absent("the encoder's attention is in bfloat16 here, which has a way of its own")
    return with_encoder(base, Unfused)


FACTORS = (
    Factor(
        "silence in groups", "encoder", "frozen frames that are alike count as one key",
        lambda base: with_encoder(base, Singly), served=True,
    ),
    Factor("fused attention", "encoder", "torch's fused kernel for attention in float32", _unfused, served=True),
    Factor(
        "less silence at first", "encoder", "the first layer sees six seconds of silence",
        lambda base: with_encoder(base, Nearest),
    ),
)  # fmt: skip
