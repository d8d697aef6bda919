"""The live panel of a launch: its lines, its width, and the estimate of when a run ends."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from fluxctl import wall
from fluxctl.commands._progress import Panel
from fluxctl.commands._request import Request, make_plan
from fluxctl.commands._run_state import RunState


def panel(width, *states, num_runs=5):
    console = Console(width=width, height=30, file=io.StringIO(), color_system=None)
    shown = Panel(console, num_runs)
    shown.turn({state.run_id: state for state in states}, states[0], is_milestone=True)
    console.print(shown.render())
    return console.file.getvalue().splitlines()


def heard(name, *lines, **kwargs):
    plan = make_plan(Request(run_set="smoke", only=[name]))
    state = RunState(f"run-{name}", plan.runs[0], max_wall_s=1000.0, **kwargs)
    for line in lines:
        state.hear({"event": "progress", "phase": "train", "what": "bins", "in_flight": 7, "sim_rate": 1190.0, **line})
    return state


@pytest.mark.feature("A27", "E14")
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_panel_has_two_lines_per_run(width):
    lines = [{"bins": n, "accuracy": 0.2 + n / 50, "best_accuracy": 0.8, "engine_s": n, "wall_s": n} for n in range(21)]
    waiting = heard("fwdllm")
    waiting.hear({"event": "progress", "phase": "prepare", "what": "features", "done": 3, "total": 4})
    shown = panel(width, heard("fluxtune", *lines), waiting)
    assert max(map(cell_len, shown)) <= width
    assert len(shown) == 5
    assert "fluxtune sim seed 0" in shown[0]
    assert "━" in shown[0]
    assert " 50 %  ETA 20.0 s" in shown[0]
    assert "▁" in shown[1]
    assert "bins 20/40" in shown[1]
    assert "features 3/4" in shown[2]
    assert shown[4] == "0 of 5 runs ended, 2 running, 3 to come"
    if width == 120:
        for part in ("acc 0.600 (best 0.800)", "engine 20.0 s", "x1,190", "in flight 7"):
            assert part in shown[1]


def test_the_panel_never_outgrows_the_screen():
    shown = panel(80, *[heard(name) for name in ("fluxtune", "fwdllm", "fwdllm_plus")] * 1, num_runs=3)
    assert len(shown) == 7
    console = Console(width=80, height=6, file=io.StringIO(), color_system=None)
    small = Panel(console, 9)
    states = {str(n): heard("fluxtune") for n in range(9)}
    small.turn(states, states["0"], is_milestone=False)
    console.print(small.render())
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 5
    assert "7 not shown" in lines[-1]


@pytest.mark.feature("A27")
@pytest.mark.parametrize(
    ("line", "rule", "eta_s"),
    [
        ({"bins": 10, "engine_s": 8.0, "wall_s": 5.0}, "bins", 15.0),  # 10 of 40 bins, 8 of 80 s
        ({"bins": 10, "engine_s": 40.0, "wall_s": 5.0}, "time", 5.0),
        ({"bins": 0, "engine_s": 0.0, "wall_s": 5.0}, "wall", None),
    ],
)
def test_the_estimate_comes_from_the_rule_that_binds(line, rule, eta_s):
    state = heard("fluxtune", line)
    assert state.binding.rule == rule
    assert state.eta_s == (None if eta_s is None else pytest.approx(eta_s))


def test_the_wall_ceiling_can_bind():
    state = heard("fluxtune", {"bins": 1, "engine_s": 1.0, "wall_s": 5.0}, started_s=wall.monotonic_s() - 500)
    assert (state.binding.rule, round(state.eta_s)) == ("wall", 500)
    assert state.eta.endswith("by wall")
