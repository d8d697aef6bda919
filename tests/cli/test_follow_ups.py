"""launch --then: what is done with the runs afterwards, and what that makes of the exit code."""

import json

import pytest

from fluxctl.errors import ConfigError, NothingToDoError
from fluxctl.runs.index import list_runs

SMOKE = ["launch", "--run-set", "smoke", "--yes"]


def runs(tmp_path):
    return list_runs(tmp_path / "runs")


def follow_ups(monkeypatch, **codes):
    """Follow-ups that answer so; returns what they were called with."""
    called = []

    def follow(name, answer):
        def run(launched):
            called.append((name, [run.id for run in launched.runs], launched.pairs()))
            if isinstance(answer, Exception):
                raise answer
            yield from answer if isinstance(answer, list) else [answer]

        return run

    found = {name: follow(name, codes.get(name, 0)) for name in ("parity", "sanity", "plot")}
    monkeypatch.setattr("fluxctl.commands._then.FOLLOW_UPS", found)
    return called


@pytest.mark.feature("E14")
@pytest.mark.parametrize(
    ("plans", "answers", "args", "code", "done"),
    [
        ({}, {}, [], 0, ["parity", "sanity", "plot"]),
        ({}, {"parity": [0, 1]}, [], 1, ["parity", "sanity", "plot"]),
        ({}, {"parity": 1, "sanity": 3}, [], 3, ["parity", "sanity", "plot"]),
        ({}, {"parity": 5}, [], 0, ["parity", "sanity", "plot"]),
        ({}, {"parity": ConfigError("cannot")}, [], 2, ["parity", "sanity", "plot"]),
        ({}, {"parity": NothingToDoError("none")}, [], 0, ["parity", "sanity", "plot"]),
        ({"fwdllm-": {"dies": 1}}, {"sanity": 1}, [], 3, ["parity", "sanity", "plot"]),
        ({}, {"sanity": 1}, ["--stop-on-fail"], 1, ["parity", "sanity"]),
        ({"fwdllm-": {"dies": 1}}, {}, ["--stop-on-fail"], 3, []),
        ({"fwdllm-": {"verdict": {"verdict": "DIVERGED"}}}, {}, ["--stop-on-fail"], 1, ["parity", "sanity", "plot"]),
    ],
)
def test_follow_ups_and_the_exit_code(fluxctl, engine, tmp_path, monkeypatch, plans, answers, args, code, done):
    called = follow_ups(monkeypatch, **answers)
    engine(**plans)
    answer = fluxctl(*SMOKE, "--mode", "both", "--then", "parity,sanity, plot,sanity", *args)
    assert answer.code == code
    assert [name for name, _, _ in called] == done
    for _, ids, pairs in called:
        good = [info.record for info in runs(tmp_path) if info.verdict.launch_code in (0, 1)]
        assert sorted(ids) == sorted(record.id for record in good)
        assert len(pairs) == (2 if "dies" in plans.get("fwdllm-", {}) else 3)
        modes = {record.id: record.mode for record in good}
        assert {(modes[real], modes[sim]) for real, sim in pairs} == {("real", "sim")}


@pytest.mark.feature("E14", "F19")
def test_follow_ups_for_real(fluxctl, tmp_path):
    args = ["--set", "engine.wall_factor=20", "--set", "data.train_per_class=100", "--set", "data.test_per_class=20"]
    more = ["--model", "tiny", "--data", "synthetic", "--max-bins", "1", "--max-iterations-per-bin", "2"]
    answer = fluxctl(
        *SMOKE, "--only", "fwdllm", "--mode", "both", *args, *more, "--var-stopping-policy", "fixed_cap",
        "--then", "sanity,parity,plot", "--json",
    )  # fmt: skip
    lines = [json.loads(line) for line in answer.out.splitlines()]
    sane = [line for line in lines if line.get("event") == "sanity"]
    ids = [row["id"] for row in lines[-1]["data"]["runs"]]
    assert sorted(line["id"] for line in sane) == sorted(ids)
    assert all(line["is_sane"] for line in sane), sane
    commands = [line["command"] for line in lines if "command" in line]
    assert commands == ["parity", "plot", "launch"]
    assert answer.code in (0, 1)  # so short a run may be INCONCLUSIVE
    assert lines[-1]["status"] == ("ok" if answer.code == 0 else "no")
