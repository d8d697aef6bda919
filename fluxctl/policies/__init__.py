"""Decisions as pure functions: a frozen view and a keyed stream in, a decision out; no clock, no thread, no file.

Importing this package registers every policy, so that a preset may name it.
"""

from collections.abc import Mapping
from typing import Any, Final

from fluxctl.policies import commits, control, rates, selectors, staleness, stopping
from fluxctl.policies.control.base import CONTROLLERS
from fluxctl.policies.rates.base import RATES
from fluxctl.policies.selectors.base import SELECTORS
from fluxctl.policies.staleness.base import STALENESS
from fluxctl.registry import Registry

# Dotted path of each choice in a configuration -> the registry that knows its names.
REGISTRIES: Final[Mapping[str, Registry[Any]]] = {
    "selection.policy": SELECTORS,
    "aggregation.rate": RATES,
    "aggregation.staleness": STALENESS,
    "aggregation.control": CONTROLLERS,
}

__all__ = ["REGISTRIES", "commits", "control", "rates", "selectors", "staleness", "stopping"]
