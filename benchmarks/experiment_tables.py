"""Tables of ``docs/experiments.md`` from finished runs.

::

    fluxctl launch --run-set main --seeds 0..5 --yes --runs-dir results
    python benchmarks/experiment_tables.py results --run-set main

Prints Markdown: a row per run, then mean and 95 % interval per baseline, then who was ahead at equal engine time.
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


@dataclass
class Run:
    """One finished run: its summary and its evaluations as ``(engine hours, accuracy)``."""

    baseline: str
    seed: int
    compute_model: str
    verdict: str
    summary: dict[str, float]
    curve: list[tuple[float, float]]

    def best_until(self, hours: float) -> float:
        """Best accuracy up to an engine time."""
        return max((accuracy for at, accuracy in self.curve if at <= hours), default=math.nan)


def read_runs(folder: Path, run_set: str) -> list[Run]:
    """All ended runs of a run set."""
    runs = []
    for path in sorted(folder.glob("*/verdict.json")):
        record = json.loads((path.parent / "run.json").read_text())
        if record["run_set"] != run_set or path.parent.is_symlink():
            continue
        verdict = json.loads(path.read_text())
        config = read_config(path.parent / "config.yaml", check=choice_check(REGISTRIES)).config
        curve = []
        with (path.parent / "events.jsonl").open() as lines:
            for line in lines:
                if '"event":"agg_eval"' in line:
                    event = json.loads(line)
                    curve.append((event["t_ns"] / 3.6e12, event["test_accuracy"]))
        runs.append(
            Run(
                f"{record['baseline']} {record.get('variant', '')}".rstrip(),
                record["seed"],
                config.delays.compute_model,
                verdict["verdict"],
                verdict["summary"],
                curve,
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
        end = members["fluxtune"].curve[-1][0]
        best = members["fluxtune"].best_until(end)
        others = [members["fwdllm"], members["fwdllm_plus"]]
        cells = [f"{run.best_until(end):.3f}" for run in others] + [f"{run.best_until(math.inf):.3f}" for run in others]
        print(f"| {seed} | {end:.2f} | {best:.3f} | {' | '.join(cells)} |")


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
        print_race(members)


if __name__ == "__main__":
    main()
