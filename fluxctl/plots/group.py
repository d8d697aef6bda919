"""The runs of a figure, in groups: one group is one line, its members are the seeds of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluxctl.plots.cut import Cut, has_learned, num_shown
from fluxctl.plots.style import SYSTEM, Look, Wanted, looks_for
from fluxctl.telemetry.series import Axis, RunSeries
from fluxctl.types import Mode


@dataclass(frozen=True, slots=True)
class Options:
    """How figures are drawn.

    Attributes:
        axis: What curves run along.
        smooth: Evaluations in the moving average of the thick line; 1 = none. No printed number depends on it.
        cut: Where curves end.
        system_name: What to call the system itself.
        warning: What every figure must say: that it mixes conditions. Empty if it does not.
    """

    axis: Axis = Axis.ENGINE
    smooth: int = 5
    cut: Cut = Cut.PEAK_ACC
    system_name: str = SYSTEM
    warning: str = ""


@dataclass(frozen=True)
class Shown:
    """One run, and how much of it is shown.

    Attributes:
        series: Its numbers.
        num_evals: Evaluations shown, from the first on.
    """

    series: RunSeries
    num_evals: int

    @property
    def last(self) -> int | None:
        """Row of the last evaluation shown; None without any."""
        return self.num_evals - 1 if self.num_evals else None


@dataclass(frozen=True)
class Group:
    """What one line of a figure stands for.

    Attributes:
        label: Its name, as given or as registered; unshortened.
        look: How it is drawn.
        runs: One run, or one for each seed.
    """

    label: str
    look: Look
    runs: tuple[Shown, ...]

    @property
    def is_single(self) -> bool:
        """Whether there is only one run, so that there is nothing to average."""
        return len(self.runs) == 1


def make_groups(runs: Sequence[tuple[str, RunSeries]], options: Options) -> list[Group]:
    """Put runs into groups, in the registry's order.

    Runs with one label, or without a label and with one baseline, variant, mode and fingerprint, are seeds of one
    thing. A second run with a seed that its group already has makes a group of its own.

    Args:
        runs: Pairs of a label, empty for the registry's name, and a run.
        options: Its cut and the system's name are used.
    """
    members: dict[tuple[str, ...], list[RunSeries]] = {}
    for label, series in runs:
        facts = series.facts
        alone = "" if facts.seedless else facts.id
        key = (label, facts.baseline or facts.id, facts.variant, facts.mode, facts.seedless, alone)
        number = 0
        while any(facts.seed == other.facts.seed for other in members.get((*key, str(number)), [])):
            number += 1
        members.setdefault((*key, str(number)), []).append(series)
    modes = {key[3] for key in members}
    wanted = [_wanted(key, with_mode=len(modes) > 1) for key in members]
    looks = looks_for(wanted, options.system_name)
    groups = [
        Group(look.name, look, tuple(Shown(series, num_shown(series.evaluations, options.cut)) for series in group))
        for look, group in zip(looks, members.values(), strict=True)
    ]
    is_labelled = any(label for label, _ in runs)
    return groups if is_labelled else sorted(groups, key=lambda group: group.look.order)


def _wanted(key: tuple[str, ...], *, with_mode: bool) -> Wanted:
    label, baseline, variant, mode, _, _, number = key
    parts = [variant, f"({mode})" if with_mode and mode else "", f"#{int(number) + 1}" if number != "0" else ""]
    extra = " ".join(part for part in parts if part)
    return Wanted(f"{label} #{int(number) + 1}" if label and number != "0" else label, baseline, extra)


def cut_notes(groups: Sequence[Group], cut: Cut) -> list[str]:
    """What to say about evaluations that are not shown, and about runs that never learned."""
    where = "the peak of its accuracy" if cut is Cut.PEAK_ACC else "the plateau of its loss"
    left = {group.label: [len(shown.series.evaluations) - shown.num_evals for shown in group.runs] for group in groups}
    lost = [f"{label} {', '.join(map(str, nums))}" for label, nums in left.items() if any(nums)]
    notes = (
        [f"Each run is shown up to {where}. Later evaluations left out (--cut none): {'; '.join(lost)}."]
        if lost
        else []
    )
    for group in groups:
        for shown in group.runs:
            evaluations = shown.series.evaluations
            if cut is not Cut.NONE and len(evaluations) and not has_learned(evaluations):
                who = group.label if group.is_single else f"{group.label}, seed {shown.series.facts.seed},"
                notes.append(f"{who} never learned: it is shown whole.")
    return notes


def seeds_note(groups: Sequence[Group], what: str) -> list[str]:
    """What the lines of several seeds are; nothing if there are none."""
    counts = {group.label: len(group.runs) for group in groups if not group.is_single}
    if len(counts) == len(groups) and len(set(counts.values())) == 1:
        return [f"{what} of {next(iter(counts.values()))} seeds."]
    return [f"{what} of seeds: {'; '.join(f'{label} {num}' for label, num in counts.items())}."] if counts else []


def mode_name(mode: str) -> str:
    """A mode in words."""
    return {Mode.REAL.value: "wall clock", Mode.SIM.value: "virtual clock"}.get(mode, mode or "unknown clock")
