"""What watch shows on a terminal and in lines."""

import io
import math

import pytest
from rich.cells import cell_len
from rich.console import Console

from fluxctl.commands._spark import sparkline
from fluxctl.commands._talk import Talk
from fluxctl.commands._watch_view import LinesView, PanelView, panel, standing
from fluxctl.config.model import LimitsConfig
from fluxctl.policies.stopping import StopConditions
from fluxctl.watch.loop import Guard, Line

NS = 1_000_000_000
LIMITS = LimitsConfig(target_accuracy=0.8, converge_window=4, max_bins=10, stall_window_s=100)


def guard_of(*readings, limits=LIMITS):
    guard = Guard(StopConditions(limits, 1000.0, 0.25))
    for bins, (t_s, accuracy, loss) in enumerate(readings):
        event = {"event": "agg_eval", "t_ns": t_s * NS, "version": bins, "test_accuracy": accuracy, "test_loss": loss}
        guard.take(Line(bins + 2, event))
    guard.settle()
    return guard


def printed(renderable, width=80):
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(renderable)
    return out.getvalue()


@pytest.mark.feature("E25")
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_panel_shows_signals_idle_time_and_what_would_end_the_run(width):
    text = printed(panel(guard_of((0, 0.2, 1.4), (20, 0.8, 0.9), (50, 0.8, 0.9)), "a run"), width)
    assert "a run" in text.splitlines()[0]
    assert "accuracy 0.800  best 0.800 at bin 1" in text
    assert "▁██" in text
    assert "loss     0.9000  low  0.9000" in text
    assert "bin 2, engine time 50 s, last progress 30 s ago" in text.replace("\n", " ") or width == 60
    for verdict in ("CONVERGED", "STALLED", "DID_NOT_CONVERGE"):
        assert verdict in text
    assert max(map(cell_len, text.splitlines())) <= width


def test_the_panel_says_what_fired():
    text = printed(panel(guard_of((0, 0.2, 1.0), (120, 0.2, 1.0)), "a run"), 200)
    assert "STALLED: no progress for 2 min (the window is 100 s)" in text
    assert printed(panel(guard_of(), "a run")).count("no evaluation yet") == 1


def test_a_panel_leaves_nothing_behind():
    out = io.StringIO()
    view = PanelView(Console(file=out, force_terminal=True, width=80), "a run")
    view.open()
    view.turn(guard_of((0, 0.2, 1.0)))
    view.close()
    text = out.getvalue()
    assert "a run" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor is back


def test_lines_are_for_progress(capsys):
    view = LinesView(Talk())
    for readings in ([(0, 0.2, 1.0)], [(0, 0.2, 1.0), (1, 0.2, 1.0)], [(0, 0.2, 1.0), (1, 0.2, 1.0), (2, 0.5, 1.0)]):
        view.turn(guard_of(*readings))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["bin 0", "bin 2"]


def test_what_is_not_finite_is_null_for_machines():
    told = standing(guard_of((0, 0.2, math.nan), limits=LimitsConfig(divergence_guard=False)))
    assert (told["accuracy"], told["loss"], told["idle_s"]) == (0.2, None, None)


@pytest.mark.parametrize(
    ("values", "width", "text"),
    [
        ([], 5, ""),
        ([1.0], 5, "▁"),
        ([0, 0.5, 1], 5, "▁▅█"),
        ([0, math.nan, 1], 5, "▁·█"),
        ([math.nan], 5, "·"),
        (list(range(100)), 4, "▁▃▆█"),
        ([3, 3, 3], 2, "▁▁"),
    ],
)
def test_sparkline(values, width, text):
    assert sparkline(values, width) == text
