"""Who owns what: the class mix of clients, bins and cohorts, over alpha, and whether it goes with collapses.

Shards are a function of data, partition and seed, so they are dealt again here instead of being recorded. Skew is the
total-variation distance of a mix from the whole training set: 0 = the same, .75 = a single one of four equal classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fluxctl.analyses.classmix import effective_classes, rank_correlation, skew
from fluxctl.analyses.cohorts import WANTED, Cohorts, Dealt, commit_cohorts
from fluxctl.analyses.figures import bars, points
from fluxctl.analyses.reading import events_of
from fluxctl.analyses.result import Analysis, Cell, Chart, Drawing, Grid, Measure, finite, plural
from fluxctl.config.load import read_config
from fluxctl.config.model import Config
from fluxctl.data import load_corpus
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import Columns, Ints
from fluxctl.types import JSON
from fluxctl.world.seeds import stream

ALPHAS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
COLLAPSE: Final = 0.05  # accuracy lost by one commit that counts as a collapse
_NUM_COHORTS: Final = 50  # drawn at random for each alpha


def partition(folder: RunFolder, collapse: float = COLLAPSE, *, columns: Columns | None = None) -> Analysis:
    """Look at the class mixes of a run.

    Args:
        folder: A run.
        collapse: Accuracy lost by one commit that counts as a collapse.
        columns: Its events, if they were read already with at least :data:`WANTED`; None = read them.

    Raises:
        NothingToDoError: If it has no events.
        AssetError: If its training texts are not installed.
        ConfigError: If its configuration cannot be read.
    """
    config = read_config(folder.config).config
    labels = load_corpus(config.data).train_labels
    dealt = Dealt.of(config, labels)
    cohorts = commit_cohorts(config, dealt, events_of(folder, WANTED, columns))
    over_alpha = [_alpha_row(config, labels, alpha) for alpha in ALPHAS]
    skew_rho, p_value, num_pairs = rank_correlation(cohorts.skews, cohorts.drops)
    dominance_rho, _, _ = rank_correlation(cohorts.skews, cohorts.dominance)
    is_collapse = cohorts.drops >= collapse
    num_collapses = int(is_collapse.sum())
    num_same = int((cohorts.counts.argmax(axis=1) == cohorts.predicted)[is_collapse].sum()) if num_collapses else 0
    data: dict[str, JSON] = {
        "classes": list(config.data.classes),
        "method": config.partition.method,
        "alpha": config.partition.alpha,
        "clients": [[int(count) for count in row] for row in dealt.shards.class_counts],
        "cohorts": [_cohort_json(cohorts, index) for index in range(len(cohorts.skews))],
        "over_alpha": [dict(zip(_ALPHA_FIELDS, row, strict=True)) for row in over_alpha],
        "num_collapses": num_collapses,
        "num_collapses_to_cohort_class": num_same,
        "correlation": {
            "skew_drop_rho": skew_rho,
            "skew_drop_p": p_value,
            "num_commits": num_pairs,
            "skew_dominance_rho": dominance_rho,
        },
    }
    return Analysis(
        "partition",
        folder.id,
        _conclusion(dealt, cohorts, (skew_rho, p_value, num_pairs), num_collapses, num_same, collapse),
        (_levels(dealt, cohorts), _over_alpha(over_alpha)),
        data,
        _charts(config, dealt, cohorts),
    )


_ALPHA_FIELDS: Final = (
    "alpha",
    "client_skew",
    "client_effective_classes",
    "bin_skew",
    "cohort_skew",
    "num_single_class_clients",
)


def _alpha_row(config: Config, labels: Ints, alpha: float) -> tuple[Cell, ...]:
    """Mean skew of clients, bins and random cohorts of K for an alpha."""
    dealt = Dealt.of(config, labels, alpha)
    counts = dealt.shards.class_counts
    all_bins = np.concatenate(list(dealt.bins.values()))
    return (
        alpha,
        float(np.nanmean(skew(counts, dealt.whole))),
        float(np.nanmean(effective_classes(counts))),
        float(skew(all_bins, dealt.whole).mean()),
        float(skew(_random_cohorts(config, dealt), dealt.whole).mean()),
        int(((counts > 0).sum(axis=1) == 1).sum()),
    )


def _random_cohorts(config: Config, dealt: Dealt) -> Ints:
    """Class counts of cohorts of K clients drawn at random, one for each of the first bins."""
    clients = np.array(list(dealt.bins))
    size = min(config.aggregation.goal, len(clients))
    source = stream(config.seed, "analysis-cohorts")
    rows = []
    for number in range(_NUM_COHORTS):
        chosen = source.generator(number).choice(clients, size, replace=False)
        rows.append(np.sum([dealt.task_counts(client, number) for client in chosen.tolist()], axis=0))
    return np.array(rows)


def _conclusion(
    dealt: Dealt,
    cohorts: Cohorts,
    correlation: tuple[float | None, float | None, int],
    num_collapses: int,
    num_same: int,
    collapse: float,
) -> str:
    client = float(np.nanmean(skew(dealt.shards.class_counts, dealt.whole)))
    text = f"A client's class mix is {client:.2f} away from the whole on average"
    if not len(cohorts.skews):
        return f"{text}; nothing was committed, so there is no cohort to compare."
    text += f", a commit's {float(np.nanmean(cohorts.skews)):.2f}"
    rho, p_value, num = correlation
    if rho is None:
        return f"{text}; {plural(num, 'commit')} with an evaluation are too few, or too alike, for a correlation."
    if p_value is not None and p_value < 0.05:
        link = f"commits with a more skewed cohort {'lose more' if rho > 0 else 'lose less'} accuracy"
    else:
        link = "the skew of a cohort says nothing about the accuracy that its commit loses"
    text += f"; {link} (rank correlation {rho:+.2f}, p {p_value:.2g}, {plural(num, 'commit')})"
    falls = plural(num_collapses, "commit")
    if num_collapses:
        text += f"; {falls} lost {collapse:g} or more, {num_same} of them towards their cohort's main class"
    else:
        text += f"; no commit lost {collapse:g} or more"
    return text + "."


def _levels(dealt: Dealt, cohorts: Cohorts) -> Grid:
    levels = (
        ("client", dealt.shards.class_counts),
        ("bin", np.concatenate(list(dealt.bins.values()))),
        ("commit", cohorts.counts),
    )
    rows: list[tuple[Cell, ...]] = []
    for name, counts in levels:
        if not len(counts):
            continue
        distances, effective = skew(counts, dealt.whole), effective_classes(counts)
        known = np.isfinite(distances)
        at = distances[known]
        quantiles = np.quantile(at, (0.5, 0.9)).tolist()
        rows.append(
            (name, int(known.sum()), float(at.mean()), *quantiles, float(at.max()), float(effective[known].mean()))
        )
    measures = (
        Measure("class mix of a"),
        Measure("number", ",.0f"),
        Measure("mean skew", ".3f"),
        Measure("p50", ".3f"),
        Measure("p90", ".3f"),
        Measure("most", ".3f"),
        Measure("effective classes", ".2f"),
    )
    return Grid("How skewed this run's data is", measures, tuple(rows))


def _over_alpha(rows: Sequence[tuple[Cell, ...]]) -> Grid:
    measures = (
        Measure("alpha", "g"),
        Measure("client skew", ".3f"),
        Measure("effective classes", ".2f"),
        Measure("bin skew", ".3f"),
        Measure("cohort skew", ".3f"),
        Measure("clients with one class", ",.0f"),
    )
    return Grid("The same data dealt with other alphas; cohorts of K clients drawn at random", measures, tuple(rows))


def _cohort_json(cohorts: Cohorts, index: int) -> dict[str, JSON]:
    return {
        "version": index + 1,
        "counts": [int(count) for count in cohorts.counts[index]],
        "skew": finite(float(cohorts.skews[index])),
        "drop": finite(float(cohorts.drops[index])),
        "dominance": finite(float(cohorts.dominance[index])),
    }


def _charts(config: Config, dealt: Dealt, cohorts: Cohorts) -> tuple[Chart, ...]:
    classes = config.data.classes
    counts = dealt.shards.class_counts

    def draw_clients() -> Drawing:
        names = [str(client) for client in range(len(counts))]
        split = {name: counts[:, index].tolist() for index, name in enumerate(classes)}
        return bars(names, split, x="client", y="training texts", stacked=True)

    def draw_collapses() -> Drawing:
        return points(
            cohorts.skews.tolist(), (-cohorts.drops).tolist(), x="skew of the cohort", y="accuracy gained by its commit"
        )

    client_rows = [(client, *map(int, row)) for client, row in enumerate(counts)]
    commit_rows = [
        (index + 1, finite(float(one)), finite(float(drop)), finite(float(dominance)))
        for index, (one, drop, dominance) in enumerate(
            zip(cohorts.skews, cohorts.drops, cohorts.dominance, strict=True)
        )
    ]
    return (
        Chart("partition_clients", "Class mix of the clients", draw_clients, ("client", *classes), client_rows),
        Chart(
            "partition_commits",
            "Skew of a cohort and what its commit gained",
            draw_collapses,
            ("version", "skew", "drop", "dominance"),
            commit_rows,
        ),
    )
