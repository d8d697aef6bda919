"""Live progress of runs: a panel on a terminal, a line now and then elsewhere, JSON Lines for programs.

All three hear of the same :class:`~fluxctl.commands._run_state.RunState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from fluxctl.commands._render import duration
from fluxctl.commands._run_state import RunState
from fluxctl.commands._spark import sparkline
from fluxctl.commands._talk import Talk, plain_text, print_json
from fluxctl.runs.records import VerdictRecord

_LINE_EVERY_S: Final = 30.0
_LINE_EVERY_FRACTION: Final = 0.05
_HEARTBEAT_S: Final = 600.0  # a slow run is still heard of
_BAR: Final = 20
_CURVE: Final = 24


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
    """A live panel with a bar and a line of measures per run; the lines of ended runs stay above it.

    Args:
        console: A terminal.
        num_runs: Runs of the launch.
    """

    def __init__(self, console: Console, num_runs: int) -> None:
        self._runs: Mapping[str, RunState] = {}
        self._num_runs, self._num_ended = num_runs, 0
        self._console = console
        self._live = Live(
            console=console,
            get_renderable=self.render,
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
        self._num_ended += 1
        self._console.print(plain_text(_end_line(state, verdict)), soft_wrap=True)

    def render(self) -> RenderableType:
        """The panel as it is now; as many runs as the screen has room for."""
        width, states = self._console.width, list(self._runs.values())
        room = max(1, (self._console.height - 2) // 2)
        names = max((cell_len(state.name) for state in states[:room]), default=0)
        lines = [line for state in states[:room] for line in _panel_lines(state, names, width)]
        left = self._num_runs - self._num_ended - len(states)
        told = f"{self._num_ended} of {self._num_runs} runs ended, {len(states)} running, {left} to come"
        hidden = f"; {len(states) - room} not shown" if len(states) > room else ""
        if self._num_runs > 1:
            lines.append(plain_text(told + hidden, "dim"))
        return Group(*lines)


def _panel_lines(state: RunState, names: int, width: int) -> list[Text]:
    """A bar with the estimate, and what has been reached; neither is wider than the screen."""
    bar = max(4, min(_BAR, width - names - 32))
    full = round(bar * state.fraction)
    head = plain_text(state.name, "bold").append(" " * (names - cell_len(state.name) + 1))
    head.append("━" * full, "cyan").append("─" * (bar - full), "dim")
    is_training = state.phase == "train"
    told = f" {100 * state.fraction:3.0f} %  ETA {state.eta}" if is_training else f" {state.preparation()}"
    head.append_text(plain_text(told, "not bold"))
    measures = plain_text("  ", "dim")
    if is_training:
        curve = sparkline(list(state.accuracies), max(4, min(_CURVE, width // 5)))
        measures.append(curve, "cyan").append("  ".join(["", *state.measures()]), "not dim")
    else:
        measures.append(f"wall {duration(state.wall_s)}")
    for line in (head, measures):
        line.truncate(width, overflow="ellipsis")
    return [head, measures]


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
