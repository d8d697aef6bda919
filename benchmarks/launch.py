"""What ``fluxctl launch`` adds to the runs that it launches.

Run it on an idle machine, once to fill the feature cache and once to measure::

    python benchmarks/launch.py                        # run set smoke, pretrained model
    python benchmarks/launch.py --run-set main -- --max-bins 5

Three times are compared for each run: the wall time from its first dispatch to its last commit, which is the engine's
own work; that of an engine process on its own, which adds imports, preparation and evaluation files; and its share of
the launch, which adds the gate, run directories and supervision. Under 3 s between the first and the last is the goal.
In a launch the next run's process imports while a run goes on, so a launch can take less than its engines on their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fluxctl.config.choices import choice_check
from fluxctl.config.load import load_layer, resolve
from fluxctl.config.source import read_text
from fluxctl.policies import REGISTRIES
from fluxctl.runs.layout import RunFolder, create_run

GOAL_S = 3.0


def launch(run_set: str, folder: Path, more: list[str]) -> tuple[float, list[dict[str, Any]]]:
    """Wall seconds of a launch, and its runs."""
    command = [sys.executable, "-m", "fluxctl.cli", "launch", "--run-set", run_set, "--yes", "--json"]
    began = time.monotonic()
    done = subprocess.run([*command, "--runs-dir", str(folder), *more], check=True, capture_output=True, text=True)
    wall_s = time.monotonic() - began
    return wall_s, json.loads(done.stdout.splitlines()[-1])["data"]["runs"]


def engine_alone(run: RunFolder, folder: Path) -> float:
    """Wall seconds of an engine process on the configuration of a run, without a supervisor."""
    resolved = resolve([load_layer(read_text(run.config))], [], check=choice_check(REGISTRIES))
    again = create_run(folder, resolved)
    began = time.monotonic()
    subprocess.run([sys.executable, "-P", "-m", "fluxctl.engine", str(again.path)], check=False, capture_output=True)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run-set", default="smoke")
    parser.add_argument("more", nargs="*", help="options of launch, after --")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        total_s, rows = launch(given.run_set, folder / "launched", given.more)
        alone = [engine_alone(RunFolder(folder / "launched" / row["id"]), folder / "alone") for row in rows]
    work_s = [float(row["wall_s"]) for row in rows]
    print(f"{'run':<14} {'work s':>8} {'engine process s':>17} {'before and after s':>19}")
    for row, work, process in zip(rows, work_s, alone, strict=True):
        print(f"{row['baseline']:<14} {work:8.2f} {process:17.2f} {process - work:19.2f}")
    num = len(rows)
    print(f"launch {total_s:.2f} s for {num} runs")
    print(f"over the engine's work:  {(total_s - sum(work_s)) / num:6.2f} s a run (goal {GOAL_S:g})")
    print(f"over engine processes:   {(total_s - sum(alone)) / num:6.2f} s a run")


if __name__ == "__main__":
    main()
