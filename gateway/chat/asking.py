"""From a checked request to what a model that sees is asked; its turns come later, when they are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.chat.request import ChatRequest

if TYPE_CHECKING:
    from vision_text.vlm.request import ChatAsked


def asked_of(asked: ChatRequest, tenant: str) -> ChatAsked:
    """`tenant`: whose caches it may use. Raises InputInvalid."""
    from vision_text.vlm.request import ChatAsked, VisualBudget

    budget = VisualBudget(**asked.budget.model_dump()) if asked.budget is not None else None
    return ChatAsked(
        (),
        max_tokens=asked.most_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        stop=asked.stop,
        seed=asked.seed,
        budget=budget,
        exact=asked.exact,
        tenant=tenant,
        options=asked.options,
    )
