"""Where each trainable tensor lives in the flat parameter vector.

Everything that travels or is perturbed is one vector of ``d`` float32 values. The layout is its table of contents:
adapters in ascending block order (down weight, down bias, up weight, up bias), then the head (weight, bias). The
order is part of the file format of checkpoints and messages and never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from torch import Tensor

from fluxctl.errors import ConfigError
from fluxctl.registry import suggestion

#: Values of ``tracked_tensor`` that are not names of tensors.
AUTO, ALL = "auto", "all"


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """One trainable tensor.

    Attributes:
        name: For example ``block5.adapter.down.weight``.
        shape: Its shape.
        offset: Index of its first element in the flat vector.
        size: Its number of elements.
    """

    name: str
    shape: tuple[int, ...]
    offset: int
    size: int

    @property
    def span(self) -> slice:
        """Where it lies in the flat vector."""
        return slice(self.offset, self.offset + self.size)


@dataclass(frozen=True)
class ParamLayout:
    """The trainable tensors in their stable order.

    Attributes:
        specs: One entry per tensor, offsets ascending and without gaps.
        num_params: Length ``d`` of the flat vector.
    """

    specs: tuple[ParamSpec, ...]
    num_params: int

    @classmethod
    def of(cls, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> ParamLayout:
        """Lay tensors out one after the other, in the given order."""
        specs: list[ParamSpec] = []
        offset = 0
        for name, shape in shapes:
            size = prod(shape)
            specs.append(ParamSpec(name, shape, offset, size))
            offset += size
        return cls(tuple(specs), offset)

    def tensor(self, name: str) -> ParamSpec:
        """Look a tensor up by name.

        Raises:
            ConfigError: If there is none of that name; the hint has the nearest one.
        """
        for spec in self.specs:
            if spec.name == name:
                return spec
        raise ConfigError(f"no trainable tensor '{name}'", hint=suggestion(name, [AUTO, ALL, *self.names()]))

    def names(self) -> list[str]:
        """Names of the tensors, in order."""
        return [spec.name for spec in self.specs]

    def tracked(self, name: str) -> slice:
        """The part of the vector that the variance gate judges.

        Args:
            name: ``auto`` for the first adapter's down-projection, or everything when there is no adapter; ``all``;
                or the name of a tensor.

        Raises:
            ConfigError: If ``name`` is none of these.
        """
        if name == ALL:
            return slice(0, self.num_params)
        if name == AUTO:
            down = next((spec for spec in self.specs if spec.name.endswith(".adapter.down.weight")), None)
            return down.span if down else slice(0, self.num_params)
        return self.tensor(name).span

    def unflatten(self, params: Tensor) -> dict[str, Tensor]:
        """Name the parts of a vector.

        Args:
            params: Shape ``(..., d)``.

        Returns:
            Views of ``params``, shape ``(..., *spec.shape)`` each.
        """
        return {spec.name: params[..., spec.span].view(*params.shape[:-1], *spec.shape) for spec in self.specs}

    def flatten(self, tensors: Mapping[str, Tensor], out: Tensor) -> Tensor:
        """Write named tensors into a vector.

        Args:
            tensors: One tensor per spec.
            out: Where to put them, shape ``(d,)``.

        Returns:
            ``out``.
        """
        for name, part in self.unflatten(out).items():
            part.copy_(tensors[name])
        return out
