import json

from fluxctl.runs.provenance import invocation, provenance


def test_provenance_says_on_what_it_ran_and_nothing_private(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    told = json.dumps(provenance())
    data = json.loads(told)
    assert {"python", "fluxctl", "torch", "numpy"} <= set(data["versions"])
    assert data["host"]["num_cpus"] >= 1
    assert "hunter2" not in told


def test_invocation_keeps_only_our_own_variables():
    told = invocation(["launch"], {"FLUXCTL_RUNS_DIR": "x", "SECRET_TOKEN": "hunter2", "HOME": "/h"})
    assert told["environment"] == {"FLUXCTL_RUNS_DIR": "x"}
    assert told["argv"] == ["launch"]
