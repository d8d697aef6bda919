"""Whether clients come and go as the availability trace says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.truth import (
    MEAN_MOST,
    MOST_OF_MOST,
    StateLog,
    are_close,
    distances,
    num_clients,
    observed_states,
    require_changes,
    traced_world,
    true_shares,
)
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Floats
from fluxctl.types import NS_PER_S, ClientId, Ns
from fluxctl.world.availability import CODES
from fluxctl.world.flight import ClientWorld

LAG_NS: Final[Ns] = 30 * NS_PER_S  # a change that is told this much later, or earlier, is still that change

Changes = list[tuple[Ns, int]]  # when, and the code of the state from then on


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How well one run follows its trace.

    Attributes:
        tvds: For each client, the distance of its time in states from the trace's, shape ``(num_clients,)``.
        num_true: Changes of state in the trace.
        num_missed: Those of them that the run does not tell.
        num_spurious: Changes that the run tells and the trace does not have.
    """

    tvds: Floats
    num_true: int
    num_missed: int
    num_spurious: int


@rung(
    "D20",
    "A6",
    "trainer_trace_fidelity",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="Do clients come and go in each run as its availability trace says?",
    broken="The run did not replay the trace that it names, so it says nothing about that population.",
)
def trainer_trace_fidelity(left: Observed, right: Observed, options: Options) -> Finding:
    """Time in states against the trace, in each run; changes that were missed or made up are a warning."""
    found: dict[str, Fidelity] = {}
    for window in windows(left, right, options):
        world = traced_world(window.run)
        if isinstance(world, str):
            return skip(world)
        require_changes(window.run)
        if window.end_ns == 0:
            return skip("the runs have no completed bin in common")
        found[window.run.label] = _fidelity(window, world)
    n = min(len(fidelity.tvds) for fidelity in found.values())
    threshold = f"mean <= {MEAN_MOST:g}, 95 % of clients <= {MOST_OF_MOST:g}"
    if n < MIN_SAMPLES:
        told = f"{n} clients, at least {MIN_SAMPLES} are needed"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    worst = max(found, key=lambda label: float(found[label].tvds.mean()))
    is_close = all(are_close(fidelity.tvds) for fidelity in found.values())
    num_wrong = sum(fidelity.num_missed + fidelity.num_spurious for fidelity in found.values())
    mean = float(found[worst].tvds.mean())
    return Finding(
        Status.FAIL if not is_close else Status.WARN if num_wrong else Status.PASS,
        mean,
        threshold,
        n,
        f"clients' time in states is {mean:.3f} off the trace on average ({worst}); {num_wrong} changes missed or "
        "made up",
        {label: _numbers(fidelity) for label, fidelity in found.items()},
    )


def _numbers(fidelity: Fidelity) -> dict[str, float]:
    return {
        "mean": float(fidelity.tvds.mean()),
        "q95": float(np.quantile(fidelity.tvds, 0.95)),
        "num_true": fidelity.num_true,
        "num_missed": fidelity.num_missed,
        "num_spurious": fidelity.num_spurious,
    }


def _fidelity(window: Window, world: ClientWorld) -> Fidelity:
    end, clients = window.end_ns, range(num_clients(window.run))
    log = observed_states(window.run, end)
    observed = np.array([log.shares(client, end) for client in clients])
    truth = np.array([true_shares(world, client, end) for client in clients])
    num_true, num_missed, num_spurious = 0, 0, 0
    for client in clients:
        true, told = _true_changes(world, client, end), _told_changes(log, client)
        num_matched = _num_matched(true, told)
        num_true += len(true)
        num_missed += len(true) - num_matched
        num_spurious += len(told) - num_matched
    return Fidelity(distances(observed, truth), num_true, num_missed, num_spurious)


def _true_changes(world: ClientWorld, client: ClientId, end: Ns) -> Changes:
    changes: Changes = []
    at = world.trace.next_change(client, 0)
    while at is not None and at <= end:
        changes.append((at, CODES[world.trace.state(client, at)]))
        at = world.trace.next_change(client, at)
    return changes


def _told_changes(log: StateLog, client: ClientId) -> Changes:
    return list(zip(log.starts[client][1:].tolist(), log.codes[client][1:].tolist(), strict=True))


def _num_matched(true: Changes, told: Changes) -> int:
    """Changes into one state that can be paired within the lag, the earliest with the earliest."""
    num = 0
    for state in {code for _, code in true}:
        waiting = [at for at, code in told if code == state]
        index = 0
        for at in (at for at, code in true if code == state):
            while index < len(waiting) and waiting[index] < at - LAG_NS:
                index += 1
            if index < len(waiting) and waiting[index] <= at + LAG_NS:
                num += 1
                index += 1
    return num
