"""The options of a model that draws: what each may be, and which of them may change the picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from vision_text.denoise.request import MOST_STEPS, interval, is_number
from vision_text.numerics.attention import ATTENTION_FORMATS
from vision_text.numerics.formats import FORMATS
from vision_text.numerics.plan import PrecisionPlan
from workers.errors import InputInvalid

StepCache = tuple[Any, ...]
"""("first_block", threshold) · ("dbcache", threshold, first blocks, last blocks) · ("taylor", interval, order) ·
("magcache", threshold, ratios)."""
SAMPLERS = ("model", "euler", "heun", "dpm++", "unipc", "ddim", "dpm")
BRANCHES = ("together", "apart")
PARALLEL = ("none", "guidance", "ulysses")


@dataclass(frozen=True, slots=True)
class Options:
    """Those that hold for one request. Hashable.

    `guidance_interval` and `steps` None: as asked. `sampler` "model": the model's own. `attention`: the kernel by the
    library's name, set on this model's processors alone. `precision` one format or a plan. `step_cache` None: every
    block is computed at every step. `branches`: both of guidance in one call of the model, or one after the other.
    """

    guidance_interval: tuple[float, float] | None = None
    steps: int | None = None
    sampler: str = "model"
    attention: str = "native"
    compile: bool = False
    fused_norm: bool = False
    precision: str | PrecisionPlan = "float32"
    step_cache: StepCache | None = None
    attention_precision: str = "float32"
    parallel: str = "none"
    branches: str = "together"

    @property
    def lossy(self) -> bool:
        """Whether any of them may change the picture by more than rounding."""
        return self.exactly() != self

    def exactly(self) -> Options:
        """The same without those that may: `branches` and `parallel` compute the same numbers."""
        return Options(parallel=self.parallel, branches=self.branches)

    @property
    def tree(self) -> tuple[object, ...]:
        """What the model's modules have to be like: requests with an equal one can share a call."""
        return (
            self.attention, self.compile, self.fused_norm, self.precision, self.step_cache, self.attention_precision
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Those that are not as they are by default, for JSON."""
        plain = Options()
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: _plain(value) for name, value in found.items() if value != getattr(plain, name)}


def _plain(value: Any) -> Any:
    if isinstance(value, PrecisionPlan):
        return value.as_dict()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def read_options(given: Mapping[str, object], base: Options | None = None) -> Options:
    """`given` over `base`. Raises InputInvalid, whose `param` is the option."""
    base = base or Options()
    values: dict[str, Any] = {}
    for name, value in given.items():
        reader = _READERS.get(name)
        if reader is None:
            known = ", ".join(sorted(_READERS))
            raise InputInvalid(f"there is no option {str(name)[:40]!r}; there is {known}", param="options")
        values[name] = reader(value, f"options.{name}")
    read = replace(base, **values)
    if read.step_cache is not None and read.step_cache[0] == "magcache" and (read.guidance_interval or (0, 1))[0] > 0:
        raise InputInvalid(
            "magcache counts the steps of both branches from the first; let guidance_interval start at 0, or take "
            "another step_cache",
            param="options.step_cache",
        )
    if read.attention_precision != "float32" and read.attention != "native":
        raise InputInvalid(
            f"attention_precision {read.attention_precision} is a kernel of its own; take attention native with it",
            param="options.attention_precision",
        )
    if read.compile and (read.precision, read.attention_precision) != ("float32", "float32"):
        raise InputInvalid(
            "precision is chosen from step to step, which compiled blocks cannot follow; take one of the two",
            param="options.precision",
        )
    return read


def _wrong(value: object, param: str, remedy: str) -> InputInvalid:
    return InputInvalid(f"{param} is {repr(value)[:60]}; {remedy}", param=param)


def _one_of(choices: tuple[str, ...]) -> Callable[[object, str], str]:
    def read(value: object, param: str) -> str:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(value, param, f"it can be {', '.join(choices)}")
        return value

    return read


def _truth(value: object, param: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, param, "give true or false")
    return value


def _steps(value: object, param: str) -> int | None:
    return None if value is None else _whole(value, param, 1, MOST_STEPS)


def _whole(value: object, param: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(value, param, f"give a whole number, {least} to {most}")
    return value


def _interval(value: object, param: str) -> tuple[float, float] | None:
    return None if value is None else interval(value, param)


def _attention(value: object, param: str) -> str:
    if not isinstance(value, str) or not value.isascii() or not 0 < len(value) <= 64:
        raise _wrong(value, param, "give the name of a kernel: native, math, flex")
    return {"_native_math": "math"}.get(value, value)


def _precision(value: object, param: str) -> str | PrecisionPlan:
    if isinstance(value, PrecisionPlan):
        return value
    if isinstance(value, Mapping):
        try:
            return PrecisionPlan.from_dict(value)
        except ValueError as error:
            raise _wrong(value, param, str(error)) from None
    return _one_of(FORMATS)(value, param)


def _step_cache(value: object, param: str) -> StepCache | None:
    if value is None:
        return None
    parts: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list) and value else (value,)
    name, rest = parts[0], parts[1:]
    if name in ("first_block", "dbcache", "magcache") and rest:
        if not is_number(rest[0]) or not 0 < rest[0] < 100:
            raise _wrong(value, param, "the threshold is a number above 0")
        threshold = float(rest[0])
        if name == "first_block" and len(rest) == 1:
            return name, threshold
        if name == "dbcache" and len(rest) in (1, 3):
            first, last = (1, 0) if len(rest) == 1 else rest[1:]
            return name, threshold, _whole(first, param, 1, 1000), _whole(last, param, 0, 1000)
        if name == "magcache" and len(rest) == 2 and isinstance(rest[1], tuple | list):
            ratios = tuple(rest[1])
            if not 0 < len(ratios) <= MOST_STEPS or not all(is_number(one) and 0 < one < 1e3 for one in ratios):
                raise _wrong(value, param, "the ratios are numbers above 0, one for each step of the calibration")
            return name, threshold, tuple(float(one) for one in ratios)
    if name == "taylor" and len(rest) == 2:
        return name, _whole(rest[0], param, 2, 100), _whole(rest[1], param, 0, 4)
    raise _wrong(
        value, param,
        "give ('first_block', threshold), ('dbcache', threshold, first, last), ('taylor', interval, order), "
        "('magcache', threshold, ratios) or null",
    )  # fmt: skip


_READERS: dict[str, Callable[[object, str], Any]] = {
    "guidance_interval": _interval,
    "steps": _steps,
    "sampler": _one_of(SAMPLERS),
    "attention": _attention,
    "compile": _truth,
    "fused_norm": _truth,
    "precision": _precision,
    "step_cache": _step_cache,
    "attention_precision": _one_of(ATTENTION_FORMATS),
    "parallel": _one_of(PARALLEL),
    "branches": _one_of(BRANCHES),
}
