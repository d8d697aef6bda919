"""Real and simulated runs of the shipped run sets, climbed rung by rung through the command line.

The engines are real processes on a real wall clock. Budgets are cut for the normal suite; the campaign over whole run
sets is nightly. What is decided must be exact each time, on any machine. Clocks must agree as well, but a machine that
was busy with something else was late, which is no fault of the simulation: they have three tries.
"""

import itertools
import json
from pathlib import Path

import pytest

from fluxctl import cli
from fluxctl.parity.registry import all_rungs

ALLOWED = json.loads((Path(__file__).parent / "allowed_skips.json").read_text())
HARD = ("INV", "EXACT")
LATE = ("FAIL", "INCONCLUSIVE")
CLOCKS = {rung.id for rung in all_rungs() if rung.is_clock_rung}
FEWER_TEXTS = ("--set", "data.test_per_class=25")  # what evaluations take is not modelled, so it must not weigh


@pytest.fixture
def fluxctl(capfd, tmp_path, monkeypatch):
    """Run the program in a folder of its own; its exit code and its envelope."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLUXCTL_NO_PROGRESS", "1")

    def run(*args):
        code = cli.main([*args, "--yes", "--json"])
        out, err = capfd.readouterr()
        return code, json.loads(out.splitlines()[-1]), err

    return run


@pytest.fixture
def compare(fluxctl):
    """Launch a run set on both clocks; its pairs without their clocks, which must agree, and whole."""

    def launch(*args):
        code, answer, err = fluxctl("launch", "--mode", "both", *args)
        assert code in (0, 1), (answer, err)  # 1: a run ended STARVED, on both clocks alike
        code, logical, err = fluxctl("parity", "latest", "--strip-time")
        assert code == 0, err + json.dumps(logical, indent=1)[:5000]
        _, whole, _ = fluxctl("parity", "latest")
        return list(zip(logical["data"]["pairs"], whole["data"]["pairs"], strict=True))

    return launch


@pytest.fixture
def compare_quietly(compare):
    """Like ``compare``, and again if the wall was late: decisions are judged in each try, clocks may take three."""

    def launch(run_set, *args):
        for _ in range(3):
            pairs = compare("--run-set", run_set, *args)
            for logical, whole in pairs:
                judge(logical, whole, run_set, may_be_late=CLOCKS)
            if not any(set(by_status(whole, status)) & CLOCKS for _, whole in pairs for status in LATE):
                break
        return pairs

    return launch


def by_status(pair, status):
    return {rung["id"]: (rung["message"], rung["tier"]) for rung in pair["rungs"] if rung["status"] == status}


def judge(logical, whole, run_set, *, may_be_late=frozenset()):
    """Nothing fails, nothing hard is left open, but for clocks that may be late; only what is allowed is skipped."""
    assert logical["verdict"] == "PASS"
    for pair, late in ((logical, set()), (whole, may_be_late)):
        assert set(by_status(pair, "FAIL")) <= late, by_status(pair, "FAIL")
        assert {i for i, (_, tier) in by_status(pair, "INCONCLUSIVE").items() if tier in HARD} <= late, pair["rungs"]
    rungs = {rung["id"]: rung for rung in whole["rungs"]}
    for name in ("D61", "model_checksum"):  # cohorts and weights, exact to the last commit
        assert (rungs[name]["status"], rungs[name]["value"]) == ("PASS", 1.0), rungs[name]
    baseline = whole["baseline"].split()[0]
    allowed = {i for i, skip in ALLOWED[run_set].items() if baseline in skip["baselines"]}
    assert {i: of for i, of in by_status(whole, "SKIP").items() if i not in allowed} == {}
    assert rungs["D4"]["value"] > 1  # engine seconds that a second of the simulation covers


@pytest.mark.demo
@pytest.mark.wall
@pytest.mark.feature("D0h", "D61", "A1")
@pytest.mark.parametrize("baseline", ["fwdllm", "fwdllm_plus", "fluxtune"])
def test_smoke(compare_quietly, baseline):
    pairs = compare_quietly("smoke", "--only", baseline, "--max-runtime", "18s", *FEWER_TEXTS)
    assert [whole["baseline"] for _, whole in pairs] == [baseline]
    for logical, whole in pairs:
        judge(logical, whole, "smoke")


@pytest.mark.demo
@pytest.mark.wall
@pytest.mark.feature("A33", "D61", "D0g")
@pytest.mark.parametrize(
    ("baseline", "engine_s", "factor"), [("fwdllm", 2400, 320), ("fwdllm_plus", 1800, 240), ("fluxtune", 900, 120)]
)
def test_clients_that_come_and_go(compare_quietly, baseline, engine_s, factor):
    """Under both traces, on a wall clock on which a bin takes about a second."""
    pairs = compare_quietly(
        "smoke_unavail",
        *("--only", baseline, "--max-runtime", f"{engine_s}s"),
        *("--set", f"engine.wall_factor={factor}", *FEWER_TEXTS),
    )
    assert [whole["baseline"] for _, whole in pairs] == [f"{baseline} syn_50", f"{baseline} mobiperf"]
    for logical, whole in pairs:
        assert whole["num_units"] >= 2
        judge(logical, whole, "smoke_unavail")


def flips_of(events):
    """Pairs of updates of a cohort, and those that arrived in the other order than they were due, event by event."""
    sent, num_pairs, num_flips = {}, 0, 0
    for event in map(json.loads, events.read_text().splitlines()):
        if event["event"] == "task_send":
            sent[event["client"], event["recv_ns"]] = (event["due_ns"], event["wall"]["send_s"])
        if event["event"] == "agg_round":
            keys = [(of["client"], round(of["dispatch"] * 1e9)) for of in event["contributor_intervals"]]
            for (due_1, sent_1), (due_2, sent_2) in itertools.combinations([sent[key] for key in keys], 2):
                num_pairs += 1
                num_flips += (due_1 < due_2) == (sent_1 > sent_2)
    return num_flips, num_pairs


@pytest.mark.wall
@pytest.mark.feature("D0g", "D51")
def test_commits_in_the_order_of_arrival(fluxctl, capfd):
    """The wall decides: the report says how often it decided otherwise than the model, and enforces nothing."""
    asked = ["--run-set", "smoke", "--only", "fluxtune", "--model", "tiny", "--data", "synthetic", "--max-bins", "8"]
    hurried = ["--set", "engine.commit_order=arrival", "--set", "engine.wall_factor=50"]
    code, answer, err = fluxctl("launch", "--mode", "both", *asked, *hurried)
    assert code == 0, (answer, err)
    real = next(run["id"] for run in answer["data"]["runs"] if run["mode"] == "real")
    num_flips, num_pairs = flips_of(Path("runs") / real / "events.jsonl")
    code, answer, _ = fluxctl("parity")
    (pair,) = answer["data"]["pairs"]
    (arrivals,) = pair["arrivals"]
    assert (arrivals["num_inversions"], arrivals["num_pairs"]) == (num_flips, num_pairs)
    assert arrivals["flip_frac"] == pytest.approx(num_flips / num_pairs)
    assert num_flips > 0  # at fifty times its speed, a wall mixes up clients that are due at almost the same time
    assert pair["determinism"] == {"is_enforced": False, "reason": "real: commits follow the arrival order"}
    assert cli.main(["parity", "--yes"]) == code
    told = capfd.readouterr().out
    assert f"{num_flips:,} arrival inversions of {num_pairs:,} pairs ({num_flips / num_pairs:.2%})" in told
    assert "gated rungs are not enforced: real: commits follow the arrival order" in told


@pytest.mark.nightly
@pytest.mark.demo
@pytest.mark.wall
@pytest.mark.parametrize("run_set", ["smoke", "smoke_unavail"])
def test_whole_run_sets(compare, run_set):
    """On a machine that is left alone clocks agree as well."""
    for logical, whole in compare("--run-set", run_set):
        judge(logical, whole, run_set)
        assert whole["verdict"] == "PASS"


@pytest.mark.nightly
@pytest.mark.demo
@pytest.mark.wall
@pytest.mark.parametrize(
    ("baselines", "num_bins", "factor"), [("fwdllm,fwdllm_plus", 12, 24), ("fluxtune", 20, 4)], ids=["sync", "async"]
)
def test_a_hundred_clients(compare, baselines, num_bins, factor):
    """``main``: nine minutes of the wall for the synchronous baselines, whose bins take nine of engine time each, and
    two for the asynchronous one, whose bins take half a minute and ten times the compute.
    """
    asked = ("--run-set", "main", "--only", baselines, "--max-bins", str(num_bins))
    pairs = compare(*asked, "--set", f"engine.wall_factor={factor}", "--set", "engine.reorder_slack_s=600")
    assert [whole["baseline"] for _, whole in pairs] == baselines.split(",")
    for logical, whole in pairs:
        judge(logical, whole, "main")
        assert whole["verdict"] == "PASS"
        assert whole["num_units"] >= 10
