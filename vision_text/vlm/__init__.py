"""Pictures and clips in, text out: a model that sees, on the step loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vision_text.vlm.options import Options, read_options
from vision_text.vlm.request import (
    Answered,
    Approximation,
    ChatAsked,
    Clip,
    Part,
    Picture,
    Planned,
    TextDelta,
    Turn,
    Unopened,
    VisualBudget,
    VisualPlan,
)

if TYPE_CHECKING:
    from vision_text.vlm.seer import ModelInfo, Seer

__all__ = [
    "Answered",
    "Approximation",
    "ChatAsked",
    "Clip",
    "ModelInfo",
    "Options",
    "Part",
    "Picture",
    "Planned",
    "Seer",
    "TextDelta",
    "Turn",
    "Unopened",
    "VisualBudget",
    "VisualPlan",
    "read_options",
]


def __getattr__(name: str) -> Any:
    """What needs torch and transformers is imported when it is first asked for."""
    if name in ("ModelInfo", "Seer"):
        from vision_text.vlm import seer

        return getattr(seer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
