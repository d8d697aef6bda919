import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.config.load import resolve
from fluxctl.config.override import from_env, from_set
from fluxctl.errors import ConfigError


@pytest.mark.parametrize(
    ("argument", "path", "value"),
    [
        ("aggregation.goal=5", ("aggregation", "goal"), 5),
        ("server.lr=1e-4", ("server", "lr"), 1e-4),
        ("model.name=a=b", ("model", "name"), "a=b"),
        ("limits.max_bins=", ("limits", "max_bins"), None),
        ("limits.max_bins=null", ("limits", "max_bins"), None),
        ("data.classes=[a, b]", ("data", "classes"), ["a", "b"]),
        ("model.adapter_blocks[0]=-2", ("model", "adapter_blocks", 0), -2),
        ("selection.policy={name: random}", ("selection", "policy"), {"name": "random"}),
    ],
)
def test_set_is_a_path_and_a_yaml_value(argument, path, value):
    override = from_set(argument)
    assert override.path == path
    assert override.node.plain() == value


@pytest.mark.parametrize("argument", ["", "goal", "=3", "a..b=1", "a.=1", "a[x]=1", "[0]=1", "a=[1", "a={b: 1"])
def test_a_malformed_argument_is_named(argument):
    with pytest.raises(ConfigError) as caught:
        from_set(argument)
    assert caught.value.where == f"--set {argument}"


@given(st.text(max_size=30))
def test_any_argument_is_an_override_or_a_config_error(argument):
    try:
        where = from_set(argument).node.place.where
    except ConfigError as error:
        where = error.where
    assert where.startswith("--set")


def test_an_item_of_a_list_replaces_only_that_item():
    found = resolve([], [from_set("data.classes[1]=cat")])
    assert found.config.data.classes == ("artifact", "cat", "act", "communication")
    assert found.origins()["data.classes"] == "--set"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("data.classes[4]=x", "has 4 items, there is no [4]"),
        ("data.clases[0]=x", "not a list"),
        ("seed[0]=1", "seed is not a list"),
        ("data.classes[0].name=x", "no keys"),
    ],
)
def test_a_wrong_item_is_told(argument, message):
    with pytest.raises(ConfigError) as caught:
        resolve([], [from_set(argument)])
    assert message in caught.value.message
    assert caught.value.where == f"--set {argument}"


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("aggregation.gaol=3", "'goal'"),
        ("goal=3", "'aggregation.goal'"),
        ("seed.x=3", None),
        ("agregation.goal=3", "'aggregation'"),
    ],
)
def test_an_unknown_key_is_told_with_a_suggestion(argument, hint):
    with pytest.raises(ConfigError) as caught:
        resolve([], [from_set(argument)])
    assert caught.value.where == f"--set {argument}"
    assert hint is None or hint in caught.value.hint


def test_environment_names_are_paths_with_double_underscores():
    found = from_env(
        {"FLUXCTL_SET_AGGREGATION__GOAL": "3", "FLUXCTL_SET_limits__max_bins": "4", "FLUXCTL_RUNS_DIR": "x"}
    )
    assert [(item.path, item.node.plain(), item.node.place.origin) for item in found] == [
        (("aggregation", "goal"), 3, "env FLUXCTL_SET_AGGREGATION__GOAL"),
        (("limits", "max_bins"), 4, "env FLUXCTL_SET_limits__max_bins"),
    ]


def test_a_wrong_variable_is_named():
    with pytest.raises(ConfigError) as caught:
        resolve([], from_env({"FLUXCTL_SET_AGGREGATION__GAOL": "3"}))
    assert caught.value.where == "FLUXCTL_SET_AGGREGATION__GAOL=3"
