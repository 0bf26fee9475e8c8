"""What a fuzzer is given: a function that takes bytes from a stranger, real bytes to begin with, and words to try."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gateway.outbox import encode
from workers.errors import InputInvalid, InputTooLarge

Check = Callable[[bytes], None]
Seeds = Callable[[], Sequence[bytes]]

REFUSALS = (InputInvalid, InputTooLarge)
LONGEST_REFUSAL = 4096
"""Characters that a client may be told at once: a refusal that repeats what it refuses could fill a socket's queue."""


@dataclass(frozen=True)
class Target:
    """`check` returns when a stranger's bytes were taken or refused as they should be; whatever it raises is a fault.

    `seeds` are real inputs. `kind` says how they are changed: as JSON, as text or as bytes. `words` are what the parser
    looks for. `examples` is how many inputs the test suite tries, fewer where each takes long.
    """

    name: str
    check: Check
    seeds: Seeds
    kind: str = "bytes"
    words: tuple[str, ...] = ()
    longest: int = 16_384
    examples: int = 60


@dataclass
class Targets:
    """All targets by name; `target` decorates a check."""

    known: dict[str, Target] = field(default_factory=dict)

    def target(self, name: str, seeds: Seeds | Sequence[bytes | str], **more: Any) -> Callable[[Check], Check]:
        """Register a check under a name."""

        def register(check: Check) -> Check:
            assert name not in self.known, name
            given = seeds if callable(seeds) else lambda: [_bytes(seed) for seed in seeds]
            self.known[name] = Target(name, check, given, **more)
            return check

        return register


TARGETS = Targets()
target = TARGETS.target


@contextmanager
def refused(*errors: type[Exception]) -> Iterator[None]:
    """What is done inside may be refused with these, and what a client is then told can be sent and is short."""
    try:
        yield
    except errors as error:
        tell(vars(error) | {"said": str(error)})


def tell(fields: dict[str, Any]) -> None:
    """What is told to a client can be written on a wire, and is not as long as the client likes."""
    shown = {name: value for name, value in fields.items() if isinstance(value, str | int | float | None)}
    assert len(encode(shown)) < LONGEST_REFUSAL * 4, f"a refusal of {len(encode(shown))} bytes"
    for name, value in shown.items():
        assert not isinstance(value, str) or len(value) <= LONGEST_REFUSAL, f"{name} has {len(value)} characters"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing but itself; all have one loop, for a new one takes long."""
    return _loop().run_until_complete(work)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def text_of(data: bytes) -> str:
    """Bytes as the text of a frame or query, in which there are no halves of surrogate pairs but escaped ones."""
    return data.decode("utf-8", "replace")


def any_text(data: bytes) -> str:
    """Bytes as text that JSON may have held: three bytes that stand for half of a surrogate pair become it."""
    return data.decode("utf-8", "surrogatepass" if _passes(data) else "replace")


def cuts(data: bytes, sizes: bytes) -> Iterator[bytes]:
    """The data in pieces whose lengths are told by `sizes`, over and over; zero is an empty piece."""
    at, number, empty = 0, 0, 0
    while at < len(data):
        size = sizes[number % len(sizes)] if sizes else len(data)
        empty = empty + 1 if not size else 0
        if empty > len(sizes):
            size = len(data)
        yield data[at : at + size]
        at, number = at + size, number + 1


def _passes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _bytes(seed: bytes | str) -> bytes:
    return seed.encode() if isinstance(seed, str) else seed
