"""The options of a model that sees: each a name and a value, off unless given.

prefix_cache     bool          what begins alike, text and pixels, is computed once
kv               "float32" | "int8" | "int4" | "offload" | "int1"   ("int1" ruins answers: a gate has to catch it)
speculative      ("lookup", n) | ("draft", name[, n])               never changes the text
visual_budget    VisualBudget  what a request gets that asks for none, and the most that one may ask for
encoder_device, decode_device  names of devices; for the whole Seer only
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from vision_text.vlm.request import VisualBudget
from workers.errors import InputInvalid

KV_KINDS = ("float32", "int8", "int4", "offload", "int1")
MOST_PROPOSED = 7
"""With the token before them a verification then has eight rows, as a step of one token has anyway."""
PROPOSED = 4
PER_REQUEST = ("prefix_cache", "kv", "speculative", "visual_budget")
PER_SEER = ("encoder_device", "decode_device")


@dataclass(frozen=True, slots=True)
class Options:
    """Checked. `kv` "float32" means: not quantised, in the model's own precision."""

    prefix_cache: bool = False
    careless: bool = False
    kv: str = "float32"
    speculative: str = ""
    proposed: int = 0
    draft: str = ""
    visual_budget: VisualBudget | None = None
    encoder_device: str = ""
    decode_device: str = ""

    @property
    def lossy(self) -> bool:
        """Whether an answer may differ from that without options, its visual budget aside."""
        return self.kv in ("int8", "int4", "int1") or self.careless

    def exactly(self) -> Options:
        """Without anything that might change the answer by more than the last bit of a sum."""
        return replace(self, prefix_cache=False, careless=False, kv="float32", speculative="", proposed=0, draft="")

    def as_dict(self) -> dict[str, Any]:
        """Only what is on."""
        plain = asdict(self)
        return {name: value for name, value in plain.items() if value and (name, value) != ("kv", "float32")}


def read_options(given: Mapping[str, object], base: Options | None = None, *, per_seer: bool = False) -> Options:
    """`given` over `base`. Raises InputInvalid (param "options.NAME")."""
    options = base if base is not None else Options()
    for name, value in given.items():
        where = f"options.{str(name)[:60]}"
        if name in PER_SEER and not per_seer:
            raise InputInvalid(f"{name} is chosen when the model is loaded, not by a request", param=where)
        if name == "prefix_cache":
            if not isinstance(value, bool) and value != "careless":
                raise InputInvalid("prefix_cache is true or false", param=where)
            options = replace(options, prefix_cache=bool(value), careless=value == "careless")
        elif name == "kv":
            if value not in KV_KINDS:
                raise InputInvalid(f"kv is {str(value)[:40]!r}; it can be {', '.join(KV_KINDS)}", param=where)
            options = replace(options, kv=str(value))
        elif name == "speculative":
            options = _speculative(options, value, where)
        elif name == "visual_budget":
            if not (value is None or isinstance(value, VisualBudget)):
                raise InputInvalid("visual_budget is a VisualBudget or nothing", param=where)
            options = replace(options, visual_budget=value)
        elif name in PER_SEER:
            if not isinstance(value, str):
                raise InputInvalid(f"{name} is the name of a device", param=where)
            encoder, decoder = options.encoder_device, options.decode_device
            places = (value, decoder) if name == "encoder_device" else (encoder, value)
            options = replace(options, encoder_device=places[0], decode_device=places[1])
        else:
            known = ", ".join(PER_REQUEST + (PER_SEER if per_seer else ()))
            raise InputInvalid(f"there is no option {str(name)[:60]!r}; there are {known}", param=where)
    return options


def _speculative(options: Options, value: object, where: str) -> Options:
    if value is None:
        return replace(options, speculative="", proposed=0, draft="")
    wanted = 'speculative is ("lookup", n), ("draft", name) or ("draft", name, n)'
    if not isinstance(value, tuple | list) or len(value) not in (2, 3) or value[0] not in ("lookup", "draft"):
        raise InputInvalid(wanted, param=where)
    kind, second, *rest = value
    count = second if kind == "lookup" else (rest[0] if rest else PROPOSED)
    if (kind == "lookup" and rest) or (kind == "draft" and not (isinstance(second, str) and second)):
        raise InputInvalid(wanted, param=where)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_PROPOSED:
        raise InputInvalid(f"speculative proposes 1 to {MOST_PROPOSED} tokens at a time", param=where)
    return replace(options, speculative=kind, proposed=count, draft=second if kind == "draft" else "")
