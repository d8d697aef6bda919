"""parity through the command line, on pairs with damaged files: a clear answer each time, never a traceback."""

import json
import shutil
from importlib import util
from pathlib import Path

import pytest

from fluxctl.types import Mode

_spec = util.spec_from_file_location("synthetic_runs", Path(__file__).parents[1] / "parity" / "conftest.py")
synthetic = util.module_from_spec(_spec)
_spec.loader.exec_module(synthetic)

pytestmark = pytest.mark.feature("D0h")


@pytest.fixture
def sides(tmp_path):
    """A real run and its simulation, in ./runs."""
    return [
        synthetic.write_run(
            tmp_path / "runs" / f"20260101-00000{number}-x-fwdllm-{mode.value}-000{number}",
            mode,
            config=synthetic.synthetic_config(mode),
            created=f"2026-01-01T00:00:0{number}+00:00",
            num_bins=22,
        )
        for number, mode in enumerate((Mode.REAL, Mode.SIM))
    ]


def rewritten(change):
    """Damage that changes the bytes of the simulation's events."""

    def damage(real, sim):
        events = sim / "events.jsonl"
        events.write_bytes(change(events.read_bytes()))

    return damage


def replaced(old, new, num=-1):
    def change(data):
        assert old in data
        return data.replace(old, new, num)

    return rewritten(change)


def removed(real, sim):
    shutil.rmtree(sim)


def directory(real, sim):
    (sim / "events.jsonl").unlink()
    (sim / "events.jsonl").mkdir()


def circle(real, sim):
    (sim / "events.jsonl").unlink()
    (sim / "events.jsonl").symlink_to("events.jsonl")


def put(side, name, text):
    return lambda *both: (both[side] / name).write_text(text)


# Damage, exit code when the newest pair is looked for, exit code when both runs are named, what is said then.
DAMAGES = {
    "torn last line": (rewritten(lambda data: data + b'{"event":"agg_round","t_'), 0, 0, "torn last line, ignored"),
    "cut in a line": (rewritten(lambda data: data[:-150]), 0, 0, "torn last line, ignored"),
    "NaN tokens": (replaced(b'"var":1.', b'"var":NaN,"x":1.', 3), 1, 1, "NaN or infinite numbers read as null"),
    "infinity": (replaced(b'"grad_norm":5', b'"grad_norm":-Infinity,"x":5', 3), 0, 0, "numbers read as null"),
    "beyond a float": (replaced(b'"var":1.', b'"var":1e999,"x":1.', 3), 1, 1, "The simulation cannot be trusted"),
    "a required field is missing": (replaced(b'"trainer_speed_s"', b'"other"'), 1, 1, "field_coverage"),
    "a rung's field is missing": (
        lambda real, sim: [replaced(b'"grad_norm"', b'"other"')(side, side) for side in (real, sim)],
        *(0, 0, "The simulation can be trusted"),
    ),
    "words for numbers": (replaced(b'"engine_s":', b'"engine_s":"late","x":'), 1, 1, "sim_rate"),
    "another schema": (replaced(b'"schema_version":1', b'"schema_version":99', 1), 2, 2, "schema version 99"),
    "no header": (rewritten(lambda data: data.split(b"\n", 1)[1]), 2, 2, "does not begin with a header"),
    "a header alone": (rewritten(lambda data: data.split(b"\n", 1)[0] + b"\n"), 5, 5, "committed nothing"),
    "empty": (rewritten(lambda _: b""), 5, 5, "event file is empty"),
    "no text": (rewritten(lambda _: bytes(range(256)) * 9), 2, 2, "no line of it is a JSON object"),
    "another JSON": (rewritten(lambda _: b"[1,2]\n"), 2, 2, "no line of it is a JSON object"),
    "one side": (removed, 5, 2, "20260101-000001"),
    "a directory": (directory, 5, 2, "cannot read the event file"),
    "a link to itself": (circle, 5, 2, "cannot read the event file"),
    "a damaged verdict": (put(0, "verdict.json", '{"verdict":'), 1, 1, "The real run broke its own rules"),
    "a damaged record": (put(0, "run.json", "nonsense"), 5, 2, "run.json"),
    "a damaged configuration": (put(1, "config.yaml", "{a: [1"), 0, 0, "no configuration could be read"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_gets_a_clear_answer(fluxctl, sides, monkeypatch, name) -> None:
    damage, found_code, named_code, words = DAMAGES[name]
    damage(*sides)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    for args, code in (((), found_code), (map(str, sides), named_code)):
        answer = fluxctl("parity", *args)
        assert answer.code == code, answer.out + answer.err
        told = answer.out + answer.err
        assert "Traceback" not in told
        assert "bug in fluxctl" not in told
        assert "\x1b" not in told
    assert words in told
    status = {0: "ok", 1: "no"}.get(named_code, "error")
    assert fluxctl("parity", *map(str, sides), "--json").envelope["status"] == status


@pytest.mark.parametrize("option", ["--validate", "--diff"])
@pytest.mark.parametrize("name", DAMAGES)
def test_so_it_does_when_asked_for_something_else(fluxctl, sides, name, option) -> None:
    DAMAGES[name][0](*sides)
    answer = fluxctl("parity", option, "--json")
    assert answer.code in (0, 1, 2, 5), answer.err
    assert json.loads(answer.out)["command"] == "parity"


def test_a_skipped_rung_names_the_field_that_it_misses(fluxctl, sides) -> None:
    for side in sides:
        replaced(b'"grad_norm"', b'"other"')(side, side)
    (pair,) = fluxctl("parity", "--json").envelope["data"]["pairs"]
    (norm,) = (rung for rung in pair["rungs"] if rung["name"] == "grad_norm")
    assert (norm["status"], norm["message"]) == ("SKIP", "no event carries agg_round.grad_norm")
