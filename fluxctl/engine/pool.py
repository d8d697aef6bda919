"""The updates of one bin, over all of its iterations, in commit order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluxctl.engine.messages import Update
from fluxctl.engine.payload import Payload
from fluxctl.policies.rates.base import RateInput


@dataclass(frozen=True, slots=True)
class Contribution:
    """An update that counts: what arrived, decoded, and the staleness that its weight is computed with.

    Args:
        update: The message.
        payload: Its decoded gradient and scalars.
        staleness: Versions committed since its dispatch.
        rate_staleness: Age as the staleness policy wants it weighted.
        is_late: Whether its client had been given up before it came.
    """

    update: Update
    payload: Payload
    staleness: int
    rate_staleness: float
    is_late: bool = False


class UpdatePool:
    """Gradients of a bin as one growing matrix.

    Args:
        num_params: Length d of a gradient.
    """

    def __init__(self, num_params: int) -> None:
        self._gradients = np.empty((16, num_params), dtype=np.float32)
        self._contributions: list[Contribution] = []

    def __len__(self) -> int:
        return len(self._contributions)

    def add(self, contribution: Contribution) -> None:
        """Append an update, in commit order."""
        size = len(self._contributions)
        if size == len(self._gradients):
            grown = np.empty((2 * size, self._gradients.shape[1]), dtype=np.float32)
            grown[:size] = self._gradients
            self._gradients = grown
        self._gradients[size] = contribution.payload.vectors[0]
        self._contributions.append(contribution)

    def clear(self) -> None:
        """Forget everything: the bin was committed."""
        self._contributions.clear()

    @property
    def gradients(self) -> npt.NDArray[np.float32]:
        """View of all gradients, shape ``(n, d)``, in commit order."""
        return self._gradients[: len(self._contributions)]

    def num_samples(self) -> npt.NDArray[np.float64]:
        """Samples behind each gradient, shape ``(n,)``."""
        return np.array([c.payload.num_samples for c in self._contributions], dtype=np.float64)

    def rate_inputs(self, tracked: slice) -> list[RateInput]:
        """What a rate policy sees of each update.

        A forward gradient's error dwarfs the gradient in every element, so the mean square of its elements estimates
        its own variance; the gate's elements are taken, so that both variances are on one scale.

        Args:
            tracked: Elements that the gate looks at.
        """
        own = self.gradients[:, tracked].astype(np.float64)
        variances = np.mean(own * own, axis=1).tolist()
        return [
            RateInput(c.rate_staleness, c.payload.stat_utility, variance)
            for c, variance in zip(self._contributions, variances, strict=True)
        ]
