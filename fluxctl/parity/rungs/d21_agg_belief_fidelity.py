"""Whether the aggregator believes of its clients what its knowledge policy would tell it."""

from __future__ import annotations

from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import MIN_SAMPLES, Finding, Options, Role, Status, Tier
from fluxctl.parity.truth import (
    MEAN_MOST,
    MOST_OF_MOST,
    NUM_STATES,
    StateLog,
    are_close,
    distances,
    num_clients,
    observed_beliefs,
    traced_world,
)
from fluxctl.parity.window import Window, skip, windows
from fluxctl.telemetry.columns import Floats, Ints
from fluxctl.world.availability import Codes

MOST_MOMENTS: Final = 200  # of a run that are looked at, evenly spread


@rung(
    "D21",
    "A7",
    "agg_belief_fidelity",
    stage="2",
    tier=Tier.DIST,
    role=Role.MECHANISM,
    question="When it selects and when it commits, does the aggregator know of its clients what it is meant to know?",
    broken="The aggregator acts on beliefs that its knowledge policy does not explain: too much knowledge, or too old.",
)
def agg_belief_fidelity(left: Observed, right: Observed, options: Options) -> Finding:
    """Believed states against those of the knowledge policy, in each run, at selections and at commits."""
    tvds: dict[str, Floats] = {}
    behind: dict[str, float] = {}
    for window in windows(left, right, options):
        world = traced_world(window.run)
        if isinstance(world, str):
            return skip(world)
        if world.sees_everyone:
            return skip(f"the aggregator of the {window.run.label} run believes everybody to be available")
        log = observed_beliefs(window.run, world, window.end_ns)
        for name, moments in _moments(window).items():
            if not len(moments):
                return skip("the runs have no completed bin in common")
            believed = _states(log, window, moments)
            known = np.array([world.knowledge.believed_states(believed.shape[1], int(t)) for t in moments])
            true = np.array([world.trace.states(believed.shape[1], int(t)) for t in moments])
            tvds[f"{window.run.label} at {name}"] = distances(_shares(believed), _shares(known))
            behind[f"{window.run.label} at {name}"] = float((believed != true).mean())
    return _judged(tvds, behind)


def _judged(tvds: dict[str, Floats], behind: dict[str, float]) -> Finding:
    n = min(map(len, tvds.values()))
    threshold = f"mean <= {MEAN_MOST:g}, 95 % of clients <= {MOST_OF_MOST:g}"
    if n < MIN_SAMPLES:
        told = f"{n} clients, at least {MIN_SAMPLES} are needed"
        return Finding(Status.INCONCLUSIVE, None, threshold, n, told, {"min_samples": MIN_SAMPLES})
    worst = max(tvds, key=lambda name: float(tvds[name].mean()))
    mean = float(tvds[worst].mean())
    return Finding(
        Status.PASS if all(map(are_close, tvds.values())) else Status.FAIL,
        mean,
        threshold,
        n,
        f"beliefs are {mean:.3f} off what was to be known, on average ({worst}); {behind[worst]:.1%} of them are not "
        "true at that moment",
        {name: {"mean": float(of.mean()), "untrue_frac": behind[name]} for name, of in tvds.items()},
    )


def _moments(window: Window) -> dict[str, Ints]:
    """Times of selections and of commits, evenly thinned."""
    times = {
        "selection": window.run["selection"].ints("t_ns")[window.selections()],
        "commit": window.run.cycles.ints("t_ns")[window.run.is_commit][: window.num_units],
    }
    return {name: _thinned(of) for name, of in times.items()}


def _thinned(times: Ints) -> Ints:
    if len(times) <= MOST_MOMENTS:
        return times
    return times[np.linspace(0, len(times) - 1, MOST_MOMENTS).astype(np.int64)]


def _states(log: StateLog, window: Window, moments: Ints) -> Codes:
    """Believed states, shape ``(num_moments, num_clients)``."""
    return np.array([log.at(client, moments) for client in range(num_clients(window.run))]).T


def _shares(states: Codes) -> Floats:
    """For each client, the share of the moments in each state, shape ``(num_clients, NUM_STATES)``."""
    return np.stack([(states == code).mean(axis=0) for code in range(NUM_STATES)], axis=1)
