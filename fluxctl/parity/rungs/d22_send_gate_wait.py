"""How long updates wait for their client to be reachable, against what the trace says."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.truth import traced_world
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import MISSING_INT, Floats
from fluxctl.types import NS_PER_S
from fluxctl.world.flight import ClientWorld

MEAN_MOST_S: Final = 10.0
MOST_OF_MOST_S: Final = 30.0  # for 95 % of the waits
MOST_SENDS: Final = 20_000  # of a run that are looked at, evenly spread
NO_WAIT_S: Final = 1e-6


@rung(
    "D22",
    "A8",
    "send_gate_wait",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Do finished updates of clients that are away wait for as long as the trace keeps these clients away?",
    broken="Updates arrive while their client is away, or later than it came back: lateness is not that of the trace.",
)
def send_gate_wait(left: Observed, right: Observed, options: Options) -> Finding:
    """Distance of told and expected waits, over the sends of a run that have one; the worse run is judged."""
    errors: dict[str, Floats] = {}
    for window in windows(left, right, options):
        world = traced_world(window.run)
        if isinstance(world, str):
            return skip(world)
        errors[window.run.label] = _errors_s(window, world)
    n = min(map(len, errors.values()))
    threshold = f"mean <= {MEAN_MOST_S:g} s, 95 % <= {MOST_OF_MOST_S:g} s"
    if max(map(len, errors.values())) == 0:
        return skip("no update had to wait for its client")
    if n < MIN_SAMPLES:
        told = f"{n} updates had to wait, at least {MIN_SAMPLES} are needed on each side"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    means = {label: float(of.mean()) for label, of in errors.items()}
    highs = {label: float(np.quantile(of, 0.95)) for label, of in errors.items()}
    worst = max(means, key=means.__getitem__)
    is_right = max(means.values()) <= MEAN_MOST_S and max(highs.values()) <= MOST_OF_MOST_S
    return Finding(
        Status.PASS if is_right else Status.FAIL,
        means[worst],
        threshold,
        n,
        f"waits are {means[worst]:.4g} s off what the trace says, on average ({worst}), over {n} updates that waited",
        {"mean_s": means, "q95_s": highs},
    )


def _errors_s(window: Window, world: ClientWorld) -> Floats:
    """Distance of the told wait from the trace's, in seconds, of sends that have either.

    Raises:
        AbsentField: If no send tells its wait.
    """
    table = window.run["task_send"]
    waits_s, clients, sends_ns = table.numbers("send_gate_wait_s"), table.ints("client"), table.ints("send_ns")
    usable = np.flatnonzero(window.rows("task_send") & np.isfinite(waits_s) & (sends_ns != MISSING_INT))
    if len(usable) > MOST_SENDS:
        usable = usable[np.linspace(0, len(usable) - 1, MOST_SENDS).astype(np.int64)]
    errors = []
    for row in usable.tolist():
        wait_s = float(waits_s[row])
        done = max(0, int(sends_ns[row]) - round(wait_s * NS_PER_S))
        reachable = world.trace.next_available(int(clients[row]), done, world.eligible)
        expected_s = float("inf") if reachable is None else (reachable - done) / NS_PER_S
        if max(wait_s, expected_s) > NO_WAIT_S:
            errors.append(abs(wait_s - expected_s))
    return np.array(errors, dtype=np.float64)
