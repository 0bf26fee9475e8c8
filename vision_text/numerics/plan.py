"""Precision by step and by block: a table, not a rule of thumb.

Steps are counted in shares of the whole, so that a plan that was found at thirty steps says something at twenty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vision_text.numerics.formats import Format, parse


@dataclass(frozen=True, slots=True)
class PrecisionPlan:
    """`edges`: where bands of steps begin and end, from 0.0 to 1.0; `formats` one row for each band, one for each of
    `layers` in it. Raises ValueError when these do not fit together."""

    layers: tuple[str, ...]
    edges: tuple[float, ...]
    formats: tuple[tuple[Format, ...], ...]

    def __post_init__(self) -> None:
        if (
            len(self.edges) < 2
            or self.edges[0] != 0.0
            or self.edges[-1] != 1.0
            or sorted(set(self.edges)) != list(self.edges)
        ):
            raise ValueError(f"the edges of a precision plan rise from 0.0 to 1.0, not {self.edges}")
        if len(self.formats) != len(self.edges) - 1 or any(len(row) != len(self.layers) for row in self.formats):
            raise ValueError(
                f"a precision plan of {len(self.edges) - 1} bands and {len(self.layers)} layers has as many rows and "
                "columns of formats"
            )

    @classmethod
    def uniform(cls, format: Format, layers: Sequence[str], bands: int = 1) -> PrecisionPlan:
        """Everything in one format."""
        return cls(tuple(layers), even_edges(bands), ((format,) * len(layers),) * bands)

    @classmethod
    def from_dict(cls, table: Mapping[str, object]) -> PrecisionPlan:
        """What `as_dict` made. Raises ValueError."""
        try:
            rows = [[parse(str(name)) for name in row] for row in table["formats"]]  # type: ignore[attr-defined]
            edges = tuple(float(edge) for edge in table["edges"])  # type: ignore[attr-defined]
            layers = tuple(str(layer) for layer in table["layers"])  # type: ignore[attr-defined]
        except (KeyError, TypeError) as error:
            raise ValueError(f"a precision plan has layers, edges and formats: {error}") from error
        return cls(layers, edges, tuple(map(tuple, rows)))

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {"layers": [*self.layers], "edges": [*self.edges], "formats": [[*row] for row in self.formats]}

    def at(self, step: int, steps: int) -> tuple[Format, ...]:
        """The formats of step 0 .. steps - 1, one for each layer."""
        middle = (step + 0.5) / steps
        band = next(n for n, edge in enumerate(self.edges[1:]) if middle < edge)
        return self.formats[band]

    def with_cells(self, cells: Sequence[tuple[int, int]], format: Format) -> PrecisionPlan:
        """The same with these (band, layer) in another format."""
        chosen = set(cells)
        rows = tuple(
            tuple(format if (band, layer) in chosen else old for layer, old in enumerate(row))
            for band, row in enumerate(self.formats)
        )
        return PrecisionPlan(self.layers, self.edges, rows)

    def shares(self) -> dict[str, float]:
        """How much of all steps times layers each format has."""
        total: Counter[str] = Counter()
        for n, row in enumerate(self.formats):
            for format in row:
                total[format] += (self.edges[n + 1] - self.edges[n]) / len(self.layers)  # type: ignore[assignment]
        return {format: round(share, 6) for format, share in total.items()}


def even_edges(bands: int) -> tuple[float, ...]:
    """Edges of bands of equal length."""
    return (*(n / bands for n in range(bands)), 1.0)
