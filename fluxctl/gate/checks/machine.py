"""Checks of the machine: cores and devices."""

from __future__ import annotations

from collections.abc import Iterator

from fluxctl.gate.facts import Case
from fluxctl.gate.registry import Level, Told, run_check


@run_check("num_workers", Level.WARN)
def num_workers(case: Case) -> Iterator[Told]:
    """Compute threads have cores."""
    asked = case.config.engine.num_workers
    if asked is not None and asked > case.num_cores:
        yield Told(
            f"{asked} compute threads share {case.num_cores} cores",
            f"--set engine.num_workers={case.num_cores}",
            ("engine.num_workers",),
        )


@run_check("visible_devices", Level.BLOCK)
def visible_devices(case: Case) -> Iterator[Told]:
    """There are as many accelerators as were asked for."""
    hosts = case.devices
    if hosts is None or hosts.num_asked <= len(hosts.visible):
        return
    num, devices = len(hosts.visible), "device is" if len(hosts.visible) == 1 else "devices are"
    yield Told(
        f"{hosts.num_asked} devices are asked for, and {num} {devices} visible here",
        f"--devices {num}" if num else "--devices cpu, or leave --devices out: everything runs on the CPU",
        (),
    )


@run_check("device_use", Level.WARN)
def device_use(case: Case) -> Iterator[Told]:
    """Every device has a trainer, and about as many as the others."""
    hosts = case.devices
    if hosts is None or not 1 <= hosts.num_asked <= len(hosts.visible):
        return
    concurrency = case.config.aggregation.concurrency
    placed = hosts.placement(concurrency)
    if placed.num_idle:
        yield Told(
            f"{concurrency} trainers leave {placed.num_idle} of {hosts.num_asked} devices idle",
            f"--devices {concurrency}",
            ("aggregation.concurrency",),
        )
    elif not placed.is_even:
        most, least = max(placed.trainers), min(placed.trainers)
        yield Told(
            f"{concurrency} trainers on {hosts.num_asked} devices: {most} on some, {least} on others",
            f"--concurrency {concurrency - concurrency % hosts.num_asked}, or a number of devices that divides it",
            ("aggregation.concurrency",),
        )


@run_check("device_compute", Level.WARN)
def device_compute(case: Case) -> Iterator[Told]:
    """Steps run where trainers are placed."""
    hosts = case.devices
    if hosts is not None and 1 <= hosts.num_asked <= len(hosts.visible):
        yield Told(
            "trainers are placed on devices, but this version computes every step on the CPU: the placement is "
            "recorded and changes nothing",
            "leave --devices out",
            (),
        )
