"""How many of the full models that clients were sent did they have already?

A client that is asked again for the same model version has its weights; sending them once more costs bytes and changes
nothing. With suppression such a message only says keep going.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fluxctl.analyses.figures import bars
from fluxctl.analyses.payloads import COMM, FULL, FullPayloads, full_payloads
from fluxctl.analyses.reading import events_of
from fluxctl.analyses.result import Analysis, Cell, Chart, Drawing, Grid, Measure, handy_bytes, percent, plural
from fluxctl.runs.layout import RunFolder
from fluxctl.telemetry.columns import Columns, Table, Wanted
from fluxctl.types import JSON

WANTED: Final[Wanted] = {"comm": COMM}
_WORST: Final = 10  # clients in the table


def redundancy(folder: RunFolder, max_frac: float | None = None, *, columns: Columns | None = None) -> Analysis:
    """Count full payloads per client and model version.

    Args:
        folder: A run.
        max_frac: Largest share of redundant full payloads that is still fine; None = anything is.
        columns: Its events, if they were read already with at least :data:`WANTED`; None = read them.

    Raises:
        NothingToDoError: If it has no events.
        AbsentField: If its messages do not say what they carry.
    """
    comm = events_of(folder, WANTED, columns)["comm"]
    sent = full_payloads(comm)
    is_ok = max_frac is None or sent.redundant_frac <= max_frac
    clients, needed, redundant = _by_client(sent)
    data: dict[str, JSON] = {
        "num_full": sent.num_full,
        "num_redundant": sent.num_redundant,
        "redundant_frac": sent.redundant_frac,
        "redundant_bytes": sent.redundant_bytes,
        "most_per_client_version": sent.most,
        "max_frac": max_frac,
        "clients": [
            {"client": client, "num_full": one + more, "num_redundant": more}
            for client, one, more in zip(clients, needed, redundant, strict=True)
        ],
    }
    return Analysis(
        "redundancy",
        folder.id,
        _conclusion(sent, comm, max_frac),
        (_kinds(comm), _worst(clients, needed, redundant)),
        data,
        (_chart(clients, needed, redundant),),
        is_ok,
    )


def _conclusion(sent: FullPayloads, comm: Table, max_frac: float | None) -> str:
    if not sent.num_full:
        return "No full payload was sent."
    num_light = sent.num_down - sent.num_full
    if not sent.num_redundant:
        text = f"No full payload was redundant: {plural(sent.num_full, 'payload')}, each client's first of its version"
        if num_light and len(comm):
            light = sent.down_bytes - int(sent.num_bytes.sum())
            text += f"; {plural(num_light, 'further request')} went out in {handy_bytes(light)} without weights"
    else:
        text = (
            f"{percent(sent.redundant_frac, 1)} of the full payloads ({sent.num_redundant:,} of {sent.num_full:,}, "
            f"{handy_bytes(sent.redundant_bytes)}) carried weights that their client had already"
        )
    if max_frac is None:
        return text + "."
    relation = "within" if sent.redundant_frac <= max_frac else "above"
    return f"{text}: {relation} the limit of {max_frac:.1%}."


def _by_client(sent: FullPayloads) -> tuple[list[int], list[int], list[int]]:
    """Clients with the most redundant ones first, and their needed and redundant full payloads."""
    clients, owner = np.unique(sent.clients, return_inverse=True)
    needed = np.bincount(owner, minlength=len(clients)).astype(np.int64)
    redundant = np.bincount(owner, weights=sent.counts, minlength=len(clients)).astype(np.int64) - needed
    order = np.lexsort((clients, -redundant))
    return clients[order].tolist(), needed[order].tolist(), redundant[order].tolist()


def _kinds(comm: Table) -> Grid:
    rows: list[tuple[Cell, ...]] = []
    if len(comm):
        directions, kinds, sizes = comm.labels("direction"), comm.labels("payload"), comm.ints("bytes")
        for way in ("down", "up"):
            for kind in kinds.names:
                chosen = sizes[directions.equals(way) & kinds.equals(kind)]
                if len(chosen):
                    is_full = "full" if kind in FULL else "light" if way == "down" else "update"
                    rows.append((way, kind, is_full, len(chosen), int(chosen.sum()), float(chosen.mean())))
    measures = (
        Measure("way"),
        Measure("payload"),
        Measure("counts as"),
        Measure("messages", ",.0f"),
        Measure("bytes", "B"),
        Measure("each", "B"),
    )
    return Grid("Messages by what they carry", measures, tuple(rows), 2)


def _worst(clients: Sequence[int], needed: Sequence[int], redundant: Sequence[int]) -> Grid:
    rows = tuple(
        (str(client), one + more, more, more / (one + more))
        for client, one, more in zip(clients, needed, redundant, strict=True)
        if more
    )[:_WORST]
    measures = (Measure("client"), Measure("full", ",.0f"), Measure("redundant", ",.0f"), Measure("share", ".1%"))
    return Grid("Clients with the most redundant payloads", measures, rows)


def _chart(clients: Sequence[int], needed: Sequence[int], redundant: Sequence[int]) -> Chart:
    def draw() -> Drawing:
        names = [str(client) for client in clients]
        return bars(names, {"needed": needed, "redundant": redundant}, x="client", y="full payloads", stacked=True)

    points = list(zip(clients, needed, redundant, strict=True))
    return Chart("redundancy", "Full payloads by client", draw, ("client", "needed", "redundant"), points)
