"""The server's optimizer: the aggregate of a cohort as the gradient of one step.

``sgd`` is the plain step of :func:`~fluxctl.learn.server_step.sgd_step`. Forward gradients are estimates of high
variance, and undamped steps on them can throw a model that had learned back to one-class predictions; clipping,
schedules and adaptive step sizes are the usual cures.

Source:
    Reddi et al., Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295: server optimizers on pseudo-gradients
    and their defaults (beta2 0.99, eps 1e-3), FedYogi as in algorithm 2; Zaheer et al., Adaptive Methods for Nonconvex
    Optimization, NeurIPS 2018 (Yogi).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from fluxctl.errors import ConfigError, UnknownNameError
from fluxctl.learn.server_step import clipped, linear_factor, sgd_step
from fluxctl.registry import suggestion

JSON: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server steps.

    Attributes:
        optimizer: One of :data:`OPTIMIZERS`.
        lr: Learning rate eta.
        momentum: Decay of the velocity (momentum).
        beta1: Decay of the mean (adam, yogi).
        beta2: Decay of the mean square (adam, yogi).
        eps: Added to the root of the mean square (adam, adagrad, yogi).
        clip_norm: Longest aggregate; a longer one is scaled down to it. None = no limit.
        schedule: ``linear`` = up over the warm-up, then down to 0 at the last step.
        warmup_ratio: Share of all steps that the warm-up takes (linear).
    """

    optimizer: str = "sgd"
    lr: float = 0.01
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3
    clip_norm: float | None = None
    schedule: Literal["constant", "linear"] = "constant"
    warmup_ratio: float = 0.0


class _Rule(Protocol):
    """An optimizer's update of one vector, with its memory."""

    def apply(self, params: Tensor, gradient: Tensor, lr: float) -> Tensor:
        """The new parameters; arguments are left unchanged."""
        ...

    def state(self) -> dict[str, Tensor]:
        """A copy of the memory by name."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state` gave."""
        ...


@dataclass
class _Sgd:
    """``theta - lr g``."""

    def apply(self, params: Tensor, gradient: Tensor, lr: float) -> Tensor:
        return sgd_step(params, gradient, lr)

    def state(self) -> dict[str, Tensor]:
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        pass


@dataclass
class _Torch:
    """An optimizer of torch on a parameter of its own, which the caller's parameters are copied to and from."""

    make: Callable[[list[Tensor]], torch.optim.Optimizer]
    _leaf: Tensor | None = None
    _optimizer: torch.optim.Optimizer | None = None
    _loaded: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The first optimizer of a process imports torch's compiler, which takes seconds: before the run, not in it.
        self.make([torch.nn.Parameter(torch.zeros(()))])

    def apply(self, params: Tensor, gradient: Tensor, lr: float) -> Tensor:
        if self._leaf is None or self._optimizer is None:
            self._leaf = torch.nn.Parameter(params.detach().clone())
            self._optimizer = self.make([self._leaf])
            self._restore(self._optimizer)
        with torch.no_grad():
            self._leaf.copy_(params)
        self._leaf.grad = gradient.detach().clone()
        self._optimizer.param_groups[0]["lr"] = lr
        self._optimizer.step()
        return self._leaf.detach().clone()

    def _restore(self, optimizer: torch.optim.Optimizer) -> None:
        if self._loaded:
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": {0: self._loaded}, "param_groups": groups})

    def state(self) -> dict[str, Tensor]:
        if self._optimizer is None or self._leaf is None:
            return {name: value.clone() for name, value in self._loaded.items()}
        memory: dict[str, Tensor | None] = self._optimizer.state[self._leaf]
        return {name: value.clone() for name, value in memory.items() if value is not None}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._loaded = {name: value.clone() for name, value in state.items()}
        self._leaf = self._optimizer = None


@dataclass
class _Yogi:
    """Like Adam, but the mean square changes by at most a fixed share of the squared gradient; no bias correction."""

    beta1: float
    beta2: float
    eps: float
    _mean: Tensor | None = None
    _square: Tensor | None = None

    def apply(self, params: Tensor, gradient: Tensor, lr: float) -> Tensor:
        mean = torch.zeros_like(params) if self._mean is None else self._mean
        square = torch.full_like(params, self.eps**2) if self._square is None else self._square
        squared = gradient.square()
        self._mean = self.beta1 * mean + (1 - self.beta1) * gradient
        self._square = square - (1 - self.beta2) * squared * torch.sign(square - squared)
        return params - lr * self._mean / (self._square.sqrt() + self.eps)

    def state(self) -> dict[str, Tensor]:
        if self._mean is None or self._square is None:
            return {}
        return {"mean": self._mean.clone(), "square": self._square.clone()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._mean = state["mean"].clone() if state else None
        self._square = state["square"].clone() if state else None


def _momentum(s: ServerSettings) -> _Rule:
    return _Torch(lambda params: torch.optim.SGD(params, lr=s.lr, momentum=s.momentum))


def _adam(s: ServerSettings) -> _Rule:
    return _Torch(lambda params: torch.optim.Adam(params, lr=s.lr, betas=(s.beta1, s.beta2), eps=s.eps))


def _adagrad(s: ServerSettings) -> _Rule:
    return _Torch(lambda params: torch.optim.Adagrad(params, lr=s.lr, eps=s.eps))


OPTIMIZERS: Final[Mapping[str, Callable[[ServerSettings], _Rule]]] = {
    "sgd": lambda _: _Sgd(),
    "momentum": _momentum,
    "adam": _adam,
    "adagrad": _adagrad,
    "yogi": lambda s: _Yogi(s.beta1, s.beta2, s.eps),
}


class ServerOptimizer:
    """Turns aggregates into model versions.

    Args:
        settings: How to step.
        total_steps: Steps of the whole run, for schedules; None = unknown.

    Attributes:
        num_steps: Steps taken.
        num_clipped: Steps whose aggregate was longer than ``clip_norm``.
        lr_scale: Factor of the configured learning rate; rollbacks lower it.

    Raises:
        UnknownNameError: If the optimizer is not one of :data:`OPTIMIZERS`.
        ConfigError: If the schedule needs a number of steps and there is none.
    """

    def __init__(self, settings: ServerSettings, total_steps: int | None = None) -> None:
        if settings.optimizer not in OPTIMIZERS:
            raise UnknownNameError(
                f"unknown server optimizer '{settings.optimizer}'", hint=suggestion(settings.optimizer, OPTIMIZERS)
            )
        if settings.schedule == "linear" and total_steps is None:
            raise ConfigError(
                "a linear learning-rate schedule needs to know how many bins will be committed",
                hint="set limits.max_bins, or server.schedule to constant",
            )
        self.settings = settings
        self.num_steps = 0
        self.num_clipped = 0
        self.lr_scale = 1.0
        self._total_steps = total_steps
        self._rule = OPTIMIZERS[settings.optimizer](settings)

    @property
    def lr(self) -> float:
        """Learning rate of the next step."""
        lr = self.settings.lr * self.lr_scale
        if self.settings.schedule == "constant" or self._total_steps is None:
            return lr
        return lr * linear_factor(self.num_steps, self._total_steps, self.settings.warmup_ratio)

    def step(self, params: Tensor, aggregate: Tensor) -> Tensor:
        """Take one step down the aggregate.

        Args:
            params: Shape ``(d,)``; left unchanged. They need not be what the last step returned: after a rollback the
                optimizer goes on from other ones.
            aggregate: Shape ``(d,)``; left unchanged.

        Returns:
            The new parameters, shape ``(d,)``, in memory of their own.
        """
        gradient = aggregate
        if self.settings.clip_norm is not None:
            gradient = clipped(aggregate, self.settings.clip_norm)
            self.num_clipped += gradient is not aggregate
        stepped = self._rule.apply(params, gradient, self.lr)
        self.num_steps += 1
        return stepped

    def state(self) -> tuple[dict[str, Tensor], dict[str, JSON]]:
        """Everything that :meth:`load` needs: tensors by name, and JSON metadata."""
        meta: dict[str, JSON] = {
            "optimizer": self.settings.optimizer,
            "num_steps": self.num_steps,
            "num_clipped": self.num_clipped,
            "lr_scale": self.lr_scale,
        }
        return self._rule.state(), meta

    def roll_back(self, arrays: Mapping[str, Tensor], lr_factor: float) -> None:
        """Forget the steps since :meth:`state` gave ``arrays``, and step more carefully from now on.

        The number of steps stays, so that a schedule goes on as planned.
        """
        self._rule.load(arrays)
        self.lr_scale *= lr_factor

    def load(self, arrays: Mapping[str, Tensor], meta: Mapping[str, JSON]) -> None:
        """Go on from what :meth:`state` gave.

        Raises:
            ValueError: If it is another optimizer's state.
        """
        if meta["optimizer"] != self.settings.optimizer:
            raise ValueError(f"state of '{meta['optimizer']}' cannot be used by '{self.settings.optimizer}'")
        self.num_steps, self.num_clipped = int(meta["num_steps"]), int(meta["num_clipped"])
        self.lr_scale = float(meta["lr_scale"])
        self._rule.load(arrays)
