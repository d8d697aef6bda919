"""The program in this process, with a small script in the engine's place."""

import json
import sys
from dataclasses import dataclass

import pytest

from fluxctl import cli

FAKE_ENGINE = r"""
import json, os, sys, time
folder = sys.argv[1]
plans = json.loads(os.environ.get("FAKE_ENGINE", "{}"))
plan = next((plan for part, plan in plans.items() if part in folder), {})
def note(**line):
    with open(folder + "/wall.jsonl", "a") as file:
        file.write(json.dumps({"event": "progress", **line}) + "\n")
note(phase="prepare", what="features", done=1, total=2)
note(phase="train", what="train", done=3, total=4, engine_s=5.0, wall_s=0.1, sim_rate=50.0, in_flight=7, bins=3,
     cycles=4, accuracy=0.5, best_accuracy=0.6)
for line in plan.get("notes", []):
    with open(folder + "/wall.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
if plan.get("dies"):
    sys.exit(plan["dies"])
if plan.get("waits"):
    end = time.monotonic() + 20
    while not os.path.exists(folder + "/stop") and time.monotonic() < end:
        time.sleep(0.01)
summary = {"bins": 120, "cycles": 1234, "rounds": 1, "best_accuracy": 0.876, "final_accuracy": 0.8125,
           "engine_s": 34200.0, "wall_s": 61.0, "sim_rate": 560.7, "forward_passes": 1234567, "updates": 9,
           "bytes_down": 123456789, "bytes_up": 23456789, "hash": "ab" * 32,
           "forward_memory_bytes": 306000, "backprop_memory_bytes": 252000}
summary.update(plan.get("summary", {}))
verdict = {"schema_version": 1, "verdict": "CONVERGED", "reason": "held the target", "exit_code": 0, "error": None,
           "summary": summary}
verdict.update(plan.get("verdict", {}))
with open(folder + "/.v", "w") as file:
    json.dump(verdict, file)
os.replace(folder + "/.v", folder + "/verdict.json")
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def envelope(self):
        """The last line of stdout as JSON, strictly RFC 8259."""
        return json.loads(self.out.splitlines()[-1], parse_constant=pytest.fail)


@pytest.fixture
def fluxctl(capfd, tmp_path, monkeypatch):
    """Call the program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("FLUXCTL_RUNS_DIR", "FLUXCTL_TRACEBACK", "FLUXCTL_NO_PROGRESS", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def call(*args):
        capfd.readouterr()
        code = cli.main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        return Answer(code, out, err)

    return call


@pytest.fixture
def engine(monkeypatch):
    """Put a script in the engine's place; returns a setter for what it does, by a part of the run's id."""
    monkeypatch.setattr(
        "fluxctl.commands._starter.engine_command",
        lambda folder: [sys.executable, "-I", "-S", "-c", FAKE_ENGINE, str(folder.path)],
    )
    monkeypatch.setattr("fluxctl.commands._starter.standby_command", lambda folder: None)

    def plan(**plans):
        monkeypatch.setenv("FAKE_ENGINE", json.dumps(plans))

    return plan
