"""Whether a real run may stand for reality: it is checked by itself before anything is compared with it (A29).

A real run that broke its own rules (too many clients in flight, a cohort that was never dispatched, an update that the
wall delivered too late to keep its place) proves nothing about the simulation. This module must not compare runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.result import Options, Status
from fluxctl.parity.rungs.d34_inflight_overlap import inflight_overlap
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import AbsentField, Ints, Ragged
from fluxctl.telemetry.reader import read_lines
from fluxctl.types import JSON, Verdict

_MAX_OVERLAP: Final = 0.005  # share of a client's consecutive contributions
_SLACK_NOTE: Final = "reorder_slack_exhausted"
_UNUSABLE: Final = frozenset({Verdict.CRASHED, Verdict.TIMEOUT, Verdict.NO_ROUNDS, Verdict.BLOCKED})


@dataclass(frozen=True, slots=True)
class Check:
    """One condition on a real run.

    Attributes:
        name: What it is about.
        status: PASS or FAIL; SKIP if the run does not say.
        message: What was found, one line for a person.
    """

    name: str
    status: Status
    message: str


@dataclass(frozen=True)
class Admission:
    """Whether a real run may be compared with.

    Attributes:
        label: Which run.
        checks: All conditions.
        speedup_ceiling: Wall seconds of the run over the seconds in which it worked: about how many times as fast a
            simulation on one core can be; None if unknown.
    """

    label: str
    checks: tuple[Check, ...]
    speedup_ceiling: float | None

    @property
    def is_admissible(self) -> bool:
        """Whether no condition is broken."""
        return not self.broken

    @property
    def broken(self) -> tuple[Check, ...]:
        """The conditions that are."""
        return tuple(check for check in self.checks if check.status is Status.FAIL)

    def to_json(self) -> dict[str, JSON]:
        """The checks as JSON."""
        return {
            "run": self.label,
            "is_admissible": self.is_admissible,
            "speedup_ceiling": self.speedup_ceiling,
            "checks": [
                {"name": check.name, "status": check.status.value, "message": check.message} for check in self.checks
            ],
        }


def admit(run: Observed) -> Admission:
    """Check a real run by itself."""
    checks: dict[str, Callable[[Observed], Check]] = {
        "ending": _ending,
        "concurrency": _concurrency,
        "selection": _selection,
        "dispatch": _dispatch,
        "cycles": _cycles,
        "residence": _residence,
        "order": _order,
    }
    return Admission(run.label, tuple(_try(name, check, run) for name, check in checks.items()), _ceiling(run))


def _try(name: str, check: Callable[[Observed], Check], run: Observed) -> Check:
    try:
        return check(run)
    except AbsentField as absent:
        return Check(name, Status.SKIP, f"no event carries {absent.path}")


def _judged(name: str, is_ok: bool, good: str, bad: str) -> Check:
    return Check(name, Status.PASS if is_ok else Status.FAIL, good if is_ok else bad)


def _ending(run: Observed) -> Check:
    verdict = None if run.folder is None else RunFolder(run.folder).read_verdict()
    if verdict is None:
        return Check("ending", Status.SKIP, "no verdict says how the run ended")
    told = f"the run ended {verdict.verdict.value}: {verdict.reason}"
    return Check("ending", Status.FAIL if verdict.verdict in _UNUSABLE else Status.PASS, told)


def _concurrency(run: Observed) -> Check:
    selections = run["selection"]
    chosen = selections.ints("num_chosen")
    busy = selections.ints("in_flight") + chosen
    limit = selections.ints("effective_c")
    # A controller may lower C below what is in flight already; then nobody may be added.
    worst = int(np.argmax(np.where(chosen > 0, busy - limit, -limit)))
    return _judged(
        "concurrency",
        bool(busy[worst] <= limit[worst] or chosen[worst] == 0),
        f"never more than {int(busy.max())} clients in flight, C is {int(limit.max())}",
        f"{int(busy[worst])} clients were in flight at selection {worst + 1}, C is {int(limit[worst])}",
    )


def _selection(run: Observed) -> Check:
    selections = run["selection"]
    chosen, num_chosen = selections.lists("chosen"), selections.ints("num_chosen")
    wrong = (chosen.lengths != num_chosen) | (num_chosen > selections.ints("num_candidates")) | _repeats(chosen)
    num = int(wrong.sum())
    first = int(np.argmax(wrong)) + 1
    return _judged(
        "selection",
        num == 0,
        f"all {len(selections)} selections name as many distinct clients as they count",
        f"{num} of {len(selections)} selections contradict themselves, the first is number {first}",
    )


def _repeats(lists: Ragged) -> np.typing.NDArray[np.bool_]:
    """Rows that name a client twice."""
    rows = np.repeat(np.arange(len(lists)), lists.lengths)
    order = np.lexsort((lists.values, rows))
    values, rows = lists.values[order], rows[order]
    is_repeat = (values[1:] == values[:-1]) & (rows[1:] == rows[:-1])
    found = np.zeros(len(lists), dtype=bool)
    found[rows[1:][is_repeat]] = True
    return found


def _dispatch(run: Observed) -> Check:
    dispatches = run["dispatch"]
    clients = dispatches.ints("client")
    asked = _per_client(np.asarray(run["selection"].lists("chosen").values, dtype=np.int64))
    sent = _per_client(clients)
    again = _per_client(clients[dispatches.ints("attempt") > 0])  # a retry after an error needs no selection
    wrong = sorted(client for client in {*asked, *sent} if not 0 <= sent[client] - asked[client] <= again[client])
    example = wrong[0] if wrong else 0
    return _judged(
        "dispatch",
        not wrong,
        f"all {sum(asked.values())} tasks that were decided were sent, and no others",
        f"{len(wrong)} clients were not sent what was decided; client {example} was chosen {asked[example]} times"
        f" and sent {sent[example]} tasks",
    )


def _per_client(clients: Ints) -> Counter[int]:
    return Counter(clients.tolist())


def _cycles(run: Observed) -> Check:
    above = run.cycles.ints("goal_count") > run.cycles.ints("goal")
    num = int(above.sum())
    return _judged(
        "cycles",
        num == 0,
        f"none of {len(above)} cycles took more than K updates",
        f"{num} of {len(above)} cycles took more than K updates",
    )


def _residence(run: Observed) -> Check:
    found = inflight_overlap(run, run, Options())
    if found.value is None:
        return Check("residence", Status.SKIP, found.message)
    return _judged(
        "residence",
        found.value <= _MAX_OVERLAP,
        f"{found.value:.2%} of contributions overlap with their client's last one",
        f"{found.value:.2%} of contributions overlap with their client's last one, at most {_MAX_OVERLAP:.1%} may",
    )


def _order(run: Observed) -> Check:
    if run.folder is None or not (notes := RunFolder(run.folder).wall_events).is_file():
        return Check("order", Status.SKIP, "the run has no wall.jsonl")
    late = sum(note.get("event") == _SLACK_NOTE for _, note in read_lines(notes))
    return _judged(
        "order",
        late == 0,
        "every update arrived in time to keep its place",
        f"{late} updates arrived too late to keep their place in the logical order: the reorder slack ran out",
    )


def _ceiling(run: Observed) -> float | None:
    try:
        work_s = float(np.nansum(run.updates.numbers("wall.compute_s")))
        work_s += sum(float(np.nansum(run.cycles.numbers(f"wall.{name}"))) for name in ("aggregate_s", "eval_s"))
        return float(np.nanmax(run.cycles.numbers("wall.wall_s"))) / work_s if work_s else None
    except AbsentField:
        return None
