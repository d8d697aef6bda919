"""Who is asked to train next."""

from fluxctl.policies.selectors import async_oort, random
from fluxctl.policies.selectors.base import SELECTORS, ClientBeliefs, Selection, SelectionView, Selector

__all__ = ["SELECTORS", "ClientBeliefs", "Selection", "SelectionView", "Selector", "async_oort", "random"]
