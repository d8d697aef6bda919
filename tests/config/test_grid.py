"""The argument of --grid."""

import pytest

from fluxctl.config.override import from_grid
from fluxctl.errors import ConfigError


@pytest.mark.parametrize(
    ("argument", "path", "values"),
    [
        ("server.lr=0.005,0.01,0.02", ("server", "lr"), [0.005, 0.01, 0.02]),
        ("aggregation.goal=5", ("aggregation", "goal"), [5]),
        ("selection.policy=random, oort", ("selection", "policy"), ["random", "oort"]),
        ("model.adapter_blocks=[-1],[-2,-1],[]", ("model", "adapter_blocks"), [[-1], [-2, -1], []]),
        ("gate.enabled=true,false", ("gate", "enabled"), [True, False]),
        ("limits.max_bins=null,3", ("limits", "max_bins"), [None, 3]),
    ],
)
def test_values_are_yaml(argument, path, values):
    overrides = from_grid(argument)
    assert [override.path for override in overrides] == [path] * len(values)
    assert [override.node.plain() for override in overrides] == values


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("server.lr", "a dotted path, an equals sign and a value"),
        ("server.lr=", "the grid has no value"),
        ("=1,2", "a dotted path, an equals sign and a value"),
        ("server.lr=0.1,0.1", "a value stands twice"),
        ("server.lr=[1,2", "(?i)expected"),
    ],
)
def test_mistakes_name_the_argument(argument, message):
    with pytest.raises(ConfigError, match=message) as caught:
        from_grid(argument)
    assert f"--grid {argument}" in str(caught.value.where)
