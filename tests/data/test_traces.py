"""Trace files: what is read, what is written, and what is refused with its line."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxctl.data.trace_presets import load_trace_spec
from fluxctl.data.traces import load_trace, read_delay_registry, read_trace, require_length, write_trace
from fluxctl.errors import ConfigError, UnknownNameError
from fluxctl.types import NS_PER_S, Availability
from fluxctl.world.availability import STATES, Exhaustion, RecordedTrace, SlotTrace, Timeline

TRAIN, EVAL, GONE = Availability.AVL_TRAIN, Availability.AVL_EVAL, Availability.UN_AVL


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(folder: Path, text: str, name: str = "trace.csv") -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_trace(written(folder, text, name))
    assert caught.value.hint
    return caught.value


CSV = """client,t_s,state
0,0,AVL_TRAIN
1,0,UN_AVL
0,1.5,UN_AVL

1,2,AVL_EVAL
0,10,AVL_TRAIN
"""


def test_changes_are_read_per_client_with_the_latest_time_as_the_end(tmp_path):
    lines = read_trace(written(tmp_path, CSV))
    assert list(lines) == [0, 1]
    assert lines[0] == Timeline((0, 1_500_000_000), (TRAIN, GONE), 10 * NS_PER_S, Exhaustion.WRAP)
    assert lines[1] == Timeline((0, 2 * NS_PER_S), (GONE, EVAL), 10 * NS_PER_S, Exhaustion.WRAP)


def test_json_lines_say_the_same_as_csv(tmp_path):
    records = [row.split(",") for row in CSV.split()[1:]]
    text = "\n".join(f'{{"client": {client}, "t_s": {t_s}, "state": "{state}"}}' for client, t_s, state in records)
    assert read_trace(written(tmp_path, text, "trace.jsonl")) == read_trace(written(tmp_path, CSV))


def test_columns_may_come_in_any_order(tmp_path):
    assert read_trace(written(tmp_path, "state,client,t_s\nAVL_TRAIN,4,0\nUN_AVL,4,3\n"))[4].starts == (0,)


def test_the_last_state_of_a_trace_that_holds_is_its_last_line(tmp_path):
    held = read_trace(written(tmp_path, CSV), exhaustion=Exhaustion.HOLD)
    assert held[0].state(10 * NS_PER_S) is held[0].state(10**18) is TRAIN
    stopped = read_trace(written(tmp_path, CSV), exhaustion=Exhaustion.STOP)
    assert stopped[1].state(10 * NS_PER_S - 1) is EVAL
    assert stopped[1].state(10 * NS_PER_S) is GONE


def test_a_given_horizon_replaces_the_latest_time(tmp_path):
    line = read_trace(written(tmp_path, CSV), horizon_s=1.0)[0]
    assert line == Timeline((0,), (TRAIN,), NS_PER_S, Exhaustion.WRAP)


def test_a_client_is_unavailable_before_its_first_line(tmp_path):
    line = read_trace(written(tmp_path, "client,t_s,state\n0,4,AVL_TRAIN\n0,9,UN_AVL\n"))[0]
    assert line.state(0) is GONE
    assert line.next_available(0, frozenset({TRAIN})) == 4 * NS_PER_S


def test_outages_interrupt_availability(tmp_path):
    """Outages [2, 5) and [5, 6) of client 0 join; one without duration is none; the data end with the last, at 9."""
    text = "client,start_s,duration_s\n0,2,3\n0,5,1\n1,4,0\n1,7.5,1.5\n"
    lines = read_trace(written(tmp_path, text))
    assert lines[0] == Timeline((0, 2 * NS_PER_S, 6 * NS_PER_S), (TRAIN, GONE, TRAIN), 9 * NS_PER_S, Exhaustion.WRAP)
    assert lines[1] == Timeline((0, 7_500_000_000), (TRAIN, GONE), 9 * NS_PER_S, Exhaustion.WRAP)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("client,t_s,state\n0,0,AVL_TRAIN\n0,5\n", 3, "2 values in 3 columns"),
        ("client,t_s,state\n0,0,AVL_TRAIN,x\n", 2, "4 values in 3 columns"),
        ("client,t_s,state\n\n0,0,AVL_TRIAN\n", 3, "unknown state 'AVL_TRIAN'"),
        ("client,t_s,state\n-1,0,AVL_TRAIN\n", 2, "client must be a whole number"),
        ("client,t_s,state\n1.5,0,AVL_TRAIN\n", 2, "client must be a whole number"),
        (f"client,t_s,state\n{'9' * 5000},0,AVL_TRAIN\n", 2, "client must be a whole number"),
        ("client,t_s,state\n0,soon,AVL_TRAIN\n", 2, "t_s must be a number of seconds"),
        ("client,t_s,state\n0,nan,AVL_TRAIN\n", 2, "t_s must be a number of seconds"),
        ("client,t_s,state\n0,-0.5,AVL_TRAIN\n", 2, "t_s must be from 0"),
        ("client,t_s,state\n0,1e300,AVL_TRAIN\n", 2, "t_s must be from 0"),
        ("client,t_s,state\n0,20,AVL_TRAIN\n1,0,UN_AVL\n0,10,UN_AVL\n", 4, "must not decrease: 10 s follows 20 s"),
        ("client,start_s,duration_s\n0,5,10\n0,14,1\n", 3, "before the last one of this client has ended"),
        ("client,start_s,duration_s\n0,5,-1\n", 2, "duration_s must be from 0"),
        ("0,0,AVL_TRAIN\n0,5,UN_AVL\n", 1, "unknown columns"),
        ("client,t_s,t_s,state\n0,0,0,AVL_TRAIN\n", 1, "unknown columns"),
        ('client,t_s,state\n0,0,"AVL_TRAIN\n', 2, "malformed CSV"),
    ],
)
def test_csv_that_is_wrong_is_refused_with_its_line(tmp_path, text, line, message):
    error = refusal(tmp_path, text)
    assert message in error.message
    assert error.where == f"{tmp_path / 'trace.csv'}:{line}"


def test_a_misspelt_state_is_corrected(tmp_path):
    assert refusal(tmp_path, "client,t_s,state\n0,0,AVL_TRIAN\n").hint == "did you mean 'AVL_TRAIN'?"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{torn", "malformed JSON"),
        ("[1, 2]", "must be a JSON object"),
        ('{"client": 0, "t_s": NaN, "state": "UN_AVL"}', "NaN is not a number"),
        ('{"client": 0, "t_s": 1}', "this record has client, t_s"),
        ('{"client": true, "t_s": 1, "state": "UN_AVL"}', "client must be a whole number"),
        ('{"client": 0, "t_s": true, "state": "UN_AVL"}', "t_s must be a number of seconds"),
        ('{"client": 0, "t_s": null, "state": "UN_AVL"}', "t_s must be a number of seconds"),
        ('{"client": 0, "t_s": 1, "state": null}', "unknown state"),
    ],
)
def test_json_lines_that_are_wrong_are_refused_with_their_line(tmp_path, bad, message):
    good = json.dumps({"client": 0, "t_s": 0, "state": "AVL_TRAIN"})
    error = refusal(tmp_path, f"{good}\n\n{bad}\n{good}\n", "trace.jsonl")
    assert message in error.message
    assert error.where == f"{tmp_path / 'trace.jsonl'}:3"


@pytest.mark.parametrize("name", ["trace.csv", "trace.jsonl"])
def test_files_that_say_nothing_are_refused(tmp_path, name):
    for text in ("", "\n\n", "client,t_s,state\n" if name == "trace.csv" else " \n"):
        assert "no record" in refusal(tmp_path, text, name).message


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_trace(tmp_path / "absent.csv")
    with pytest.raises(ConfigError, match=r"format of 'trace\.xml' is not known"):
        read_trace(tmp_path / "trace.xml")
    (tmp_path / "latin.csv").write_bytes(b"client,t_s,state\n0,0,\xff\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_trace(tmp_path / "latin.csv")


changes = st.lists(st.tuples(st.integers(0, 10**10), st.sampled_from(STATES)), max_size=8).map(
    lambda listed: sorted(listed, key=lambda change: change[0])
)


@given(st.lists(changes, min_size=1, max_size=4), st.sampled_from(list(Exhaustion)), st.sampled_from(["csv", "jsonl"]))
def test_what_is_written_reads_back_to_the_nanosecond(tmp_path_factory, listed, rule, suffix):
    end = 10**10 + 1
    path = tmp_path_factory.mktemp("traces") / f"trace.{suffix}"
    lines = {client: Timeline.of(some, end, rule) for client, some in enumerate(listed)}
    count = write_trace(path, RecordedTrace.of(lines), lines, until=end)
    assert count == sum(len(line.starts) + 1 for line in lines.values())
    again = read_trace(path, exhaustion=rule)
    assert {client: (line.starts, line.states) for client, line in again.items()} == {
        client: (line.starts, line.states) for client, line in lines.items()
    }
    assert all(line.end == end + (rule is Exhaustion.HOLD) for line in again.values())


def test_generated_traces_are_written_up_to_a_time(tmp_path):
    trace = SlotTrace(0, 100 * NS_PER_S, 0.5)
    path = tmp_path / "slots.csv"
    write_trace(path, trace, range(3), until=2000 * NS_PER_S)
    for client, line in read_trace(path).items():
        for t in range(0, 2000 * NS_PER_S, 50 * NS_PER_S):
            assert line.state(t) is trace.state(client, t)


def test_a_run_needs_a_trace_for_each_of_its_clients(tmp_path):
    spec = load_trace_spec(str(written(tmp_path, CSV)))
    assert load_trace(spec, 0, num_clients=2).state(1, 3 * NS_PER_S) is EVAL
    with pytest.raises(ConfigError, match="no line for client 2"):
        load_trace(spec, 0, num_clients=3)


def test_a_trace_that_ends_for_good_must_be_as_long_as_the_run(tmp_path):
    path = written(tmp_path, CSV)
    with pytest.raises(ConfigError, match="ends at 10 s, before the run's budget of 11 s"):
        require_length(read_trace(path, exhaustion=Exhaustion.STOP), 11 * NS_PER_S, "trace.csv")
    require_length(read_trace(path, exhaustion=Exhaustion.STOP), 10 * NS_PER_S, "trace.csv")
    require_length(read_trace(path, exhaustion=Exhaustion.WRAP), 11 * NS_PER_S, "trace.csv")


def test_delay_registries_hold_one_duration_per_client(tmp_path):
    path = written(tmp_path, "client,duration_s\n0,12.5\n7,3\n")
    assert read_delay_registry(path) == {0: 12.5, 7: 3.0}
    for line, message in (("0,0", "greater than 0"), ("0,-1", "from 0"), ("7,4", "client 7 has a duration already")):
        with pytest.raises(ConfigError, match=message) as caught:
            read_delay_registry(written(tmp_path, f"client,duration_s\n7,3\n{line}\n"))
        assert caught.value.where == f"{path}:3"
    with pytest.raises(ConfigError, match="no record"):
        read_delay_registry(written(tmp_path, "client,duration_s\n"))


def test_shipped_traces_load_and_answer():
    for name in ("syn_0", "syn_20", "syn_50", "mobiperf_2st", "mobiperf_3st_50", "mobiperf_3st_75"):
        assert load_trace(load_trace_spec(name), 0, num_clients=3).state(2, 10**15) in STATES
    assert load_trace_spec("syn_20").unavailable_frac == 0.2
    assert load_trace_spec("mobiperf_3st_50").exhaustion is Exhaustion.WRAP


def test_descriptions_that_are_wrong_are_placed(tmp_path):
    with pytest.raises(UnknownNameError, match="no trace 'syn_21'") as unknown:
        load_trace_spec("syn_21")
    assert unknown.value.hint == "did you mean 'syn_20'?"
    path = written(tmp_path, "description: mine\nkind: slots\nunavailable_frac: 2.0\n", "mine.yaml")
    with pytest.raises(ConfigError, match=r"unavailable_frac must be at most 0\.99") as wrong:
        load_trace_spec(str(path))
    assert wrong.value.where is not None
    assert ":3:" in wrong.value.where
    with pytest.raises(ConfigError, match="mapping"):
        load_trace_spec(str(written(tmp_path, "- 1\n", "list.yaml")))
