"""What differs between classes of models that see: how many tokens a picture becomes, and how they are made.

Counts are known from sizes alone, before any pixel is touched; the library's own processors make the pixels' tensors.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vision_text.models import ModelUnusable
from vision_text.vlm.request import Clip, Picture, VisualBudget
from workers.errors import InputTooLarge

Unit = Mapping[str, Tensor]
"""What the encoder takes for one of its steps."""


@dataclass(frozen=True, slots=True)
class Laid:
    """A picture or clip in a prompt: `text` stands for it, in which `tokens` are visual. `how` is all that decides
    what the encoder gets of given pixels, and a part of their name."""

    kind: str
    width: int
    height: int
    tokens: int
    text: str
    how: tuple[Any, ...]
    frames: int = 1
    grid: tuple[int, int, int] = (0, 0, 0)
    interval: float = 1.0


class Family(Protocol):
    """One class of models."""

    media_tokens: frozenset[int]
    placeholders: dict[str, Any]
    clips_as_pictures: bool

    def lay_picture(self, width: int, height: int, budget: VisualBudget) -> Laid: ...

    def lay_clip(self, width: int, height: int, moments: Sequence[float], fps: float, budget: VisualBudget) -> Laid: ...

    def units(self, media: Picture | Clip, laid: Laid) -> list[Unit]: ...

    def encode(self, model: nn.Module, unit: Unit) -> Tensor: ...

    def positions(self, ids: NDArray[np.int64], laid: Sequence[Laid]) -> tuple[Tensor, int]: ...


def read_family(model: Any, processor: Any) -> Family:
    """The family of a model. Raises ModelUnusable."""
    base = getattr(model, "model", None)
    if hasattr(base, "vision_model") and hasattr(base, "connector") and hasattr(processor, "image_seq_len"):
        return Tiled(model, processor)
    if hasattr(base, "visual") and hasattr(base, "get_rope_index"):
        return Gridded(model, processor)
    raise ModelUnusable(
        f"{type(model).__name__} is none of the classes served here: Idefics3 and SmolVLM, or Qwen2-VL and Qwen2.5-VL"
    )


class Tiled:
    """Idefics3 and SmolVLM: a picture is one square tile, or several and a small view of the whole.

    What a budget leaves less than a tile for becomes a smaller tile, which the encoder takes as well.
    """

    def __init__(self, model: Any, processor: Any) -> None:
        self._processor, self._images = processor, processor.image_processor
        vision = model.config.vision_config
        self._cell = vision.patch_size * model.config.scale_factor
        self._tile = min(int(self._images.max_image_size["longest_edge"]), vision.image_size)
        self._image = processor.image_token
        self.media_tokens = frozenset({int(model.config.image_token_id)})
        template = processor.chat_template or getattr(processor.tokenizer, "chat_template", None) or ""
        self.clips_as_pictures = "video" not in template
        self.placeholders = {"picture": self._image, "clip": getattr(processor, "video_token", "<video>")}

    def lay_picture(self, width: int, height: int, budget: VisualBudget) -> Laid:
        side, edge, split = self._chosen(width, height, budget)
        tokens = (side // self._cell) ** 2
        rows = columns = 0
        if split:
            found = {"size": {"longest_edge": edge}, "max_image_size": {"longest_edge": side}}
            tiles, rows, columns = self._images.get_number_of_image_patches(height, width, found)
            if tiles <= 1:
                rows = columns = 0
        tiles = rows * columns + 1
        text = self._sized(tokens).replace_image_token({"rows": [[rows]], "cols": [[columns]]}, 0)
        how = ("tile", side, edge, bool(rows))
        seen = (side * max(columns, 1), side * max(rows, 1))
        return Laid("picture", *seen, tiles * tokens, text, how)

    def _chosen(self, width: int, height: int, budget: VisualBudget) -> tuple[int, int, bool]:
        """The side of a tile, the longest edge, and whether there may be several."""
        most, pixels = budget.tokens_per_image or math.inf, budget.max_pixels or math.inf
        whole = (self._tile // self._cell) ** 2
        edge = int(self._images.size.get("longest_edge") or self._tile)
        if self._images.do_image_splitting:
            while edge > self._tile:
                found = {"size": {"longest_edge": edge}, "max_image_size": {"longest_edge": self._tile}}
                tiles, rows, columns = self._images.get_number_of_image_patches(height, width, found)
                if tiles * whole <= most and max(1, rows * columns) * self._tile**2 <= pixels:
                    return self._tile, edge, True
                edge -= self._tile
        cells = min(self._tile // self._cell, math.isqrt(int(min(most, whole))))
        cells = min(cells, math.isqrt(int(min(pixels, 1e9))) // self._cell)
        side = max(1, cells) * self._cell
        return side, side, False

    def _sized(self, tokens: int) -> Any:
        """The processor, for tiles of so many tokens."""
        if tokens == self._processor.image_seq_len:
            return self._processor
        other = copy.copy(self._processor)
        other.image_seq_len = tokens
        return other

    def lay_clip(self, width: int, height: int, moments: Sequence[float], fps: float, budget: VisualBudget) -> Laid:
        side, _, _ = self._chosen(width, height, VisualBudget((self._tile // self._cell) ** 2).within(budget))
        tokens, frames = (side // self._cell) ** 2, len(moments)
        text = _told(self._processor, tokens, fps, moments)
        return Laid("clip", side, side, frames * tokens, text, ("tile", side, side, False), frames)

    def units(self, media: Picture | Clip, laid: Laid) -> list[Unit]:
        _, side, edge, split = laid.how
        pictures = [media.pixels] if isinstance(media, Picture) else list(media.frames)
        units: list[Unit] = []
        for pixels in pictures:
            made = self._images(
                [pixels], size={"longest_edge": edge}, max_image_size={"longest_edge": side},
                do_image_splitting=split, return_tensors="pt", input_data_format="channels_last",
            )  # fmt: skip
            values, mask = made["pixel_values"][0], made.get("pixel_attention_mask")
            for n, tile in enumerate(values):
                seen = mask[0, n] if mask is not None else torch.ones(tile.shape[-2:], dtype=torch.int64)
                units.append({"pixel_values": tile, "pixel_attention_mask": seen})
        return units

    def encode(self, model: Any, unit: Unit) -> Tensor:
        values, mask = unit["pixel_values"], unit["pixel_attention_mask"]
        made = model.model.get_image_features(values[None, None], mask[None, None], return_dict=True).pooler_output
        features = made if isinstance(made, Tensor) else torch.cat(list(made))
        return features.reshape(-1, features.shape[-1])

    def positions(self, ids: NDArray[np.int64], laid: Sequence[Laid]) -> tuple[Tensor, int]:
        return torch.arange(len(ids))[None], 0


def _told(processor: Any, tokens: int, fps: float, moments: Sequence[float]) -> str:
    """A clip as SmolVLM's processor writes it: how many frames, and when each of them is. Processors of this family
    that know of pictures only leave it to the same words."""
    from transformers.models.smolvlm.processing_smolvlm import SmolVLMProcessor

    named = SimpleNamespace(
        image_seq_len=tokens,
        image_token=processor.image_token,
        fake_image_token=processor.fake_image_token,
        global_image_token=getattr(processor, "global_image_token", None) or processor.global_image_tag,
    )
    metadata = SimpleNamespace(fps=fps, timestamps=tuple(moments), duration=None)
    inputs = {"pixel_values": np.empty((1, len(moments), 0)), "video_metadata": [metadata]}
    made: str = SmolVLMProcessor.replace_video_token(named, inputs, 0)  # type: ignore[arg-type]
    return made


class Gridded:
    """Qwen2-VL and Qwen2.5-VL: a picture keeps its shape and becomes a grid of cells; positions have three axes."""

    clips_as_pictures = False

    def __init__(self, model: Any, processor: Any) -> None:
        self._base, self._processor = model.model, processor
        self._images, self._videos = processor.image_processor, processor.video_processor
        self._merge = int(self._images.merge_size)
        self._cell = int(self._images.patch_size) * self._merge
        self._depth = int(self._images.temporal_patch_size)
        self._tokens = {"picture": int(model.config.image_token_id), "clip": int(model.config.video_token_id)}
        self.media_tokens = frozenset(self._tokens.values())
        self.placeholders = {"picture": processor.image_token, "clip": processor.video_token}

    def _size(self, processor: Any, budget: VisualBudget) -> dict[str, int]:
        least, most = int(processor.size["shortest_edge"]), int(processor.size["longest_edge"])
        if budget.tokens_per_image is not None:
            most = min(most, budget.tokens_per_image * self._cell**2)
        if budget.max_pixels is not None:
            most = min(most, budget.max_pixels)
        most = max(most, self._cell**2)
        return {"shortest_edge": min(least, most), "longest_edge": most}

    def _grid(self, width: int, height: int, size: Mapping[str, int]) -> tuple[int, int]:
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

        try:
            return smart_resize(  # type: ignore[no-any-return]
                height, width, self._cell, min_pixels=size["shortest_edge"], max_pixels=size["longest_edge"]
            )
        except ValueError as error:
            raise InputTooLarge(f"a picture of {width} x {height} cannot be looked at: {error}") from None

    def lay_picture(self, width: int, height: int, budget: VisualBudget) -> Laid:
        size = self._size(self._images, budget)
        tall, wide = self._grid(width, height, size)
        return self._laid("picture", wide, tall, 1, size, 1.0)

    def lay_clip(self, width: int, height: int, moments: Sequence[float], fps: float, budget: VisualBudget) -> Laid:
        size = self._size(self._videos, budget)
        tall, wide = self._grid(width, height, size)
        return self._laid("clip", wide, tall, len(moments), size, self._depth / fps)

    def _laid(self, kind: str, wide: int, tall: int, frames: int, size: Mapping[str, int], interval: float) -> Laid:
        patch = self._cell // self._merge
        grid = (-(-frames // self._depth) if kind == "clip" else 1, tall // patch, wide // patch)
        tokens = math.prod(grid) // self._merge**2
        how = ("grid", size["shortest_edge"], size["longest_edge"])
        return Laid(kind, wide, tall, tokens, self.placeholders[kind] * tokens, how, frames, grid, interval)

    def units(self, media: Picture | Clip, laid: Laid) -> list[Unit]:
        _, shortest, longest = laid.how
        size = {"shortest_edge": shortest, "longest_edge": longest}
        if isinstance(media, Picture):
            made = self._images([media.pixels], size=size, return_tensors="pt", input_data_format="channels_last")
            return [{"pixel_values": made["pixel_values"], "grid": made["image_grid_thw"]}]
        frames = torch.from_numpy(np.ascontiguousarray(media.frames)).permute(0, 3, 1, 2)
        made = self._videos(videos=[frames], size=size, do_sample_frames=False, return_tensors="pt")
        _, tall, wide = made["video_grid_thw"][0].tolist()
        one = torch.tensor([[1, tall, wide]])  # the encoder looks at each pair of frames by itself
        return [{"pixel_values": part, "grid": one} for part in made["pixel_values_videos"].split(tall * wide)]

    def encode(self, model: Any, unit: Unit) -> Tensor:
        made = model.model.get_image_features(unit["pixel_values"], unit["grid"], return_dict=True).pooler_output
        return torch.cat(list(made))

    def positions(self, ids: NDArray[np.int64], laid: Sequence[Laid]) -> tuple[Tensor, int]:
        tokens = torch.from_numpy(ids)[None]
        kinds = torch.zeros_like(tokens, dtype=torch.int32)
        kinds[tokens == self._tokens["picture"]] = 1
        kinds[tokens == self._tokens["clip"]] = 2
        grids = {kind: [one.grid for one in laid if one.kind == kind] for kind in self._tokens}
        intervals = [one.interval for one in laid if one.kind == "clip"]
        positions, delta = self._base.get_rope_index(
            tokens, kinds,
            torch.tensor(grids["picture"]) if grids["picture"] else None,
            torch.tensor(grids["clip"]) if grids["clip"] else None,
            second_per_grid_ts=torch.tensor(intervals) if intervals else None,
        )  # fmt: skip
        return positions[:, 0], int(delta[0, 0])
