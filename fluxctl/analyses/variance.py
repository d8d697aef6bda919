"""How the variance gate spent a run: how bins came to be committed, whether its threshold can be reached, what-ifs.

The statistic of a bin falls as updates pile up, roughly as one over their number, until it meets the threshold or a
rule gives up. A threshold below what bins reach costs almost every cycle and commits nothing by itself; the run does
not say so anywhere, this analysis does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from fluxctl.analyses.bins import CYCLES, BinHistory, bin_histories
from fluxctl.analyses.figures import bars, variance_curves
from fluxctl.analyses.floor import Floor, reachable_floor
from fluxctl.analyses.gate_replay import Replay, replay, sweep
from fluxctl.analyses.reading import events_of
from fluxctl.analyses.result import Analysis, Cell, Chart, Drawing, Grid, Measure, percent, plural
from fluxctl.config.load import read_config
from fluxctl.config.model import GateConfig
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import Columns, Wanted
from fluxctl.types import JSON, CommitReason

WANTED: Final[Wanted] = {"agg_round": CYCLES}
_CANNOT_KNOW: Final = (
    "What-ifs replay the gate over the variances that were recorded. They are exact for how long a bin would have "
    "taken; a bin counted as open would have gone on to variances that nobody measured, so its cycles are the least "
    "that it could be; and they cannot tell how the model, hence later bins, would have changed."
)


def variance(folder: RunFolder, max_bins: int | None = None, *, columns: Columns | None = None) -> Analysis:
    """Look at a run's variance gate.

    Args:
        folder: A run.
        max_bins: Only its first so many bins, so that runs of different length compare like for like; None = all.
        columns: Its events, if they were read already with at least :data:`WANTED`; None = read them.

    Raises:
        NothingToDoError: If it has no events.
        ConfigError: If its configuration cannot be read.
        AbsentField: If its cycles name no bin.
    """
    gate = read_config(folder.config).config.gate
    histories = bin_histories(events_of(folder, WANTED, columns)["agg_round"], max_bins)
    own = replay(gate, histories)
    others = [replay(setting, histories) for setting in sweep(gate) if setting != gate] if gate.enabled else []
    floor = reachable_floor(gate.var_threshold, histories)
    data: dict[str, JSON] = {
        "gate": gate.model_dump(mode="json"),
        "num_bins": sum(history.reason is not None for history in histories),
        "num_cycles": sum(history.num_iterations for history in histories),
        "reasons": {reason.value: _num(histories, reason) for reason in CommitReason},
        "floor": floor.to_json(),
        "bins": [_bin_json(history) for history in histories],
        "replay_agrees": own.num_agreeing,
        "sweep": [item.to_json() for item in (own, *others)],
    }
    return Analysis(
        "variance",
        folder.id,
        conclusion(gate, histories, floor),
        (_reasons(histories), _sweep(own, others)),
        data,
        _charts(gate, histories, others),
        notes=_notes(gate, own, histories, max_bins),
    )


def conclusion(gate: GateConfig, histories: Sequence[BinHistory], floor: Floor) -> str:
    """The answer in one sentence."""
    num_commits = sum(history.reason is not None for history in histories)
    num_cycles = sum(history.num_iterations for history in histories)
    if not num_cycles:
        return "The run made no cycle, so its gate decided nothing."
    idle = percent((num_cycles - num_commits) / num_cycles, 1)
    if not gate.enabled:
        return f"The gate is off: each of {plural(num_cycles, 'cycle')} committed."
    if not floor.num_bins:
        return f"No variance was ever defined in {plural(num_cycles, 'cycle')}: a bin needs at least two updates."
    reached = f"{floor.num_reached} of {plural(floor.num_bins, 'bin')} came to the threshold of {gate.var_threshold:g}"
    if floor.is_below:
        projected = f", and would take about {floor.projected:,.0f} iterations to" if floor.projected else ""
        how = f"the median bin got down to {floor.median_lowest:.3g}{projected}"
        rule = "" if gate.stopping_policy == "off" else " before cap or plateau end a bin"
        return f"The gate is below the reachable floor{rule}: {reached}, {how}; {idle} of the cycles committed nothing."
    length = median(history.num_iterations for history in histories)
    return f"The gate can be reached: {reached}, the median bin took {length:g} iterations; {idle} of the cycles " + (
        "committed nothing."
    )


def _notes(gate: GateConfig, own: Replay, histories: Sequence[BinHistory], max_bins: int | None) -> tuple[str, ...]:
    notes = [_CANNOT_KNOW] if gate.enabled else []
    if own.num_agreeing != own.num_bins:
        notes.append(
            f"The run's own settings give the recorded commit for {own.num_agreeing} of {own.num_bins} bins only: its "
            "configuration or its variances are not those that it ran with."
        )
    if histories and histories[-1].reason is None:
        notes.append(f"The last bin was open when the run ended, after {histories[-1].num_iterations} iterations.")
    if max_bins is not None:
        notes.append(f"Only the first {plural(min(max_bins, len(histories)), 'bin')} are looked at.")
    return tuple(notes)


def _num(histories: Sequence[BinHistory], reason: CommitReason | None) -> int:
    return sum(history.reason is reason for history in histories)


def _bin_json(history: BinHistory) -> dict[str, JSON]:
    return {
        "number": history.number,
        "round": history.round,
        "bin": history.bin,
        "reason": None if history.reason is None else history.reason.value,
        "variances": list(history.variances),
    }


def _reasons(histories: Sequence[BinHistory]) -> Grid:
    rows: list[tuple[Cell, ...]] = []
    for reason in (*CommitReason, None):
        chosen = [history for history in histories if history.reason is reason]
        if chosen:
            lengths = [history.num_iterations for history in chosen]
            at_end = [value for history in chosen if (value := history.variances[-1]) is not None]
            name = "open at the end" if reason is None else reason.value
            at = median(at_end) if at_end else None
            rows.append((name, len(chosen), len(chosen) / len(histories), median(lengths), max(lengths), at))
    measures = (
        Measure("commit reason"),
        Measure("bins", ",.0f"),
        Measure("share", ".0%"),
        Measure("median iterations", ",.1f"),
        Measure("most", ",.0f"),
        Measure("median variance", ".3g"),
    )
    return Grid("How bins came to be committed", measures, tuple(rows))


def _sweep(own: Replay, others: Sequence[Replay]) -> Grid:
    rows: list[tuple[Cell, ...]] = []
    for item, is_own in ((own, True), *((other, False) for other in others)):
        label = f"{item.label} (this run)" if is_own else item.label
        saved = 1 - item.num_cycles / own.num_cycles if own.num_cycles else None
        least = "" if not item.num_open else "at least"
        counts = (item.reasons[reason] for reason in CommitReason)
        rows.append((label, *counts, item.num_open, least, item.num_cycles, saved, item.mean_variance))
    measures = (
        Measure("setting"),
        *(Measure(reason.value, ",.0f") for reason in CommitReason),
        Measure("open", ",.0f"),
        Measure(""),
        Measure("cycles", ",.0f"),
        Measure("saved", ".0%"),
        Measure("mean variance", ".3g"),
    )
    return Grid("What the gate would have done with other settings, on these variances", measures, tuple(rows))


def _charts(gate: GateConfig, histories: Sequence[BinHistory], others: Sequence[Replay]) -> tuple[Chart, ...]:
    def draw_curves() -> Drawing:
        return variance_curves(histories, _medians(histories), gate.var_threshold)

    def draw_sweep() -> Drawing:
        names = [item.label for item in others]
        split = {reason.value: [item.reasons[reason] for item in others] for reason in CommitReason}
        split["open"] = [item.num_open for item in others]
        return bars(names, split, x="setting", y="bins", stacked=True)

    curves = Chart(
        "variance",
        "Variance of each bin over its iterations",
        draw_curves,
        ("number", "round", "bin", "iteration", "variance", "reason"),
        list(_points(histories)),
    )
    if not others:
        return (curves,)
    rows: list[tuple[Cell, ...]] = [
        (item.label, *(item.reasons[reason] for reason in CommitReason), item.num_open, item.num_cycles)
        for item in others
    ]
    fields = ("setting", *(reason.value for reason in CommitReason), "open", "cycles")
    return curves, Chart("variance_sweep", "Other gate settings on these variances", draw_sweep, fields, rows)


def _points(histories: Sequence[BinHistory]) -> Iterator[tuple[Cell, ...]]:
    for history in histories:
        reason = "" if history.reason is None else history.reason.value
        for iteration, value in enumerate(history.variances):
            yield history.number, history.round, history.bin, iteration, value, reason


def _medians(histories: Sequence[BinHistory]) -> list[float]:
    """Median variance of the bins that got as far, by iteration; nan where it was never defined."""
    longest = max((history.num_iterations for history in histories), default=0)
    medians = []
    for iteration in range(longest):
        values = [
            value
            for history in histories
            if iteration < history.num_iterations and (value := history.variances[iteration]) is not None
        ]
        medians.append(median(values) if values else math.nan)
    return medians
