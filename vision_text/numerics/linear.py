"""Linear layers whose precision is chosen from step to step, with the weights of every format they have been in."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from vision_text.numerics.formats import Arithmetic, Format, arithmetic, rounded, rounded_weight

_STACKS = ("transformer_blocks", "single_transformer_blocks", "blocks")


class SwitchedLinear(nn.Linear):
    """A linear layer that computes in `arithmetic`; its parameters are those of the layer it stands for."""

    def __init__(self, original: nn.Linear, counters: Counter[str]) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = original.in_features, original.out_features
        self.weight, self.bias = original.weight, original.bias
        self.original = [original]  # in a list, so that it is no child: its parameters are here already
        self.arithmetic = Arithmetic("float32", emulated=False)
        self.counters = counters
        self._weights: dict[Format, Tensor] = {}
        self._real: dict[Format, list[nn.Module]] = {}
        self.train(original.training)

    def forward(self, input: Tensor) -> Tensor:
        format = self.arithmetic.format
        if format == "float32":
            return functional.linear(input, self.weight, self.bias)
        self.counters[f"linear.{self.arithmetic}"] += 1
        if not self.arithmetic.emulated:
            return cast(Tensor, self._engine(format)(input))
        weight = self._weights.get(format)
        if weight is None:
            weight = self._weights[format] = rounded_weight(self.weight.detach(), format)
        made = functional.linear(rounded(input, format), weight, self.bias)
        return rounded(made, "bf16") if format == "bf16" else made

    def _engine(self, format: Format) -> nn.Module:
        if format not in self._real:
            self._real[format] = [real_linear(self.original[0], format)]
        return self._real[format][0]

    def forget(self) -> None:
        """Free the weights of other formats."""
        self._weights.clear()
        self._real.clear()


class _Cast(nn.Module):
    """A layer in bfloat16 between neighbours of another type."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input: Tensor) -> Tensor:
        return cast(Tensor, self.inner(input.to(torch.bfloat16))).to(input.dtype)


def real_linear(original: nn.Linear, format: Format) -> nn.Module:
    """The layer through torchao's kernels for the format. Raises ValueError where its device has none."""
    device = str(original.weight.device)
    arithmetic(format, device, real=True)
    made = copy.deepcopy(original).requires_grad_(False)
    if format == "bf16":
        return _Cast(made.to(torch.bfloat16))
    from torchao import quantization

    if format == "int8":
        quantization.quantize_(made, quantization.Int8DynamicActivationInt8WeightConfig())
        return made
    made = made.to(torch.bfloat16)
    if format == "fp8":
        by_row = quantization.PerRow()
        quantization.quantize_(made, quantization.Float8DynamicActivationFloat8WeightConfig(granularity=by_row))
    elif format == "int4":
        quantization.quantize_(made, quantization.Int4WeightOnlyConfig(group_size=32))
    else:
        from torchao.prototype.mx_formats import MXDynamicActivationMXWeightConfig

        quantization.quantize_(made, MXDynamicActivationMXWeightConfig())
    return _Cast(made)


class Lowering:
    """A transformer whose blocks can each compute in another precision, changed between any two steps.

    Only linear layers inside the blocks change; embeddings and the last projection stay as they were. `counters` says
    how often a layer ran in which arithmetic. While one is on a model, the model belongs to one thread.
    """

    def __init__(self, model: nn.Module, *, real: bool | None = None, counters: Counter[str] | None = None) -> None:
        self.counters: Counter[str] = Counter() if counters is None else counters
        self._real = real
        self._device = str(next(model.parameters()).device)
        self._switched: dict[str, list[tuple[nn.Module, str, SwitchedLinear]]] = {}
        for name, block in blocks_of(model).items():
            self._switched[name] = list(self._switch(block))
        self.layers = tuple(self._switched)
        self._active = ("float32",) * len(self.layers)

    def _switch(self, block: nn.Module) -> list[tuple[nn.Module, str, SwitchedLinear]]:
        found = []
        for parent in list(block.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.Linear) and not isinstance(child, SwitchedLinear):
                    switched = SwitchedLinear(child, self.counters)
                    setattr(parent, name, switched)
                    found.append((parent, name, switched))
        return found

    def use(self, formats: Sequence[Format]) -> None:
        """From now on block n computes in formats[n]. Raises ValueError for another number of blocks than there is."""
        if tuple(formats) == self._active:
            return
        if len(formats) != len(self.layers):
            raise ValueError(f"the plan is of {len(formats)} blocks, the model has {len(self.layers)}")
        for layer, format in zip(self.layers, formats, strict=True):
            how = arithmetic(format, self._device, real=self._real)
            for _, _, switched in self._switched[layer]:
                switched.arithmetic = how
        self._active = tuple(formats)

    def stated(self, formats: Sequence[Format]) -> Mapping[str, int]:
        """Blocks by arithmetic: what an answer says of its precision."""
        return Counter(str(arithmetic(format, self._device, real=self._real)) for format in formats)

    def close(self) -> None:
        """Put the original layers back."""
        for switched in self._switched.values():
            for parent, name, layer in switched:
                setattr(parent, name, layer.original[0])
                layer.forget()
        self._switched = {}


def blocks_of(model: nn.Module) -> dict[str, nn.Module]:
    """A transformer's blocks by name, in the order in which they run. Raises ValueError for a class without."""
    found = {
        f"{stack}.{n}": block
        for stack in _STACKS
        if isinstance(blocks := getattr(model, stack, None), nn.ModuleList)
        for n, block in enumerate(blocks)
    }
    if not found:
        raise ValueError(f"{type(model).__name__} has no {' or '.join(_STACKS)}: its precision cannot be set by layer")
    return found
