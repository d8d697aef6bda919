"""Each kind of bad input: a clear error with its place, exit code 2, no traceback, nothing written."""

import pytest

DEMO = ["launch", "--run-set", "main", "--yes"]


def refused(answer, *parts):
    assert answer.code == 2
    assert answer.out == ""
    assert "Traceback" not in answer.err
    for part in parts:
        assert part in answer.err, answer.err


@pytest.mark.feature("G1")
@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("aggregation:\n  gaol: 3\n", "x.yaml:2:3", "unknown key 'aggregation.gaol'"),
        ("seed: 1\nseed: 2\n", "x.yaml:2:1", "key 'seed' is given twice, first at x.yaml:1:1"),
        ("limits: {max_bins: 1, maxBins: 1}\n", "x.yaml:1:23", "two spellings of one key, first at x.yaml:1:10"),
        ("aggregation:\n  goal: ten\n", "x.yaml:2:9", 'must be an integer, got "ten"'),
        ("aggregation: {goal: 11}\n", "x.yaml:1:21", "goal (11) must not exceed concurrency (10)"),
        ("aggregation: {concurrency: 101}\n", "x.yaml:1:28", "must not exceed clients.num_clients (100)"),
        ("clients: {num_clients: 0}\n", "x.yaml:1:24", "must be at least 1, got 0"),
        ("delays: {factor: -2}\n", "x.yaml:1:18", "must be greater than 0, got -2"),
        ("selection: {policy: randon}\n", "x.yaml:1:21", "unknown selector 'randon'"),
        ("aggregation:\n  rate: {name: new, params: {skale: 1}}\n", "x.yaml:2:30", "has no parameter 'skale'"),
        ("a: [\n", "x.yaml:2:1", "not valid YAML"),
    ],
)
def test_files(fluxctl, tmp_path, text, place, message):
    (tmp_path / "x.yaml").write_text(text)
    answer = fluxctl(*DEMO, "--file", "x.yaml", "--only", "fwdllm")
    refused(answer, message, f"--> {place}", " | ", "^")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["--run-set", "mian"], ["there is no run set 'mian'", "did you mean 'main'?"]),
        (["--run-set", "main", "--only", "fluxtun"], ["no baseline 'fluxtun'", "did you mean 'fluxtune'?"]),
        (["--run-set", "nothing.yaml"], ["there is no file 'nothing.yaml'"]),
        (["--run-set", "main", "--file", "nothing.yaml"], ["there is no file 'nothing.yaml'"]),
        ([], ["nothing to run", "run sets: ", "main"]),
        (
            ["--run-set", "main", "--concurrency", "5"],
            ["fwdllm: ", "--> --concurrency 5", "presets/run_sets/main.yaml:"],
        ),
        (["--run-set", "main", "--aggregation-goal", "40"], ["--> --aggregation-goal 40", "exceed concurrency (10)"]),
        (["--run-set", "main", "--clients", "7"], ["--> --clients 7", "must not exceed clients.num_clients (7)"]),
        (["--run-set", "main", "--clients", "0"], ["--> --clients 0", "must be at least 1"]),
        (["--run-set", "main", "--max-bins", "0"], ["--> --max-bins 0", "must be at least 1"]),
        (["--run-set", "main", "--delay-factor", "-1"], ["--> --delay-factor -1", "greater than 0"]),
        (["--run-set", "main", "--delay-factor", "nan"], ["--> --delay-factor nan", "delays.factor must be"]),
        (["--run-set", "main", "--target-acc", "1.5"], ["--> --target-acc 1.5", "at most 1"]),
        (["--run-set", "main", "--agg-rate-type", "newest"], ["unknown rate 'newest'", "--> --agg-rate-type newest"]),
        (["--run-set", "main", "--var-stopping-policy", "cap"], ["--> --var-stopping-policy cap", "fixed_cap"]),
        (
            ["--run-set", "main", "--var-stopping-policy", "fixed_cap"],
            ["--> --var-stopping-policy fixed_cap", "needs max_iterations_per_bin"],
        ),
        (["--run-set", "main", "--max-runtime", "soon"], ["'soon' is not a duration", "48h"]),
        (["--run-set", "main", "--max-runtime", "0"], ["a duration must be longer than nothing"]),
        (["--run-set", "main", "--seed", "-1"], ["--> --seed -1", "at least 0"]),
        (["--run-set", "main", "--seeds", "4..0"], ["empty range", "did you mean '0..4'?"]),
        (["--run-set", "main", "--seeds", "a"], ["'a' is not a seed"]),
        (["--run-set", "main", "--seed", "1", "--seeds", "1,2"], ["exclude each other"]),
        (["--run-set", "main", "--partition", "dirichlet:x"], ["'x' is not a number"]),
        (["--run-set", "main", "--set", "goal=3"], ["--> --set goal=3", "did you mean 'aggregation.goal'?"]),
        (["--run-set", "main", "--set", "goal"], ["--> --set goal", "--set aggregation.goal=5"]),
    ],
)
def test_arguments(fluxctl, tmp_path, args, parts):
    refused(fluxctl("launch", *args, "--yes"), *parts)
    assert not (tmp_path / "runs").exists()


def test_the_environment(fluxctl, monkeypatch):
    monkeypatch.setenv("FLUXCTL_SET_AGGREGATION__GAOL", "3")
    refused(fluxctl(*DEMO), "FLUXCTL_SET_AGGREGATION__GAOL=3", "did you mean 'goal'?")


def test_a_run_folder_that_cannot_be_written(fluxctl, tmp_path):
    (tmp_path / "file").write_text("")
    refused(fluxctl("-q", *DEMO, "--runs-dir", "file/runs"), "cannot write the runs folder", "file/runs", "--runs-dir")


def test_all_mistakes_of_a_file_come_at_once(fluxctl, tmp_path):
    (tmp_path / "x.yaml").write_text("foo: 1\nserver: {lr: x, momentun: 0.5}\n")
    answer = fluxctl(*DEMO, "--file", "x.yaml")
    refused(answer, "x.yaml:1:1", "x.yaml:2:14", "x.yaml:2:17", "3 problems")
    told = fluxctl(*DEMO, "--file", "x.yaml", "--json").envelope["error"]
    assert [item["where"] for item in told["problems"]] == ["x.yaml:1:1", "x.yaml:2:14", "x.yaml:2:17"]
    assert told["where"] == "x.yaml:1:1"


@pytest.mark.feature("G1")
def test_at_most_ten_mistakes_are_shown_in_the_order_of_the_file(fluxctl, tmp_path):
    mistakes = [f"unknown{number}: 1" for number in range(6)] + ["seed: x", "server: {lr: -1}", "foo: 1", "limits: 3"]
    (tmp_path / "x.yaml").write_text("\n".join([*mistakes, "bar: 1", "clients: {num: 1, min_clients: no}"]) + "\n")
    for args in (["config", "validate", "x.yaml"], [*DEMO, "--file", "x.yaml"]):
        answer = fluxctl(*args)
        refused(answer, "unknown key 'unknown0'", "   1 | unknown0: 1", "^", "13 problems, 3 more not shown")
        places = [line.split("x.yaml:")[1] for line in answer.err.splitlines() if line.startswith("  --> ")]
        assert [int(place.split(":")[0]) for place in places] == list(range(1, 11))
        assert answer.err.count("  hint: ") >= 1


def test_without_a_terminal_nobody_is_asked(fluxctl, tmp_path):
    for extra in ([], ["--json"]):
        answer = fluxctl("launch", "--run-set", "main", *extra)
        assert answer.code == 2
        assert "--yes" in answer.err + answer.out
        assert not (tmp_path / "runs").exists()
