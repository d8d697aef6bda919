"""Whether both runs made the same decisions: who contributed, in which order, when the bin was committed, and why.

This is the ladder's central claim. It is exact and never excused: randomness is keyed and updates are committed in
logical order, so the two clocks leave nothing that could make a difference.
"""

from __future__ import annotations

from fluxctl.parity.bounds import no_rows
from fluxctl.parity.cohorts import CycleMatch, describe_cycle, in_words, match_cycles
from fluxctl.parity.horizon import windows_to_the_end
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import rung
from fluxctl.parity.result import Finding, Options, Role, Status, Tier
from fluxctl.parity.window import Window, skip, windows
from fluxctl.types import JSON


@rung(
    "D61",
    "cohort_sequence",
    "cohort_sequence",
    stage="6",
    tier=Tier.EXACT,
    role=Role.MECHANISM,
    question="Do both runs aggregate the same updates in the same order and decide the same, cycle by cycle?",
    broken="The simulation is another experiment: from the first difference on its model is not the real one.",
    needs=("D31", "D51", "D34", "D62"),
)
def cohort_sequence(left: Observed, right: Observed, options: Options) -> Finding:
    """Set, order, cadence and variance of every cycle, to the end or to the engine time that both have reached."""
    if not (left.has_cadence and right.has_cadence):
        return skip("the events carry no cadence: no bins, or no reasons of commits")
    first, second = (windows if options.strip_time else windows_to_the_end)(left, right, options)
    match = match_cycles(first, second)
    if not match.pairing.num_all:
        return no_rows("no bin was committed")
    whole = match.share(match.same)
    shares = {name: match.share(same) for name, same in match.aspects.items()}
    counts = {window.run.label: int(window.in_cycle.sum()) for window in (first, second)}
    detail: dict[str, JSON] = {**shares, "num_cycles": counts}
    message = f"{int(match.same.sum())} of {match.pairing.num_all} cycles are the same"
    if whole < 1:
        told, detail["first_difference"] = _first_difference(first, second, match)
        message += f" ({', '.join(f'{name} {share:.1%}' for name, share in shares.items())}); {told}"
    return Finding(
        Status.PASS if whole == 1 else Status.FAIL,
        whole,
        "= 1",
        min(counts.values()),
        message,
        detail,
    )


def _first_difference(first: Window, second: Window, match: CycleMatch) -> tuple[str, JSON]:
    """The first cycle that differs, in words and as numbers; or that one run has cycles that the other lacks."""
    at = match.first_difference
    if at is None:
        counts = [f"{window.run.label} {int(window.in_cycle.sum())}" for window in (first, second)]
        return f"cycles by then: {', '.join(counts)}", None
    sides = [(first.run, int(match.pairing.first[at])), (second.run, int(match.pairing.second[at]))]
    facts = {run.label: describe_cycle(run, row) for run, row in sides}
    told = "; ".join(f"{label}: {in_words(fact)}" for label, fact in facts.items())
    names = match.names_of(at)
    row = sides[0][1]
    return f"first difference at cycle {row} in {', '.join(names)}: {told}", {"cycle": row, "in": names, **facts}
