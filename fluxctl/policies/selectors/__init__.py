"""Who is asked to train next."""

from fluxctl.policies.selectors import async_oort, fair_share, fastest, oort, random, refl, round_robin
from fluxctl.policies.selectors.base import (
    SELECTORS,
    ClientBeliefs,
    EvaluatingSelector,
    Selection,
    SelectionView,
    Selector,
)

__all__ = [
    "SELECTORS",
    "ClientBeliefs",
    "EvaluatingSelector",
    "Selection",
    "SelectionView",
    "Selector",
    "async_oort",
    "fair_share",
    "fastest",
    "oort",
    "random",
    "refl",
    "round_robin",
]
