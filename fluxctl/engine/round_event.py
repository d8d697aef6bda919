"""The record of one cycle (C4): what was collected, what the gate said, and where the run is now."""

from __future__ import annotations

from fluxctl.config.model import Config
from fluxctl.engine.cadence import Cadence
from fluxctl.engine.commit import GateOutcome
from fluxctl.engine.dispatcher import Dispatcher
from fluxctl.engine.ledger import Ledger
from fluxctl.engine.pool import Contribution
from fluxctl.engine.totals import Totals
from fluxctl.types import Ns, s_from_ns


def round_fields(
    config: Config,
    ledger: Ledger,
    dispatcher: Dispatcher,
    totals: Totals,
    *,
    now: Ns,
    cohort: tuple[Contribution, ...],
    before: Cadence,
    after: Cadence,
    outcome: GateOutcome,
    num_eligible: int,
    stop_reason: str | None,
) -> dict[str, object]:
    """Fields of an ``agg_round`` event, but for what was measured on the wall.

    Args:
        config: The run's configuration.
        ledger: Client states after the cycle.
        dispatcher: K and C of the cycle.
        totals: Counters of the run.
        now: Logical time of the end of the cycle.
        cohort: Its updates in commit order.
        before: Position of the run during the cycle.
        after: Position after it.
        outcome: What the gate decided.
        num_eligible: Clients that may be asked next.
        stop_reason: Why the run ends here; None if it goes on.
    """
    tasks = [contribution.update.task for contribution in cohort]
    dues = [contribution.update.due_ns for contribution in cohort]
    return {
        "round": before.round,
        "cycle": before.num_cycles,
        "goal": dispatcher.goal,
        "goal_count": len(cohort),
        "in_flight": ledger.num_in_flight,
        "updates_in_queue": sum(1 for f in ledger.in_flight() if f.due_ns <= now),
        "staleness": [contribution.staleness for contribution in cohort],
        "stat_utility": [contribution.payload.stat_utility for contribution in cohort],
        "trainer_speed_s": [s_from_ns(task.duration_ns) for task in tasks],
        "contributing_trainers": [task.client for task in tasks],
        "contributor_intervals": [_interval(contribution, now) for contribution in cohort],
        "visibility_lag_s": [s_from_ns(now - due) for due in dues],
        "barrier_wait_s": s_from_ns(now - dues[0]),
        "cycle_bin": before.bin,
        "cycle_iteration": before.iteration,
        "grad_pool_size": len(cohort),
        "cached_pool_size": outcome.pool_size - len(cohort),
        "bin": after.bin,
        "iteration": after.iteration,
        "version": after.version,
        "engine_s": s_from_ns(now),
        "var": outcome.variance,
        "var_threshold": config.gate.var_threshold,
        "var_good": outcome.is_natural,
        "commit_reason": outcome.reason.value if outcome.reason is not None else None,
        "stopping_policy": config.gate.stopping_policy,
        "agg_rate_type": config.aggregation.rate.name,
        "rates": outcome.rates,
        "gated_total": totals.gated,
        "redundant_suppressed_total": dispatcher.sender.num_suppressed,
        "surplus_total": totals.surplus,
        "dynamic_c": dispatcher.concurrency,
        "num_eligible": num_eligible,
        "grad_norm": outcome.aggregate_norm,
        "model_checksum": outcome.checksum,
        "forward_passes_total": totals.forward_passes,
        "stop_reason": stop_reason,
    }


def _interval(contribution: Contribution, now: Ns) -> dict[str, object]:
    """Residence of an update, from dispatch to commit.

    A late one is marked: its client was given up in between, so it may have been asked again before this commit.
    """
    task = contribution.update.task
    interval: dict[str, object] = {
        "client": task.client,
        "dispatch": s_from_ns(task.dispatch_ns),
        "commit": s_from_ns(now),
    }
    return {**interval, "late": True} if contribution.is_late else interval


def arrival_order(cohort: tuple[Contribution, ...]) -> dict[str, object]:
    """How the clock delivered the cohort: physical order, inversions against the logical one, worst lateness.

    The logical order is that of due times, whatever order the run commits in.
    """
    updates = sorted(
        (contribution.update for contribution in cohort),
        key=lambda update: (update.due_ns, update.task.duration_ns, update.task.client),
    )
    sent = [update.sent_ns for update in updates]
    inversions = sum(sent[i] > sent[j] for i in range(len(sent)) for j in range(i + 1, len(sent)))
    return {
        "arrival_order": [update.task.client for update in sorted(updates, key=lambda update: update.sent_ns)],
        "inversions": inversions,
        "worst_lateness_s": s_from_ns(max(update.sent_ns - update.due_ns for update in updates)),
    }
