"""Situations that selectors are tested in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fluxctl.policies.selectors import ClientBeliefs, SelectionView

DTYPES = {
    "utility": np.float64,
    "duration_s": np.float64,
    "last_round": np.int64,
    "num_selected": np.int64,
    "num_commits": np.int64,
    "modelled_duration_s": np.float64,
    "availability": np.float64,
    "last_evaluated": np.int64,
}
UNKNOWN = {"utility": np.nan, "duration_s": np.nan, "last_round": 0, "num_selected": 0, "num_commits": 0}


def build_situation(num, *, eligible=None, round=2, goal=10, **known) -> SelectionView:
    arrays = {name: [value] * num for name, value in UNKNOWN.items()} | known
    ids = np.arange(num) if eligible is None else np.array(eligible, dtype=np.int64)
    allowed = frozenset(ids.tolist())
    return SelectionView(
        round=round,
        num_clients=num,
        num_eligible=len(ids),
        is_eligible=allowed.__contains__,
        eligible=ids.copy,
        beliefs=ClientBeliefs(**{name: np.array(values, dtype=DTYPES[name]) for name, values in arrays.items()}),
        concurrency=num,
        goal=goal,
    )


@pytest.fixture
def situation() -> Callable[..., SelectionView]:
    """Builds a view of ``num`` clients; beliefs by name, everything unknown by default."""
    return build_situation
