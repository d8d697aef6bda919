from pathlib import Path

import pytest

import fluxctl.config
from fluxctl.config import presets
from fluxctl.config.choices import choice_check
from fluxctl.config.load import resolve
from fluxctl.config.presets import load_baseline, load_run_set, preset_names, presets_folder
from fluxctl.errors import ConfigError, ConfigProblemsError, InvariantError, UnknownNameError
from fluxctl.policies import REGISTRIES
from fluxctl.policies.rates.base import RATES
from fluxctl.policies.rates.grad_aware import GradAware

PAIRS = [(name, baseline) for name in preset_names("run_sets") for baseline in load_run_set(name).baselines]
PACKAGE = Path(fluxctl.config.__file__).parents[1]


def config_of(run_set, baseline):
    layers = [load_baseline(baseline).layer, *load_run_set(run_set).layers(baseline)]
    return resolve(layers, check=choice_check(REGISTRIES)).config


def baseline_config(name):
    return resolve([load_baseline(name).layer], check=choice_check(REGISTRIES)).config


@pytest.mark.feature("G3")
@pytest.mark.parametrize(("run_set", "baseline"), PAIRS)
def test_every_shipped_preset_resolves(run_set, baseline):
    config = config_of(run_set, baseline)
    assert config.aggregation.goal <= config.aggregation.concurrency <= config.clients.num_clients


@pytest.mark.feature("G3")
@pytest.mark.parametrize("name", preset_names("baselines"))
def test_every_shipped_baseline_resolves_alone(name):
    assert load_baseline(name).description
    assert baseline_config(name)


@pytest.mark.feature("B10")
@pytest.mark.parametrize(
    ("name", "style", "selector", "per", "knowledge", "staleness", "perturbation", "num", "rate", "stopping", "cap"),
    [
        ("fwdllm", "sync", "random", "bin", "unaware", "exact", "cosine_guided", 1, "fedavg", "off", None),
        (
            "fwdllm_plus",
            "sync",
            "random",
            "iteration",
            "oracular",
            "round_bin",
            "cosine_guided",
            1,
            "fedavg",
            "off",
            None,
        ),
        (
            "fluxtune",
            "async",
            "async_oort",
            "iteration",
            "client_notify",
            "downweight",
            "max_jvp",
            10,
            "grad_aware",
            "plateau",
            20,
        ),
    ],
)
def test_baselines_are_those_of_the_table(
    name, style, selector, per, knowledge, staleness, perturbation, num, rate, stopping, cap
):
    config = baseline_config(name)
    assert config.aggregation.style == style
    assert (config.selection.policy.name, config.selection.per) == (selector, per)
    assert config.availability.knowledge == knowledge
    assert (config.aggregation.staleness.name, config.aggregation.rate.name) == (staleness, rate)
    assert (config.step.perturbation, config.step.num_directions) == (perturbation, num)
    assert config.step.num_candidates == 10
    assert (config.gate.enabled, config.gate.var_threshold) == (True, 0.3)
    assert (config.gate.stopping_policy, config.gate.max_iterations_per_bin) == (stopping, cap)
    assert (config.gate.plateau_window, config.gate.plateau_min_drop) == (3, 0.15)
    assert config.messages.suppress_redundant_weights
    assert config.delays.reference_passes == 2


@pytest.mark.feature("B10")
def test_the_gradient_aware_rate_of_fluxtune_stands_on_new():
    rate = baseline_config("fluxtune").aggregation.rate
    assert rate.params == {"base": "new"}
    assert isinstance(RATES.build(rate.name, rate.params), GradAware)


@pytest.mark.feature("B10")
@pytest.mark.parametrize("run_set", ["main", "head", "deep-adapter"])
@pytest.mark.parametrize(("baseline", "concurrency"), [("fwdllm", 10), ("fwdllm_plus", 10), ("fluxtune", 30)])
def test_the_condition_of_main_and_its_relatives(run_set, baseline, concurrency):
    config = config_of(run_set, baseline)
    assert config.clients.num_clients == 100
    assert (config.aggregation.goal, config.aggregation.concurrency) == (10, concurrency)
    assert (config.partition.method, config.partition.alpha) == ("dirichlet", 1.0)
    assert (config.availability.trace, config.mode) == ("syn_0", "sim")
    assert (config.delays.enabled, config.delays.factor) == (True, 2.0)
    target = {"main": 0.78, "head": 0.78, "deep-adapter": None}
    assert config.limits.target_accuracy == target[run_set]
    assert config.limits.max_bins is not None
    assert (config.model.name, config.data.source) == ("minilm", "wordnet-gloss")
    blocks = {"main": (-1,), "head": (), "deep-adapter": (-2, -1)}
    assert (config.model.adapter_blocks, config.model.adapter_dim) == (blocks[run_set], 16)


@pytest.mark.feature("B10")
@pytest.mark.parametrize(("baseline", "goal"), [("fwdllm", 10), ("fwdllm_plus", 10), ("fluxtune", 3)])
def test_the_condition_of_smoke(baseline, goal):
    config = config_of("smoke", baseline)
    assert (config.clients.num_clients, config.aggregation.goal, config.aggregation.concurrency) == (10, goal, 10)
    assert config.delays.low_s / config.delays.factor == pytest.approx(0.05)
    assert config.delays.high_s / config.delays.factor == pytest.approx(0.6)


@pytest.mark.feature("E18")
@pytest.mark.parametrize("name", preset_names("run_sets"))
def test_the_baselines_of_a_run_set_share_one_condition(name):
    from fluxctl.config.fingerprint import fingerprints

    prints = [fingerprints(config_of(name, baseline)) for baseline in load_run_set(name).baselines]
    assert len({item.condition for item in prints}) == 1
    assert len({item.run for item in prints}) == len(prints)


def test_every_key_of_a_shipped_preset_has_a_comment():
    for path in [
        path for kind in ("baselines", "run_sets", "traces") for path in (presets_folder() / kind).glob("*.yaml")
    ]:
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            is_leaf = ":" in line and not line.endswith(":") and not line.startswith(("description", "baselines", "#"))
            assert not is_leaf or " # " in line, f"{path.name}:{number}: {line}"


def variants_of(run_set, baseline):
    shipped = load_run_set(run_set)
    check = choice_check(REGISTRIES)
    layers = {name: [load_baseline(baseline).layer, *shipped.layers(baseline, name)] for name in shipped.variants}
    return {name: resolve(parts, check=check).config for name, parts in layers.items()}


@pytest.mark.feature("B9")
def test_the_ablation_is_two_by_two():
    variants = variants_of("ablation", "fluxtune")
    early = {name: config.gate.stopping_policy == "plateau" for name, config in variants.items()}
    aware = {name: config.aggregation.rate.name == "grad_aware" for name, config in variants.items()}
    assert (early, aware) == (
        {"R1": False, "R2": True, "R3": False, "R4": True},
        {"R1": False, "R2": False, "R3": True, "R4": True},
    )
    rest = {
        config.model_copy(
            update={
                "variant": "",
                "gate": baseline_config("fluxtune").gate,
                "aggregation": config.aggregation.model_copy(
                    update={"rate": baseline_config("fluxtune").aggregation.rate}
                ),
            }
        ).model_dump_json()
        for config in variants.values()
    }
    assert len(rest) == 1  # nothing else differs


@pytest.mark.feature("F21")
def test_the_other_ablations_vary_what_they_say():
    cells = {(config.data.batch_size, config.partition.alpha) for config in variants_of("m1", "fluxtune").values()}
    assert cells == {(size, alpha) for size in (4, 8, 16) for alpha in (0.1, 1.0, 100.0)}
    optimizers = {config.server.optimizer for config in variants_of("m2", "fluxtune").values()}
    assert optimizers == {"sgd", "momentum", "adam", "yogi", "adagrad"}


@pytest.mark.feature("G3")
@pytest.mark.parametrize("place", ["checkout", "wheel"])
def test_presets_are_found_in_both_kinds_of_install(tmp_path, place):
    package = tmp_path / "site-packages" / "fluxctl"
    package.mkdir(parents=True)
    folder = package / "_presets" if place == "wheel" else package.parent / "presets"
    (folder / "run_sets").mkdir(parents=True)
    assert presets_folder(package) == folder


def test_the_wheel_wins_over_a_folder_that_happens_to_be_beside_it(tmp_path):
    package = tmp_path / "fluxctl"
    for folder in (package / "_presets", tmp_path / "presets"):
        (folder / "run_sets").mkdir(parents=True)
    assert presets_folder(package) == package / "_presets"


def test_an_installation_without_presets_is_a_bug(tmp_path):
    with pytest.raises(InvariantError):
        presets_folder(tmp_path / "fluxctl")


def test_this_installation_has_presets():
    assert presets_folder() in (PACKAGE / "_presets", PACKAGE.parent / "presets")


@pytest.mark.parametrize(
    ("load", "name", "hint"),
    [(load_run_set, "mian", "'main'"), (load_baseline, "fluxtun", "'fluxtune'"), (load_run_set, "zzz", "known: ")],
)
def test_a_missing_preset_is_told_with_a_suggestion(load, name, hint):
    with pytest.raises(UnknownNameError) as caught:
        load(name)
    assert hint in caught.value.hint


GOOD = "description: d\nbaselines: [fwdllm]\n"


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (GOOD + "condition:\n  aggregation:\n    goal: ten\n", "5:11", "must be an integer"),
        (GOOD + "condition:\n  aggregation:\n    gaol: 1\n", "5:5", "unknown key 'aggregation.gaol'"),
        (GOOD + "conditoin: {}\n", "3:1", "unknown key 'conditoin'"),
        (GOOD + "per_baseline:\n  fluxtune: {}\n", "4:3", "not among this run set's baselines"),
        (GOOD + "per_baseline:\n  fwdllm: {sede: 1}\n", "4:12", "unknown key 'sede'"),
        ("description: d\nbaselines: [fwdlm]\n", "2:13", "there is no baseline 'fwdlm'"),
        ("description: d\nbaselines: []\n", "2:12", "baselines"),
        ("baselines: [fwdllm]\n", "1:1", "description is missing"),
        ("[]\n", "1:1", "must be a mapping"),
        ("", "1:1", "is empty"),
    ],
)
def test_mistakes_in_a_run_set_have_a_place(tmp_path, text, where, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_run_set(str(path))
    assert message in caught.value.message
    assert caught.value.where == f"{path}:{where}"


def test_mistakes_of_all_parts_come_together(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD + "condition: {seed: -1}\nper_baseline: {fwdllm: {seed: x}}\n")
    with pytest.raises(ConfigProblemsError) as caught:
        load_run_set(str(path))
    assert [item.where for item in caught.value.problems] == [f"{path}:3:19", f"{path}:4:31"]


def test_origins_of_shipped_presets_do_not_depend_on_the_machine():
    layers = [load_baseline("fluxtune").layer, *load_run_set("main").layers("fluxtune")]
    origins = resolve(layers).origins()
    assert origins["clients.num_clients"].startswith("presets/run_sets/main.yaml:")
    assert origins["step.num_directions"].startswith("presets/baselines/fluxtune.yaml:")
    assert presets.presets_folder().name in ("presets", "_presets")
