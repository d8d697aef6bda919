import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fluxctl.config.load import load_layer, read_config, resolve
from fluxctl.config.model import Config
from fluxctl.config.override import from_set
from fluxctl.config.saved import render, scalar
from fluxctl.config.schema import field_at, leaf_paths
from fluxctl.config.source import Text, parse, snake
from fluxctl.config.tree import Place, plain_node

positive = st.floats(min_value=1e-300, max_value=1e300)
words = st.text(max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
# two spellings of one key are refused, so keys must differ as snake_case
params = st.dictionaries(
    st.from_regex(r"[a-z]{1,6}", fullmatch=True), json_values.filter(lambda v: not isinstance(v, dict))
)
configs = st.fixed_dictionaries(
    {},
    optional={
        "run_set": words,
        "baseline": words,
        "mode": st.sampled_from(["real", "sim"]),
        "seed": st.integers(0, 2**63 - 1),
        "model": st.fixed_dictionaries({"name": words, "adapter_blocks": st.lists(st.integers(), max_size=3)}),
        "data": st.fixed_dictionaries({"classes": st.lists(words, min_size=2, max_size=4)}),
        "delays": st.fixed_dictionaries({"factor": positive, "enabled": st.booleans()}),
        "selection": st.fixed_dictionaries({"policy": st.fixed_dictionaries({"name": words, "params": params})}),
        "gate": st.fixed_dictionaries({"tracked_tensor": words, "var_threshold": positive}),
        "limits": st.fixed_dictionaries(
            {"max_bins": st.none() | st.integers(1, 10**9), "max_wall_s": st.none() | positive}
        ),
    },
)


@pytest.mark.feature("E30")
@given(configs, words)
def test_reading_back_gives_an_equal_config(values, origin):
    resolved = resolve([plain_node(values, Place(origin, origin))])
    again = resolve([load_layer(Text(render(resolved), "config.yaml"))])
    assert again.config == resolved.config
    assert again.config == Config.model_validate(Config.model_validate(resolved.config.model_dump()).model_dump())


@given(json_values)
def test_a_value_in_flow_style_reads_back(value):
    assume(not clashes(value))
    assert parse(Text(f"x: {scalar(value)}", "x")).find(["x"]).plain() == value


def clashes(value):
    """Whether a mapping within has two keys that are spellings of one, which the parser refuses."""
    if isinstance(value, dict):
        return len({snake(key) for key in value}) < len(value) or any(map(clashes, value.values()))
    return isinstance(value, list) and any(map(clashes, value))


@pytest.mark.feature("E30")
def test_every_value_has_its_origin_and_meaning_beside_it():
    resolved = resolve([load_layer(Text("aggregation: {goal: 3}", "my.yaml"))], [from_set("server.lr=0.5")])
    lines = [line.strip() for line in render(resolved).splitlines()]
    assert any(line.startswith("goal: 3 ") and "# my.yaml:1 | aggregation goal K" in line for line in lines)
    assert any(line.startswith("lr: 0.5 ") and "# --set | learning rate eta" in line for line in lines)
    for path in leaf_paths():
        name = path.rpartition(".")[2]
        assert any(line.startswith(f"{name}: ") and "  # " in line for line in lines), path


def test_every_field_says_what_it_means():
    for path in leaf_paths():
        assert field_at(tuple(path.split("."))).description, path


def test_a_saved_file_resolves_with_its_own_origins(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(render(resolve([], [from_set("seed=9")])))
    again = read_config(path)
    assert again.config.seed == 9
    assert again.origins()["seed"].startswith(f"{path}:")
