"""Figure manifests: what is shipped fits what can be launched, and every mistake is told with its place."""

import pytest

from fluxctl.config.presets import load_run_set, preset_names
from fluxctl.errors import ConfigError, ConfigProblemsError, UnknownNameError
from fluxctl.plots.manifest import RunQuery, load_manifest
from fluxctl.plots.style import Wanted, looks_for
from fluxctl.telemetry.series import Axis


@pytest.mark.parametrize("name", preset_names("figures"))
def test_shipped_manifests_ask_for_runs_that_a_run_set_makes(name):
    manifest = load_manifest(name)
    assert manifest.description.endswith(".")
    for query in manifest.labels.values():
        assert isinstance(query, RunQuery)
        run_set = load_run_set(query.run_set)
        assert query.baseline in run_set.baselines
        assert query.variant in (run_set.variants or {"": None})


@pytest.mark.feature("B9")
def test_the_ablation_has_a_figure_set_from_light_to_dark():
    manifest = load_manifest("ablation")
    queries = list(manifest.labels.values())
    assert [query.variant for query in queries] == ["R1", "R2", "R3", "R4"] == list(load_run_set("ablation").variants)
    looks = looks_for([Wanted(label, query.baseline, query.variant) for label, query in manifest.labels.items()])
    assert [look.name for look in looks] == list(manifest.labels)
    assert len({look.colour for look in looks}) == 4


def test_a_manifest_is_read_with_its_places(tmp_path):
    path = tmp_path / "figs.yaml"
    path.write_text("axis: bytes\nsmooth: 1\nlabels:\n  a: latest\n  b: [one, two]\n  c: {run_set: s, baseline: x}\n")
    manifest = load_manifest(str(path))
    assert (manifest.axis, manifest.smooth, manifest.allow_mixed) == (Axis.BYTES, 1, False)
    assert manifest.labels == {"a": ("latest",), "b": ("one", "two"), "c": RunQuery(run_set="s", baseline="x")}
    assert manifest.places["b"].startswith(f"{path}:5:")


@pytest.mark.parametrize(
    ("text", "told", "where"),
    [
        ("labels: {a: 3}", "a label must stand for runs", ":1:13"),
        ("labels: {a: []}", "a label must stand for runs", ":1:13"),
        ("labels: {a: latest}\nfigures: [e9]", "there is no figure 'e9'", ":2:11"),
        ("labels: {a: {run_set: s, baselin: x}}", "baseline is missing", ":1:"),
        ("labels: {a: latest}\nsmoth: 3", "unknown key 'smoth'", ":2:1"),
        ("labels: {a: latest}\ncut: half", "cut must be", ":2:6"),
        ("labels: {}", "labels", ":1:"),
        ("[1, 2]", "must be a mapping", ":1:1"),
        ("labels: {a: [latest", "", ":1:"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path, text, told, where):
    path = tmp_path / "figs.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_manifest(str(path))
    problems = caught.value.problems if isinstance(caught.value, ConfigProblemsError) else [caught.value]
    assert any(told in problem.message and f"figs.yaml{where}" in problem.where for problem in problems)


def test_an_unknown_manifest_has_a_nearest_name():
    with pytest.raises(UnknownNameError) as caught:
        load_manifest("ablatoin")
    assert caught.value.hint == "did you mean 'ablation'?"
    with pytest.raises(UnknownNameError):
        load_manifest("nosuch.yaml")
