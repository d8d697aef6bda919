"""The noise floor of a machine: how much real runs of one configuration differ from each other, rung by rung.

::

    python benchmarks/noise_floor.py                        # smoke, 7 runs a baseline under each order: 50 minutes
    python benchmarks/noise_floor.py --runs 3 --orders logical
    python benchmarks/noise_floor.py --folder runs-of-noise # keep the runs; what is there already is not run again

Every run is compared with every other one of its baseline, so seven of them give 21 pairs. Under ``commit_order:
logical`` runs decide alike, and only what looks at a clock can differ; under ``arrival`` the wall decides, and the
share of updates that it delivers in another order than the modelled one is the flip rate. A distribution of too few
samples is not judged, and one that warns has not passed. The tables are printed as Markdown, for ``docs/parity.md``;
the floors are kept beside the runs, as ``fluxctl parity --noise`` keeps them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fluxctl.parity.arrivals import Arrivals
from fluxctl.parity.comparison import compare, fingerprint_of, title_of
from fluxctl.parity.noise import add_noise
from fluxctl.parity.pairing import named_pair
from fluxctl.parity.registry import all_rungs
from fluxctl.parity.result import Options, Rung, RungResult, Status, Tier
from fluxctl.runs.index import RunInfo, list_runs
from fluxctl.types import Mode

ORDERS = ("logical", "arrival")
GOOD = (Status.PASS, Status.LOW_CONF)
UNJUDGED = (Status.SKIP, Status.INCONCLUSIVE)


@dataclass
class Tally:
    """What the pairs of one order say of one rung."""

    num_judged: int = 0
    num_passed: int = 0
    values: list[float] = field(default_factory=list)
    threshold: str = ""

    def add(self, result: RungResult) -> None:
        """Count one pair."""
        finding = result.finding
        if finding.status in UNJUDGED and finding.value is None:
            return  # a clock rung that may be noisy has a value, and has not passed
        self.num_judged += 1
        self.num_passed += finding.status in GOOD
        self.threshold = finding.threshold or self.threshold
        if finding.value is not None:
            self.values.append(finding.value)

    @property
    def worst(self) -> str:
        """The value that is nearest to failing."""
        if not self.values:
            return ""
        return f"{(min if self.threshold.startswith('>=') else max)(self.values):.3g}"


@dataclass
class Order:
    """All that was measured under one commit order."""

    num_runs: int = 0
    num_pairs: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)
    arrivals: dict[str, dict[str, Arrivals]] = field(default_factory=dict)  # by baseline and run


def launch(folder: Path, run_set: str, order: str, extra: Sequence[str]) -> None:
    """One real run of each baseline."""
    command = [sys.executable, "-m", "fluxctl.cli", "launch", "--run-set", run_set, "--mode", "real", "--yes"]
    command += ["--set", f"engine.commit_order={order}", "--runs-dir", str(folder), *extra]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "FLUXCTL_NO_PROGRESS": "1"})


def runs_of(folder: Path) -> dict[str, list[RunInfo]]:
    """Real runs that have ended, by baseline."""
    found: dict[str, list[RunInfo]] = {}
    for info in list_runs(folder) if folder.is_dir() else []:
        if info.record.mode is Mode.REAL and info.verdict is not None:
            found.setdefault(f"{info.record.baseline} {info.record.variant}".rstrip(), []).append(info)
    return found


def measure(folder: Path, num_runs: int) -> Order:
    """Compare every run with every other one of its baseline."""
    order = Order()
    for baseline, infos in runs_of(folder).items():
        kept = infos[:num_runs]
        order.num_runs += len(kept)
        for one, other in itertools.combinations(kept, 2):
            found = compare(named_pair(one.record.id, other.record.id, folder), Options(), all_rungs(), folder)
            add_noise(folder, fingerprint_of(found.pair), baseline, (one.record.id, other.record.id), found.ladder)
            order.num_pairs += 1
            for result in found.ladder.results:
                order.tallies.setdefault(result.rung.id, Tally()).add(result)
            sides = zip((one, other), found.ladder.arrivals, strict=True)
            order.arrivals.setdefault(baseline, {}).update((info.record.id, arrivals) for info, arrivals in sides)
    return order


def rung_rows(orders: dict[str, Order]) -> Iterator[str]:
    """One row a rung that looks at distributions or at a clock and that some pair could judge."""
    names = list(orders)
    yield f"| rung | threshold | {' | '.join(f'{name}: passed | worst' for name in names)} |"
    yield "|---|---|" + "---:|---:|" * len(names)
    for rung in all_rungs():
        tallies = [orders[name].tallies[rung.id] for name in names]
        if _is_shown(rung) and any(tally.num_judged for tally in tallies):
            threshold = next(tally.threshold for tally in tallies if tally.num_judged)
            cells = " | ".join(f"{of.num_passed} of {of.num_judged} | {of.worst}" for of in tallies)
            yield f"| {rung.id} {title_of(rung)} | {threshold} | {cells} |"


def _is_shown(rung: Rung) -> bool:
    return rung.tier is Tier.DIST or rung.is_clock_rung


def arrival_rows(orders: dict[str, Order]) -> Iterator[str]:
    """One row an order and baseline: how updates arrived."""
    yield "| commit order | baseline | runs | pairs of updates | flip rate, mean | worst run | worst lateness |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for name, order in orders.items():
        for baseline, runs in order.arrivals.items():
            flips = [run.flip_frac or 0.0 for run in runs.values()]
            late = max(run.worst_lateness_s or 0.0 for run in runs.values())
            yield (
                f"| {name} | {baseline} | {len(runs)} | {sum(run.num_pairs for run in runs.values()):,} "
                f"| {sum(flips) / len(flips):.2%} | {max(flips):.2%} | {late * 1e3:,.0f} ms |"
            )


def main() -> None:
    """Run, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-set", default="smoke")
    parser.add_argument("--runs", type=int, default=7, help="real runs of each baseline and order")
    parser.add_argument("--orders", default=",".join(ORDERS), help="commit orders to measure")
    parser.add_argument("--folder", type=Path, help="keep the runs here, one folder an order")
    parser.add_argument("extra", nargs="*", help="after --: more options of launch")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = args.folder or Path(scratch)
        orders = {}
        for name in args.orders.split(","):
            folder = root / name
            while min((len(infos) for infos in runs_of(folder).values()), default=0) < args.runs:
                launch(folder, args.run_set, name, args.extra)
            orders[name] = measure(folder, args.runs)
    for name, order in orders.items():
        print(f"{name}: {order.num_runs} runs, {order.num_pairs} pairs; load {os.getloadavg()[0]:.1f} at the end")
    print("", *arrival_rows(orders), "", *rung_rows(orders), sep="\n")


if __name__ == "__main__":
    main()
