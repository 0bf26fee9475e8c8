"""From options as a profile has them to options as a model that sees takes them."""

from __future__ import annotations

from collections.abc import Mapping

from vision_text.vlm.request import VisualBudget


def seeing_options(settings: Mapping[str, object]) -> dict[str, object]:
    """A budget that JSON has as its fields is a budget."""
    found = dict(settings)
    budget = found.get("visual_budget")
    if isinstance(budget, Mapping):
        found["visual_budget"] = VisualBudget(**budget)
    return found
