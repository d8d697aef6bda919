"""Whether receipts of tasks are stamped with the engine's clock.

The predecessor stamped messages only when it simulated, so its check was that a real run has no stamp. Here both clocks
stamp with logical time; what must not happen is a stamp that is missing, stuck at zero, or taken from the wall.
"""

from __future__ import annotations

import numpy as np

from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import skip
from fluxctl.telemetry.columns import MISSING_INT


@rung(
    "D50",
    "K6",
    "sim_send_ts",
    stage="4",
    tier=Tier.INV,
    role=Role.CONTROL,
    question="Does every task carry the engine's time at which it was sent?",
    broken="Tasks carry no time, a frozen one or that of another clock, so due times computed from it are wrong.",
    needs=("D2",),
)
def sim_send_ts(left: Observed, right: Observed, options: Options) -> Finding:  # noqa: ARG001 - whole runs
    """Receipts without a stamp, stamped zero twice, without such a dispatch, or from another clock."""
    silent = [run.label for run in (left, right) if not len(run["task_recv"])]
    if silent:
        return skip(f"no task was received: {', '.join(silent)}")
    wrong = [_wrong(run) for run in (left, right)]
    num_wrong = sum(sum(counts.values()) for counts in wrong)
    kinds = sorted({kind for counts in wrong for kind, count in counts.items() if count})
    return Finding(
        Status.FAIL if num_wrong else Status.PASS,
        float(num_wrong),
        "= 0 wrong stamps",
        min(len(left["task_recv"]), len(right["task_recv"])),
        f"{num_wrong} receipts are wrong: {', '.join(kinds)}" if num_wrong else "all receipts carry engine time",
        {"left": wrong[0], "right": wrong[1]},
    )


def _wrong(run: Observed) -> dict[str, int]:
    table = run["task_recv"]
    if "dispatch_ns" not in table:
        return {"without a stamp": len(table)}
    stamps, clients = table.ints("dispatch_ns"), table.ints("client")
    known = stamps != MISSING_INT
    at_zero = clients[known & (stamps == 0)]
    counts = {
        "without a stamp": int((~known).sum()),
        "stuck at zero": len(at_zero) - len(np.unique(at_zero)),
        "before the start or after the end": int(((stamps < 0) | (stamps > run.columns.last_ns))[known].sum()),
    }
    if "dispatch_ns" in run["dispatch"]:
        sent = run["dispatch"].ints("dispatch_ns")
        counts["sent at no such time"] = int((~np.isin(stamps[known], sent)).sum())
    if "wall.mode" in table:
        counts["from the other clock"] = int((~table.labels("wall.mode").equals(run.mode.value)).sum())
    return counts
