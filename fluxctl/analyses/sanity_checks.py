"""The self-checks of a finished run; each is one function from what was read to how it came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

from fluxctl.analyses.payloads import COMM, full_payloads
from fluxctl.config.model import Config
from fluxctl.policies.stopping import StopConditions, StopState
from fluxctl.runs.layout import RunFolder
from fluxctl.runs.records import VerdictRecord
from fluxctl.runs.wishes import read_wish
from fluxctl.telemetry.columns import Columns, Kind, Wanted
from fluxctl.telemetry.evaluations import evaluations
from fluxctl.telemetry.residence import ABANDON, Stays, stays_in_flight
from fluxctl.types import Verdict, s_from_ns


class SanityStatus(StrEnum):
    """How a check came out; ``skip`` = it does not apply to this run, and the message says why."""

    OK = "ok"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class Facts:
    """What the checks look at.

    Attributes:
        folder: The run.
        config: What it was asked to do.
        columns: Its events, as far as :data:`WANTED`.
        verdict: How it ended; None if nobody has said.
    """

    folder: RunFolder
    config: Config
    columns: Columns
    verdict: VerdictRecord | None

    def summary(self, name: str) -> int | None:
        """A count of the verdict's summary; None if it has none, as that of a crashed run."""
        value = None if self.verdict is None else self.verdict.summary.get(name)
        return value if isinstance(value, int) else None


Check: TypeAlias = Callable[[Facts], tuple[SanityStatus, str]]
CHECKS: Final[dict[str, Check]] = {}
WANTED: Final[Wanted] = {
    "agg_eval": {"version": Kind.INT, "test_accuracy": Kind.FLOAT, "test_loss": Kind.FLOAT},
    "agg_round": {
        "commit_reason": Kind.LABEL,
        "version": Kind.INT,
        "forward_passes_total": Kind.INT,
        "contributor_intervals[].client": Kind.INTS,
        "contributor_intervals[].dispatch": Kind.FLOATS,
        "contributor_intervals[].commit": Kind.FLOATS,
    },
    "trainer_round": {"client": Kind.INT, "forward_passes": Kind.INT, "forward_passes_total": Kind.INT},
    "comm": COMM,
    "residence": {
        name: Kind.INT
        for name in ("in_flight_before", "in_flight_after", "num_selected", "num_committed", "num_cleaned")
    },
    "abandon": ABANDON,
}
_BY_RULE: Final = (
    Verdict.COMPLETED,
    Verdict.CONVERGED,
    Verdict.DID_NOT_CONVERGE,
    Verdict.STALLED,
    Verdict.DIVERGED,
    Verdict.NO_ROUNDS,
)


def _check(function: Check) -> Check:
    CHECKS[function.__name__.strip("_")] = function
    return function


def _verdict_on(complaints: Iterator[str], praise: str) -> tuple[SanityStatus, str]:
    found = list(complaints)
    return (SanityStatus.FAIL, "; ".join(found)) if found else (SanityStatus.OK, praise)


@_check
def _readable(facts: Facts) -> tuple[SanityStatus, str]:
    """Every line of the event file is an event."""
    problems = facts.columns.problems
    if not problems:
        return SanityStatus.OK, f"{sum(facts.columns.counts.values())} events, no damaged line"
    first = problems[0]
    return SanityStatus.FAIL, f"{len(problems)} damaged lines; line {first.line}: {first.message}"


@_check
def _evaluations(facts: Facts) -> tuple[SanityStatus, str]:
    """The model was evaluated at the start and after each commit, and every number is finite."""
    table = facts.columns["agg_eval"]
    num_commits = _num_commits(facts)
    if not len(table):
        return SanityStatus.FAIL, "there is no evaluation"
    values = np.stack([table.numbers("test_accuracy"), table.numbers("test_loss")])
    num_bad = int((~np.isfinite(values)).any(axis=0).sum())
    has_diverged = facts.verdict is not None and facts.verdict.verdict is Verdict.DIVERGED

    def complaints() -> Iterator[str]:
        if num_bad and not has_diverged:
            yield f"{num_bad} of {len(table)} evaluations are not finite"
        if len(table) != num_commits + 1:
            yield f"{len(table)} evaluations for {num_commits} commits; expected one at the start and one for each"

    end = f", {num_bad} of them not finite, which its verdict says" if num_bad else ", all finite"
    return _verdict_on(complaints(), f"{len(table)} evaluations{end}")


@_check
def _residence(facts: Facts) -> tuple[SanityStatus, str]:
    """No client was in flight twice at once, and the slots add up at every cycle."""
    stays = _stays(facts.columns)
    num_overlaps = len(stays.overlaps)
    table = facts.columns["residence"]
    num_wrong = 0
    if len(table):
        before, after, selected, committed, cleaned = (table.ints(name) for name in WANTED["residence"])
        is_wrong = (before - committed - cleaned + selected != after) | (selected < 0) | (after < 0)
        num_wrong = int(is_wrong.sum())

    def complaints() -> Iterator[str]:
        if num_overlaps:
            yield f"{num_overlaps} of {len(stays)} stays in flight overlap another one of the same client"
        if num_wrong:
            yield f"in flight does not add up at {num_wrong} of {len(table)} cycles"

    return _verdict_on(complaints(), f"overlap 0 over {len(stays)} stays in flight")


def _stays(columns: Columns) -> Stays:
    """Stays in flight that ended in a commit."""
    table = columns["agg_round"]
    if not len(table) or "contributor_intervals[].client" not in table:
        nothing = np.zeros(0, dtype=np.int64)
        return Stays(nothing, nothing, nothing)
    clients = table.lists("contributor_intervals[].client").values.astype(np.int64)
    starts, ends = (
        table.lists(f"contributor_intervals[].{name}").values.astype(np.float64) for name in ("dispatch", "commit")
    )
    return stays_in_flight(clients, starts, ends, columns["abandon"])


@_check
def _traffic(facts: Facts) -> tuple[SanityStatus, str]:
    """Bytes went both ways, as many as the summary says."""
    table = facts.columns["comm"]
    if not len(table):
        return SanityStatus.FAIL, "no message was sent"
    directions, sizes = table.labels("direction"), table.ints("bytes")
    total = {way: int(sizes[directions.equals(way)].sum()) for way in ("down", "up")}

    def complaints() -> Iterator[str]:
        for way, num_bytes in total.items():
            if num_bytes <= 0:
                yield f"no bytes went {way}"
            told = facts.summary(f"bytes_{way}")
            if told is not None and told != num_bytes:
                yield f"{num_bytes} bytes {way} in the events, {told} in the summary"

    return _verdict_on(complaints(), f"{total['down']} bytes down, {total['up']} bytes up")


@_check
def _commits(facts: Facts) -> tuple[SanityStatus, str]:
    """Every commit is a bin and a model version."""
    num_commits = _num_commits(facts)
    table = facts.columns["agg_round"]
    version = int(table.ints("version")[-1]) if len(table) else 0
    bins = facts.summary("bins")

    def complaints() -> Iterator[str]:
        if version != num_commits:
            yield f"{num_commits} commits, but the model's version is {version}"
        if bins is not None and bins != num_commits:
            yield f"{num_commits} commits, but {bins} bins in the summary"

    return _verdict_on(complaints(), f"{num_commits} commits, version {version}")


def _num_commits(facts: Facts) -> int:
    table = facts.columns["agg_round"]
    return int((table.labels("commit_reason").codes >= 0).sum()) if "commit_reason" in table else 0


@_check
def _passes(facts: Facts) -> tuple[SanityStatus, str]:
    """Forward passes of the clients, of the aggregator and of the summary agree."""
    table = facts.columns["trainer_round"]
    if not len(table):
        return SanityStatus.FAIL, "no client step is recorded"
    clients, passes, running = (table.ints(name) for name in WANTED["trainer_round"])
    total = int(passes.sum())
    order = np.argsort(clients, kind="stable")
    sums = np.cumsum(passes[order])
    is_first = np.r_[True, clients[order][1:] != clients[order][:-1]]
    before = np.where(is_first, sums - passes[order], 0)
    counted = sums - np.maximum.accumulate(before)
    num_wrong = int((counted != running[order]).sum())
    rounds = facts.columns["agg_round"]
    at_last_cycle = int(rounds.ints("forward_passes_total")[-1]) if len(rounds) else 0
    told = facts.summary("forward_passes")

    def complaints() -> Iterator[str]:
        if num_wrong:
            yield f"a client's running total is wrong in {num_wrong} of {len(table)} steps"
        if at_last_cycle > total:
            yield f"{at_last_cycle} passes at the last cycle, but the clients made {total}"
        if told is not None and told != total:
            yield f"the clients made {total} passes, the summary says {told}"

    return _verdict_on(complaints(), f"{total} passes in {len(table)} steps")


@_check
def _verdict(facts: Facts) -> tuple[SanityStatus, str]:
    """The verdict is the one in the stream, and the one that the stop rules give for these evaluations."""
    record, told = facts.verdict, facts.columns.verdict.get("verdict")
    if record is None:
        return SanityStatus.FAIL, "the run has no verdict"
    verdict = record.verdict
    if told is None:
        message = f"{verdict.value}, and the stream ends without it"
        return (SanityStatus.FAIL if verdict in _BY_RULE else SanityStatus.OK), message
    if told != verdict.value:
        return SanityStatus.FAIL, f"verdict.json says {verdict.value}, the stream {told}"
    return _ruled(facts, record) if verdict in _BY_RULE else (SanityStatus.OK, f"{verdict.value}: {record.reason}")


def _ruled(facts: Facts, record: VerdictRecord) -> tuple[SanityStatus, str]:
    """Whether the verdict of a stop rule is what the rules give, or what somebody who watched the run asked for."""
    verdict, wish = record.verdict, read_wish(facts.folder)
    if wish is not None and wish.verdict is verdict:
        return SanityStatus.OK, f"{verdict.value}, as somebody asked who watched the run: {wish.reason}"
    replayed = _replayed(facts)
    if replayed is verdict:
        return SanityStatus.OK, f"{verdict.value}, and the stop rules say so: {record.reason}"
    now = "go on" if replayed is None else f"say {replayed.value}"
    return SanityStatus.FAIL, f"{verdict.value}, but the stop rules {now} for these evaluations"


def _replayed(facts: Facts) -> Verdict | None:
    """What the run's own stop rules decide when they see its evaluations again."""
    config = facts.config
    state = StopState(StopConditions(config.limits, config.runtime_budget_s(), 1 / len(config.data.classes)))
    for point in evaluations(facts.folder.events):
        state = state.update(point)
    state = state.tick(s_from_ns(facts.columns.last_ns))
    return None if state.decision is None else state.decision.verdict


@_check
def _full_payloads(facts: Facts) -> tuple[SanityStatus, str]:
    """At most one full payload per client and model version."""
    sent = full_payloads(facts.columns["comm"])
    message = f"{sent.num_full} full payloads, at most {sent.most} per client and version"
    if not facts.config.messages.suppress_redundant_weights:
        return SanityStatus.SKIP, f"{message}; the run was asked to send weights each time"
    return (SanityStatus.OK if sent.most <= 1 else SanityStatus.FAIL), message
