"""Pairs that differ in one field, and rungs by id."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fluxctl.config.model import Config
from fluxctl.parity.observed import Observed
from fluxctl.parity.registry import all_rungs
from fluxctl.parity.result import Finding, Options, Rung
from fluxctl.types import Mode

Event = dict[str, Any]
Change = Callable[[Any, Event], Any]
Edit = Callable[[Event], Event | None]


def edit_of(event: str, path: str, change: Change | object) -> Callable[[Event], Event]:
    """An edit that changes one field of one kind of event.

    Args:
        event: Its kind.
        path: The field, ``wall.wall_s`` or ``contributor_intervals[].commit``.
        change: The new value, or a function of the old one and its event.
    """
    *parents, leaf = path.split(".")
    in_list = bool(parents) and parents[-1].endswith("[]")

    def new_value(old: object, whole: Event) -> object:
        return change(old, whole) if callable(change) else change

    def edit(found: Event) -> Event:
        if found["event"] != event:
            return found
        holder: Any = found
        for parent in parents:
            holder = holder[parent.removesuffix("[]")]
        for item in holder if in_list else [holder]:
            item[leaf] = new_value(item.get(leaf), found)
        return found

    return edit


@pytest.fixture(scope="session")
def unedited() -> dict[tuple[Mode, int], Observed]:
    """Runs that nobody changed, by clock and length: read once for all tests."""
    return {}


@pytest.fixture
def pair(
    tmp_path: Path,
    make_run: Callable[..., Path],
    observe: Callable[..., Observed],
    unedited: dict[tuple[Mode, int], Observed],
) -> Callable[..., tuple[Observed, Observed]]:
    """A pair as the fixture of the same name builds it for all tests of parity; unchanged sides are shared."""
    numbers = count()

    def side(mode: Mode, edit: Edit | None, config: Config | None, num_bins: int) -> Observed:
        if edit is None and config is None and (mode, num_bins) in unedited:
            return unedited[mode, num_bins]
        folder = make_run(tmp_path / f"run{next(numbers)}", mode, edit, config, num_bins=num_bins)
        run = observe(folder, mode, config)
        if edit is None and config is None:
            unedited[mode, num_bins] = run
        return run

    def build(
        left: Edit | None = None,
        right: Edit | None = None,
        modes: tuple[Mode, Mode] = (Mode.REAL, Mode.SIM),
        configs: tuple[Config | None, Config | None] = (None, None),
        num_bins: int = 30,
    ) -> tuple[Observed, Observed]:
        return side(modes[0], left, configs[0], num_bins), side(modes[1], right, configs[1], num_bins)

    return build


@pytest.fixture
def field_edit() -> Callable[..., Callable[[Event], Event]]:
    """See :func:`edit_of`."""
    return edit_of


@pytest.fixture
def rung_of() -> Callable[[str], Rung]:
    """A rung by its id."""
    rungs = {rung.id: rung for rung in all_rungs()}
    return rungs.__getitem__


@pytest.fixture
def check(rung_of: Callable[[str], Rung]) -> Callable[..., Finding]:
    """Ask one rung: ``check("D34", left, right)``."""

    def ask(rung_id: str, left: Observed, right: Observed, options: Options | None = None) -> Finding:
        return rung_of(rung_id).check(left, right, options or Options())

    return ask
