"""parity through the command line, on synthetic pairs: what is found, said, written and answered."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from importlib import util
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fluxctl.parity.registry import all_rungs
from fluxctl.types import Mode

_spec = util.spec_from_file_location("synthetic_runs", Path(__file__).parents[1] / "parity" / "conftest.py")
synthetic = util.module_from_spec(_spec)
_spec.loader.exec_module(synthetic)


@pytest.fixture
def runs(tmp_path):
    """Put runs into ./runs; returns their directories."""
    num = 0

    def add(baseline="fwdllm", mode=Mode.SIM, edit=None, group="g", num_bins=24, **sections):
        nonlocal num
        num += 1
        folder = tmp_path / "runs" / f"20260101-0000{num:02d}-x-{baseline}-{mode.value}-{num:04x}"
        config = synthetic.synthetic_config(mode, baseline=baseline, **sections)
        created = f"2026-01-01T00:00:{num:02d}+00:00"
        return synthetic.write_run(
            folder, mode, edit, config, pair=f"{group}-{baseline}", group=group, created=created, num_bins=num_bins
        )

    return add


@pytest.fixture
def both(runs):
    def add(baseline="fwdllm", edit=None, real_edit=None, **how):
        return runs(baseline, Mode.REAL, real_edit, **how), runs(baseline, Mode.SIM, edit, **how)

    return add


def other_model(event):
    if event["event"] == "agg_round" and event["cycle"] > 40:
        return event | {"model_checksum": "ffff"}
    return event


def slow(factor):
    def edit(event):
        if event["event"] == "agg_round":
            event["wall"]["intrinsic_span_s"] *= factor
        return event

    return edit


@pytest.mark.feature("D0h")
class TestCompare:
    def test_the_newest_pairs_in_one_screen(self, fluxctl, both) -> None:
        both("fwdllm", group="old", edit=other_model)
        for name in ("fwdllm", "fluxtune"):
            both(name)
        answer = fluxctl("parity")
        assert answer.code == 0
        assert answer.out.count("The simulation can be trusted") == 2
        assert answer.out.count("arrival inversions") == 2
        assert answer.out.count("worst lateness") == 2
        assert re.search(r"^fluxtune +PASS +24 ", answer.out, re.MULTILINE)
        assert len(answer.out.splitlines()) < 45
        assert fluxctl("parity", "latest", "--baselines", "fluxtune").out.count("can be trusted") == 1

    @pytest.mark.feature("D0c")
    def test_a_failure_names_the_one_cause_and_exits_with_1(self, fluxctl, both) -> None:
        real, sim = both(edit=other_model)
        answer = fluxctl("parity")
        assert answer.code == 1
        lines = answer.out.splitlines()
        assert lines[0].startswith("FAIL  fwdllm: The simulation cannot be trusted")
        checksum = next(rung for rung in all_rungs() if rung.name == "model_checksum")
        assert checksum.broken in lines[1]
        assert "ROOT-CAUSE" in answer.out
        assert "8 outcome" in answer.out
        assert fluxctl("parity", "--exit-zero").code == 0
        kept = json.loads((real / "parity" / f"{sim.name}.json").read_text())
        assert (kept["verdict"], kept["schema_version"]) == ("FAIL", 1)

    def test_json_has_the_public_fields(self, fluxctl, both) -> None:
        real, sim = both(edit=other_model)
        answer = fluxctl("parity", real.name, sim.name, "--json")
        assert (answer.code, answer.envelope["status"], answer.envelope["command"]) == (1, "no", "parity")
        (pair,) = answer.envelope["data"]["pairs"]
        assert (pair["baseline"], pair["left"], pair["right"], pair["verdict"]) == (
            "fwdllm",
            real.name,
            sim.name,
            "FAIL",
        )
        assert pair["counts"]["FAIL"] == 1
        by_name = {row["name"]: row for row in pair["rungs"]}
        assert by_name["model_checksum"]["cause"] == "root"
        assert by_name["inflight_overlap"]["short"] == "R1"
        assert by_name["inflight_overlap"]["id"] == "D34"
        assert set(by_name["inflight_overlap"]) >= {"stage", "tier", "status", "value", "threshold", "n", "message"}

    def test_without_a_terminal_nobody_is_asked(self, fluxctl, both) -> None:
        both()
        assert fluxctl("parity", "--json").code == 0

    @pytest.mark.feature("D0b")
    def test_lenient_strict_and_rung(self, fluxctl, both) -> None:
        def other_utility(event):
            if event["event"] == "agg_round":
                return event | {"stat_utility": [value * 3 for value in event["stat_utility"]]}
            return event

        both(edit=other_utility)
        assert fluxctl("parity", "--rung", "utility").code == 1
        answer = fluxctl("parity", "--rung", "u-UTIL,R1", "--lenient")
        assert answer.code == 0
        assert "--lenient" in answer.out
        assert "agree where they were compared" in answer.out
        assert not list(Path("runs").glob("*/parity"))  # a part of the ladder is no result to keep

        def restless(event):
            return event | {"cached_pool_size": 99} if event["event"] == "agg_round" else event

        both(edit=restless, group="h")
        assert fluxctl("parity", "--rung", "V3").code == 0
        assert fluxctl("parity", "--rung", "V3", "--strict").code == 1

    @pytest.mark.feature("D0e")
    def test_max_bin(self, fluxctl, both) -> None:
        both(edit=other_model)
        assert fluxctl("parity", "--max-bin", "20").code == 0
        assert fluxctl("parity", "--max-bin", "21").code == 1
        assert fluxctl("parity", "--max-bin", "0").code == 2

    @pytest.mark.feature("F13")
    def test_strip_time(self, fluxctl, both) -> None:
        both(real_edit=slow(3))
        assert fluxctl("parity").code == 1
        answer = fluxctl("parity", "--strip-time")
        assert answer.code == 0
        assert "clocks left out" in answer.out

    def test_show_all_tells_every_rung(self, fluxctl, both) -> None:
        both()
        answer = fluxctl("parity", "--show-all")
        for rung in all_rungs():
            assert f"{rung.name}: " in answer.out

    def test_a_pair_that_cannot_be_read_keeps_no_other_from_being_compared(self, fluxctl, both) -> None:
        both("fwdllm")
        _, sim = both("fluxtune")
        (sim / "events.jsonl").write_text("")
        answer = fluxctl("parity")
        assert answer.code == 1
        assert "can be trusted" in answer.out
        assert "event file is empty" in answer.err
        envelope = fluxctl("parity", "--json").envelope
        assert envelope["status"] == "no"
        assert envelope["data"]["errors"][0]["baseline"] == "fluxtune"
        assert fluxctl("parity", "--baselines", "fluxtune").code == 5

    @pytest.mark.feature("A29")
    def test_an_inadmissible_real_run_fails_with_the_reason_up_front(self, fluxctl, both) -> None:
        real, _ = both()
        (real / "wall.jsonl").write_text('{"event":"reorder_slack_exhausted","client":3,"invariant":"failed"}\n')
        answer = fluxctl("parity")
        assert answer.code == 1
        assert "broke its own rules" in answer.out.splitlines()[0]
        assert "reorder slack ran out" in answer.out.splitlines()[1]


@pytest.mark.feature("F18")
def test_junit_and_html(fluxctl, both, tmp_path) -> None:
    both(edit=other_model)
    answer = fluxctl("parity", "--junit", tmp_path / "p.xml", "--html", tmp_path / "p.html")
    assert answer.code == 1
    assert len(ET.parse(tmp_path / "p.xml").getroot().findall(".//failure")) == 1
    text = (tmp_path / "p.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "model_checksum" in text
    refused = fluxctl("parity", "--html", tmp_path / "no" / "p.html")
    assert (refused.code, "cannot write" in refused.err) == (2, True)


@pytest.mark.feature("D0h")
def test_list_names_every_rung(fluxctl) -> None:
    answer = fluxctl("parity", "--list")
    assert answer.code == 0
    for rung in all_rungs():
        assert rung.question in answer.out
    rows = fluxctl("parity", "--list", "--json").envelope["data"]["rungs"]
    assert [row["id"] for row in rows] == [rung.id for rung in all_rungs()]
    assert fluxctl("parity", "--list", "--rung", "R1").out.count("\n") < 8


@pytest.mark.feature("D0h", "A29")
def test_validate_shows_the_real_run_then_policies_and_fields(fluxctl, both) -> None:
    def without_norm(event):
        return {name: of for name, of in event.items() if name != "grad_norm"}

    real, _ = both(edit=without_norm, real_edit=without_norm)
    answer = fluxctl("parity", "--validate")
    assert answer.code == 0
    assert "the real run is admissible" in answer.out
    assert re.search(r"^selector +random +random", answer.out, re.MULTILINE)
    assert "in none: agg_round.grad_norm" in answer.out
    assert "SKIP  G1 grad_norm: no event carries agg_round.grad_norm" in answer.out
    (real / "wall.jsonl").write_text('{"event":"reorder_slack_exhausted"}\n')
    answer = fluxctl("parity", "--validate")
    assert (answer.code, "NOT admissible" in answer.out) == (1, True)
    (pair,) = fluxctl("parity", "--validate", "--json").envelope["data"]["pairs"]
    assert pair["is_valid"] is False
    assert pair["fields"]["agg_round.grad_norm"] == [0.0, 0.0]


@pytest.mark.feature("D0j")
def test_diff_shows_the_first_differing_event_with_context(fluxctl, both) -> None:
    real, sim = both(edit=other_model)
    answer = fluxctl("parity", "--diff", real, sim)
    assert answer.code == 1
    assert "model_checksum" in answer.out
    assert f"--- {real.name}" in answer.out
    (pair,) = fluxctl("parity", "--diff", real, sim, "--json").envelope["data"]["pairs"]
    assert pair["difference"]["left"][0]["cycle"] == 41
    assert pair["difference"]["paths"] == ["model_checksum"]
    both(group="same")
    assert fluxctl("parity", "--diff").code == 0


@pytest.mark.feature("D0i", "D0g")
def test_noise_is_measured_between_real_runs_and_then_shown_and_used(fluxctl, runs) -> None:
    one = runs(mode=Mode.REAL)
    other = runs(mode=Mode.REAL, edit=slow(1.05))
    answer = fluxctl("parity", "--noise", one.name, other.name)
    assert answer.code == 0
    assert "runs/parity/noise.json" in answer.err
    sim = runs()
    third = runs(mode=Mode.REAL, edit=slow(1.06))  # beyond 5 %, within twice what real runs differ by
    answer = fluxctl("parity", third.name, sim.name, "--rung", "K2")
    assert answer.code == 1
    assert "could not be judged" in answer.out
    assert "within twice the noise floor" in answer.out
    (pair,) = fluxctl("parity", third.name, sim.name, "--rung", "K2", "--json").envelope["data"]["pairs"]
    throughput = next(row for row in pair["rungs"] if row["short"] == "K2")
    assert (throughput["status"], pair["verdict"]) == ("INCONCLUSIVE", "INCONCLUSIVE")
    assert throughput["noise"] == pytest.approx(0.0475, abs=0.001)
    for pair in ((one, sim), (sim, sim)):
        assert fluxctl("parity", "--noise", *pair).code == 2


@pytest.mark.feature("D0g")
def test_without_a_noise_floor_a_late_clock_is_open_up_to_twice_its_limit(fluxctl, both) -> None:
    both(real_edit=slow(1.08))
    answer = fluxctl("parity", "--rung", "K2")
    assert answer.code == 1
    assert answer.out.startswith("INCONCLUSIVE  fwdllm: It cannot be said whether the simulation can be trusted")
    assert "measure the noise floor: fluxctl parity --noise REAL REAL" in answer.out
    lenient = fluxctl("parity", "--rung", "K2", "--lenient", "--json")
    (pair,) = lenient.envelope["data"]["pairs"]
    assert (lenient.code, pair["verdict"], pair["counts"]["WARN"]) == (0, "PASS", 1)
    both(real_edit=slow(1.2), group="later")
    assert fluxctl("parity", "--rung", "K2", "--lenient").out.startswith("FAIL")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([], 5, "there are no runs"),
        (["--validate", "--diff"], 2, "exclude each other"),
        (["--rung", "R11"], 2, "did you mean 'r1'"),
        (["a", "b", "--baselines", "x"], 2, "nothing to choose"),
        (["nonsense", "other"], 5, "there are no runs"),
        (["/", "/"], 2, "not that of a run"),
        (["--junit"], 2, "requires an argument"),
    ],
)
def test_bad_requests(fluxctl, args, code, words) -> None:
    answer = fluxctl("parity", *args)
    assert (answer.code, answer.out) == (code, "")
    assert words in answer.err


def test_a_one_sided_pair_and_runs_of_different_settings(fluxctl, runs) -> None:
    sim = runs(limits={"max_bins": 7})
    assert fluxctl("parity").code == 5
    real = runs(mode=Mode.REAL)
    assert "no sim twin" in fluxctl("parity", real.name).err
    answer = fluxctl("parity", real.name, sim.name)
    assert answer.code == 2
    assert "limits.max_bins: 30 and 7" in answer.err


class TestTerminal:
    def call(self, *args, answer=b"", width=80):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        program = subprocess.Popen(
            [sys.executable, "-m", "fluxctl.cli", "--no-color", "parity", *args],
            stdin=slave, stdout=slave, stderr=slave, env=env | {"TERM": "xterm"}, close_fds=True,
        )  # fmt: skip
        os.close(slave)
        os.write(master, answer)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(master)
        return program.wait(), shown.decode().replace("\r\n", "\n")

    @pytest.mark.feature("D0h")
    def test_a_person_is_asked_whether_the_guess_is_right(self, fluxctl, both) -> None:
        both()
        code, shown = self.call(answer=b"n\n")
        assert code == 1
        assert "Compare this pair?" in shown
        assert "nothing was compared" in shown
        code, shown = self.call(answer=b"y\n")
        assert (code, "can be trusted" in shown) == (0, True)

    def test_but_not_with_yes_and_60_columns_are_enough(self, fluxctl, both) -> None:
        both(edit=other_model)
        code, shown = self.call("--yes", width=60)
        assert (code, "Compare" in shown) == (1, False)
        assert "ROOT-CAUSE" in shown
        assert max(len(line.rstrip()) for line in shown.splitlines()) <= 60
