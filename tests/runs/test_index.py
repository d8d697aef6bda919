import json
import os
import socket
from pathlib import Path

import pytest

from fluxctl.errors import ConfigError, NothingToDoError, UnknownNameError
from fluxctl.runs.index import filter_runs, find_run, list_runs, read_info, sort_runs
from fluxctl.runs.records import ProcessMark, VerdictRecord
from fluxctl.types import Verdict


@pytest.fixture
def three(make_run, tmp_path):
    """Three runs: two of fluxtune, the last one of fwdllm on the wall."""
    runs = [
        make_run("baseline=fluxtune"),
        make_run("baseline=fluxtune", "seed=1"),
        make_run("baseline=fwdllm", "mode=real"),
    ]
    for number, run in enumerate(runs):
        data = json.loads(run.run.read_text())
        run.run.write_text(json.dumps(data | {"created": f"2026-01-01T00:00:0{number}+00:00"}))
    runs[0].write_verdict(VerdictRecord(Verdict.CONVERGED, summary={"best_accuracy": 0.9, "bins": 100}))
    runs[1].write_verdict(VerdictRecord(Verdict.DIVERGED, summary={"best_accuracy": 0.5, "bins": 9}))
    return runs


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


def test_words_for_a_run(three, folder, monkeypatch):
    ids = [run.id for run in three]
    # ids end in random digits, so how many of them tell two runs apart is known only now
    prefixes = (ids[1][:length] for length in range(1, len(ids[1]) + 1))
    unique = next(prefix for prefix in prefixes if sum(run_id.startswith(prefix) for run_id in ids) == 1)
    for word, number in [
        ("latest", 2),
        ("latest~0", 2),
        ("latest~2", 0),
        (ids[1], 1),
        (unique, 1),
        (str(folder / ids[0]), 0),
        (str(folder / "latest"), 2),
        ("fluxtune:sim", 1),
        ("fwdllm:real", 2),
    ]:
        assert find_run(word, folder).record.id == ids[number], word
    monkeypatch.chdir(folder / ids[0])
    assert find_run(".", Path("elsewhere")).record.id == ids[0]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("latest~3", "only 3 runs"),
        ("2", "the beginning of 3 runs"),
        ("nothing", "there is no run 'nothing'"),
        ("", "there is no run ''"),
        ("fwdllm:sim", "no sim run of 'fwdllm'"),
        ("fwdllm:both", "'both' is no mode"),
        ("a/b", "there is no run 'a/b'"),
    ],
)
def test_words_for_no_run(three, folder, word, message):
    with pytest.raises(UnknownNameError, match=message):
        find_run(word, folder)


@pytest.mark.parametrize("word", ["latest", "x", "a:sim"])
def test_no_runs_at_all(folder, word):
    with pytest.raises(NothingToDoError):
        find_run(word, folder)


def test_filters_and_order(three, folder):
    infos = list_runs(folder)
    assert [info.record.id for info in infos] == [run.id for run in three]
    assert len(filter_runs(infos, ["baseline=fluxtune", "mode=sim"])) == 2
    assert len(filter_runs(infos, ["verdict=converged"])) == 1
    assert len(filter_runs(infos, ["verdict="])) == 1  # the one that has none
    by_accuracy = [info.record.seed for info in sort_runs(infos, "best_accuracy")]
    assert by_accuracy == [1, 0, 0]
    assert [info.record.baseline for info in sort_runs(infos, "-bins")] == ["fluxtune", "fluxtune", "fwdllm"]
    with pytest.raises(UnknownNameError, match="no field 'basline'") as caught:
        filter_runs(infos, ["basline=x"])
    assert "'baseline'" in caught.value.hint
    with pytest.raises(ConfigError, match="field=value"):
        filter_runs(infos, ["baseline"])
    with pytest.raises(UnknownNameError):
        sort_runs(infos, "nothing")


@pytest.mark.feature("E23")
def test_a_run_whose_process_is_gone_has_crashed(make_run):
    run = make_run()
    run.log.write_text("last words\n")
    run.mark_running(ProcessMark(socket.gethostname(), 2**22 + 1, 1.0))
    info = read_info(run)
    assert (info.verdict.verdict, info.status) == (Verdict.CRASHED, "ended")
    assert "last words" in info.verdict.error["detail"]
    assert run.read_verdict() == info.verdict  # written down for the next reader
    assert run.read_run().status == "ended"


def test_a_process_id_that_now_belongs_to_another_process_counts_as_gone(make_run):
    run = make_run()
    mark = ProcessMark.of()
    run.mark_running(ProcessMark(mark.host, mark.pid, mark.started - 100))
    assert read_info(run).verdict.verdict is Verdict.CRASHED


@pytest.mark.parametrize("mark", [None, ProcessMark("elsewhere", 1, 1.0)])
def test_a_run_that_may_still_live_is_left_alone(make_run, mark):
    run = make_run()
    run.mark_running(mark or ProcessMark.of(os.getpid()))
    info = read_info(run)
    assert (info.verdict, info.status) == (None, "running")
    assert not run.verdict.exists()


def test_a_verdict_that_cannot_be_written_is_still_told(make_run, monkeypatch):
    run = make_run()
    run.mark_running(ProcessMark(socket.gethostname(), 2**22 + 1, 1.0))

    def refuse(*args):
        raise PermissionError

    monkeypatch.setattr("fluxctl.runs.layout.write_json", refuse)
    assert read_info(run).verdict.verdict is Verdict.CRASHED


def test_damaged_runs_are_left_out_of_the_list(three, folder):
    three[0].run.write_text("{")
    assert len(list_runs(folder)) == 2
    with pytest.raises(ConfigError, match="damaged"):
        find_run(str(three[0].path), folder)
