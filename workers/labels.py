"""What work is done for, as lines of the log name it: ids of a session, an utterance, a job. Never what is said.

They follow the context: a task that is begun for a session carries that session's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

LABELS: ContextVar[Mapping[str, str]] = ContextVar("labels", default=MappingProxyType({}))


def label(**ids: str) -> None:
    """What is done from here on in this context is done for these as well."""
    LABELS.set({**LABELS.get(), **ids})


def unlabel(*names: str) -> None:
    """What is done from here on is done for these no more."""
    LABELS.set({name: value for name, value in LABELS.get().items() if name not in names})


@contextmanager
def labelled(**ids: str) -> Iterator[None]:
    """Within this, `ids` alone are named; then again what was before. Enter and leave it in one context."""
    token = LABELS.set(ids)
    try:
        yield
    finally:
        LABELS.reset(token)
