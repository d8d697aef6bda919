import pytest

from fluxctl.config.choices import choice_check
from fluxctl.config.load import load_layer, read_config, resolve
from fluxctl.config.override import from_env, from_flag, from_set
from fluxctl.config.source import Text
from fluxctl.errors import ConfigError, ConfigProblemsError
from fluxctl.registry import Params, Registry


def layer(text, name="x.yaml"):
    return load_layer(Text(text, name))


def problems(call, *args, **kwargs):
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    error = caught.value
    return list(error.problems) if isinstance(error, ConfigProblemsError) else [error]


@pytest.mark.feature("G1")
@pytest.mark.parametrize(
    ("text", "where", "message", "hint"),
    [
        ("aggregation:\n  gaol: 3\n", "x.yaml:2:3", "unknown key 'aggregation.gaol'", "did you mean 'goal'?"),
        ("limits:\n  maxBins: 3\n", "x.yaml:2:3", "unknown key 'limits.maxBins'", "did you mean 'max_bins'?"),
        ("goal: 3\n", "x.yaml:1:1", "unknown key 'goal'", "did you mean 'aggregation.goal'?"),
        ("maxBins: 3\n", "x.yaml:1:1", "unknown key 'maxBins'", "did you mean 'limits.max_bins'?"),
        ("aggregation:\n  goal: ten\n", "x.yaml:2:9", 'aggregation.goal must be an integer, got "ten"', "updates per"),
        ("aggregation:\n  goal: 3.5\n", "x.yaml:2:9", "aggregation.goal must be an integer, got 3.5", "updates per"),
        ("aggregation:\n  goal: true\n", "x.yaml:2:9", "aggregation.goal must be an integer, got true", "updates per"),
        ("clients: {num_clients: 0}", "x.yaml:1:24", "clients.num_clients must be at least 1, got 0", "shard"),
        ("delays: {low_s: -1}", "x.yaml:1:17", "delays.low_s must be greater than 0, got -1", "smallest D"),
        ("delays: {enabled: on}", "x.yaml:1:19", 'delays.enabled must be true or false, got "on"', "YAML 1.2"),
        ("aggregation: 5", "x.yaml:1:14", "aggregation must be a mapping, got 5", None),
        ("aggregation:", "x.yaml:1:13", "aggregation must be a mapping, got nothing", None),
        ("data: {classes: a}", "x.yaml:1:17", 'data.classes must be a list, got "a"', "label names"),
        ("data: {classes: [a, 3]}", "x.yaml:1:21", "data.classes[1] must be text, got 3", "label names"),
        ("limits: {max_runtime_s: .inf}", "x.yaml:1:25", "must be a finite number", "budget"),
        ("server: {lr: .nan}", "x.yaml:1:14", "server.lr must be", "learning rate"),
        ("mode: both", "x.yaml:1:7", "mode must be 'real' or 'sim'", "wall clock"),
        ("gate: {stopping_policy: platau}", "x.yaml:1:25", "gate.stopping_policy must be", "did you mean 'plateau'?"),
        ("selection: {policy: {nam: x}}", "x.yaml:1:22", "unknown key 'selection.policy.nam'", "did you mean 'name'?"),
        ("- 1", "x.yaml:1:1", "must be a mapping", "seed: 0"),
        ("", "x.yaml:1:1", "is empty", "seed: 0"),
    ],
)
def test_each_mistake_has_a_place_and_a_hint(text, where, message, hint):
    (problem,) = problems(layer, text)
    assert problem.where == where
    assert message in problem.message
    assert hint is None or hint in problem.hint
    assert "^" in problem.snippet


@pytest.mark.feature("G1")
def test_all_mistakes_are_told_in_order_of_position():
    text = "server:\n  lr: -1\naggregation:\n  gaol: 1\n  goal: ten\nfoo: 1\n"
    assert [item.where for item in problems(layer, text)] == ["x.yaml:2:7", "x.yaml:4:3", "x.yaml:5:9", "x.yaml:6:1"]


def test_at_most_ten_mistakes_are_told():
    with pytest.raises(ConfigProblemsError) as caught:
        layer("".join(f"foo{i}: 1\n" for i in range(14)))
    assert (len(caught.value.problems), caught.value.num_problems) == (10, 14)


def test_a_mistake_is_told_even_if_a_later_layer_would_hide_it():
    bad = Text("aggregation: {goal: ten}", "x.yaml")
    (problem,) = problems(lambda: resolve([load_layer(bad)], [from_set("aggregation.goal=5")]))
    assert problem.where == "x.yaml:1:21"


@pytest.mark.parametrize(
    ("text", "overrides", "where", "named"),
    [
        ("aggregation: {goal: 20, concurrency: 10}", [], "x.yaml:1", ["x.yaml:1"]),
        ("aggregation: {goal: 20, concurrency: 30}", [("--concurrency", 5)], "--concurrency 5", ["x.yaml:1", "flag"]),
        ("aggregation: {concurrency: 30}", [("--clients", 7)], "--clients 7", ["x.yaml:1", "flag --clients"]),
        ("aggregation: {concurrency: 130}", [], "x.yaml:1:28", ["x.yaml:1", "default"]),
        ("delays: {low_s: 100}", [], "x.yaml:1:17", ["x.yaml:1", "default"]),
    ],
)
def test_a_rule_between_values_blames_the_value_set_last_and_names_both_origins(text, overrides, where, named):
    paths = {"--concurrency": "aggregation.concurrency", "--clients": "clients.num_clients"}
    flags = [from_flag(flag, paths[flag], value) for flag, value in overrides]
    (problem,) = problems(lambda: resolve([layer(text)], flags))
    assert problem.where.startswith(where)
    assert all(name in problem.hint for name in named)


@pytest.mark.feature("E15")
def test_precedence_and_origin_of_every_source():
    low = layer("aggregation: {goal: 2, concurrency: 50}\nserver: {lr: 0.5}", "baseline.yaml")
    mid = layer("aggregation: {goal: 3}\nseed: 1", "run_set.yaml")
    file = layer("aggregation: {goal: 4}\nseed: 2", "mine.yaml")
    env = from_env({"FLUXCTL_SET_AGGREGATION__GOAL": "5", "FLUXCTL_SET_seed": "3"})
    sets = [from_set("aggregation.goal=6"), from_set("seed=4")]
    flag = [from_flag("--aggregation-goal", "aggregation.goal", 7)]
    for layers, overrides, goal, origin in [
        ([], [], 10, "default"),
        ([low], [], 2, "baseline.yaml:1"),
        ([low, mid], [], 3, "run_set.yaml:1"),
        ([low, mid, file], [], 4, "mine.yaml:1"),
        ([low, mid, file], env, 5, "env FLUXCTL_SET_AGGREGATION__GOAL"),
        ([low, mid, file], [*env, *sets], 6, "--set"),
        ([low, mid, file], [*env, *sets, *flag], 7, "flag --aggregation-goal"),
    ]:
        found = resolve(layers, overrides)
        assert (found.config.aggregation.goal, found.origins()["aggregation.goal"]) == (goal, origin)
    assert found.origins()["server.lr"] == "baseline.yaml:2"
    assert found.origins()["seed"] == "--set"
    assert found.origins()["limits.max_bins"] == "default"
    assert found.config.aggregation.concurrency == 50


def test_parameters_belong_to_the_policy_they_were_written_for():
    low = layer("aggregation:\n  rate:\n    name: grad_aware\n    params: {base: new}\n")
    assert resolve([low, layer("aggregation: {rate: old}")]).config.aggregation.rate.params == {}
    same = resolve([low, layer("aggregation: {rate: {params: {floor: 1}}}")]).config.aggregation.rate
    assert (same.name, same.params) == ("grad_aware", {"base": "new", "floor": 1})
    assert resolve([low, layer("aggregation: {rate: grad_aware}")]).config.aggregation.rate.params == {"base": "new"}


def test_a_later_scalar_does_not_hide_a_mapping():
    (problem,) = problems(lambda: resolve([layer("aggregation: {goal: 2}")], [from_set("aggregation=3")]))
    assert problem.where == "--set aggregation=3"


class Knobs(Params):
    alpha: float = 1.0


@pytest.fixture
def check():
    registry = Registry("selector")
    registry.register("random")(lambda params: object())
    registry.register("knobby", Knobs)(lambda params: object())
    return choice_check({"selection.policy": registry})


@pytest.mark.parametrize(
    ("text", "where", "message", "hint"),
    [
        ("selection: {policy: randon}", "x.yaml:1:21", "unknown selector 'randon'", "did you mean 'random'?"),
        (
            "selection:\n  policy:\n    name: knobby\n    params:\n      alfa: 1\n",
            "x.yaml:5:7",
            "selector 'knobby' has no parameter 'alfa'",
            "did you mean 'alpha'?",
        ),
        (
            "selection:\n  policy:\n    name: knobby\n    params:\n      alpha: x\n",
            "x.yaml:5:14",
            "selector 'knobby': parameter 'alpha'",
            None,
        ),
        ("selection: {policy: {name: random, params: {a: 1}}}", "x.yaml:1:45", "has no parameter 'a'", "takes no"),
    ],
)
def test_policies_are_checked_with_their_place(check, text, where, message, hint):
    (problem,) = problems(lambda: resolve([layer(text)], check=check))
    assert problem.where == where
    assert message in problem.message
    assert hint is None or hint in problem.hint


def test_a_policy_from_an_argument_is_blamed_on_it(check):
    (problem,) = problems(lambda: resolve([], [from_set("selection.policy.name=nobody")], check=check))
    assert problem.where == "--set selection.policy.name=nobody"


def test_read_config_reads_a_whole_file(tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 7\n")
    assert read_config(tmp_path / "config.yaml").config.seed == 7
