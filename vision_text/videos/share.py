"""How much of a step is attention, against length and resolution: what decides which options are worth trying.

Attention's product grows with the square of the tokens, everything else with their number, so a short small clip and a
long large one have different bottlenecks in one and the same model.

    python -m vision_text.videos.share MODEL [--sizes 8x24x24,16x48x48]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from vision_text.numerics.linear import blocks_of
from vision_text.parallel.context import tokens_of


@dataclass(frozen=True, slots=True)
class Share:
    """One size of clip. `frames`, `height`, `width` of the latents; `tokens` with those of the text; `seconds` of one
    call of the transformer, the median of several. `product` is the share of the softmax and its two products in it,
    `attention` the same with the projections around them."""

    frames: int
    height: int
    width: int
    tokens: int
    seconds: float
    product: float
    attention: float

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


class _Clock(TorchFunctionMode):
    """Seconds in attention while entered. On an accelerator each reading waits for it, which is why the whole step is
    timed apart from this."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device, self.product, self.attention, self._began = device, 0.0, 0.0, 0.0

    def now(self) -> float:
        """Seconds, with everything done that was asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is not functional.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        began = self.now()
        made = func(*args, **(kwargs or {}))
        self.product += self.now() - began
        return made

    def enter(self, _module: nn.Module, _args: Any) -> None:
        """Before a module of attention."""
        self._began = self.now()

    def leave(self, _module: nn.Module, _args: Any, _output: Any) -> None:
        """After it."""
        self.attention += self.now() - self._began


def share_of_attention(model: Any, frames: int, height: int, width: int, *, repeats: int = 3) -> Share:
    """Time a transformer of clips on random latents of this size, and the attention in it: `repeats` calls of each,
    after one to warm up, turn by turn so that a change of the machine's speed meets both."""
    device, config = next(model.parameters()).device, model.config
    inputs = _inputs(model, frames, height, width)
    clock = _Clock(device)
    whole: list[float] = []
    inside: list[tuple[float, float]] = []
    with torch.inference_mode():
        model(**inputs)
        for _ in range(repeats):
            began = clock.now()
            model(**inputs)
            whole.append(clock.now() - began)
            clock.product = clock.attention = 0.0
            with _watched(model, clock):
                began = clock.now()
                model(**inputs)
                took = clock.now() - began
            inside.append((clock.product / took, clock.attention / took))
    product, attention = (statistics.median(values) for values in zip(*inside, strict=True))
    tokens = tokens_of(config, inputs["hidden_states"]) + int(config.max_text_seq_length)
    return Share(frames, height, width, tokens, statistics.median(whole), product, attention)


@contextmanager
def _watched(model: nn.Module, clock: _Clock) -> Iterator[None]:
    modules = [module for block in blocks_of(model).values() for module in block.modules()]
    hooks = []
    for module in modules:
        if hasattr(module, "processor"):
            hooks += [module.register_forward_pre_hook(clock.enter), module.register_forward_hook(clock.leave)]
    try:
        with clock:
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _inputs(model: Any, frames: int, height: int, width: int) -> dict[str, Any]:
    config, generator = model.config, torch.Generator().manual_seed(0)
    weight = next(model.parameters())

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(weight.device, weight.dtype)

    rotary = None
    if config.use_rotary_positional_embeddings:
        # Any angles cost the same; these are of as many positions as there are tokens.
        tokens = tokens_of(config, torch.empty(1, frames, config.in_channels, height, width, device="meta"))
        angles = torch.linspace(0, 1, tokens, device=weight.device)[:, None].expand(-1, config.attention_head_dim)
        rotary = angles.cos(), angles.sin()
    return {
        "hidden_states": noise(1, frames, config.in_channels, height, width),
        "encoder_hidden_states": noise(1, config.max_text_seq_length, config.text_embed_dim),
        "timestep": torch.full((1,), 500, device=weight.device),
        "image_rotary_emb": rotary,
        "return_dict": False,
    }


def table(shares: Sequence[Share]) -> str:
    """For a terminal."""
    rows = ["frames x height x width   tokens   step s   product   attention"]
    rows += [
        f"{f'{one.frames} x {one.height} x {one.width}':>23}  {one.tokens:>7,}  {one.seconds:>7.4f}  "
        f"{one.product:>8.0%}  {one.attention:>10.0%}"
        for one in shares
    ]
    return "\n".join(rows)


def main() -> None:
    """As the module says."""
    from vision_text.denoise.loading import read_pipeline

    asked = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("model")
    asked.add_argument(
        "--sizes", default="8x12x12,8x24x24,16x24x24,16x48x48", help="frames x height x width of latents"
    )
    asked.add_argument("--device", default="cpu")
    asked.add_argument("--download", action="store_true")
    given = asked.parse_args()
    torch.set_num_threads(1)
    _, pipeline = read_pipeline(given.model, allow_download=given.download)
    model = pipeline.transformer.to(given.device).eval()
    sizes = [tuple(map(int, size.split("x"))) for size in given.sizes.split(",")]
    sys.stdout.write(table([share_of_attention(model, *size) for size in sizes]) + "\n")


if __name__ == "__main__":
    main()
