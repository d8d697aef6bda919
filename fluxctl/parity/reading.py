"""Reads both runs of a pair, and refuses what must not be compared."""

from __future__ import annotations

from typing import Final

from fluxctl.config.fingerprint import run_differences
from fluxctl.config.load import read_config
from fluxctl.config.model import Config
from fluxctl.errors import ConfigError, FluxError, NothingToDoError
from fluxctl.parity.observed import Observed, observe_events
from fluxctl.parity.sides import Pair, Side, guarded
from fluxctl.telemetry.reader import read_header

_MOST_KEYS: Final = 10  # differing keys that are shown


def observe(pair: Pair) -> tuple[Observed, Observed]:
    """Read both runs of a pair.

    Raises:
        NothingToDoError: If one has no events, or no committed bin.
        ConfigError: If one cannot be read, or they are not runs of one configuration.
    """
    configs = [_config(side) for side in (pair.left, pair.right)]
    check_comparable(pair, configs[0], configs[1])
    labels = pair.labels
    runs = [
        _read(side, label, config) for side, label, config in zip((pair.left, pair.right), labels, configs, strict=True)
    ]
    for side, run in zip((pair.left, pair.right), runs, strict=True):
        if not len(run.cycles) or not run.num_units:
            raise NothingToDoError(f"run {side.id} committed nothing: there is nothing to compare", where=side.id)
    _check_inputs(pair, runs[0], runs[1])
    return runs[0], runs[1]


def check_comparable(pair: Pair, left: Config | None, right: Config | None) -> None:
    """Refuse two runs that were not asked to do the same.

    Raises:
        ConfigError: With the settings that differ.
    """
    if left is not None and right is not None:
        found = run_differences(left, right)
        shown = [f"{path}: {ours} and {theirs}" for path, (ours, theirs) in found.items()]
    else:
        prints = [_config_hash(side) for side in (pair.left, pair.right)]
        shown = [] if None in prints or prints[0] == prints[1] else [f"run fingerprint: {prints[0]} and {prints[1]}"]
    if shown:
        more = f"\n... and {len(shown) - _MOST_KEYS} more" if len(shown) > _MOST_KEYS else ""
        raise ConfigError(
            "the runs were not asked to do the same, so they cannot be compared",
            where=f"{pair.left.id} {pair.right.id}",
            snippet="\n".join(f"    {line}" for line in shown[:_MOST_KEYS]) + more,
            hint="compare runs of one configuration; `fluxctl parity` finds them",
        )


def _check_inputs(pair: Pair, left: Observed, right: Observed) -> None:
    """One configuration can name files whose content has changed between the runs."""
    for name, what in (("model_hash", "model"), ("data_hash", "data")):
        hashes = [run.columns.meta.get(name) for run in (left, right)]
        if None not in hashes and hashes[0] != hashes[1]:
            raise ConfigError(
                f"the runs did not start from the same {what}: its hash is {hashes[0]} and {hashes[1]}",
                where=f"{pair.left.id} {pair.right.id}",
                hint="the files behind the configuration have changed; run both again",
            )


def _config(side: Side) -> Config | None:
    """The run's configuration; None where there is none that this version can read."""
    if side.folder is None:
        return None
    try:
        return read_config(side.folder.config).config
    except FluxError:
        return None


def _read(side: Side, label: str, config: Config | None) -> Observed:
    folder = None if side.folder is None else side.folder.path
    return guarded(side.events, lambda: observe_events(label, side.events, side.mode, config, folder))


def _config_hash(side: Side) -> object:
    return guarded(side.events, lambda: read_header(side.events)).get("config_hash")
