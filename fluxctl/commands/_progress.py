"""Live progress of runs: a panel on a terminal, a line now and then elsewhere, JSON Lines for programs.

All three hear the same :class:`Tracker`, which turns the engine's progress lines into a state per run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fluxctl import wall
from fluxctl.commands._render import duration, number, rate
from fluxctl.commands._request import PlannedRun
from fluxctl.commands._talk import Talk, plain_text, print_json
from fluxctl.runs.records import VerdictRecord
from fluxctl.types import Mode

_LINE_EVERY_S: Final = 30.0
_LINE_EVERY_FRACTION: Final = 0.05
_HEARTBEAT_S: Final = 600.0  # a slow run is still heard of
_MIN_FRACTION_FOR_ETA: Final = 0.02


@dataclass
class RunState:
    """A run as last heard of."""

    run_id: str
    planned: PlannedRun
    max_wall_s: float
    started_s: float = field(default_factory=wall.monotonic_s)
    last: dict[str, Any] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """Short name for people."""
        config = self.planned.config
        return f"{config.label} {config.mode.value} seed {config.seed}"

    @property
    def phase(self) -> str:
        """``start``, ``prepare`` or ``train``."""
        return str(self.last.get("phase", "start"))

    @property
    def wall_s(self) -> float:
        """Wall seconds since the launch."""
        return wall.monotonic_s() - self.started_s

    @property
    def fraction(self) -> float:
        """How far the run is by the stop rule that will bind first, 0 to 1."""
        if self.phase != "train":
            total = _float(self.last.get("total"))
            return min(1.0, _float(self.last.get("done")) / total) if total > 0 else 0.0
        config = self.planned.config
        parts = [_float(self.last.get("engine_s")) / config.runtime_budget_s()]
        if config.limits.max_bins is not None:
            parts.append(_float(self.last.get("bins")) / config.limits.max_bins)
        return min(1.0, max(parts))

    @property
    def eta_s(self) -> float | None:
        """Wall seconds to the end if nothing else ends it before; None while unknown."""
        spent_s = _float(self.last.get("wall_s"))
        if self.phase != "train" or self.fraction < _MIN_FRACTION_FOR_ETA or spent_s <= 0:
            return None
        return spent_s * (1 - self.fraction) / self.fraction

    def warnings(self) -> list[str]:
        """Things to warn of that were not said yet."""
        found = {}
        if self.wall_s > 0.8 * self.max_wall_s:
            found["ceiling"] = f"80 % of the wall ceiling of {duration(self.max_wall_s)} is used up"
        pace = self.last.get("sim_rate")
        if self.planned.config.mode is Mode.SIM and isinstance(pace, int | float) and 0 < pace < 1 and self.wall_s > 30:
            found["slow"] = f"the simulation is slower than reality (sim rate {pace:.2f})"
        fresh = {key: text for key, text in found.items() if key not in self.warned}
        self.warned |= set(fresh)
        return list(fresh.values())

    def describe(self) -> str:
        """One line."""
        if self.phase != "train":
            what = str(self.last.get("what") or "starting")
            total = number(self.last.get("total"))
            return f"{what} {number(self.last.get('done'))}/{total}" if total != "-" else what
        limits, last = self.planned.config.limits, self.last
        bins = number(last.get("bins")) + (f"/{limits.max_bins}" if limits.max_bins is not None else "")
        parts = [
            f"{100 * self.fraction:.0f} %",
            f"bins {bins}",
            f"acc {number(last.get('accuracy'), '.3f')} (best {number(last.get('best_accuracy'), '.3f')})",
            f"engine {duration(_float(last.get('engine_s')))}",
            f"wall {duration(self.wall_s)}",
            f"x{rate(last.get('sim_rate'))}",
            f"in flight {number(last.get('in_flight'))}",
            f"ETA {duration(self.eta_s)}",
        ]
        return ", ".join(parts)


class Display(Protocol):
    """Shows runs; every method may be called at any time between ``open`` and ``close``."""

    def open(self) -> None:
        """Begin."""
        ...

    def close(self) -> None:
        """End; nothing of the display may survive it."""
        ...

    def started(self, state: RunState) -> None:
        """A run has started."""
        ...

    def turn(self, live: Mapping[str, RunState], changed: RunState, *, is_milestone: bool) -> None:
        """A run may have something new."""
        ...

    def ended(self, state: RunState, verdict: VerdictRecord, row: Mapping[str, Any]) -> None:
        """A run has ended."""
        ...


class Silent:
    """Shows nothing."""

    def open(self) -> None: ...
    def close(self) -> None: ...
    def started(self, state: RunState) -> None: ...
    def turn(self, live: Mapping[str, RunState], changed: RunState, *, is_milestone: bool) -> None: ...
    def ended(self, state: RunState, verdict: VerdictRecord, row: Mapping[str, Any]) -> None: ...


class Lines:
    """A line per milestone, and one when at least 30 s and 5 % have passed."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._shown: dict[str, tuple[float, float]] = {}  # run -> (wall seconds, fraction) of its last line

    def open(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing to tidy up."""

    def started(self, state: RunState) -> None:
        """A run has started."""
        self._talk.say(f"{state.name}: started as {state.run_id}")

    def turn(self, live: Mapping[str, RunState], changed: RunState, *, is_milestone: bool) -> None:
        """Print a line if it is time for one."""
        del live
        at_s, fraction = self._shown.get(changed.run_id, (0.0, 0.0))
        waited_s = changed.wall_s - at_s
        is_due = waited_s >= _LINE_EVERY_S and abs(changed.fraction - fraction) >= _LINE_EVERY_FRACTION
        if is_milestone or is_due or waited_s >= _HEARTBEAT_S:
            self._shown[changed.run_id] = (changed.wall_s, changed.fraction)
            self._talk.say(f"{changed.name}: {changed.describe()}")

    def ended(self, state: RunState, verdict: VerdictRecord, row: Mapping[str, Any]) -> None:
        """Print how it ended."""
        del row
        self._talk.say(_end_line(state, verdict))


class Panel:
    """A live panel with a line per run; the lines of ended runs stay above it."""

    def __init__(self, console: Console) -> None:
        self._runs: Mapping[str, RunState] = {}
        self._console = console
        self._live = Live(
            console=console,
            get_renderable=lambda: Group(*map(self._line, list(self._runs.values()))),
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
        )

    def open(self) -> None:
        """Take the bottom of the screen."""
        self._live.start()

    def close(self) -> None:
        """Give it back."""
        self._live.stop()

    def started(self, state: RunState) -> None:
        """Runs appear in the panel by themselves."""

    def turn(self, live: Mapping[str, RunState], changed: RunState, *, is_milestone: bool) -> None:
        """Remember the runs; the panel redraws itself."""
        del changed, is_milestone
        self._runs = live

    def ended(self, state: RunState, verdict: VerdictRecord, row: Mapping[str, Any]) -> None:
        """Leave a line above the panel."""
        del row
        self._console.print(plain_text(_end_line(state, verdict)), soft_wrap=True)

    def _line(self, state: RunState) -> Text:
        width = 20
        full = round(width * state.fraction)
        text = plain_text(f"{state.name} ", "bold")
        text.append("━" * full, "cyan").append("─" * (width - full), "dim")
        return text.append_text(plain_text(f" {state.describe()}", "not bold"))


class Stream:
    """JSON Lines on stdout."""

    def open(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing to tidy up."""

    def started(self, state: RunState) -> None:
        """Announce a run."""
        config = state.planned.config
        names = {"id": state.run_id, "baseline": config.baseline, "mode": config.mode.value, "seed": config.seed}
        print_json({"event": "run_started", **names})

    def turn(self, live: Mapping[str, RunState], changed: RunState, *, is_milestone: bool) -> None:
        """Pass the engine's progress on; it comes about once a second."""
        del live, is_milestone
        if changed.last:
            print_json({**changed.last, "event": "progress", "id": changed.run_id})

    def ended(self, state: RunState, verdict: VerdictRecord, row: Mapping[str, Any]) -> None:
        """Tell how it ended."""
        del state
        print_json({"event": "run_ended", **row, "reason": verdict.reason})


def _end_line(state: RunState, verdict: VerdictRecord) -> str:
    reason = f": {verdict.reason}" if verdict.reason else ""
    return f"{state.name}: {verdict.verdict.value}{reason} ({duration(state.wall_s)})"


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
