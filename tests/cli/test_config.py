import json

import pytest

from fluxctl.config.load import load_layer, resolve
from fluxctl.config.model import Config
from fluxctl.config.source import Text


@pytest.mark.feature("G7")
@pytest.mark.feature("E15")
def test_show_origin_says_which_source_won(fluxctl, monkeypatch, tmp_path):
    monkeypatch.setenv("FLUXCTL_SET_SERVER__LR", "0.2")
    (tmp_path / "x.yaml").write_text("gate: {var_threshold: 0.2}\n")
    args = ["--run-set", "main", "--only", "fluxtune", "--file", "x.yaml", "--set", "seed=4", "--origin"]
    lines = fluxctl("config", "show", *args).out.splitlines()
    assert "aggregation.concurrency = 30  (presets/run_sets/main.yaml:37)" in lines
    assert "server.lr = 0.2  (env FLUXCTL_SET_SERVER__LR)" in lines
    assert "seed = 4  (--set)" in lines
    assert "gate.var_threshold = 0.2  (x.yaml:1)" in lines
    assert "limits.max_rounds = null  (default)" in lines
    assert "run_set = main  (flag --run-set)" in lines


def test_show_prints_a_configuration_that_reads_back(fluxctl):
    text = fluxctl("config", "show").out
    assert resolve([load_layer(Text(text, "x"))]).config == Config()
    several = fluxctl("config", "show", "--run-set", "main").out.split("---\n")
    assert len(several) == 3
    found = resolve([load_layer(Text(several[2], "x"))]).config
    assert (found.baseline, found.aggregation.concurrency) == ("fluxtune", 30)


def test_show_json(fluxctl):
    told = fluxctl("config", "show", "--set", "seed=3", "--json").envelope["data"]["configs"][0]
    assert (told["config"]["seed"], told["origins"]["seed"]) == (3, "--set")


def test_schema_is_json_schema_with_descriptions(fluxctl):
    schema = json.loads(fluxctl("config", "schema").out)
    assert schema["properties"]["seed"]["description"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("seed: 3\n", 0),
        ("seed: -3\n", 2),
        ("aggregation: {goal: 50}\n", 2),
        ("selection: {policy: nobody}\n", 2),
        ("description: d\nbaselines: [fwdllm]\n", 0),
        ("description: d\nbaselines: [fwdllm]\ncondition: {aggregation: {goal: 50}}\n", 2),
        ("description: d\nbaselines: [nobody]\n", 2),
    ],
)
def test_validate(fluxctl, tmp_path, text, code):
    (tmp_path / "x.yaml").write_text(text)
    answer = fluxctl("config", "validate", "x.yaml")
    assert answer.code == code
    assert ("x.yaml:" in answer.err) == (code != 0)
