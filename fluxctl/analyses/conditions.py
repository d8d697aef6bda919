"""Whether runs may be compared, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fluxctl.config.model import Config
from fluxctl.errors import ConfigError
from fluxctl.telemetry.run_facts import RunFacts
from fluxctl.types import JSON

_SHOWN = 5


def config_differences(left: Config, right: Config) -> list[tuple[str, JSON, JSON]]:
    """Dotted keys whose values differ, with both values, in the order of the configuration."""
    return list(_differences(left.model_dump(mode="json"), right.model_dump(mode="json"), ""))


def _differences(left: JSON, right: JSON, path: str) -> Iterator[tuple[str, JSON, JSON]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in dict.fromkeys((*left, *right)):
            yield from _differences(left.get(name), right.get(name), f"{path}.{name}" if path else name)
    elif left != right:
        yield path, left, right


def refuse_mixed(runs: Sequence[RunFacts]) -> None:
    """Make sure that all runs were made under one condition.

    Raises:
        ConfigError: If they were not; the hint names what differs.
    """
    first = runs[0]
    other = next((run for run in runs if run.condition != first.condition), None)
    if other is None:
        return
    hint = "compare runs of one run set"
    if first.config is not None and other.config is not None:
        own = ("run_set", "baseline", "variant", "mode", "seed")
        paths = [path for path, _, _ in config_differences(first.config, other.config) if path not in own]
        if paths:
            hint = f"they differ in {', '.join(paths[:_SHOWN])}{' and more' if len(paths) > _SHOWN else ''}; {hint}"
    raise ConfigError(
        f"{first.id} and {other.id} were run under different conditions and must not be compared", hint=hint
    )
