"""How much each update counts in the aggregate."""

from fluxctl.policies.rates import fedavg, grad_aware, new, old
from fluxctl.policies.rates.base import RATES, Rate, RateInput, RateResult

__all__ = ["RATES", "Rate", "RateInput", "RateResult", "fedavg", "grad_aware", "new", "old"]
