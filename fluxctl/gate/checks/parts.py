"""Checks of what a run is made of: data, trace, model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from fluxctl.gate.facts import Case
from fluxctl.gate.registry import Level, Told, run_check

FAMILIES: Final = ("bert", "distilbert", "roberta")  # what the learner can take apart; a test holds them to it
_ALPHA_FACTOR: Final = 2.0  # how far the measured concentration may be from the one asked for


@run_check("usable_parts", Level.BLOCK)
def usable_parts(case: Case) -> Iterator[Told]:
    """Data, trace and model can be found and read."""
    for trouble in case.troubles:
        if not trouble.is_missing:
            yield Told(trouble.message, trouble.hint or f"see {trouble.path}", (trouble.path,))


@run_check("installed_parts", Level.WARN)
def installed_parts(case: Case) -> Iterator[Told]:
    """Files of the demo extra are installed; elsewhere they may be."""
    for trouble in case.troubles:
        if trouble.is_missing:
            yield Told(trouble.message, trouble.hint or f"see {trouble.path}", (trouble.path,))


@run_check("supported_model", Level.BLOCK)
def supported_model(case: Case) -> Iterator[Told]:
    """The estimator can go through the model: its family is known, and it has the blocks and positions asked for."""
    facts, model = case.model, case.config.model
    if facts is None:
        return
    if facts.family not in FAMILIES:
        yield Told(
            f"estimator '{case.config.step.estimator}' cannot run on '{model.name}', a model of type '{facts.family}'",
            f"use a model of type {', '.join(FAMILIES)}",
            ("model.name", "step.estimator"),
        )
        return
    num = facts.num_blocks
    outside = [block for block in model.adapter_blocks if num is not None and not -num <= block < num]
    if outside:
        yield Told(
            f"there is no block {outside[0]} for an adapter: '{model.name}' has {num} blocks",
            f"model.adapter_blocks may name -{num} to {(num or 1) - 1}",
            ("model.adapter_blocks",),
        )
    if facts.max_positions is not None and model.max_len > facts.max_positions:
        yield Told(
            f"texts of {model.max_len} tokens do not fit '{model.name}', which has {facts.max_positions} positions",
            f"--set model.max_len={facts.max_positions}",
            ("model.max_len",),
        )


@run_check("empty_client", Level.BLOCK)
def empty_client(case: Case) -> Iterator[Told]:
    """Every client owns a text."""
    if case.data is None or not case.data.empty_clients:
        return
    num_clients, data = case.config.clients.num_clients, case.data
    per_class = math.ceil(num_clients / len(case.config.data.classes))
    yield Told(
        f"{len(data.empty_clients)} of {num_clients} clients would own no text (the first is client "
        f"{data.empty_clients[0]}): there are {data.num_texts} training texts",
        f"--clients {data.num_texts}, or --set data.train_per_class={per_class}",
        ("clients.num_clients", "data.train_per_class"),
    )


@run_check("alpha", Level.WARN)
def alpha(case: Case) -> Iterator[Told]:
    """The loaded partition is as skewed as was asked for."""
    asked, data = case.config.partition.alpha, case.data
    measured = None if data is None or data.empty_clients else data.measured_alpha
    if measured is None or asked / _ALPHA_FACTOR <= measured <= asked * _ALPHA_FACTOR:
        return
    reason = (
        "few clients use up the labels that they ask for" if measured > asked else "the shards are too small for it"
    )
    yield Told(
        f"the loaded partition looks like alpha {measured:.2g}, asked was {asked:g}: {reason}",
        "more clients, or an alpha nearer to 1" if measured > asked else "fewer clients, or more texts of each class",
        ("partition.alpha",),
    )
