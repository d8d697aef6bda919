"""Who took part, and for whom the model works: participation and accuracy over clients, and their worst decile.

The worst decile is the mean over the tenth of the clients (at least one) with the least. A mean over all clients hides
a group that is never asked, or that the model fails; the worst decile shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fluxctl.analyses.classmix import rank_correlation
from fluxctl.analyses.figures import steps
from fluxctl.analyses.result import Analysis, Cell, Chart, Drawing, Grid, Measure, finite, percent, plural
from fluxctl.data import Shards
from fluxctl.telemetry.columns import Floats
from fluxctl.telemetry.series import RunSeries
from fluxctl.types import JSON

if TYPE_CHECKING:
    from fluxctl.learn.learner import Learner

_WORST: Final = 10  # clients in the table


def client_accuracies(learner: Learner, shards: Shards, tensors: dict[str, np.ndarray]) -> Floats:
    """Accuracy of a model on each client's own training texts.

    Args:
        learner: Model and features of the run.
        shards: Who owns which text; nobody owns nothing.
        tensors: Trainable weights, as a checkpoint holds them.

    Returns:
        Shape ``(num_clients,)``.

    Raises:
        ValueError: If the weights are not those of this model.
    """
    params = learner.params_from(tensors)
    return np.array([learner.evaluate_on(params, samples.tolist()).accuracy for samples in shards.clients])


def fairness(run: RunSeries, accuracies: Floats | None = None, why_not: str = "") -> Analysis:
    """Spread of participation and accuracy over clients.

    Args:
        run: A run.
        accuracies: Accuracy on each client's own training texts, shape ``(num_clients,)``; None = not known.
        why_not: Why they are not known.
    """
    updates = run.participation.astype(np.float64)
    data: dict[str, JSON] = {
        "num_clients": len(updates),
        "num_never": int((updates == 0).sum()),
        "participation": {**_spread(updates), "jain": finite(jain(updates)), "gini": finite(gini(updates))},
        "accuracy": None if accuracies is None else _spread(accuracies),
        "clients": [
            {
                "client": client,
                "updates": int(updates[client]),
                "accuracy": None if accuracies is None else float(accuracies[client]),
            }
            for client in range(len(updates))
        ],
    }
    rho = None
    if accuracies is not None and len(accuracies) == len(updates):
        rho, _, _ = rank_correlation(updates, accuracies)
        data["participation_accuracy_rho"] = rho
    return Analysis(
        "fairness",
        run.facts.id,
        _conclusion(updates, accuracies, rho),
        (_grid(updates, accuracies), _worst(updates, accuracies)),
        data,
        _charts(updates, accuracies),
        notes=(f"Accuracy of single clients is left out: {why_not}.",) if accuracies is None and why_not else (),
    )


def worst_decile(values: Floats) -> float:
    """Mean over the tenth of the values, at least one, that are smallest; nan without any."""
    if not len(values):
        return float("nan")
    return float(np.sort(values)[: max(1, len(values) // 10)].mean())


def jain(values: Floats) -> float:
    """Jain's index: 1 = all alike, 1 / n = one has everything; nan if nobody has anything.

    Source:
        Jain et al., A Quantitative Measure of Fairness and Discrimination, DEC-TR-301, 1984.
    """
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else float("nan")


def gini(values: Floats) -> float:
    """Gini coefficient: 0 = all alike, towards 1 = one has everything; nan if nobody has anything."""
    total, n = float(values.sum()), len(values)
    if not total:
        return float("nan")
    ranks = np.arange(1, n + 1)
    return float((2 * ranks - n - 1) @ np.sort(values)) / (n * total)


def _spread(values: Floats) -> dict[str, JSON]:
    if not len(values):
        return {}
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9)).tolist()
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        "p10": low,
        "p50": middle,
        "p90": high,
        "max": float(values.max()),
        "worst_decile": worst_decile(values),
    }


def _conclusion(updates: Floats, accuracies: Floats | None, rho: float | None) -> str:
    if not len(updates) or not updates.sum():
        return "No client's update was ever used."
    share = worst_decile(updates) / float(updates.mean())
    text = f"The least asked tenth of the clients gave {percent(share)} of the mean number of updates"
    never = int((updates == 0).sum())
    if never:
        text += f", {plural(never, 'client')} none at all"
    if accuracies is None or not len(accuracies):
        return text + "."
    worst, mean = worst_decile(accuracies), float(accuracies.mean())
    text += f"; the final model is right on {mean:.1%} of a client's own texts, on {worst:.1%} in the worst tenth"
    if rho is not None:
        strength = "hardly goes" if abs(rho) < 0.2 else "goes"
        text += f", which {strength} with taking part (rank correlation {rho:+.2f})"
    return text + "."


def _grid(updates: Floats, accuracies: Floats | None) -> Grid:
    rows: list[tuple[Cell, ...]] = []
    columns: list[tuple[str, Floats, str]] = [("updates used", updates, ",.1f")]
    if accuracies is not None:
        columns.append(("accuracy on own texts", accuracies, ".3f"))
    names = ("mean", "std", "min", "p10", "p50", "p90", "max", "worst_decile")
    for title, values, pattern in columns:
        spread, measure = _spread(values), Measure("", pattern)
        rows.append((title, *(measure.text(spread.get(name)) for name in names)))  # type: ignore[arg-type]  # numbers
    measures = (Measure("over clients"), *(Measure(name.replace("_", " ")) for name in names))
    return Grid("Spread over clients", measures, tuple(rows))


def _worst(updates: Floats, accuracies: Floats | None) -> Grid:
    by = updates if accuracies is None or len(accuracies) != len(updates) else accuracies
    order = np.argsort(by, kind="stable")[:_WORST].tolist()
    rows = tuple(
        (str(client), int(updates[client]), None if accuracies is None else float(accuracies[client]))
        for client in order
    )
    measures = (Measure("client"), Measure("updates used", ",.0f"), Measure("accuracy", ".3f"))
    what = "asked least" if by is updates else "with the lowest accuracy"
    return Grid(f"Clients {what}", measures, rows)


def _charts(updates: Floats, accuracies: Floats | None) -> tuple[Chart, ...]:
    charts = [_curve("fairness_participation", "Participation over clients", "updates used", updates)]
    if accuracies is not None:
        charts.append(_curve("fairness_accuracy", "Accuracy over clients", "accuracy on own texts", accuracies))
    return tuple(charts)


def _curve(name: str, title: str, x: str, values: Floats) -> Chart:
    """The share of clients at or below each value."""
    ordered: Sequence[float] = np.sort(values).tolist()
    shares = [(rank + 1) / len(ordered) for rank in range(len(ordered))]

    def draw() -> Drawing:
        return steps(ordered, shares, x=x, y="share of clients")

    return Chart(name, title, draw, (x, "share of clients"), list(zip(ordered, shares, strict=True)))
