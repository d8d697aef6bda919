"""Tables of ``docs/experiments.md`` from finished runs.

::

    fluxctl launch --run-set main --seeds 0..5 --yes --runs-dir results
    python benchmarks/experiment_tables.py results --run-set main

Prints Markdown: a row per run, then mean and 95 % interval per baseline, then what reaching an accuracy cost, then who
was ahead at equal engine time.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

from fluxctl.config.choices import choice_check
from fluxctl.config.load import read_config
from fluxctl.policies import REGISTRIES
from fluxctl.telemetry.series import Evaluations, read_series

LEVELS = (0.5, 0.6, 0.7, 0.75, 0.78)  # accuracies whose cost is asked for


@dataclass
class Run:
    """One finished run: its summary and its evaluations."""

    baseline: str
    seed: int
    compute_model: str
    verdict: str
    summary: dict[str, float]
    evaluations: Evaluations

    def best_until(self, engine_s: float) -> float:
        """Best accuracy up to an engine time; nan before the first evaluation."""
        reached = self.evaluations.accuracy[self.evaluations.engine_s <= engine_s]
        return float(reached.max()) if len(reached) else math.nan

    def cost_of(self, accuracy: float) -> tuple[float, int, float] | None:
        """Engine hours, passes and megabytes until an accuracy was first measured; None if it never was."""
        row, found = self.evaluations.first_at(accuracy), self.evaluations
        if row is None:
            return None
        megabytes = float(found.bytes_down[row] + found.bytes_up[row]) / 1e6
        return float(found.engine_s[row]) / 3600, int(found.passes[row]), megabytes


def read_runs(folder: Path, run_set: str) -> list[Run]:
    """All ended runs of a run set."""
    runs = []
    for path in sorted(folder.glob("*/verdict.json")):
        record = json.loads((path.parent / "run.json").read_text())
        if record["run_set"] != run_set or path.parent.is_symlink():
            continue
        verdict = json.loads(path.read_text())
        config = read_config(path.parent / "config.yaml", check=choice_check(REGISTRIES)).config
        runs.append(
            Run(
                f"{record['baseline']} {record.get('variant', '')}".rstrip(),
                record["seed"],
                config.delays.compute_model,
                verdict["verdict"],
                verdict["summary"],
                read_series(path.parent).evaluations,
            )
        )
    return runs


def print_runs(runs: list[Run]) -> None:
    """A row per run."""
    print(
        "| baseline | seed | verdict | bins | best | final | engine h | wall s | sim rate | passes | MB down | MB up |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for run in runs:
        s = run.summary
        print(
            f"| {run.baseline} | {run.seed} | {run.verdict} | {s['bins']} | {s['best_accuracy']:.3f} | "
            f"{s['final_accuracy']:.3f} | {s['engine_s'] / 3600:.2f} | {s['wall_s']:.0f} | {s['sim_rate']:.0f} | "
            f"{s['forward_passes']:,} | {s['bytes_down'] / 1e6:.0f} | {s['bytes_up'] / 1e6:.0f} |"
        )


def interval(values: list[float]) -> str:
    """Mean and half-width of its 95 % interval (Student's t)."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return f"{mean:.3f} ± {half:.3f}"


def print_means(runs: list[Run]) -> None:
    """Mean and interval per baseline."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.baseline].append(run)
    print("\n| baseline | seeds | verdicts | best | final | engine h | passes | MB both ways |")
    print("|---|---|---|---|---|---|---|---|")
    for baseline, members in groups.items():
        verdicts: dict[str, int] = defaultdict(int)
        for run in members:
            verdicts[run.verdict] += 1
        column = {
            name: [run.summary[name] for run in members]
            for name in ("best_accuracy", "final_accuracy", "engine_s", "forward_passes", "bytes_down", "bytes_up")
        }
        hours = [value / 3600 for value in column["engine_s"]]
        traffic = [(d + u) / 1e6 for d, u in zip(column["bytes_down"], column["bytes_up"], strict=True)]
        print(
            f"| {baseline} | {len(members)} | {', '.join(f'{v} {n}' for v, n in verdicts.items())} | "
            f"{interval(column['best_accuracy'])} | {interval(column['final_accuracy'])} | {interval(hours)} | "
            f"{sum(column['forward_passes']) / len(members):,.0f} | {sum(traffic) / len(traffic):,.0f} |"
        )


def print_costs(runs: list[Run]) -> None:
    """What each baseline spent until it first reached an accuracy: means over the seeds, if all of them did."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.baseline].append(run)
    print("\n| accuracy | baseline | seeds that reach it | engine h | passes | MB both ways |")
    print("|---|---|---|---|---|---|")
    for level in LEVELS:
        for baseline, members in groups.items():
            costs = [cost for run in members if (cost := run.cost_of(level)) is not None]
            cells = ["-"] * 3
            if len(costs) == len(members):
                hours, passes, megabytes = (sum(column) / len(costs) for column in zip(*costs, strict=True))
                cells = [f"{hours:.2f}", f"{passes:,.0f}", f"{megabytes:,.0f}"]
            print(f"| {level:g} | {baseline} | {len(costs)} of {len(members)} | {' | '.join(cells)} |")


def print_race(runs: list[Run]) -> None:
    """Best accuracy of each baseline when fluxtune ended, and at each one's own end."""
    by_seed: dict[int, dict[str, Run]] = defaultdict(dict)
    for run in runs:
        by_seed[run.seed][run.baseline] = run
    columns = ("fwdllm by then", "fwdllm_plus by then", "fwdllm at its end", "fwdllm_plus at its end")
    print(f"\n| seed | engine h | fluxtune | {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|")
    for seed, members in sorted(by_seed.items()):
        if not {"fluxtune", "fwdllm", "fwdllm_plus"} <= members.keys():
            continue
        end = members["fluxtune"].evaluations.engine_s[-1]
        best = members["fluxtune"].best_until(end)
        others = [members["fwdllm"], members["fwdllm_plus"]]
        cells = [f"{run.best_until(end):.3f}" for run in others] + [f"{run.best_until(math.inf):.3f}" for run in others]
        print(f"| {seed} | {end / 3600:.2f} | {best:.3f} | {' | '.join(cells)} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run-set", required=True)
    args = parser.parse_args()
    runs = read_runs(args.folder, args.run_set)
    for compute_model in sorted({run.compute_model for run in runs}):
        members = [run for run in runs if run.compute_model == compute_model]
        print(f"\ncompute_model: {compute_model}\n")
        print_runs(sorted(members, key=lambda run: (run.seed, run.baseline)))
        print_means(members)
        print_costs(members)
        print_race(members)


if __name__ == "__main__":
    main()
