"""What a rate policy is told of the updates of a bin."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluxctl.engine.messages import StepReport, Train, Update
from fluxctl.engine.payload import Payload
from fluxctl.engine.pool import Contribution, UpdatePool
from fluxctl.types import PayloadKind


def contribution(client: int, gradient: list[float], utility: float) -> Contribution:
    task = Train(client, client, 0, 0, 0, 0, 0, 0, 0, 0, 0, b"")
    payload = Payload(PayloadKind.GRADIENT, 0, 0, 0, (np.array(gradient, dtype=np.float32),), 1.0, utility, 2)
    return Contribution(Update(0, task, 0, 0, 0, b"", StepReport(2, 1, 0.0)), payload, 1, 1.5)


def told(tracked: slice) -> list[Any]:
    pool = UpdatePool(4)
    pool.add(contribution(0, [9.0, 1.0, 3.0, 9.0], 7.0))
    pool.add(contribution(1, [0.0, 2.0, 0.0, 0.0], 8.0))
    return pool.rate_inputs(tracked)


def test_each_update_has_a_variance_of_its_own() -> None:
    """The mean square of what the gate looks at: (1 + 9) / 2 and (4 + 0) / 2."""
    assert [(item.staleness, item.utility, item.variance) for item in told(slice(1, 3))] == [
        (1.5, 7.0, 5.0),
        (1.5, 8.0, 2.0),
    ]


def test_the_mean_square_estimates_the_variance_of_a_forward_gradient() -> None:
    """For g = (g0 . v) v with v standard normal, each element's variance is |g0|^2 + g0_i^2."""
    source = np.random.Generator(np.random.Philox(5))
    truth = np.full(200, 0.1)
    directions = source.standard_normal((4000, 200))
    estimates = (directions @ truth)[:, None] * directions
    expected = float(np.mean(np.var(estimates, axis=0)))
    assert abs(float(np.mean(estimates**2)) - expected) < 0.02 * expected
