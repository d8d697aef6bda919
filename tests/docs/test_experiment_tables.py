"""The tables of the experiment guide: what an accuracy cost, against numbers worked out by hand."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fluxctl.telemetry.series import Evaluations

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "experiment_tables.py"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("experiment_tables", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()


def run(baseline: str, seed: int, accuracy: list[float], hours: float) -> object:
    """A run with an evaluation every ``hours``, 100 passes and 1 + 2 MB."""
    steps = np.arange(len(accuracy), dtype=np.int64)
    nothing = np.full(len(accuracy), np.nan)
    evaluations = Evaluations(
        engine_s=steps * hours * 3600,
        wall_s=nothing,
        passes=100 * steps,
        bytes_down=1_000_000 * steps,
        bytes_up=2_000_000 * steps,
        num_commits=steps,
        round=steps,
        accuracy=np.array(accuracy),
        loss=nothing,
        mcc=nothing,
    )
    return TOOL.Run(baseline, seed, "constant", "COMPLETED", {}, evaluations)


def test_cost_is_that_of_the_first_evaluation_that_reaches_it() -> None:
    one = run("fluxtune", 0, [0.2, 0.6, 0.5, 0.7], hours=0.5)
    assert one.cost_of(0.6) == (0.5, 100, 3.0)  # the dip after it changes nothing
    assert one.cost_of(0.61) == (1.5, 300, 9.0)
    assert one.cost_of(0.71) is None


def test_best_until_counts_the_end_itself() -> None:
    one = run("fluxtune", 0, [0.2, 0.6, 0.5, 0.7], hours=0.5)
    assert one.best_until(0.0) == 0.2
    assert one.best_until(3600.0) == 0.6
    assert one.best_until(5400.0) == 0.7


def test_costs_are_means_where_all_seeds_reach_the_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    TOOL.print_costs(
        [run("fwdllm", 0, [0.2, 0.5, 0.6], hours=1), run("fwdllm", 1, [0.2, 0.4, 0.4, 0.5], hours=1)],
    )
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 0.")]
    assert rows[0] == "| 0.5 | fwdllm | 2 of 2 | 2.00 | 200 | 6 |"
    assert rows[1] == "| 0.6 | fwdllm | 1 of 2 | - | - | - |"
    assert rows[-1] == "| 0.78 | fwdllm | 0 of 2 | - | - | - |"
