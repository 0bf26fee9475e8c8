"""What a group says to each other, counted where it leaves the process: bytes that go to other ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_COLLECTIVES = ("_c10d_functional", "c10d")
_TO_EACH_ITS_PART = ("all_to_all_single", "alltoall_base_")
_TO_ALL_THE_WHOLE = ("all_gather_into_tensor", "_allgather_base_", "allgather_")
_NO_DATA = ("wait_tensor", "_wrap_tensor_autograd", "barrier", "monitored_barrier_")


class Traffic(TorchDispatchMode):
    """While entered, counts the bytes that this rank sends to the others, and the calls, by collective.

    An all-to-all keeps one part of `ranks` at home; a gather sends the whole to each other rank. A collective that it
    does not know raises RuntimeError, so that a count is never too low in silence.
    """

    def __init__(self, ranks: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ranks = ranks
        self.sent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.namespace in _COLLECTIVES:
            self._count(func._schema.name.partition("::")[2], args)
        return func(*args, **(kwargs or {}))

    def _count(self, name: str, args: Sequence[Any]) -> None:
        if name in _NO_DATA:
            return
        # The ops of c10d take outputs and then inputs, the functional ones the input first.
        given = [arg for arg in args if isinstance(arg, Tensor)] or [
            item for arg in args if isinstance(arg, (list, tuple)) for item in arg if isinstance(item, Tensor)
        ]
        whole = given[-1].nbytes if given else 0
        if name in _TO_EACH_ITS_PART:
            self._add("all_to_all", whole * (self.ranks - 1) // self.ranks)
        elif name in _TO_ALL_THE_WHOLE:
            self._add("all_gather", whole * (self.ranks - 1))
        else:
            raise RuntimeError(f"the traffic of {name} is not counted")

    def _add(self, kind: str, sent: int) -> None:
        self.sent[kind] += sent
        self.calls[kind] += 1
