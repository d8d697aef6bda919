"""What ``watch`` shows: a panel on a terminal, lines elsewhere, JSON Lines for programs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fluxctl import wall
from fluxctl.commands._spark import sparkline
from fluxctl.commands._talk import Talk, plain_text, print_json
from fluxctl.config.durations import show_duration
from fluxctl.policies.stopping.stall import last_progress_s
from fluxctl.types import JSON
from fluxctl.watch.loop import Guard
from fluxctl.watch.outlook import idle_s, prospects

_LINE_EVERY_S: Final = 30.0
_BAR_WIDTH: Final = 12


class View(Protocol):
    """Shows a run that is being watched."""

    def open(self) -> None:
        """Begin."""
        ...

    def close(self) -> None:
        """End; nothing of the view may survive it."""
        ...

    def turn(self, guard: Guard) -> None:
        """There may be something new."""
        ...


@dataclass
class PanelView:
    """A live panel."""

    console: Console
    title: str
    _guard: Guard | None = None
    _live: Live = field(init=False)

    def __post_init__(self) -> None:
        self._live = Live(
            console=self.console,
            get_renderable=self._render,
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

    def turn(self, guard: Guard) -> None:
        """Draw the latest."""
        self._guard = guard

    def _render(self) -> RenderableType:
        if self._guard is None:
            return plain_text(f"{self.title}: waiting for the first evaluation")
        return panel(self._guard, self.title)


@dataclass
class LinesView:
    """A line per progress, and one when half a minute has passed."""

    talk: Talk
    _shown: tuple[float | None, int] = (None, 0)  # engine time of the last progress, evaluations
    _at_s: float = field(default_factory=wall.monotonic_s)

    def open(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing to tidy up."""

    def turn(self, guard: Guard) -> None:
        """Print a line if it is time for one."""
        memory = guard.state.memories.get("stall", {})
        now = (last_progress_s(guard.conditions.limits, memory), guard.num_evaluations)
        is_progress = now[0] != self._shown[0] or self._shown[1] == 0
        is_due = wall.monotonic_s() - self._at_s >= _LINE_EVERY_S
        if now[1] > self._shown[1] and (is_progress or is_due):
            self._shown, self._at_s = now, wall.monotonic_s()
            self.talk.say(one_line(guard))


@dataclass
class StreamView:
    """A JSON line per evaluation that changed something."""

    _num_shown: int = 0

    def open(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing to tidy up."""

    def turn(self, guard: Guard) -> None:
        """Tell where the run is, if that is new."""
        if guard.num_evaluations > self._num_shown:
            self._num_shown = guard.num_evaluations
            print_json({"event": "progress", **standing(guard)})


def standing(guard: Guard) -> dict[str, JSON]:
    """Where a run stands, for machines."""
    last, best = guard.state.last, guard.state.best
    return {
        "engine_s": guard.engine_s,
        "bins": None if last is None else last.bins,
        "accuracy": None if last is None else _finite(last.accuracy),
        "loss": None if last is None else _finite(last.loss),
        "best_accuracy": None if best is None else best.accuracy,
        "idle_s": idle_s(guard.state, guard.engine_s),
        "prospects": [
            {"verdict": item.verdict.value, "when": item.when, "fraction": item.fraction}
            for item in prospects(guard.state, guard.engine_s)
        ],
    }


def one_line(guard: Guard) -> str:
    """Where a run stands, for people who read lines."""
    last, best = guard.state.last, guard.state.best
    if last is None:
        return "no evaluation yet"
    parts = [
        f"bin {last.bins}",
        f"accuracy {last.accuracy:.3f} (best {best.accuracy:.3f})"
        if best is not None
        else f"accuracy {last.accuracy:.3f}",
        f"loss {last.loss:.4g}",
        f"engine {show_duration(round(guard.engine_s))}",
    ]
    waited_s = idle_s(guard.state, guard.engine_s)
    if waited_s is not None:
        parts.append(f"last progress {show_duration(round(waited_s))} ago")
    return ", ".join(parts)


def panel(guard: Guard, title: str) -> Panel:
    """Accuracy and loss with their curves, time since the last progress, and what would end the run."""
    last, best = guard.state.last, guard.state.best
    body: list[RenderableType] = []
    if last is None:
        body.append(plain_text("no evaluation yet"))
    else:
        best_text = "" if best is None else f"best {best.accuracy:.3f} at bin {best.bins}"
        lowest = min((point.loss for point in guard.recent if math.isfinite(point.loss)), default=math.nan)
        body.append(_signal("accuracy", f"{last.accuracy:.3f}", best_text, [point.accuracy for point in guard.recent]))
        body.append(_signal("loss", f"{last.loss:.4f}", f"low  {lowest:.4f}", [point.loss for point in guard.recent]))
        waited_s = idle_s(guard.state, guard.engine_s)
        idle = "" if waited_s is None else f", last progress {show_duration(round(waited_s))} ago"
        body.append(plain_text(f"bin {last.bins}, engine time {show_duration(round(guard.engine_s))}{idle}"))
    decision = guard.decision
    if decision is not None:
        body += [Text(), plain_text(f"{decision.verdict.value}: {decision.reason}", "bold")]
    else:
        body += [Text(), _prospect_table(guard)]
    return Panel(Group(*body), title=plain_text(title), title_align="left")


def _signal(name: str, value: str, best: str, values: list[float]) -> Text:
    text = plain_text(f"{name:<9}")
    text.append(value, "bold")
    text.append(f"  {best}  ")
    return text.append(sparkline(values, 30), "cyan")


def _prospect_table(guard: Guard) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for item in prospects(guard.state, guard.engine_s):
        full = round(_BAR_WIDTH * item.fraction)
        bar = Text("━" * full, "cyan").append("─" * (_BAR_WIDTH - full), "dim")
        table.add_row(plain_text(item.verdict.value), bar, plain_text(item.when))
    return table


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
